"""Reads the published topics from their beginning, without a consumer group."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from aggregator.board.server import events
from aggregator.board.server.events import Events
from aggregator.board.server.metrics import BoardMetrics
from aggregator.board.store.states import States
from aggregator.board.store.store import Store
from aggregator.records.alert import members
from aggregator.records.maps_record import MapsKey, is_maps
from aggregator.topics.layout import MIB
from hubbub import outside
from hubbub.definitions.formats import KEY
from hubbub.kafka.clients import partitions
from hubbub.kafka.log_reader import may_read, open_log
from hubbub.kafka.settings import ALERTS, ESTIMATES, MAPS, QUERIES, STATUS, TRUTH, Kafka

log = logging.getLogger(__name__)

REQUIREMENTS = (QUERIES, ESTIMATES, ALERTS, TRUTH)
TOPICS = (*REQUIREMENTS, STATUS, MAPS)
POLL_MS = 200
BATCH = 256
"""Most records of one poll."""
SLICE = 0.02
"""Seconds of taking records without a turn of the event loop."""
FETCH = 8 * MIB
"""Bytes of a fetch, for a partition and for a broker. The broker returns at least one batch."""
PROBE = 5.0
"""Seconds between two checks of Kafka."""
PATIENCE = 4.0
"""Seconds to wait for the answer to a check."""
MARGIN = 3_600
"""Seconds by which a window may be published later than its neighbours, at a start by time."""

NO_MAPS = (
    "this board does not see the topic {topic}: it has no right to read it, or the topic is missing; grant the right, "
    "or run `hubbub topics`, and restart the board"
)

CLOCK_LEAD = 10
"""Seconds by which the clock of an embedded broker's reports may be ahead of this machine's without a notice."""


class BoardFollower:
    """A reader that puts the records of the topics into the store and sends events to the listeners."""

    def __init__(self, kafka: Kafka, store: Store, listeners: Events, metrics: BoardMetrics) -> None:
        self._kafka = kafka
        self._store = store
        self._events = listeners
        self._metrics = metrics
        self._behind: dict[TopicPartition, int] = {}
        """The end offset at start, for each partition that is not read up to it yet."""
        self._oldest_end = 0
        """The end of the oldest window that this board has asked for."""
        self._started = False
        self._states = States()
        self.problem: str | None = None
        """The reason why the board gets no new records, or None if it does."""

    @property
    def missing(self) -> str | None:
        """Return why the board is not ready yet, or None if it has read the topics."""
        if self._started and not self._behind:
            return None
        return f"reading the topics: {len(self._behind)} partitions left" if self._started else "connecting"

    async def run(self) -> None:
        """Read until cancelled. Raise KafkaUnreachable or TopicMissing if the start fails."""
        counts = await partitions(self._kafka, *REQUIREMENTS, optional=[STATUS, MAPS])
        if STATUS not in counts:
            missing = "topic %s is missing: quiet queries count as late; run `hubbub topics` and restart the board"
            log.warning(missing, self._kafka.topic(STATUS))
        if MAPS not in counts or not await may_read(self._kafka, MAPS):
            counts.pop(MAPS, None)
            self._store.maps_gap = NO_MAPS.format(topic=self._kafka.topic(MAPS))
            log.warning("no answers for strings that are no names: %s", self._store.maps_gap)

        # Behind the fence `queries` has a second partition, which stays empty.
        topics = {name: range(1 if name == QUERIES else count) for name, count in counts.items()}
        settings = {"max_partition_fetch_bytes": FETCH, "fetch_max_bytes": FETCH, "fetch_max_wait_ms": POLL_MS}
        async with open_log(self._kafka, topics, **settings) as reader:
            self._behind = dict(reader.ends)
            self._started = True
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(reader.consumer))
                tasks.create_task(self._probe(reader.consumer, reader.partitions))
                tasks.create_task(self._beat())

    async def _follow(self, consumer: Any) -> None:
        """Read the definitions, because all other records refer to them. Then read the rest from the retention on."""
        definitions = self._partitions_of(QUERIES)
        aged = self._partitions_of(ESTIMATES, ALERTS, TRUTH, MAPS)
        maps = self._partitions_of(MAPS)
        finals = self._partitions_of(ESTIMATES)
        consumer.pause(*aged)
        while any(tp in self._behind for tp in definitions):
            await self._read(consumer, *definitions)

        await self._skip_old(consumer, aged)
        consumer.resume(*(tp for tp in aged if tp not in maps))
        # Only few maps can wait for their finals, and at the start all of them would.
        while any(tp in self._behind for tp in finals):
            await self._read(consumer)

        consumer.resume(*maps)
        while True:
            await self._read(consumer)

    def _partitions_of(self, *topics: str) -> list[TopicPartition]:
        names = {self._kafka.topic(topic) for topic in topics}
        return [tp for tp in self._behind if tp.topic in names]

    async def _skip_old(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Go to the first record that may belong to the retention.

        A final has the time of its window's end. A final that was published late lies behind newer ones, and the
        broker names the first record that is not older than a time, so no such final is passed over.
        """
        self._oldest_end = max(0, int(self._store.oldest_end) - MARGIN)
        positions = await consumer.offsets_for_times(dict.fromkeys(partitions, 1000 * self._oldest_end))
        for tp in partitions:
            if positions[tp] is not None:
                consumer.seek(tp, positions[tp].offset)
            else:
                # All records are older.
                await consumer.seek_to_end(tp)

    async def _read(self, consumer: Any, *partitions: TopicPartition) -> None:
        """Take the records of one poll, of all partitions if none is named."""
        batches = await consumer.getmany(*partitions, timeout_ms=POLL_MS, max_records=BATCH)
        for tp in sorted(batches, key=lambda tp: TOPICS.index(tp.topic.removeprefix(self._kafka.prefix))):
            await self._take(tp.topic.removeprefix(self._kafka.prefix), batches[tp])
        await self._catch_up(consumer)

    async def _catch_up(self, consumer: Any) -> None:
        """Remove the partitions that are read to their end.

        The end comes from a fetch too, because the embedded broker reports a lower one at the start.
        """
        for tp, end in list(self._behind.items()):
            highwater = consumer.highwater(tp)
            if highwater is not None and await consumer.position(tp) >= max(highwater, end):
                del self._behind[tp]

    async def _take(self, topic: str, records: Iterable[Any]) -> None:
        """Take records in slices."""
        end = 0.0
        for record in records:
            if outside.monotonic() > end:
                await asyncio.sleep(0)
                end = outside.monotonic() + SLICE

            self._metrics.read.labels(topic).inc()
            try:
                self._take_one(topic, record.key, record.value, record.timestamp)
            except Exception as error:  # noqa: BLE001 - no record may end the board
                self._metrics.unreadable.labels(topic).inc()
                place = f"{record.topic}, partition {record.partition}, offset {record.offset}"
                log.warning("%s: unreadable record skipped: %r", place, error)

    def _take_one(self, topic: str, key: bytes, value: bytes | None, timestamp: int) -> None:
        if topic == QUERIES:
            self._store.define(key, value, timestamp)
            if key == KEY:
                self._note_formats()
        elif value is None:
            return
        elif topic == TRUTH:
            self._store.take_truth(value)
        elif topic == STATUS:
            self._store.take_status(value)
        elif topic == MAPS or (topic == ESTIMATES and is_maps(key)):
            # The final of older maps may lie before the first record that the board has read.
            if MapsKey.of(key).end > self._oldest_end:
                self._store.take_maps(key, value)
        elif topic == ESTIMATES:
            record = self._store.take_record(value)
            if record is not None:
                state = self._store.state(self._store.series(record.query))
                self._notify("record", {**events.notice(record), "state": state}, record.query)
        else:
            alert = self._store.take_alert(value)
            if alert is not None:
                self._notify("alert", members(alert), alert.query)

    def _note_formats(self) -> None:
        """Say it if the topics have forms that this release cannot read. The board shows all others."""
        excess = self._store.formats.excess
        if excess:
            log.error("the board shows what it can read: %s", excess)
        self._events.send("beat", self.state())

    def _notify(self, event: str, data: Any, query: str) -> None:
        if self.missing is None:
            self._events.send(event, data, query)

    async def _probe(self, consumer: Any, partitions: Sequence[TopicPartition]) -> None:
        """Check regularly that Kafka answers, because a fetch without records does not show it."""
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    await consumer.end_offsets(partitions[:1])
                problem = None
            except (TimeoutError, KafkaError, OSError):
                problem = f"Kafka at {self._kafka.servers} does not answer"

            # Only a change is worth a message. An outage of hours would fill the log.
            if problem != self.problem:
                log.warning("%s", problem or "Kafka answers again")
                self.problem = problem
                self._events.send("beat", self.state())
            await asyncio.sleep(PROBE)

    async def _beat(self) -> None:
        while True:
            # While the board still reads old records, states change back and forth.
            if self.missing is None:
                for change in self._states.changes(self._store):
                    self._events.send("state", change, change.query)
            self._events.send("beat", self.state())
            await asyncio.sleep(events.BEAT)

    def state(self) -> dict[str, Any]:
        """Return the data of a `beat` event."""
        return {
            "ready": self.missing is None,
            "problem": self.problem,
            "notice": self._store.formats.excess or self._clock_notice(),
            "now": int(outside.wall()),
        }

    def _clock_notice(self) -> str | None:
        """Return why all reports are late, or None. Kafka stamps records, so its clock needs no notice."""
        lead = self._store.clock_lead
        if self._kafka.dialect.log_has_time or lead <= CLOCK_LEAD:
            return None
        fault = f"The clock of the reports is {lead:.0f} s ahead of this machine, so new reports are refused as late."
        return f"{fault} A restart of the demo, or of the broker and its workers, helps."
