"""Follows the topics of estimates and states, and has the writer write what is read."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import orjson
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from aggregator.errors import TargetRefused
from aggregator.records import status
from aggregator.records.decoder import decode
from aggregator.records.flat_rows import rows
from aggregator.records.keys import PROVISIONAL
from aggregator.records.maps_record import MAPS_END
from aggregator.records.record import VERSION, Record
from aggregator.sink.due_files import ReadProgress, SinkPlan
from aggregator.sink.file_names import FileName
from aggregator.sink.metrics import SinkMetrics
from aggregator.sink.persistence import SILENCE, persist
from aggregator.sink.sink_state import Gap, SinkState, lost
from aggregator.sink.waiting_rows import WaitingRows
from aggregator.sink.writer import Writer
from hubbub.definitions import formats
from hubbub.definitions.follower import Follower
from hubbub.kafka.clients import partitions, unreachable
from hubbub.kafka.log_reader import LogReader, open_log
from hubbub.kafka.settings import ESTIMATES, STATUS, Kafka

log = logging.getLogger(__name__)

PROBE = 10.0
"""Most seconds between two looks at the ends of the topic."""
STOP = 8.0
"""Seconds for the last files after a request to stop."""
_FETCH = 8 << 20
_BATCH = 256
_NO_FINALS = (MAPS_END, f"|{PROVISIONAL}".encode())
"""The ends of the keys of records that are no finals."""


class SinkFollower:
    """The reader of one sink: it puts the rows of finals where they wait, and calls the writer."""

    def __init__(
        self, kafka: Kafka, writer: Writer, waiting_rows: WaitingRows, plan: SinkPlan, metrics: SinkMetrics
    ) -> None:
        self._kafka = kafka
        self._writer = writer
        self._waiting_rows = waiting_rows
        self._plan = plan
        self._metrics = metrics
        self._closed_through: dict[str, int] = {}
        """The newest closed pane of each query."""
        self._closed_before: dict[str, int] = {}
        """The same, from before the ends of the topics were asked for."""
        self._newest: dict[TopicPartition, float] = {}
        """The time of the last record that was read from each partition: the end of its window."""
        self._topics: dict[str, range]
        self._state: SinkState
        self._is_at_end = False
        self._answered = time.monotonic()
        self.missing: str | None = "connecting"
        """The reason why the sink is not ready yet, or None if it has read the topic."""
        metrics.lag.set_function(self.lag)

    def lag(self) -> float:
        """Return the age of the oldest final that is in no file yet, in seconds."""
        # Records have the time of the end of their window, so the newest one that was read tells the age of the next.
        times = [finals.oldest_time for finals in self._waiting_rows.names.values()]
        if not self._is_at_end:
            times += self._newest.values()
        oldest_time = min(times, default=float("inf"))
        return max(0.0, time.time() - oldest_time) if oldest_time != float("inf") else 0.0

    async def find(self) -> None:
        """Find the topics. Raise an error if Kafka cannot be reached, or has no estimates."""
        counts = await partitions(self._kafka, ESTIMATES, optional=[STATUS])
        self._topics = {name: range(count) for name, count in counts.items()}

    async def run(self, state: SinkState, *, once: bool = False) -> None:
        """Read and write until cancelled, or with `once` up to the present end."""
        # Without a reset the consumer names offsets that are gone, so no gap passes unseen.
        settings: dict[str, Any] = {
            "max_partition_fetch_bytes": _FETCH,
            "fetch_max_bytes": _FETCH,
            "auto_offset_reset": "none",
        }
        async with Follower(self._kafka) as definitions, open_log(self._kafka, self._topics, **settings) as reader:
            self._state = state
            self.missing = "reading the topic of estimates"
            await self._seek(reader)
            try:
                while not await self._follow(reader, definitions, once=once):
                    await self._pass_gap(reader)
            except asyncio.CancelledError:
                await self._stop(await self._present_state(reader))
                raise

    async def _stop(self, state: SinkState) -> None:
        """Write the last files. The request to stop is repeated until it ends, and must not cut it off."""
        writing = asyncio.ensure_future(asyncio.to_thread(self._writer.stop, state, STOP))
        while not writing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        if writing.exception() is not None:
            log.warning("the last files cannot be written: %s", writing.exception())

    async def _seek(self, reader: LogReader) -> None:
        """Go to the offsets of the state, and note what the topic lost before."""
        tps = self._estimates(reader)
        begins = await reader.consumer.beginning_offsets(tps)
        for tp in tps:
            offset = self._state.offsets.get(tp.partition, begins[tp])
            if offset > reader.ends[tp] and self._kafka.dialect.ends_are_exact:
                raise TargetRefused(
                    f"{tp.topic} ends at offset {reader.ends[tp]} of partition {tp.partition}, but the target has "
                    f"read up to {offset}: the topic was created anew; use another target"
                )
            reader.consumer.seek(tp, max(offset, begins[tp]))
        self._add_gaps(lost(self._state.offsets, {tp.partition: begin for tp, begin in begins.items()}, _now()))

    async def _pass_gap(self, reader: LogReader) -> None:
        """Go on at the beginning of the partitions that lost what was to be read next."""
        tps = self._estimates(reader)
        begins = await reader.consumer.beginning_offsets(tps)
        for tp in tps:
            position = await reader.consumer.position(tp)
            if position < begins[tp]:
                self._add_gaps([Gap(tp.partition, position, begins[tp], _now())])
                reader.consumer.seek(tp, begins[tp])
        # The topic of states is small, and is read again as a whole.
        for tp in set(reader.partitions) - set(tps):
            await reader.consumer.seek_to_beginning(tp)

    def _add_gaps(self, gaps: list[Gap]) -> None:
        state = self._state.with_gaps(gaps)
        for gap in state.gaps[len(self._state.gaps) :]:
            self._metrics.gaps.inc()
            text = "finals may be missing: offsets %d to %d of partition %d of %s cannot be read"
            log.warning(text, gap.start, gap.end - 1, gap.partition, self._kafka.topic(ESTIMATES))
        self._state = state

    async def _follow(self, reader: LogReader, definitions: Follower, *, once: bool) -> bool:
        """Read on. Return True if `once` is done, and False if the next offset is gone."""
        next_probe = 0.0
        next_write = time.monotonic() + self._plan.pause
        try:
            async for batches in reader.batches(most=_BATCH):
                for record in chain.from_iterable(batches.values()):
                    self._take(record)
                if self._waiting_rows.is_full:
                    await persist(self._waiting_rows.write, self._metrics.errors)

                if time.monotonic() >= next_probe:
                    await self._probe(reader, definitions)
                    # A sink that lost its target must not wait for the next files until it ends.
                    await persist(self._writer.check, self._metrics.errors)
                    next_probe = time.monotonic() + min(PROBE, self._plan.pause)
                self._is_at_end = await reader.is_at_end(batches)
                if self._is_at_end:
                    self.missing = None

                is_last = once and self._is_at_end
                if is_last or time.monotonic() >= next_write:
                    next_write = time.monotonic() + self._plan.pause
                    progress = self._progress(reader, definitions)
                    state = await self._present_state(reader)
                    await persist(partial(self._writer.write, progress, state), self._metrics.errors)
                if is_last:
                    return True
        except OffsetOutOfRangeError:
            return False
        return True

    async def _probe(self, reader: LogReader, definitions: Follower) -> None:
        """Ask Kafka for the ends of the topics and for the definitions. Raise an error after a long silence."""
        # What was closed before the ends were asked for is in the finals up to these ends.
        self._closed_before = dict(self._closed_through)
        try:
            async with asyncio.timeout(PROBE):
                await definitions.read()
                reader.ends = await reader.consumer.end_offsets(reader.partitions)
        except (KafkaError, TimeoutError, OSError) as error:
            log.warning("Kafka does not answer: %s", str(error) or type(error).__name__)
            if time.monotonic() - self._answered > SILENCE:
                raise unreachable(self._kafka, error) from error
            return
        formats.refuse_higher(definitions.definitions.formats)
        self._answered = time.monotonic()

    def _progress(self, reader: LogReader, definitions: Follower) -> ReadProgress:
        names = definitions.definitions
        read_through = min((self._newest.get(tp, 0.0) for tp in self._estimates(reader)), default=0.0)
        return ReadProgress(
            time=time.time(),
            read_through=float("inf") if self._is_at_end else read_through,
            closed_through=self._closed_before,
            retired=names.digests.keys() - names.active.keys(),
        )

    async def _present_state(self, reader: LogReader) -> SinkState:
        positions = {tp.partition: await reader.consumer.position(tp) for tp in self._estimates(reader)}
        return replace(self._state, offsets=positions)

    def _estimates(self, reader: LogReader) -> list[TopicPartition]:
        return [tp for tp in reader.partitions if tp.topic == self._kafka.topic(ESTIMATES)]

    def _take(self, record: Any) -> None:
        """Take one record of either topic. Anybody may write there, so nothing in it stops the sink."""
        if record.topic == self._kafka.topic(STATUS):
            self._take_status(record)
            return

        tp = TopicPartition(record.topic, record.partition)
        self._newest[tp] = record.timestamp / 1000
        if record.value is None or (record.key or b"").endswith(_NO_FINALS):
            return
        final_and_name = self._read(record)
        if final_and_name is None:
            return
        final, name = final_and_name
        if not final.final or not self._plan.has_query(final.query):
            return

        read_time = time.time()
        if self._plan.is_old(name, read_time):
            self._metrics.skipped.labels("old").inc()
            return
        final_rows = [{"position": position, **row} for position, row in enumerate(rows(final))]
        self._waiting_rows.add(name, final_rows, (record.partition, record.offset), read_time)
        self._metrics.finals.inc()
        self._metrics.rows.inc(len(final_rows))

    def _read(self, record: Any) -> tuple[Record, FileName] | None:
        """Return the record and its name, or None if it cannot be read."""
        try:
            final = decode(record.value)
            return final, FileName.of(final, self._plan.files)
        except ValueError as error:
            is_newer = _version(record.value) > VERSION
            self._metrics.skipped.labels("version" if is_newer else "unreadable").inc()
            log.warning("%s, partition %d, offset %d: %s", record.topic, record.partition, record.offset, error)
        if is_newer:
            self._add_gaps([Gap(record.partition, record.offset, record.offset + 1, _now())])
        return None

    def _take_status(self, record: Any) -> None:
        if record.value is None:
            return
        try:
            state = status.decode(record.value)
        except ValueError:
            return
        pane_end = max(state.closed_through, self._closed_through.get(state.query, 0))
        self._closed_through[state.query] = pane_end


def _version(value: bytes) -> int:
    """Return the version that a record states, or 0 if it states none."""
    try:
        document = orjson.loads(value)
    except ValueError:
        return 0
    version = document.get("version") if isinstance(document, dict) else None
    return version if isinstance(version, int) else 0


def _now() -> int:
    return int(time.time())
