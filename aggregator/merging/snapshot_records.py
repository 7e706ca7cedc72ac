"""The records of the topic `snapshots`. Each is checked against its limits before a worker keeps it.

An unreadable record raises a ReportError.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from aggregator.merging import small_groups
from aggregator.merging.small_groups import LastVisible
from aggregator.merging.windows import Position
from aggregator.tallies import progress
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, decode_snapshot, encode_snapshot, view_snapshot
from aggregator.tallies.tally import decode_open
from hubbub.definitions.versions import MOST_SECONDS, Versions
from oracles.errors import ReportError
from oracles.query import Query

_WITH_TOTAL, _BARE = 2, 3
"""Versions of a state: of `all`, which has a total of its own, and of all other kinds of windows."""
_STATE = struct.Struct("<B?xxIqqqq")
"""Version, whether there is a total, number of alert states, end, start, newest, length of the total."""
_LENGTH = struct.Struct("<Q")

StateCheck = Callable[[Query, list[bytes]], None]
"""Raises a ReportError unless the bytes are the alert states of the query's attributes."""


class WindowState(NamedTuple):
    """The state from which one kind of window continues."""

    position: Position
    alerts: list[bytes]
    visible: list[LastVisible | None]


class PaneSnapshot(NamedTuple):
    """The tally of a pane from one source partition."""

    snapshot: Snapshot
    offset: int | None
    """The offset up to which an open tally is complete, or None for a closed one."""


Content = WindowState | PaneSnapshot | Mapping[bytes, int]


def read_snapshot(key: PaneKey, value: bytes, cells: int) -> PaneSnapshot:
    """Read a closed, open or merged snapshot."""
    if key.kind == "open":
        return PaneSnapshot(*decode_open(value, cells))
    return PaneSnapshot(decode_snapshot(value, cells), None)


def reread_snapshot(key: PaneKey, value: bytes, cells: int) -> PaneSnapshot:
    """Read a snapshot again, without the checks of closed and merged ones."""
    return read_snapshot(key, value, cells) if key.kind == "open" else PaneSnapshot(view_snapshot(value), None)


def read_watermarks(value: bytes) -> Mapping[bytes, int]:
    """Read the watermark of each query."""
    ends = progress.decode(value).closed
    if any(abs(end) > MOST_SECONDS for end in ends.values()):
        raise ReportError("the watermark is later than all panes")
    return ends


def read_state(key: StateKey, value: bytes, query: Query, check: StateCheck) -> WindowState:
    """Read the state of one kind of window."""
    position, alerts, visible = decode_state(value, query.oracle.state_size)
    start, newest = position.start, position.newest
    if position.end != key.end or abs(position.end) > MOST_SECONDS:
        raise ReportError(f"the state ends at {position.end}, but its key says {key.end}")
    if start is not None and newest is not None and not start <= newest <= position.end:
        raise ReportError(f"the state goes from {start} to {position.end}, but its newest reports are at {newest}")
    for last in visible:
        if last is not None and not -MOST_SECONDS < last.start < last.end <= position.end:
            raise ReportError(f"the last visible window goes from {last.start} to {last.end}")
    if not {len(alerts), len(visible)} <= {0, len(query.domains)}:
        raise ReportError(
            f"the state has {len(alerts)} and {len(visible)} attributes, but {query.name} has {len(query.domains)}"
        )
    check(query, alerts)
    return WindowState(position, alerts, visible)


def substitute_state(key: StateKey, cells: int) -> WindowState:
    """Return a state in place of an unreadable one. The reports of its windows are lost, so windows restart there.

    No new hopping window overlaps a visible one, since nobody knows any more how many reports came and went.
    """
    window, end = key.window, key.end
    if window.kind == "all":
        return WindowState(Position(end, total=Snapshot(0, 0, 0, INCOMPLETE, np.zeros(cells, np.uint8))), [], [])
    return WindowState(Position(end + window.size - window.step), [], [])


def is_valid_key(key: PaneKey | PartitionKey, versions: Versions | None, partitions: int) -> bool:
    """Whether a worker can have written a record with this key."""
    if not 0 <= key.partition < (1 if key.kind == "merged" else partitions):
        return False
    if isinstance(key, PartitionKey):
        return key.kind == "watermark"
    pane = versions.query.pane if versions is not None else 1
    return key.kind in ("closed", "open", "merged") and 0 <= key.pane < MOST_SECONDS and key.pane % pane == 0


def encode_state(position: Position, alerts: Sequence[bytes] = (), visible: Sequence[LastVisible | None] = ()) -> bytes:
    """Return the state record of one kind of window.

    `alerts` and `visible` have an item for each attribute. The record's key holds the position's end, and
    readers take the newest state. So an old state that a frozen worker writes late does no harm, although
    the panes between the two states are deleted.
    """
    total = encode_snapshot(position.total) if position.total else b""
    head = _STATE.pack(
        *(_WITH_TOTAL if position.total else _BARE, position.total is not None, len(alerts), position.end),
        *(position.start or 0, position.newest or 0, len(total)),
    )
    pieces = [*alerts, small_groups.encode(visible, position.total)]
    return head + total + b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def decode_state(data: bytes, cells: int) -> tuple[Position, list[bytes], list[LastVisible | None]]:
    """Return the position, the alert states and the last visible windows, or raise a ReportError."""
    if len(data) < _STATE.size or (data[0], data[1]) not in ((_WITH_TOTAL, 1), (_BARE, 0)) or any(data[2:4]):
        raise ReportError(f"not a state record ({len(data)} bytes, version {_WITH_TOTAL} or {_BARE} expected)")
    _, has_total, alerts, end, start, newest, length = _STATE.unpack_from(data)
    at = _STATE.size + length
    if not _STATE.size <= at <= len(data) or has_total != bool(length) or (not has_total and (start or newest)):
        raise ReportError(f"a state record of {len(data)} bytes claims a total of {length} bytes")
    total = decode_snapshot(data[_STATE.size : at], cells) if has_total else None
    position = Position(end, start, newest, total) if has_total else Position(end)
    *pieces, visible = _pieces(data, at, alerts + 1)
    return position, pieces, small_groups.decode(visible, total, cells)


def _pieces(data: bytes, at: int, count: int) -> list[bytes]:
    """Return `count` pieces, each after its length, up to the end of `data`."""
    pieces: list[bytes] = []
    for _ in range(count):
        if len(data) - at < _LENGTH.size:
            raise ReportError(f"a state record of {len(data)} bytes ends within its {count} pieces")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        pieces.append(data[at - length : at])
        if at > len(data):
            break
    if at != len(data):
        raise ReportError(f"a state record has {len(data)} bytes, but claims {at}")
    return pieces
