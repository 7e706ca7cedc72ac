"""Follows the topics from their beginning, outside of any consumer group: a board takes nothing from anybody."""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from aggregator.board import events
from aggregator.board.events import Events
from aggregator.board.metrics import BoardMetrics
from aggregator.board.store import Store
from aggregator.topics.settings import MIB
from hubbub.kafka import Kafka, consumer, partitions, started
from hubbub.names import ALERTS, ESTIMATES, QUERIES, TRUTH

log = logging.getLogger(__name__)

TOPICS = (QUERIES, ESTIMATES, ALERTS, TRUTH)
POLL_MS = 200
BATCH = 16
"""Records between two looks at who else wants to be served: those of all values are hundreds of kilobytes."""
FETCH = 8 * MIB
"""Bytes asked for of a partition, and of a broker for all of them, which gives one batch at least."""
PROBE, PATIENCE = 5.0, 4.0
"""Seconds between two questions whether Kafka is still there, and for the answer to one."""


class BoardFollower:
    """Moves what the topics say into the store, and tells listeners of what is new."""

    def __init__(self, kafka: Kafka, store: Store, told: Events, metrics: BoardMetrics) -> None:
        self._kafka, self._store, self._events, self._metrics = kafka, store, told, metrics
        self._behind: dict[TopicPartition, int] = {}
        """Where each partition ended when we began, until that is read."""
        self._started = False
        self.problem: str | None = None
        """Why nothing new can be known."""

    @property
    def missing(self) -> str | None:
        """The topics that are not read yet, in words."""
        if self._started and not self._behind:
            return None
        return f"reading the topics: {len(self._behind)} partitions are left" if self._started else "connecting"

    async def run(self) -> None:
        """Until it is cancelled; KafkaUnreachable or TopicMissing where it cannot begin."""
        counts = await partitions(self._kafka, *TOPICS)
        tps = [TopicPartition(self._kafka.topic(name), number) for name in TOPICS for number in range(counts[name])]
        settings = {"max_partition_fetch_bytes": FETCH, "fetch_max_bytes": FETCH, "fetch_max_wait_ms": POLL_MS}
        async with started(consumer(self._kafka, **settings), self._kafka) as reader:
            reader.assign(tps)
            await reader.seek_to_beginning(*tps)
            self._behind = await reader.end_offsets(tps)
            self._started = True
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(reader))
                tasks.create_task(self._probe(reader, tps))
                tasks.create_task(self._beat())

    async def _read(self, consumer: Any) -> None:
        definitions = [tp for tp in self._behind if tp.topic == self._kafka.topic(QUERIES)]
        while True:
            # Definitions first: what is told afterwards may speak of them.
            first = [tp for tp in definitions if tp in self._behind]
            found = await consumer.getmany(*first, timeout_ms=POLL_MS, max_records=BATCH)
            for tp in sorted(found, key=lambda tp: TOPICS.index(tp.topic.removeprefix(self._kafka.prefix))):
                self._take(tp.topic.removeprefix(self._kafka.prefix), found[tp])
            await self._catch_up(consumer)
            self._metrics.keeps(self._store.windows, self._store.size)
            await asyncio.sleep(0)

    async def _catch_up(self, consumer: Any) -> None:
        """Cross off what is read: to the end that a fetch tells, for that of the embedded broker is too low before."""
        for tp, end in list(self._behind.items()):
            highwater = consumer.highwater(tp)
            if highwater is not None and await consumer.position(tp) >= max(highwater, end):
                del self._behind[tp]

    def _take(self, topic: str, records: Iterable[Any]) -> None:
        for record in records:
            self._metrics.read.labels(topic).inc()
            try:
                self._take_one(topic, record.key, record.value, record.timestamp)
            except Exception as error:  # noqa: BLE001 - whatever a stranger wrote ends no board
                self._metrics.unreadable.labels(topic).inc()
                where = f"{record.topic}, partition {record.partition}, offset {record.offset}"
                log.warning("%s cannot be read: %r", where, error)

    def _take_one(self, topic: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        if topic == QUERIES:
            self._store.define(key, value, timestamp)
        elif value is None:
            return
        elif topic == TRUTH:
            self._store.take_truth(value)
        elif topic == ESTIMATES:
            if record := self._store.take_record(value):
                self._tell("record", events.notice(record))
        elif alert := self._store.take_alert(value):
            self._tell("alert", alert)

    def _tell(self, event: str, said: Any) -> None:
        if self.missing is None:
            self._events.tell(event, said)

    async def _probe(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """A consumer that reads nothing does not say whether there is nothing, or nobody."""
        while True:
            try:
                await asyncio.wait_for(consumer.end_offsets(partitions[:1]), PATIENCE)
                problem = None
            except (TimeoutError, KafkaError, OSError):
                problem = f"Kafka at {self._kafka.servers} does not answer"
            if problem != self.problem:
                log.warning("%s", problem or "Kafka answers again")
                self.problem = problem
                self._events.tell("beat", self.state())
            await asyncio.sleep(PROBE)

    async def _beat(self) -> None:
        while True:
            self._events.tell("beat", self.state())
            await asyncio.sleep(events.BEAT)

    def state(self) -> dict[str, Any]:
        """The message of a beat."""
        return {"ready": self.missing is None, "problem": self.problem, "now": int(time.time())}
