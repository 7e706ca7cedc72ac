"""The follower of the topic of definitions: it has read all of it before anything is counted, and reads on.

A version speaks of nothing that is logged less than MARGIN seconds after it. So whoever had read the
topic to its end at a moment may count what is logged until then, and a little longer: by `cover`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from hubbub import definitions
from hubbub.definitions import Definitions, TopicRecord, Write
from hubbub.kafka import Kafka, consumer, started
from hubbub.names import QUERIES

log = logging.getLogger(__name__)

LARGEST = 64 << 20
"""Bytes of the largest definition."""
PAUSE = 0.5
"""Seconds between two looks at the topic."""
AHEAD = 1.0
"""Seconds that may be counted beyond the moment of a look: below MARGIN, since brokers' clocks differ a little."""
PATIENCE = 10.0
WAIT_MS, EMBEDDED_WAIT_MS = 100, 20
"""For what the topic's end says is there, and where the end says nothing."""
_ANSWER = KafkaError, TimeoutError, OSError


class Follower:
    """The definitions as the topic says them now, and whom to tell when that changes."""

    def __init__(self, kafka: Kafka) -> None:
        self.known = Definitions()
        self.on_change: list[Callable[[Definitions], None]] = []
        self._kafka = kafka
        self._tp = TopicPartition(kafka.topic(QUERIES), 0)
        self._records: list[TopicRecord] = []
        self._found: list[TopicRecord] = []
        """Read, and not taken in yet: a broker may fall silent over the rest."""
        self._before = Definitions()
        """All that records said that are not at hand any more."""
        self._unread: set[definitions.Unreadable] = set()
        self._turn = asyncio.Lock()
        self._waiting = asyncio.Lock()
        """Held by the one who asks for all that wait."""
        self._seen = 0
        """The newest timestamp of the reports that was read anywhere, in ms."""
        self._through = 0
        """Reports logged up to here may be counted, in ms."""
        self._asked = float("-inf")
        self._silent = False

    async def __aenter__(self) -> Self:
        haste = {} if self._kafka.embedded else {"fetch_max_wait_ms": WAIT_MS}
        self._consumer = consumer(self._kafka, max_partition_fetch_bytes=LARGEST, **haste)
        self._running = started(self._consumer, self._kafka)
        await self._running.__aenter__()
        self._consumer.assign([self._tp])
        self._rest()
        await self._consumer.seek_to_beginning(self._tp)
        await self.ask()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.__aexit__(None, None, None)

    async def ask(self) -> None:
        """Read up to where the topic ends now."""
        async with self._turn:
            seen, asked = self._seen, time.monotonic()
            async with asyncio.timeout(PATIENCE):
                end = (await self._consumer.end_offsets([self._tp]))[self._tp]
                while True:
                    # The embedded broker states an end that is too low: there, all is read when nothing more comes.
                    waiting = self._kafka.embedded or await self._consumer.position(self._tp) < end
                    batch = await self._read() if waiting else []
                    self._found += batch
                    if any(map(self._speaks_of_the_past, batch)):
                        await self._recall()
                    elif not batch and await self._consumer.position(self._tp) >= end:
                        break
            self._asked = asked
            self._through = max(self._through, seen + int(1000 * AHEAD))
            if self._found:
                found, self._found = self._found, []
                self._take(found)

    def let_go(self, over: Mapping[bytes, str]) -> None:
        """Keep no more of these retired definitions than their names."""
        if not over or self._turn.locked():  # while the topic is read, more may come of these; there is time
            return
        known, over = self.known, {**self._before.over, **over}
        # What follows from all records together stays: one that goes may be what retired one that came back.
        kept = {digest: versions for digest, versions in known.versions.items() if digest not in over}
        self._before = replace(known, versions=kept, unread=(), over=over)
        unread = {one.key for one in known.unread}
        self._records = [record for record in self._records if record.key in unread]
        self._take([])

    def _speaks_of_the_past(self, record: TopicRecord) -> bool:
        """Whether it comes back to what was let go of, or takes back a record that may be no more at hand."""
        over = self._before.over
        return bool(over) and (record.value is None or _digest_of(record.key) in over)

    async def recall(self) -> None:
        """Read all anew, those that were let go of too: other partitions may need them still."""
        async with self._turn:
            if self._before.over:
                await self._recall()
        await self.within(0.0)

    async def _recall(self) -> None:
        self._before, self._records, self._found = Definitions(), [], []
        await self._consumer.seek_to_beginning(self._tp)

    async def _read(self) -> list[TopicRecord]:
        self._consumer.resume(self._tp)
        try:
            timeout = EMBEDDED_WAIT_MS if self._kafka.embedded else WAIT_MS
            batch = (await self._consumer.getmany(self._tp, timeout_ms=timeout)).get(self._tp, [])
        finally:
            self._rest()
        return [TopicRecord(record.key or b"", record.value, record.timestamp) for record in batch]

    def _rest(self) -> None:
        """Fetch nothing between looks.

        A broker answers what comes on one connection in turn: the next look at the end of the topic would stand behind
        a fetch that waits for more. The embedded broker's end says too little, so there it is always fetched.
        """
        if not self._kafka.embedded:
            self._consumer.pause(self._tp)

    def _take(self, found: Sequence[TopicRecord]) -> None:
        self._records += found
        self.known = definitions.read(self._records, self._before)
        for unread in set(self.known.unread) - self._unread:
            log.error("a definition cannot be read and is passed over: %s: %s", *unread)
        self._unread = set(self.known.unread)
        for tell in self.on_change:
            tell(self.known)

    async def cover(self, newest: int, seen: int = 0) -> None:
        """Wait until reports that were logged at this time (ms), and have been read, may be counted.

        `seen` is the newest time that was read at all: one look then does for all until there.
        """
        self._seen = max(self._seen, newest, seen)
        while newest > self._through:
            await self._asked_anew(lambda: newest <= self._through)

    @property
    def age(self) -> float:
        """Seconds since the end of the topic was last asked for and read up to."""
        return time.monotonic() - self._asked

    async def within(self, seconds: float) -> None:
        """Wait until all is read that stood in the topic this many seconds ago."""
        since = time.monotonic() - seconds
        while self._asked < since:
            await self._asked_anew(lambda: self._asked >= since)

    async def _asked_anew(self, enough: Callable[[], bool] = lambda: False) -> None:
        """Ask, unless it is enough what another has asked while one waited for him."""
        try:
            async with self._waiting:
                if enough():
                    return
                await self.ask()
        except _ANSWER as error:
            if not self._silent:
                log.warning("the definitions cannot be read, nothing is counted meanwhile: %r", error)
            self._silent = True
            await asyncio.sleep(PAUSE)
        else:
            if self._silent:
                log.info("the definitions are read again")
            self._silent = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(PAUSE)
            await self._asked_anew()

    async def append(self, writes: Sequence[Write]) -> None:
        """Append them as one batch, which stands in the topic as a whole or not at all; and read them."""
        size = sum(len(key) + len(value) + 1000 for key, value in writes)
        producer = AIOKafkaProducer(
            **self._kafka.client(),
            acks="all",
            enable_idempotence=not self._kafka.embedded,
            max_request_size=LARGEST,
            max_batch_size=size,
        )
        async with started(producer, self._kafka):
            batch, now = producer.create_batch(), time.time_ns() // 1_000_000
            for key, value in writes:
                if batch.append(key=key, value=value, timestamp=now) is None:
                    raise ValueError(f"{size} bytes of definitions do not fit into one batch")
            await (await producer.send_batch(batch, self._tp.topic, partition=0))
        await self.ask()


def _digest_of(key: bytes) -> bytes | None:
    """The digest in a record's key; None where there is none."""
    try:
        return bytes.fromhex(key.partition(b"|")[0].decode("ascii"))
    except ValueError:
        return None
