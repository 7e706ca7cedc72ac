"""The greatest clock of each partition and the greatest offset of each home, over all clock records.

A clock record stays true for ever, so the order and the writers of the records do not matter.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from aggregator.tallies.clock_record import ClockRecord, Ints, Numbered, decode, is_clock_key
from aggregator.tallies.progress import TopicIds
from oracles.errors import ReportError
from oracles.frame import slots

NO_CLOCK = -(1 << 63)
"""In place of the clock of a partition that no record names."""


class ClockView(NamedTuple):
    """The clocks and offsets at one moment. Readers of a home apply the clocks once they have passed its offset."""

    clocks: Ints
    """The greatest clock of each partition in ms, or NO_CLOCK."""
    offsets: Ints
    """One more than the greatest acknowledged offset of each home, or 0."""
    least: int
    """The least clock of all partitions. It alone decides how far all partitions have closed their panes."""

    def least_on_slots(self, digest: bytes, spread: int | None) -> int | None:
        """Return the least clock of the slots of a query with this spread, or None if one of them has no clock."""
        least_clock = self.least
        if spread is not None and spread < len(self.clocks):
            least_clock = int(self.clocks[list(slots(digest, spread, len(self.clocks)))].min())
        return None if least_clock == NO_CLOCK else least_clock


class ClockBook:
    """All that one worker knows of clocks: from the records that it has read, and from its own."""

    def __init__(self, partitions: int) -> None:
        self.topic_ids = TopicIds()
        """The ids of the present topics. A record of other topics is ignored."""
        self.unreadable = 0
        """Number of unreadable records since the last `take_unreadable_count`."""
        self._partitions = partitions
        self._clocks = np.full(partitions, NO_CLOCK, np.int64)
        self._offsets = np.zeros(partitions, np.int64)
        self._records: dict[bytes, ClockRecord] = {}
        """The records that nobody has deleted, as far as this worker knows."""

    @property
    def view(self) -> ClockView:
        """The present clocks and offsets. Later records do not change it."""
        return ClockView(self._clocks.copy(), self._offsets.copy(), int(self._clocks.min()))

    def put(self, name: bytes | None, value: bytes | None) -> None:
        """Take in one record of the topic, by any writer."""
        if name is None or not is_clock_key(name):
            self.unreadable += 1
        elif value is None:
            # A deletion takes nothing back: it came after a record that says as much.
            self._records.pop(name, None)
        else:
            try:
                self.note(name, decode(value))
            except ReportError:
                self.unreadable += 1

    def take_unreadable_count(self) -> int:
        """Return the number of unreadable records since the last call."""
        unreadable = self.unreadable
        self.unreadable = 0
        return unreadable

    def note(self, name: bytes, record: ClockRecord) -> None:
        """Take in a record that this worker has read, or that the broker has acknowledged."""
        if record.partitions != self._partitions or not self._has_same_topics(record.topic_ids):
            return
        self._records[name] = record
        pairs = (self._clocks, record.clocks), (self._offsets, record.offsets)
        for greatest_values, (numbers, values) in pairs:
            # A late record of a frozen worker must take nothing back.
            greatest_values[numbers] = np.maximum(greatest_values[numbers], values)

    def note_offset(self, home: int, offset: int) -> None:
        """Note the offset of an acknowledged snapshot of this worker."""
        self._offsets[home] = max(self._offsets[home], offset + 1)

    def record(self, clocks: Mapping[int, int]) -> ClockRecord:
        """Return the record with the clocks of these partitions, and with every offset that this worker knows.

        It must have all offsets of the records that it will replace.
        """
        homes = np.flatnonzero(self._offsets)
        return ClockRecord(
            partitions=self._partitions,
            topic_ids=self.topic_ids,
            clocks=Numbered.of(clocks),
            offsets=Numbered(homes, self._offsets[homes]),
        )

    def empty_record(self) -> ClockRecord:
        """Return a record that says nothing. Its place in the log shows that all earlier records are read."""
        return ClockRecord(self._partitions, self.topic_ids)

    def take_obsolete(self, record: ClockRecord, own_names: Collection[bytes]) -> list[bytes]:
        """Remove and return the keys of other writers' records that an acknowledged record of this worker replaces.

        Of each record only the owner of its first partition deletes it, or all workers would.
        """
        owned = frozenset(record.clocks.numbers.tolist())
        names = [
            name
            for name, other in self._records.items()
            if name not in own_names and _first_partition(other) in owned and self._is_replaced(other, record)
        ]
        for name in names:
            del self._records[name]
        return names

    def forget(self, names: Collection[bytes]) -> None:
        """Forget deleted records."""
        for name in names:
            self._records.pop(name, None)

    def _is_replaced(self, other: ClockRecord, record: ClockRecord) -> bool:
        offsets = np.zeros(self._partitions, np.int64)
        offsets[record.offsets.numbers] = record.offsets.values
        has_offsets = bool((offsets[other.offsets.numbers] >= other.offsets.values).all())
        # At an equal clock two writers would delete each other's records.
        return has_offsets and bool((self._clocks[other.clocks.numbers] > other.clocks.values).all())

    def _has_same_topics(self, ids: TopicIds) -> bool:
        pairs = (ids.reports, self.topic_ids.reports), (ids.snapshots, self.topic_ids.snapshots)
        # A broker without ids leaves one of them empty.
        return all(not record_id or not present_id or record_id == present_id for record_id, present_id in pairs)


def _first_partition(record: ClockRecord) -> int:
    """Return the first partition of a record. Empty records and that of a rise count as those of partition 0."""
    return int(record.clocks.numbers[0]) if len(record.clocks.numbers) else 0
