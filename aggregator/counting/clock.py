"""A partition's clock: how far its log's own timestamps have come, what that closes, and where to read on.

The clock is the running maximum of the timestamps read, of refused records too; under `embedded`
of those of ticks only. So whoever reads the same log finds the same reports late, a replay years
later included. None stands for a clock that nothing has moved yet: nothing is late or future.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from oracles.errors import ReportError
from oracles.query import Query

Clock = int | None
"""Milliseconds since the Unix epoch."""

MOST_SECONDS = 1 << 53
"""No pane starts here or later, or before 0, even while there is no clock: every window's times fit in a record."""

_VERSION = 1
_HEAD = struct.Struct("<BqqI")
_CLOSED = struct.Struct("<8sq")
_NEVER = -(1 << 63)
"""What stands in bytes for a clock of None."""


def moved(clock: Clock, timestamp: int) -> int:
    """The clock after a record with this timestamp."""
    return timestamp if clock is None else max(clock, timestamp)


def closes_after(pane: int, query: Query) -> int:
    """The last millisecond at which a report of the pane that starts at `pane` is still in time."""
    return 1000 * (pane + query.pane + query.lateness)


def is_late(clock: Clock, pane: int, query: Query) -> bool:
    """Whether a report of this pane comes too late, which is to say that the pane is closed."""
    return pane < 0 if clock is None else clock > closes_after(pane, query)


def is_future(clock: Clock, pane: int, query: Query) -> bool:
    return pane >= MOST_SECONDS if clock is None else 1000 * (pane - query.skew) > clock


def closed_through(clock: Clock, query: Query) -> int | None:
    """The end of the newest closed pane: it and all before it are closed; None without a clock."""
    if clock is None:
        return None
    return ((clock - 1) // 1000 - query.lateness) // query.pane * query.pane


def most_open(query: Query) -> int:
    """How many panes of a query can be open on a partition at once."""
    return (query.lateness + query.skew) // query.pane + 2


@dataclass(frozen=True)
class Progress:
    """How far one partition is counted: all below next_offset stands in tallies that the broker has acknowledged."""

    next_offset: int = 0
    clock: Clock = None
    """At next_offset."""
    closed: Mapping[bytes, int] = field(default_factory=dict)
    """Per digest closed_through: moved only once the closed tallies and their snapshots are acknowledged."""

    def covers(self, digest: bytes, pane: int) -> bool:
        """Whether the pane is closed for good: what is read or recovered of it again is ignored.

        A pane is covered as a whole, since closed_through is the end of one.
        """
        end = self.closed.get(digest)
        return end is not None and pane < end


def newest(found: Iterable[Progress]) -> Progress:
    """What several progress records of a partition say together, whoever wrote them and in whatever order.

    Each was true when it was written and stays so. A zombie that writes an older one under a key
    of its own therefore takes nothing back.
    """
    found = list(found)
    if not found:
        return Progress()
    last = max(found, key=lambda progress: progress.next_offset)
    closed: dict[bytes, int] = {}
    for progress in found:
        for digest, end in progress.closed.items():
            closed[digest] = max(end, closed.get(digest, end))
    return Progress(last.next_offset, last.clock, closed)


def resume(progress: Progress, open_tallies: Iterable[tuple[int, Clock]]) -> tuple[int, Clock]:
    """Where to read on, and with which clock, given next_offset and clock of each tally that is not closed.

    The clock is that of the record which gave the offset: with a newer one, reports that were in
    time when they were first read would now be late.
    """
    marks = [(progress.next_offset, progress.clock), *open_tallies]
    return min(marks, key=lambda mark: mark[0])


def encode(progress: Progress) -> bytes:
    head = _HEAD.pack(_VERSION, progress.next_offset, pack_clock(progress.clock), len(progress.closed))
    return head + b"".join(_CLOSED.pack(digest, end) for digest, end in sorted(progress.closed.items()))


def decode(data: bytes) -> Progress:
    """The progress in `data`; a ReportError where it is none."""
    if len(data) < _HEAD.size or data[0] != _VERSION:
        raise ReportError(f"{len(data)} bytes are no progress record of version {_VERSION}")
    _, next_offset, clock, count = _HEAD.unpack_from(data)
    if len(data) != _HEAD.size + count * _CLOSED.size or next_offset < 0:
        raise ReportError(f"a progress record of {len(data)} bytes says {count} digests and offset {next_offset}")
    pairs = list(_CLOSED.iter_unpack(data[_HEAD.size :]))
    if any(before[0] >= after[0] for before, after in pairwise(pairs)):
        raise ReportError("the digests of a progress record stand in order, each once")
    return Progress(next_offset, unpack_clock(clock), dict(pairs))


def pack_clock(clock: Clock) -> int:
    return _NEVER if clock is None else clock


def unpack_clock(number: int) -> Clock:
    return None if number == _NEVER else number
