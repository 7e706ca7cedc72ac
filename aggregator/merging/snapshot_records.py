"""The records of the topic `snapshots`. Each is checked against its limits before a worker keeps it.

An unreadable record raises a ReportError.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from aggregator.merging import block_records, marks, name_history
from aggregator.merging.blocks import Block
from aggregator.merging.kinds import kind_of
from aggregator.merging.marks import QueryMarks
from aggregator.merging.name_history import NameHistory
from aggregator.merging.windows import Position
from aggregator.records.size import ENVELOPE
from aggregator.records.span import SCALES
from aggregator.tallies import progress
from aggregator.tallies.group_cells import further_groups
from aggregator.tallies.keys import BlockKey, PaneKey, PartitionKey, StateKey, Write
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, decode_snapshot, encode_snapshot
from aggregator.tallies.state_forms import WITH_MARKS, WITHOUT_MARKS, is_split, split_head
from aggregator.topics.sizes import LEAST
from hubbub.definitions.versions import MOST_SECONDS, Versions
from oracles.errors import ReportError
from oracles.query import Query

_WITH_TOTAL, _BARE = WITH_MARKS
"""The versions of a state of `all`, which has a total of its own, and of all other kinds of windows."""
_HEADS = {(WITHOUT_MARKS[0], 1), (WITHOUT_MARKS[1], 0), (_WITH_TOTAL, 1), (_BARE, 0)}
"""The valid versions, each with 1 if there is a total."""
_STATE = struct.Struct("<B?xxIqqqq")
"""Version, whether there is a total, number of alert states, end, start, newest, length of the total."""
_LENGTH = struct.Struct("<Q")
PART = LEAST - ENVELOPE
"""Bytes of a state up to which it is one record. A larger one is split into parts, each of which every topic takes."""

StateCheck = Callable[[Query, list[bytes]], None]
"""Raises a ReportError unless the bytes are the alert states of the query's attributes."""


class WindowState(NamedTuple):
    """The state from which one kind of window continues."""

    position: Position
    alerts: list[bytes]
    marks: QueryMarks | None
    """The marks of the query, or None in a state of the last release."""
    names: NameHistory | None = None
    """The names of a query of unknown strings."""


Content = WindowState | Snapshot | Mapping[bytes, int] | Block | bytes
"""The content of a record. Bytes are a part of a state, or stand for a state whose parts are other records."""


@lru_cache(maxsize=128)
def read_watermarks(value: bytes) -> Mapping[bytes, int]:
    """Read the watermark of each query. All partitions that have closed the same panes write the same value."""
    ends = progress.decode(value).closed
    # A time of the far future would close all panes to come.
    if any(abs(end) > MOST_SECONDS for end in ends.values()):
        raise ReportError("the watermark is later than all panes")
    return ends


def read_state(key: StateKey, value: bytes, versions: Versions, check: StateCheck) -> WindowState:
    """Read the state of one kind of window."""
    query = versions.query
    state = decode_state(value, versions)
    end = state.position.end
    if end != key.end or abs(end) > MOST_SECONDS:
        raise ReportError(f"the state ends at {end}, but its key says {key.end}")

    start = state.position.start
    newest_end = state.position.newest
    if start is not None and newest_end is not None and not start <= newest_end <= end:
        raise ReportError(f"the state goes from {start} to {end}, but its newest reports are at {newest_end}")

    if len(state.alerts) not in (0, len(query.domains)):
        raise ReportError(f"the state has {len(state.alerts)} attributes, but {query.name} has {len(query.domains)}")
    check(query, state.alerts)
    return state


def split_state(key: StateKey, value: bytes) -> list[Write]:
    """Return the records of a state in their order. The record of a large one has the number and the hash of its parts.

    It comes last, so that all parts can be read if it can. The hash refuses parts of different states.
    """
    if len(value) <= PART:
        return [(key.encode(), value)]

    parts = [value[offset : offset + PART] for offset in range(0, len(value), PART)]
    writes: list[Write] = [(key._replace(part=number).encode(), part) for number, part in enumerate(parts, 1)]
    return [*writes, (key.encode(), split_head(value, len(parts)))]


def read_block(key: BlockKey, value: bytes, versions: Versions) -> Block:
    """Read a block."""
    if key.scale not in SCALES or not 0 < key.end < MOST_SECONDS or key.window.size <= 0:
        raise ReportError(f"no block of {key.scale} windows ends at {key.end}")
    return block_records.decode(value, versions.query)


def substitute_state(key: StateKey, cells: int) -> WindowState:
    """Return a state in place of an unreadable one. Windows go on behind its end, and `all` begins again there."""
    is_all = key.window.kind == "all"
    total = Snapshot(0, 0, 0, INCOMPLETE, np.zeros(cells, np.uint8)) if is_all else None
    return WindowState(Position(key.end, total=total), [], None)


def is_valid_key(key: PaneKey | PartitionKey, versions: Versions | None, partitions: int) -> bool:
    """Whether a worker can have written a record with this key."""
    if not 0 <= key.partition < (1 if key.kind == "merged" else partitions):
        return False
    if isinstance(key, PartitionKey):
        return key.kind == "watermark"

    pane = versions.query.pane if versions is not None else 1
    return key.kind in ("closed", "open", "merged") and 0 <= key.pane < MOST_SECONDS and key.pane % pane == 0


def has_head(key: StateKey, value: bytes) -> bool:
    """Whether a record begins like the state of its key. The rest is not checked."""
    if key.part or is_split(value):
        return True
    return _has_state_head(value) and bool(_STATE.unpack_from(value)[3] == key.end)


def _has_state_head(data: bytes) -> bool:
    return len(data) >= _STATE.size and tuple(data[:2]) in _HEADS


def encode_state(
    position: Position, alerts: Sequence[bytes], query_marks: QueryMarks, names: NameHistory | None = None
) -> bytes:
    """Return the state record of one kind of window.

    `alerts` has an item for each attribute, and only unknown strings have `names`.

    The record's key holds the position's end, and readers take the newest state. An old state that a frozen worker
    writes late does no harm then, although the panes between the two states are deleted.
    """
    total = encode_snapshot(position.total) if position.total else b""
    head = _STATE.pack(
        _WITH_TOTAL if position.total else _BARE,
        position.total is not None,
        len(alerts),
        position.end,
        position.start or 0,
        position.newest or 0,
        len(total),
    )

    pieces = [*alerts, query_marks.encode()]
    if names is not None:
        pieces.append(names.encode())
    return head + total + b"".join(_LENGTH.pack(len(piece)) + piece for piece in pieces)


def decode_state(data: bytes, versions: Versions) -> WindowState:
    """Return the position, the alert states and the marks, or raise a ReportError."""
    if not _has_state_head(data) or any(data[2:4]):
        raise ReportError(f"not a state record ({len(data)} bytes, version {_WITH_TOTAL} or {_BARE} expected)")

    version, has_total, alert_count, end, start, newest_end, length = _STATE.unpack_from(data)
    total_end = _STATE.size + length
    is_inside = _STATE.size <= total_end <= len(data)
    if not is_inside or has_total != bool(length) or (not has_total and (start or newest_end)):
        raise ReportError(f"a state record of {len(data)} bytes claims a total of {length} bytes")

    if has_total:
        total = _read_total(data[_STATE.size : total_end], versions.query)
        position = Position(end, start, newest_end, total)
    else:
        position = Position(end)

    has_names = kind_of(versions.query).has_search
    pieces = _pieces(data, total_end, count=alert_count + 1 + has_names)
    names = name_history.decode(pieces.pop()) if has_names else None
    # An older worker wrote another last piece instead of the marks. Its bytes are no marks.
    last_piece = pieces.pop()
    query_marks = None if version in WITHOUT_MARKS else marks.decode(last_piece, versions)
    return WindowState(position, pieces, query_marks, names)


def _read_total(data: bytes, query: Query) -> Snapshot:
    return decode_snapshot(data, query.oracle.state_size, further_groups(query))


def _pieces(data: bytes, offset: int, *, count: int) -> list[bytes]:
    """Return `count` pieces, each after its length, up to the end of `data`."""
    pieces: list[bytes] = []
    for _ in range(count):
        if len(data) - offset < _LENGTH.size:
            raise ReportError(f"a state record of {len(data)} bytes ends within its {count} pieces")

        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size + length
        pieces.append(data[offset - length : offset])
        if offset > len(data):
            break  # the count may be huge in a damaged record, and no piece follows

    if offset != len(data):
        raise ReportError(f"a state record has {len(data)} bytes, but claims {offset}")
    return pieces
