"""Snapshots of tallies, without offsets and ids, and their bytes."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aggregator.tallies.packing import TYPES, Counts, head, is_narrowest, narrowest
from oracles.errors import ReportError
from oracles.query.footprint import GROUP_COUNTS
from oracles.types import Ints

PARTIAL = 1
INCOMPLETE = 2
IDS_OVERFLOW = 4
FLAGS = {"partial": PARTIAL, "incomplete": INCOMPLETE, "ids_overflow": IDS_OVERFLOW}
"""The flags of tallies. The other flags of a record follow from its counts."""
_ALL = sum(FLAGS.values())
_CORRECTION_FLAG = 8
"""A flag that older releases wrote. Readers skip it."""
_VERSION = 1
_SNAPSHOT = struct.Struct("<BBBxqqqq")
"""Version, flags, type, number of integers, n, implausible, duplicates."""


class Snapshot(NamedTuple):
    """The sums and counts of one tally or of several, without an offset and without ids."""

    n: int
    implausible: int
    duplicates: int
    flags: int
    counts: Counts
    """The state of the oracle, in any integer type."""
    data: bytes | None = None
    """The bytes of a snapshot from a topic, or None. `counts` then is a view of them."""

    def with_flags(self, flags: int) -> "Snapshot":
        """Return a copy with these flags added."""
        return self._replace(flags=self.flags | flags, data=None)


@dataclass(slots=True, eq=False)
class Sum:
    """A running sum of snapshots, which are added and subtracted. It is exact in any order, since all are integers.

    A shorter snapshot has fewer groups, and adds nothing to the others.
    """

    counts: Ints
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    flag_counts: dict[int, int] = field(default_factory=dict)
    """The number of snapshots with each flag. Without it flags could not be subtracted."""

    def add(self, snapshot: Snapshot, times: int = 1) -> None:
        """Add a snapshot, or subtract it if `times` is -1."""
        self.n += times * snapshot.n
        self.implausible += times * snapshot.implausible
        self.duplicates += times * snapshot.duplicates
        # Integers add in any order, so merging cannot change a bit.
        length = len(snapshot.counts)
        if length > len(self.counts):  # more groups
            self.counts = np.concatenate([self.counts, np.zeros(length - len(self.counts), np.int64)])
        start = self.counts[:length]
        (np.add if times == 1 else np.subtract)(start, snapshot.counts, out=start)

        if snapshot.flags:
            for flag in FLAGS.values():
                if snapshot.flags & flag:
                    self.flag_counts[flag] = self.flag_counts.get(flag, 0) + times

    def snapshot(self) -> Snapshot:
        """Return a copy of the sum."""
        flags = sum(flag for flag, times in self.flag_counts.items() if times)
        return Snapshot(self.n, self.implausible, self.duplicates, flags, self.counts.copy())


def merge_snapshots(snapshots: Iterable[Snapshot], cells: int) -> Snapshot:
    """Return the sum of snapshots of at least `cells` integers."""
    total = Sum(np.zeros(cells, np.int64))
    for snapshot in snapshots:
        total.add(snapshot)
    return Snapshot(total.n, total.implausible, total.duplicates, sum(total.flag_counts), total.counts)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Return the bytes of a snapshot. Equal snapshots have equal bytes."""
    if snapshot.data is not None:
        return snapshot.data

    # Of a vector of small counts seven of eight bytes would be zeros.
    kind = narrowest(snapshot.counts)
    head = _SNAPSHOT.pack(
        _VERSION, snapshot.flags, kind, len(snapshot.counts), snapshot.n, snapshot.implausible, snapshot.duplicates
    )
    return head + snapshot.counts.astype(TYPES[kind]).tobytes()


def decode_snapshot(data: bytes, cells: int, further: int = 0) -> Snapshot:
    """Read a snapshot, or raise a ReportError. Its counts are a view of `data`.

    A group has `cells` integers, and there are at most so many further groups after group 0.
    """
    version, flags, kind, length, n, implausible, duplicates = head(_SNAPSHOT, data, "snapshot")
    if version != _VERSION or flags > _ALL | _CORRECTION_FLAG or kind >= len(TYPES) or data[3]:
        raise ReportError(f"a snapshot of version {version}, flags {flags}, type {kind} is invalid")

    groups, remainder = divmod(length - cells, cells + GROUP_COUNTS)
    if remainder or not 0 <= groups <= further or len(data) != _SNAPSHOT.size + length * TYPES[kind].itemsize:
        raise ReportError(
            f"a snapshot claims {length} integers in {len(data)} bytes, but the query needs {cells} for each group"
        )
    # Negative numbers would take reports of other partitions away from a window.
    if min(n, implausible, duplicates) < 0:
        raise ReportError(f"a snapshot counts {n} reports, {implausible} implausible, {duplicates} duplicates")

    snapshot = view_snapshot(data)
    # A second form of the same counts would give two workers different bytes for one snapshot.
    if not is_narrowest(snapshot.counts, kind):
        raise ReportError("the integers of a snapshot are not in the narrowest type")

    for place, total in enumerate((n, implausible, duplicates) if groups else ()):
        numbers = snapshot.counts[2 * cells + place :: cells + GROUP_COUNTS]
        if int(numbers.min()) < 0 or int(numbers.sum(dtype=np.int64)) > total:
            raise ReportError(f"the groups of a snapshot count more or less than its {total} reports")
    return snapshot


def view_snapshot(data: bytes) -> Snapshot:
    """Read a snapshot without checks, from bytes that this process has already checked or written."""
    _, flags, kind, cells, n, implausible, duplicates = _SNAPSHOT.unpack_from(data)
    counts = np.frombuffer(data, TYPES[kind], cells, _SNAPSHOT.size)
    return Snapshot(n, implausible, duplicates, flags & _ALL, counts, data)
