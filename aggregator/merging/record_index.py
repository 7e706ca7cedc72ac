"""The records of a snapshot partition that are no panes, sorted by query and kind of window."""

from collections.abc import Mapping, Sequence

from aggregator.merging.blocks import Place
from aggregator.merging.marks import QueryMarks
from aggregator.merging.snapshot_records import WindowState
from aggregator.tallies.keys import BlockKey, Key, StateKey
from hubbub.definitions.versions import Versions
from oracles.query.settings import Window

StoredRecord = tuple[bytes, Key, bytes]
"""The key of a record as bytes, the same key decoded, and the value."""


def blocks_of(records: Sequence[StoredRecord]) -> dict[bytes, dict[Window, dict[Place, bytes]]]:
    """Return the blocks of each kind of window, by digest."""
    blocks: dict[bytes, dict[Window, dict[Place, bytes]]] = {}
    for _, key, value in records:
        if isinstance(key, BlockKey) and value:
            blocks.setdefault(key.digest, {}).setdefault(key.window, {})[key.scale, key.end] = value
    return blocks


def state_names(records: Sequence[StoredRecord]) -> dict[tuple[bytes, Window], set[bytes]]:
    """Return the keys of the states of each kind of window, also of old and unreadable ones."""
    names: dict[tuple[bytes, Window], set[bytes]] = {}
    for name, key, _ in records:
        if isinstance(key, StateKey):
            names.setdefault((key.digest, key.window), set()).add(name)
    return names


def marks_of(versions: Versions, states: Mapping[Window, WindowState]) -> QueryMarks | None:
    """Return the newest marks of the states. If no state has any, the marks begin at the newest end of a window."""
    if not states:
        return None

    readable = [state.marks for state in states.values() if state.marks is not None]
    if readable:
        return max(readable, key=lambda marks: marks.counted_through or 0)
    return QueryMarks.lost(versions, max(state.position.end for state in states.values()))
