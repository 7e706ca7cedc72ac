"""One tally: what the reports of one query and pane on one source partition add up to, and up to which offset.

Offsets below `next_offset` are counted already and skipped, so reading the log again from an older
offset changes nothing. What is written for other readers (a closed snapshot) holds no offset: its
bytes are a function of the log, whoever writes them.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aggregator.counting.clock import Clock, pack_clock, unpack_clock
from aggregator.counting.frames import Frames
from aggregator.counting.ids import SEGMENT, CountedId, Ids
from aggregator.counting.known import Plain, Table, known
from aggregator.counting.packing import TYPES, Counts, head, is_narrowest, narrowest
from oracles.errors import ReportError
from oracles.mechanisms.protocol import Protocol
from oracles.types import Flags, Ints

PARTIAL, INCOMPLETE, IDS_OVERFLOW, CORRECTED = 1, 2, 4, 8
FLAGS = {"partial": PARTIAL, "incomplete": INCOMPLETE, "ids_overflow": IDS_OVERFLOW, "corrected": CORRECTED}
"""Flags that a tally can know of itself; the other flags of a record follow from its counts."""
_ALL = sum(FLAGS.values())

_VERSION = 1
_SNAPSHOT = struct.Struct("<BBBxqqqq")
_TALLY = struct.Struct("<B?xxxxxxqq")


class Snapshot(NamedTuple):
    """A tally as others see it: no offset, no ids."""

    n: int
    implausible: int
    duplicates: int
    flags: int
    counts: Counts
    """The oracle's state; of any integer type."""
    encoded: bytes | None = None
    """Of one that was read, its bytes: `counts` is a view of them."""

    def flagged(self, flags: int) -> "Snapshot":
        """The same with these flags too."""
        return self._replace(flags=self.flags | flags, encoded=None)


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
    ids: Plain | Table = field(default_factory=known)
    unwritten: Ids = field(default_factory=Ids)
    """Ids that stand in no segment yet; they are written before the tally is."""

    def add(self, oracle: Protocol, frames: Frames, max_ids: int) -> list[int]:
        """Count frames whose reports are well-formed; returns which were refused as duplicates.

        Implausible reports are left out by the oracle one by one.
        """
        first = bisect_left(frames.offsets, self.next_offset)
        if self.closed or first == len(frames):
            return []
        refused: list[int] = []
        if frames.ids is None or self._takes_all(frames, first, max_ids):
            reports = frames.reports[int(sum(frames.sizes[:first])) :]
        else:
            counted, refused = self._take_ids(frames, first, max_ids)
            reports = frames.reports[np.repeat(counted, frames.sizes)] if not counted.all() else frames.reports
        left_out = oracle.add(self.counts, reports)
        self.n += len(reports) - left_out
        self.implausible += left_out
        self.duplicates += sum(int(frames.sizes[index]) for index in refused)
        self.passed(frames.next_offset, frames.clock)
        return refused

    def passed(self, next_offset: int, clock: Clock) -> None:
        """The partition was read up to here, and nothing more of it belongs to this tally."""
        if next_offset > self.next_offset and not self.closed:
            self.next_offset, self.clock = next_offset, clock

    def close(self) -> Snapshot:
        """The tally as it will stay: nothing is added any more, and ids are forgotten."""
        self.closed = True
        self.ids, self.unwritten = known(), Ids()
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """Its snapshot; the counts are not copied, so it is for writing at once."""
        return Snapshot(self.n, self.implausible, self.duplicates, self.flags, self.counts)

    def take_unwritten(self) -> Ids:
        """The next segment of ids that stand in none yet; an empty one where all do."""
        taken, self.unwritten = self.unwritten[:SEGMENT], self.unwritten[SEGMENT:]
        return taken

    def recover_ids(self, segments: Iterable[Iterable[CountedId]]) -> None:
        """Know again which frames are counted.

        A segment is written before its tally. Entries that the tally does not cover belong to
        frames that are read again: kept, they would refuse those as their own duplicates.
        """
        self.ids = known(entry.id for segment in segments for entry in segment if entry.offset < self.next_offset)
        self.unwritten = Ids()

    def _takes_all(self, frames: Frames, first: int, max_ids: int) -> bool:
        """Remember the ids of all frames from `first` on, where each has one, and all are new; else none of them."""
        numbers = frames.numbers(first)
        if numbers is None or len(self.ids) + len(numbers) > max_ids or not self.ids.learn(numbers):
            return False
        self.unwritten.extend(numbers, np.asarray(frames.offsets[first:], np.int64))
        return True

    def _take_ids(self, frames: Frames, first: int, max_ids: int) -> tuple[Flags, list[int]]:
        """Which frames are counted, and which from `first` on are duplicates; the ids of the former are remembered."""
        counted = np.zeros(len(frames), np.bool_)
        refused: list[int] = []
        for index in range(first, len(frames)):
            name = frames.name(index)
            if name is not None and name in self.ids:
                refused.append(index)
                continue
            counted[index] = True
            if name is None:
                continue
            if len(self.ids) < max_ids:
                self.ids.add(name)
                self.unwritten.append(name, int(frames.offsets[index]))
            else:
                self.flags |= IDS_OVERFLOW
        return counted, refused


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
    """The sum of snapshots of `cells` integers."""
    total = Sum(np.zeros(cells, np.int64))
    for snapshot in snapshots:
        total.add(snapshot)
    return Snapshot(total.n, total.implausible, total.duplicates, sum(total.flagged), total.counts)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as bytes, a function of what it says."""
    if snapshot.encoded is not None:
        return snapshot.encoded
    kind = narrowest(snapshot.counts)
    head = _SNAPSHOT.pack(
        *(_VERSION, snapshot.flags, kind, len(snapshot.counts)),
        *(snapshot.n, snapshot.implausible, snapshot.duplicates),
    )
    return head + snapshot.counts.astype(TYPES[kind]).tobytes()


def decode_snapshot(data: bytes, cells: int) -> Snapshot:
    """The snapshot of a tally of `cells` integers; a ReportError where `data` is none. Its counts are a view."""
    version, flags, kind, length, n, implausible, duplicates = head(_SNAPSHOT, data, "snapshot")
    if version != _VERSION or flags > _ALL or kind >= len(TYPES) or data[3]:
        raise ReportError(f"a snapshot of version {version}, flags {flags}, type {kind} cannot be read")
    if length != cells or len(data) != _SNAPSHOT.size + cells * TYPES[kind].itemsize:
        raise ReportError(f"a snapshot of {length} integers in {len(data)} bytes; the query's tallies have {cells}")
    if min(n, implausible, duplicates) < 0:
        raise ReportError(f"a snapshot of {n} reports, {implausible} implausible, {duplicates} duplicates")
    snapshot = decoded_again(data)
    if not is_narrowest(snapshot.counts, kind):
        raise ReportError("the integers of a snapshot stand in the narrowest type that holds them")
    return snapshot


def decoded_again(data: bytes) -> Snapshot:
    """The same of bytes that were decoded before, or written here."""
    _, flags, kind, cells, n, implausible, duplicates = _SNAPSHOT.unpack_from(data)
    counts = np.frombuffer(data, TYPES[kind], cells, _SNAPSHOT.size)
    return Snapshot(n, implausible, duplicates, flags, counts, data)


def encode_tally(tally: Tally) -> bytes:
    """The changelog's record: tally and offset are one, so that a crash takes both or neither."""
    head = _TALLY.pack(_VERSION, tally.closed, tally.next_offset, pack_clock(tally.clock))
    return head + encode_snapshot(tally.snapshot())


def decode_tally(data: bytes, cells: int) -> Tally:
    """The tally in `data`, without its ids; a ReportError where there is none."""
    said, next_offset = decode_open(data, cells)
    _, closed, _, clock = head(_TALLY, data, "tally")
    sums = (said.n, said.implausible, said.duplicates, said.flags)
    return Tally(said.counts.astype(np.int64), *sums, next_offset, unpack_clock(clock), bool(closed))


def decode_open(data: bytes, cells: int) -> tuple[Snapshot, int]:
    """The snapshot of the tally in `data`, and the offset up to which; its counts stay as narrow as they travel."""
    version, _, next_offset, _ = head(_TALLY, data, "tally")
    if version != _VERSION or data[2:8] != bytes(6) or data[1] > 1 or next_offset < 0:
        raise ReportError(f"a tally of version {version} up to offset {next_offset} cannot be read")
    return decode_snapshot(data[_TALLY.size :], cells), next_offset
