"""The records of the snapshots topic, each held to what it can be before anyone keeps it.

A ReportError says what cannot be read.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from aggregator.counting import clock
from aggregator.counting.clock import MOST_SECONDS
from aggregator.counting.tally import INCOMPLETE, Snapshot, decode_open, decode_snapshot, decoded_again
from aggregator.merging.crowd import Shown
from aggregator.merging.merge import decode_state, knows_totals
from aggregator.merging.windows import Position
from aggregator.topics.keys import PaneKey, PartitionKey, StateKey
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query import Query

Check = Callable[[Query, list[bytes]], None]
"""Raises a ReportError where these are not the states of the alerts of each attribute."""


class WindowState(NamedTuple):
    """The state that one kind of window goes on from."""

    position: Position
    alerts: list[bytes]
    shown: list[Shown | None]
    totals: bool = False
    """Whether its writer knew of merged snapshots, or needs none."""


class Held(NamedTuple):
    """The tally of one source partition for a pane."""

    snapshot: Snapshot
    offset: int | None
    """Of an open one, the offset up to which it is complete."""


Read = WindowState | Held | Mapping[bytes, int]


def snapshot(key: PaneKey, value: bytes, cells: int) -> Held:
    """A snapshot, closed, open or merged."""
    if key.kind == "open":
        return Held(*decode_open(value, cells))
    return Held(decode_snapshot(value, cells), None)


def snapshot_again(key: PaneKey, value: bytes, cells: int) -> Held:
    """The same of one that was read before."""
    return snapshot(key, value, cells) if key.kind == "open" else Held(decoded_again(value), None)


def marks(value: bytes) -> Mapping[bytes, int]:
    """The watermark of each query."""
    found = clock.decode(value).closed
    if any(abs(end) > MOST_SECONDS for end in found.values()):
        raise ReportError("a watermark later than all panes")
    return found


def state(key: StateKey, value: bytes, query: Query, check: Check) -> WindowState:
    """The state of one kind of window."""
    position, alerts, shown = decode_state(value, query.oracle.state_size)
    start, newest = position.start, position.newest
    if position.end != key.end or abs(position.end) > MOST_SECONDS:
        raise ReportError(f"a state up to {position.end} under the key of {key.end}")
    if start is not None and newest is not None and not start <= newest <= position.end:
        raise ReportError(f"a state from {start} to {position.end}, with reports up to {newest}")
    for one in shown:
        if one is not None and not -MOST_SECONDS < one.start < one.end <= position.end:
            raise ReportError(f"a window that was shown from {one.start} to {one.end}")
    if not {len(alerts), len(shown)} <= {0, len(query.domains)}:
        raise ReportError(
            f"a state of {len(alerts)} and {len(shown)} attributes; {query.name} has {len(query.domains)}"
        )
    check(query, alerts)
    return WindowState(position, alerts, shown, knows_totals(value))


def lost_state(key: StateKey, cells: int) -> WindowState:
    """In place of a state that cannot be read: what windows held up to its end is lost, so they begin anew there.

    None that hops overlaps one that was shown: nobody knows any more how many came since, and went.
    """
    window, end = key.window, key.end
    if window.kind == "all":
        return WindowState(Position(end, total=Snapshot(0, 0, 0, INCOMPLETE, np.zeros(cells, np.uint8))), [], [])
    return WindowState(Position(end + window.size - window.step), [], [])


def is_possible(key: PaneKey | PartitionKey, versions: Versions | None, partitions: int) -> bool:
    """Whether a worker can have written under this key."""
    if not 0 <= key.partition < (1 if key.kind == "merged" else partitions):
        return False
    if isinstance(key, PartitionKey):
        return key.kind == "watermark"
    pane = versions.query.pane if versions is not None else 1
    return key.kind in ("closed", "open", "merged") and 0 <= key.pane < MOST_SECONDS and key.pane % pane == 0
