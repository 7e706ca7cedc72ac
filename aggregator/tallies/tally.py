"""A tally: the sum of the reports of one query and pane on one source partition, and its offset.

A tally skips offsets below `next_offset`, which it has counted already, so reading the log again
from an older offset changes nothing. A closed snapshot, which other processes read, holds no offset:
its bytes depend on the log alone, and not on the worker that writes them.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from aggregator.tallies import group_cells
from aggregator.tallies.clock import Clock, pack_clock, unpack_clock
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.id_log import SEGMENT, IdEntry, IdLog
from aggregator.tallies.id_set import CompiledIdSet, PythonIdSet, id_set
from aggregator.tallies.packing import head
from aggregator.tallies.snapshot import IDS_OVERFLOW, Snapshot, decode_snapshot, encode_snapshot
from oracles.errors import ReportError
from oracles.mechanisms.protocol import Mechanism
from oracles.query import Query
from oracles.query.footprint import tally_size
from oracles.types import Flags, Ints

_VERSION = 1
_TALLY = struct.Struct("<B?xxxxxxqq")
"""Version, closed, next offset, clock."""


@dataclass(slots=True, eq=False)
class Tally:
    """The sum of the reports of one query and pane on one partition, complete up to `next_offset`."""

    counts: Ints
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    """The number of reports in frames that were counted before."""
    flags: int = 0
    next_offset: int = 0
    clock: Clock = None
    """The clock of the partition at `next_offset`."""
    closed: bool = False
    ids: PythonIdSet | CompiledIdSet = field(default_factory=id_set)
    new_ids: IdLog = field(default_factory=IdLog)
    """The ids that no segment has yet. They are written before the tally."""

    @classmethod
    def empty(cls, query: Query) -> "Tally":
        """Return the tally of a pane without reports."""
        return cls(np.zeros(tally_size(query), np.int64))

    def add(self, oracle: Mechanism, frames: FrameBatch, max_ids: int) -> list[int]:
        """Count frames of well-formed reports. Return the indexes of the duplicates among the frames.

        The oracle leaves out implausible reports one by one.
        """
        start = bisect_left(frames.offsets, self.next_offset)
        # A closed tally has given its snapshot to others, so it must not change.
        if self.closed or start == len(frames):
            return []

        duplicates: list[int] = []
        reports = frames.reports
        sizes = frames.sizes
        selection: slice | Flags = slice(start, None)
        if frames.ids is None or self._add_all_ids(frames, start, max_ids):
            reports = reports[int(sum(sizes[:start])) :]
            sizes = sizes[start:]
        else:
            selection, duplicates = self._add_new_ids(frames, start, max_ids)
            if not selection.all():
                reports = reports[np.repeat(selection, sizes)]
                sizes = np.asarray(sizes)[selection]

        implausible = group_cells.count_reports(oracle, self.counts, reports, sizes, frames.groups_of(selection))
        self.n += len(reports) - implausible
        self.implausible += implausible
        self._note_duplicates(oracle, frames, duplicates)

        self.advance(frames.next_offset, frames.clock)
        return duplicates

    def _note_duplicates(self, oracle: Mechanism, frames: FrameBatch, duplicates: Iterable[int]) -> None:
        groups = frames.group_numbers()
        for index in duplicates:
            size = int(frames.sizes[index])
            self.duplicates += size
            group_cells.note_duplicates(self.counts, oracle.state_size, int(groups[index]), size)

    def advance(self, next_offset: int, clock: Clock) -> None:
        """Note that the partition was read up to this offset, and that the tally has all its reports up to there."""
        if next_offset > self.next_offset and not self.closed:
            self.next_offset = next_offset
            self.clock = clock

    def close(self) -> Snapshot:
        """Close the tally, forget its ids, and return its final snapshot. Nothing is added any more."""
        self.closed = True
        # A closed tally waits for the acknowledgement of its snapshot, and ids are most of its memory.
        self.ids = id_set()
        self.new_ids = IdLog()
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """Return a snapshot for immediate use, since its counts are not a copy."""
        return Snapshot(self.n, self.implausible, self.duplicates, self.flags, self.counts)

    def next_segment(self) -> IdLog:
        """Take the next segment of ids that no segment has yet. It is empty if there is none."""
        segment = self.new_ids[:SEGMENT]
        self.new_ids = self.new_ids[SEGMENT:]
        return segment

    def recover_ids(self, segments: Iterable[Iterable[IdEntry]]) -> None:
        """Restore the ids of the counted frames.

        A segment is written before its tally, so it may have entries from `next_offset` on, whose
        frames are read again. With these entries the tally would refuse the frames as duplicates.
        """
        entries = chain.from_iterable(segments)
        self.ids = id_set(entry.id for entry in entries if entry.offset < self.next_offset)
        self.new_ids = IdLog()

    def _add_all_ids(self, frames: FrameBatch, start: int, max_ids: int) -> bool:
        """Add the ids from `start` on and return True, or add none if one is missing, known or too many."""
        ids = frames.ids_from(start)
        if ids is None or len(self.ids) + len(ids) > max_ids or not self.ids.add_all(ids):
            return False
        self.new_ids.extend(ids, np.asarray(frames.offsets[start:], np.int64))
        return True

    def _add_new_ids(self, frames: FrameBatch, start: int, max_ids: int) -> tuple[Flags, list[int]]:
        """Add the new ids from `start` on. Return flags of the frames to count, and the indexes of the duplicates."""
        flags = np.zeros(len(frames), np.bool_)
        duplicates: list[int] = []
        for index in range(start, len(frames)):
            frame_id = frames.id_at(index)
            if frame_id is not None and frame_id in self.ids:
                duplicates.append(index)
                continue

            flags[index] = True
            if frame_id is None:
                continue

            if len(self.ids) < max_ids:
                self.ids.add(frame_id)
                self.new_ids.append(frame_id, int(frames.offsets[index]))
            else:
                # A frame beyond the limit counts, since refusing it would lose reports. The flag says so.
                self.flags |= IDS_OVERFLOW
        return flags, duplicates


def encode_tally(tally: Tally) -> bytes:
    """Return the record for the changelog. It holds tally and offset together, so that a crash cannot part them."""
    head = _TALLY.pack(_VERSION, tally.closed, tally.next_offset, pack_clock(tally.clock))
    return head + encode_snapshot(tally.snapshot())


def decode_tally(data: bytes, cells: int, further: int = 0) -> Tally:
    """Read a tally without its ids, or raise a ReportError. See `decode_snapshot`."""
    version, is_closed, next_offset, clock = head(_TALLY, data, "tally")
    if version != _VERSION or data[2:8] != bytes(6) or data[1] > 1 or next_offset < 0:
        raise ReportError(f"a tally of version {version} up to offset {next_offset} is invalid")
    n, implausible, duplicates, flags, counts, _ = decode_snapshot(data[_TALLY.size :], cells, further)
    return Tally(
        counts=counts.astype(np.int64),
        n=n,
        implausible=implausible,
        duplicates=duplicates,
        flags=flags,
        next_offset=next_offset,
        clock=unpack_clock(clock),
        closed=bool(is_closed),
    )
