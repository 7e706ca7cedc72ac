"""The clock records of one worker: it reads all earlier ones before its first one, and deletes those that it replaces.

Each of its records has all offsets that it knows, so it may delete the records of earlier writers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from aggregator.counting.recovery import PATIENCE, retry
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.clock_record import ClockRecord, clock_key, encode
from aggregator.tallies.progress import TopicIds
from hubbub import outside
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.outbox import Outbox, log_failures
from hubbub.kafka.settings import CLOCKS, Kafka


@dataclass
class ClockLog:
    """The writer of clock records. It has a new name for each assignment."""

    kafka: Kafka
    outbox: Outbox
    book: ClockBook
    is_new: bool = True
    """Whether the writer of the present assignment has not said any clock."""
    said_at: float = 0.0
    """The monotonic time of the last record with clocks."""
    _writer: str = ""
    _number: int = 0
    """The number of records of this writer."""
    _own_names: list[bytes] = field(default_factory=list)
    """The records of this writer that its next record with clocks replaces."""
    _has_read: bool = False
    """Whether all records before those of this writer are read."""

    def assign(self, topic_ids: TopicIds) -> None:
        """Begin with a new writer, after the changelog of a new assignment is read."""
        self.book.topic_ids = topic_ids
        self.is_new = True
        self._writer = outside.random_hex(8)
        self._number = 0
        self._own_names = []
        self._has_read = False

    async def catch_up(self, is_current: Callable[[], bool]) -> None:
        """Read all records that the log had when this was called first in an assignment."""
        if self._has_read:
            return
        # The end that a new leader shows may be too low. An own record is behind all that is acknowledged.
        offset = await self.mark_end()
        await retry(lambda: self._read_past(offset, is_current), is_current)
        if is_current():
            self._has_read = True

    async def mark_end(self) -> int:
        """Write an empty record, and return its offset. Who has passed it has read all that was acknowledged before."""
        offset = -1
        # After a retry the broker may acknowledge a record without its offset.
        while offset < 0:
            offset = await self._append(self.book.empty_record())
        return offset

    async def say(self, clocks: Mapping[int, int]) -> None:
        """Write a record with these clocks, by partition, and delete the records that it replaces."""
        if not clocks:
            return
        writer = self._writer
        former_names = self._own_names
        self._own_names = []
        record = self.book.record(clocks)
        await self._append(record)
        if writer != self._writer:
            return

        self.is_new = False
        self.said_at = outside.monotonic()
        names = [*former_names, *self.book.take_obsolete(record, (*former_names, *self._own_names))]
        self.book.forget(former_names)
        log_failures(await self.outbox.write(CLOCKS, 0, [(name, None) for name in names]))

    async def _append(self, record: ClockRecord) -> int:
        """Write a record, and return its offset, or -1 if the broker does not tell it."""
        name = clock_key(self._writer, self._number)
        self._number += 1
        self._own_names.append(name)
        ack = await self.outbox.send(CLOCKS, name, encode(record), partition=0)
        offset = int((await ack).offset)
        self.book.note(name, record)
        return offset

    async def _read_past(self, offset: int, is_current: Callable[[], bool]) -> bool:
        async with open_log(self.kafka, {CLOCKS: [0]}, PATIENCE) as reader:
            async for batches in reader.batches(poll_ms=200):
                for record in chain(*batches.values()):
                    self.book.put(record.key, record.value)
                if not is_current() or await reader.consumer.position(reader.partitions[0]) > offset:
                    break
        return True
