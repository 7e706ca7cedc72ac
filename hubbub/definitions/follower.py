"""The follower of the topic `queries`: it reads all definitions at the start, and new ones when they appear.

A version applies to no report that is logged less than MARGIN seconds after it. If a worker has read the topic to its
end, it may therefore count the reports that were logged until then and a little later. `cover` waits for that.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from hubbub import outside
from hubbub.definitions import catalog
from hubbub.definitions.catalog import DefinitionLog, Definitions, TopicRecord, Write
from hubbub.kafka.clients import consumer, producer, started
from hubbub.kafka.settings import QUERIES, Kafka
from hubbub.texts import few

log = logging.getLogger(__name__)

LARGEST = 64 << 20
"""Bytes of the largest definition."""
SLICE = 0.02
"""Seconds of taking records until the event loop turns."""
PAUSE = 0.5
"""Seconds between two reads of the topic."""
AHEAD = 1.0
"""Seconds after a read whose reports may be counted. Less than MARGIN, because the brokers' clocks differ a little."""
PATIENCE = 10.0
"""Seconds for one read of the topic."""
WAIT_MS = 100
"""Milliseconds that one poll waits for records, if the end of the topic is exact."""
INEXACT_WAIT_MS = 20
"""Milliseconds that one poll waits if the end is inexact. Each read ends with such a wait, so it is short."""
_BROKER_ERRORS = KafkaError, TimeoutError, OSError


class Follower:
    """The current definitions, and the functions to call when they change."""

    def __init__(self, kafka: Kafka) -> None:
        self._log = DefinitionLog()
        """The definitions of all records that are taken. They apply once a read is complete."""
        self.definitions = self._log.definitions
        self.on_change: list[Callable[[Definitions], None]] = []

        self._kafka = kafka
        self._dialect = kafka.dialect
        self._tp = TopicPartition(kafka.topic(QUERIES), 0)
        self._pending: deque[TopicRecord] = deque()
        """Records from the topic that are not taken yet. They survive a broker that stops answering."""
        self._unreadable: set[catalog.UnreadableRecord] = set()

        self._turn = asyncio.Lock()
        self._waiting = asyncio.Lock()
        """Held by the caller that reads for all callers that wait."""

        self._newest_report = 0
        """The newest timestamp of all reports that were read, in milliseconds."""
        self._covered = 0
        """Reports that were logged up to this time may be counted, in milliseconds."""
        self._read_at = float("-inf")
        """The monotonic time at which the last complete read began, in seconds."""
        self._silent = False

    async def __aenter__(self) -> Self:
        haste = {"fetch_max_wait_ms": WAIT_MS} if self._dialect.ends_are_exact else {}
        self._consumer = consumer(self._kafka, max_partition_fetch_bytes=LARGEST, **haste)
        self._running = started(self._consumer, self._kafka)
        await self._running.__aenter__()
        self._consumer.assign([self._tp])
        self._pause()
        try:
            await self._consumer.seek_to_beginning(self._tp)
            await self.read()
        except BaseException:
            # Nobody else stops the consumer of a block that is not entered.
            await self._running.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.__aexit__(None, None, None)

    async def read(self) -> None:
        """Read the topic up to its present end."""
        async with self._turn:
            # Both are noted before the end is asked for. What comes meanwhile may not be in this read.
            newest_report = self._newest_report
            start = outside.monotonic()
            async with asyncio.timeout(PATIENCE):
                end = (await self._consumer.end_offsets([self._tp]))[self._tp]
                while True:
                    # With inexact ends the topic is read only when a poll brings no more records.
                    has_more = not self._dialect.ends_are_exact or await self._consumer.position(self._tp) < end
                    batch = await self._poll() if has_more else []
                    self._pending += batch
                    if any(map(self._needs_reread, batch)):
                        await self._restart()
                    elif not batch and await self._consumer.position(self._tp) >= end:
                        break

            await self._take_pending()
            self._read_at = start
            self._covered = max(self._covered, newest_report + int(1000 * AHEAD))

    def forget(self, retired: Mapping[bytes, str]) -> None:
        """Forget these retired definitions, except for their names."""
        is_reading = self._turn.locked() or self.definitions is not self._log.definitions
        if is_reading or not retired:  # a read may bring new versions of them; forgetting can wait
            return
        self._log.forget(retired)
        self._apply()

    def _needs_reread(self, record: TopicRecord) -> bool:
        """Whether a record changes a forgotten definition, or removes a record that may no longer be in memory."""
        forgotten = self._log.forgotten
        return bool(forgotten) and (record.value is None or _digest_of(record.key) in forgotten)

    async def reread(self) -> None:
        """Read all records again, those of forgotten definitions too, because new partitions may need them."""
        async with self._turn:
            if self._log.forgotten:
                await self._restart()
        await self.within(0.0)

    async def _restart(self) -> None:
        """Go back to the beginning of the topic."""
        self._log = DefinitionLog()
        self._pending.clear()
        await self._consumer.seek_to_beginning(self._tp)

    async def _poll(self) -> list[TopicRecord]:
        self._consumer.resume(self._tp)
        try:
            timeout = WAIT_MS if self._dialect.ends_are_exact else INEXACT_WAIT_MS
            batch = (await self._consumer.getmany(self._tp, timeout_ms=timeout)).get(self._tp, [])
        finally:
            self._pause()

        records = [TopicRecord(record.key or b"", record.value, record.timestamp) for record in batch]
        for record in records:
            if record.key.startswith(catalog.CORRECTION):
                message = "record %r of the topic queries is skipped: corrections of the log's time no longer exist"
                log.warning(message, record.key)
        return records

    def _pause(self) -> None:
        """Fetch nothing between two reads.

        A broker answers the requests of one connection in order. A fetch that waits for records would delay the next
        request for the end of the topic. The embedded broker's end is inexact, so there the fetches go on.
        """
        if self._dialect.ends_are_exact:
            self._consumer.pause(self._tp)

    async def _take_pending(self) -> None:
        """Take the pending records in slices between which the event loop turns, and apply the definitions."""
        end = outside.monotonic() + SLICE
        while self._pending:
            self._log.take(self._pending.popleft())
            if outside.monotonic() > end:
                await asyncio.sleep(0)
                end = outside.monotonic() + SLICE
        if self.definitions is not self._log.definitions:
            self._apply()

    def _apply(self) -> None:
        """Apply the definitions that were read, and tell the listeners."""
        self.definitions = self._log.definitions
        # The same record is unreadable at each read, so only new ones are logged.
        unreadable = [record for record in self.definitions.unreadable if record not in self._unreadable]
        if unreadable:
            faults = few([f"{record.key!r} ({record.fault})" for record in unreadable])
            log.error("unreadable records of the topic queries are skipped (%d): %s", len(unreadable), faults)
        self._unreadable = set(self.definitions.unreadable)

        for listener in self.on_change:
            listener(self.definitions)

    async def cover(self, time_ms: int, newest_ms: int = 0) -> None:
        """Wait until reports that were logged until `time_ms` may be counted, because their definitions are read.

        `newest_ms` is the newest time of all reports that were read. One read then covers all reports until there.
        """
        self._newest_report = max(self._newest_report, time_ms, newest_ms)
        while time_ms > self._covered:
            await self._read_again(lambda: time_ms <= self._covered)

    @property
    def age(self) -> float:
        """Seconds since the last complete read of the topic began."""
        return outside.monotonic() - self._read_at

    async def within(self, seconds: float) -> None:
        """Wait until a complete read has begun no earlier than this many seconds ago."""
        threshold = outside.monotonic() - seconds
        while self._read_at < threshold:
            await self._read_again(lambda: self._read_at >= threshold)

    async def _read_again(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Read the topic, unless another caller's read is enough by the time of our turn."""
        try:
            async with self._waiting:
                if is_enough():
                    return
                await self.read()
        except _BROKER_ERRORS as error:
            # A broker can be absent for hours. One line tells it, and one its return.
            if not self._silent:
                log.warning("the topic queries cannot be read, so nothing is counted until it can: %r", error)
            self._silent = True
            await asyncio.sleep(PAUSE)
        else:
            if self._silent:
                log.info("the topic queries can be read again")
            self._silent = False

    async def run(self) -> None:
        """Read the topic at intervals, until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            await self._read_again()

    async def append(self, writes: Sequence[Write]) -> None:
        """Append records as one batch, so that the topic gets all of them or none, and read them."""
        # The head of a record is much smaller than 1,000 bytes, so all records fit into one batch.
        size = sum(len(key) + len(value) + 1000 for key, value in writes)
        client = producer(
            self._kafka,
            acks="all",
            enable_idempotence=self._dialect.is_idempotent,
            max_request_size=LARGEST,
            max_batch_size=size,
        )
        async with started(client, self._kafka):
            batch = client.create_batch()
            # The embedded broker keeps this timestamp. Kafka replaces it by its own.
            timestamp = outside.wall_ms()
            for key, value in writes:
                if batch.append(key=key, value=value, timestamp=timestamp) is None:
                    raise ValueError(f"{size} bytes of definitions do not fit into one batch")
            await (await client.send_batch(batch, self._tp.topic, partition=0))

        await self.read()


def _digest_of(key: bytes) -> bytes | None:
    """Return the digest in a record's key, or None if it has none."""
    try:
        return bytes.fromhex(key.partition(b"|")[0].decode("ascii"))
    except ValueError:
        return None
