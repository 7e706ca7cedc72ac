"""One tally: what the reports of one query and pane on one source partition add up to, and up to which offset.

Offsets below `next_offset` are counted already and skipped, so reading the log again from an older
offset changes nothing. What is written for other readers (a closed snapshot) holds no offset: its
bytes are a function of the log, whoever writes them.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.counting.clock import Clock, pack_clock, unpack_clock
from oracles.errors import ReportError
from oracles.mechanisms.protocol import Protocol
from oracles.types import Ints, Reports

PARTIAL, INCOMPLETE, IDS_OVERFLOW, CORRECTED = 1, 2, 4, 8
FLAGS = {"partial": PARTIAL, "incomplete": INCOMPLETE, "ids_overflow": IDS_OVERFLOW, "corrected": CORRECTED}
"""What a tally can know of itself; the other flags of a record follow from its counts."""

Counts = NDArray[np.integer]

_VERSION = 1
_SNAPSHOT = struct.Struct("<BBBxqqqq")
_TALLY = struct.Struct("<B?xxxxxxqq")
_SEGMENT = struct.Struct("<BBxxIq")
_TYPES = tuple(np.dtype(name) for name in ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<i8"))
"""From the narrowest; the first that holds all integers of a vector is the one it is written in."""
_RANGES = tuple((int(np.iinfo(kind).min), int(np.iinfo(kind).max)) for kind in _TYPES)


class Counted(NamedTuple):
    """A frame's id and the offset at which it was counted."""

    id: bytes
    offset: int


SEGMENT = 50_000
"""Ids in one record, at most: below what any service takes for one."""


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Frames of one query and pane, one after another, their reports joined: added in one call."""

    offsets: Sequence[int]
    """Ascending."""
    sizes: Sequence[int]
    """How many reports each holds."""
    ids: Sequence[bytes | None] | None
    """None where no frame has an id."""
    reports: Reports
    next_offset: int
    """Up to here there are no others of this query and pane."""
    clock: Clock
    """The partition's at next_offset."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A tally as others see it: no offset, no ids."""

    n: int
    implausible: int
    duplicates: int
    flags: int
    counts: Counts
    """The oracle's state; of any integer type."""


@dataclass(slots=True, eq=False)
class Tally:
    """The additive state of one query and pane on one partition, complete up to `next_offset`."""

    counts: Ints
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    """Reports in frames that were counted before."""
    flags: int = 0
    next_offset: int = 0
    clock: Clock = None
    """At next_offset."""
    closed: bool = False
    ids: set[bytes] = field(default_factory=set)
    unwritten: list[Counted] = field(default_factory=list)
    """Ids that stand in no segment yet; they are written before the tally is."""

    def add(self, oracle: Protocol, frames: Frames, max_ids: int) -> list[int]:
        """Count frames whose reports are well-formed; returns which were refused as duplicates.

        Implausible reports are left out by the oracle one by one.
        """
        first = bisect_left(frames.offsets, self.next_offset)
        if self.closed or first == len(frames.offsets):
            return []
        if frames.ids is None:
            refused: list[int] = []
            reports = frames.reports[sum(frames.sizes[:first]) :]
        else:
            kept, refused = self._take_ids(frames, first, max_ids)
            reports = _rows(frames, kept)
        left_out = oracle.add(self.counts, reports)
        self.n += len(reports) - left_out
        self.implausible += left_out
        self.duplicates += sum(frames.sizes[index] for index in refused)
        self.passed(frames.next_offset, frames.clock)
        return refused

    def passed(self, next_offset: int, clock: Clock) -> None:
        """The partition was read up to here, and nothing more of it belongs to this tally."""
        if next_offset > self.next_offset and not self.closed:
            self.next_offset, self.clock = next_offset, clock

    def close(self) -> Snapshot:
        """The tally as it will stay: nothing is added any more, and ids are forgotten."""
        self.closed = True
        self.ids, self.unwritten = set(), []
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """What it says now; the counts are not copied, so it is for writing at once."""
        return Snapshot(self.n, self.implausible, self.duplicates, self.flags, self.counts)

    def take_unwritten(self) -> list[Counted]:
        """The next segment of ids that stand in none yet; an empty one where all do."""
        taken, self.unwritten = self.unwritten[:SEGMENT], self.unwritten[SEGMENT:]
        return taken

    def recover_ids(self, segments: Iterable[Iterable[Counted]]) -> None:
        """Know again which frames are counted.

        A segment is written before its tally. Entries that the tally does not cover belong to
        frames that are read again: kept, they would refuse those as their own duplicates.
        """
        self.ids = {entry.id for segment in segments for entry in segment if entry.offset < self.next_offset}
        self.unwritten = []

    def _take_ids(self, frames: Frames, first: int, max_ids: int) -> tuple[list[int], list[int]]:
        """Which frames from `first` on are counted, and which are duplicates; the ids of the former are remembered."""
        kept: list[int] = []
        refused: list[int] = []
        for index in range(first, len(frames.offsets)):
            name = frames.ids[index] if frames.ids else None
            if name is not None and name in self.ids:
                refused.append(index)
                continue
            kept.append(index)
            if name is None:
                continue
            if len(self.ids) < max_ids:
                self.ids.add(name)
                self.unwritten.append(Counted(name, frames.offsets[index]))
            else:
                self.flags |= IDS_OVERFLOW
        return kept, refused


def _rows(frames: Frames, kept: list[int]) -> Reports:
    """The reports of some of the frames; no copy where those are all of them."""
    if len(kept) == len(frames.sizes):
        return frames.reports
    counted = np.zeros(len(frames.sizes), np.bool_)
    counted[kept] = True
    return frames.reports[np.repeat(counted, frames.sizes)]


@dataclass(slots=True, eq=False)
class Sum:
    """Snapshots added and taken away again; integers, so the order changes nothing."""

    counts: Ints
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    flagged: dict[int, int] = field(default_factory=dict)
    """How many of the snapshots have each flag: those cannot be subtracted otherwise."""

    def add(self, snapshot: Snapshot, times: int = 1) -> None:
        """With `times` of -1, take it away."""
        self.n += times * snapshot.n
        self.implausible += times * snapshot.implausible
        self.duplicates += times * snapshot.duplicates
        (np.add if times == 1 else np.subtract)(self.counts, snapshot.counts, out=self.counts)
        if snapshot.flags:
            for flag in FLAGS.values():
                if snapshot.flags & flag:
                    self.flagged[flag] = self.flagged.get(flag, 0) + times

    def snapshot(self) -> Snapshot:
        """A copy of what they add up to."""
        flags = sum(flag for flag, times in self.flagged.items() if times)
        return Snapshot(self.n, self.implausible, self.duplicates, flags, self.counts.copy())


def merged(snapshots: Iterable[Snapshot], cells: int) -> Snapshot:
    """What tallies of `cells` integers add up to."""
    total = Sum(np.zeros(cells, np.int64))
    for snapshot in snapshots:
        total.add(snapshot)
    return Snapshot(total.n, total.implausible, total.duplicates, sum(total.flagged), total.counts)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as bytes, a function of what it says."""
    kind = _narrowest(snapshot.counts)
    head = _SNAPSHOT.pack(
        *(_VERSION, snapshot.flags, kind, len(snapshot.counts)),
        *(snapshot.n, snapshot.implausible, snapshot.duplicates),
    )
    return head + snapshot.counts.astype(_TYPES[kind]).tobytes()


def decode_snapshot(data: bytes, cells: int) -> Snapshot:
    """The snapshot of a tally of `cells` integers; a ReportError where `data` is none. Its counts are a view."""
    version, flags, kind, length, n, implausible, duplicates = _head(_SNAPSHOT, data, "snapshot")
    if version != _VERSION or flags > sum(FLAGS.values()) or kind >= len(_TYPES) or data[3]:
        raise ReportError(f"a snapshot of version {version}, flags {flags}, type {kind} cannot be read")
    if length != cells or len(data) != _SNAPSHOT.size + cells * _TYPES[kind].itemsize:
        raise ReportError(f"a snapshot of {length} integers in {len(data)} bytes; the query's tallies have {cells}")
    if min(n, implausible, duplicates) < 0:
        raise ReportError(f"a snapshot of {n} reports, {implausible} implausible, {duplicates} duplicates")
    counts = np.frombuffer(data, _TYPES[kind], cells, _SNAPSHOT.size)
    if _narrowest(counts) != kind:
        raise ReportError("the integers of a snapshot stand in the narrowest type that holds them")
    return Snapshot(n, implausible, duplicates, flags, counts)


def encode_tally(tally: Tally) -> bytes:
    """The changelog's record: tally and offset are one, so that a crash takes both or neither."""
    head = _TALLY.pack(_VERSION, tally.closed, tally.next_offset, pack_clock(tally.clock))
    return head + encode_snapshot(tally.snapshot())


def decode_tally(data: bytes, cells: int) -> Tally:
    """The tally in `data`, without its ids; a ReportError where there is none."""
    said, next_offset = decode_open(data, cells)
    _, closed, _, clock = _head(_TALLY, data, "tally")
    sums = (said.n, said.implausible, said.duplicates, said.flags)
    return Tally(said.counts.astype(np.int64), *sums, next_offset, unpack_clock(clock), bool(closed))


def decode_open(data: bytes, cells: int) -> tuple[Snapshot, int]:
    """What the tally in `data` says, and the offset up to which; its counts stay as narrow as they travel."""
    version, _, next_offset, _ = _head(_TALLY, data, "tally")
    if version != _VERSION or any(data[2:8]) or data[1] > 1 or next_offset < 0:
        raise ReportError(f"a tally of version {version} up to offset {next_offset} cannot be read")
    return decode_snapshot(data[_TALLY.size :], cells), next_offset


def encode_ids(segment: Sequence[Counted]) -> bytes:
    """A segment of ids, in the order of their offsets. There is no empty one.

    Its key should hold its first and last offset: then all that is written under it, by a zombie
    too, is the same.
    """
    first = segment[0].offset
    steps = np.array([entry.offset - first for entry in segment], np.int64)
    kind = _narrowest(steps)
    head = _SEGMENT.pack(_VERSION, kind, len(segment), first)
    return head + b"".join(entry.id for entry in segment) + steps.astype(_TYPES[kind]).tobytes()


def decode_ids(data: bytes) -> list[Counted]:
    """The entries of a segment; a ReportError where `data` is none."""
    version, kind, count, first = _head(_SEGMENT, data, "segment")
    if version != _VERSION or kind >= len(_TYPES) or not count or first < 0 or any(data[2:4]):
        raise ReportError(f"a segment of version {version}, type {kind}, {count} ids from offset {first} on")
    if len(data) != _SEGMENT.size + count * (8 + _TYPES[kind].itemsize):
        raise ReportError(f"a segment of {count} ids in {len(data)} bytes")
    end = _SEGMENT.size + 8 * count
    steps = np.frombuffer(data, _TYPES[kind], count, end).astype(np.int64)
    if steps[0] or (np.diff(steps) <= 0).any() or _narrowest(steps) != kind or int(steps[-1]) >= 1 << 62:
        raise ReportError("the offsets of a segment ascend")
    names = [data[at : at + 8] for at in range(_SEGMENT.size, end, 8)]
    return [Counted(name, first + step) for name, step in zip(names, steps.tolist(), strict=True)]


def _head(form: struct.Struct, data: bytes, what: str) -> tuple[int, ...]:
    if len(data) < form.size:
        raise ReportError(f"{len(data)} bytes are too few for a {what}")
    return form.unpack_from(data)


def _narrowest(counts: Counts) -> int:
    """The index of the narrowest type that holds all of them."""
    low, high = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
    return next(kind for kind, (least, most) in enumerate(_RANGES) if least <= low and high <= most)
