"""A partition's clock: how far its log's own timestamps have come, what that closes, and where to read on.

The clock is the running maximum of the timestamps read, of refused records too; under `embedded`
of those of ticks only. So whoever reads the same log finds the same reports late, a replay years
later included. None stands for a clock that nothing has moved yet: nothing is late or future.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from aggregator.topics.keys import home
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query import Query

Clock = int | None
"""Milliseconds since the Unix epoch."""

MOST_SECONDS = 1 << 53
"""No pane starts here or later, or before 0, even while there is no clock: every window's times fit in a record."""

_BARE, _VERSION = 1, 2
"""Of a progress record; the first has no basis."""
_BASIS = struct.Struct("<16s16sI")
_HEAD = struct.Struct("<BqqI")
_CLOSED = struct.Struct("<8sq")
_NEVER = -(1 << 63)
"""Stands in bytes for a clock of None."""


def moved(clock: Clock, timestamp: Clock) -> Clock:
    """The clock after a record with this timestamp; with None it stays."""
    if timestamp is None:
        return clock
    return timestamp if clock is None else max(clock, timestamp)


def is_late(clock: Clock, pane: int, versions: Versions) -> bool:
    """Whether a report of this pane comes too late, which is to say that the pane is closed."""
    return pane < 0 if clock is None else versions.is_late(pane, clock)


def is_future(clock: Clock, pane: int, versions: Versions) -> bool:
    return pane >= MOST_SECONDS if clock is None else versions.is_future(pane, clock)


def closed_through(clock: Clock, versions: Versions) -> int | None:
    """The end of the newest closed pane: it and all before it are closed; None without a clock."""
    return None if clock is None else versions.closed_through(clock)


def open_panes(query: Query) -> int:
    """The most panes of a query that are open on one partition at a time."""
    return (query.lateness + query.skew) // query.pane + 2


@dataclass(frozen=True)
class Basis:
    """The basis of a count: the topics by their ids, and corrections. Nothing counted otherwise is added to it."""

    reports: bytes = b""
    """Up to 16 bytes without zeros at the end; empty where the broker gives topics no ids."""
    snapshots: bytes = b""
    corrections: frozenset[bytes] = frozenset()
    """Their names."""


@dataclass(frozen=True)
class Progress:
    """How far one partition is counted: all below next_offset stands in tallies that the broker has acknowledged."""

    next_offset: int = 0
    clock: Clock = None
    """At next_offset."""
    closed: Mapping[bytes, int] = field(default_factory=dict)
    """Per digest closed_through: moved only once the closed tallies and their snapshots are acknowledged."""
    basis: Basis = Basis()

    def covers(self, digest: bytes, pane: int) -> bool:
        """Whether the pane is closed for good: what is read or recovered of it again is ignored.

        A pane is covered as a whole, since closed_through is the end of one.
        """
        end = self.closed.get(digest)
        return end is not None and pane < end


def joint(found: Iterable[Progress]) -> Progress:
    """The sum of several progress records of a partition, whoever wrote them and in whatever order.

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
    return Progress(last.next_offset, last.clock, closed, last.basis)


def resume(progress: Progress, open_tallies: Iterable[tuple[int, Clock]]) -> tuple[int, Clock]:
    """Where to read on, and with which clock, given next_offset and clock of each tally that is not closed.

    The clock is that of the record which gave the offset: with a newer one, reports that were in
    time when they were first read would now be late.
    """
    marks = [(progress.next_offset, progress.clock), *open_tallies]
    return min(marks, key=lambda mark: mark[0])


def watermarks(
    closed: Mapping[bytes, int], before: Mapping[bytes, int], partitions: int
) -> dict[int, dict[bytes, int]]:
    """The closings, by the partition of the snapshots that it concerns: those where something has moved."""
    moved = {home(digest, partitions) for digest, end in closed.items() if before.get(digest) != end}
    found: dict[int, dict[bytes, int]] = {target: {} for target in moved}
    for digest, end in closed.items():
        if (target := home(digest, partitions)) in moved:
            found[target][digest] = end
    return found


def encode(progress: Progress) -> bytes:
    basis, bare = progress.basis, progress.basis == Basis()
    version = _BARE if bare else _VERSION
    head = _HEAD.pack(version, progress.next_offset, pack_clock(progress.clock), len(progress.closed))
    if not bare:
        head += _BASIS.pack(basis.reports, basis.snapshots, len(basis.corrections))
        head += b"".join(sorted(basis.corrections))
    return head + b"".join(_CLOSED.pack(digest, end) for digest, end in sorted(progress.closed.items()))


def decode(data: bytes) -> Progress:
    """The progress in `data`; a ReportError where it is none."""
    if len(data) < _HEAD.size or data[0] not in (_BARE, _VERSION):
        raise ReportError(f"{len(data)} bytes are no progress record of version {_BARE} or {_VERSION}")
    version, next_offset, clock, count = _HEAD.unpack_from(data)
    basis, start = (Basis(), _HEAD.size) if version == _BARE else _basis(data)
    if len(data) != start + count * _CLOSED.size or next_offset < 0:
        raise ReportError(f"a progress record of {len(data)} bytes says {count} digests and offset {next_offset}")
    pairs = list(_CLOSED.iter_unpack(data[start:]))
    if any(before[0] >= after[0] for before, after in pairwise(pairs)):
        raise ReportError("the digests of a progress record stand in order, each once")
    return Progress(next_offset, unpack_clock(clock), dict(pairs), basis)


def _basis(data: bytes) -> tuple[Basis, int]:
    """The basis in a progress record, and where what follows it begins."""
    if len(data) < _HEAD.size + _BASIS.size:
        raise ReportError(f"a progress record of {len(data)} bytes has no basis")
    reports, snapshots, count = _BASIS.unpack_from(data, _HEAD.size)
    start = _HEAD.size + _BASIS.size
    if start + 8 * count > len(data):
        raise ReportError(f"a progress record of {len(data)} bytes says {count} corrections")
    names = [data[at : at + 8] for at in range(start, start + 8 * count, 8)]
    if names != sorted(set(names)):
        raise ReportError("the corrections of a progress record stand in order, each once")
    return Basis(reports.rstrip(b"\0"), snapshots.rstrip(b"\0"), frozenset(names)), start + 8 * count


def pack_clock(clock: Clock) -> int:
    return _NEVER if clock is None else clock


def unpack_clock(number: int) -> Clock:
    return None if number == _NEVER else number
