"""All that Faust and aiokafka do wrong for us, and nothing else: each with its reason, and a contract test.

tests/integration/test_quirks.py fails where a new version changes what is relied on here.
"""

import gc
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from aiokafka.consumer import fetcher
from faust.transport.consumer import ensure_TP
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from faust.transport.utils import DefaultSchedulingStrategy

from hubbub.kafka import Kafka

SCHEME = "hubbub"
"""Of the addresses of brokers, so that Faust takes the transport below."""
LONGEST_RUN = 5_000
"""The event loop waits while a run is counted, and refused records cost more than good ones."""

Record = tuple[int, int, bytes | None]
"""Offset, timestamp and value: what the fetcher hands on of a source topic instead of a ConsumerRecord."""

_sources: set[str] = set()


class Run:
    """Consecutive records of one partition, travelling through Faust as one message with the last one's offset."""

    __slots__ = (
        *("records", "first", "topic", "partition", "offset", "timestamp", "timestamp_type"),
        *("headers", "key", "checksum", "serialized_key_size", "serialized_value_size"),
    )

    def __init__(self, tp: Any, records: list[Record]) -> None:
        self.records = records
        self.topic, self.partition = tp.topic, tp.partition
        self.first = records[0][0]
        self.offset, self.timestamp, _ = records[-1]
        self.timestamp_type = 0
        self.headers: tuple[()] = ()
        self.key = self.checksum = None
        self.serialized_key_size = self.serialized_value_size = 0

    @property
    def value(self) -> "Run":
        return self


class Coalesce(DefaultSchedulingStrategy):
    """A message costs Faust about 100 microseconds whatever is in it, so a whole fetched run becomes one."""

    def iterate(self, records: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, Any]]:
        runs = {tp: _runs(tp, found) if tp.topic in _sources else found for tp, found in records.items()}
        found: Iterator[tuple[Any, Any]] = super().iterate(runs)
        return found


def _runs(tp: Any, records: list[Record]) -> list[Run]:
    # Faust opens no gap of offsets after a read offset of 0 (transport/consumer.py, _drain_messages), and
    # then never commits again: so offsets 0 and 1 travel alone.
    alone = sum(record[0] <= 1 for record in records[:2])
    parts = [records[i : i + 1] for i in range(alone)]
    parts += [records[i : i + LONGEST_RUN] for i in range(alone, len(records), LONGEST_RUN)]
    return [Run(tp, part) for part in parts]


class _Lean(fetcher.PartitionRecords):  # type: ignore[misc] # aiokafka is untyped
    """A ConsumerRecord is 85% of what a small record costs; a source's records are three values."""

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if tp.topic in _sources:
            return record.offset, record.timestamp, record.value
        return super()._consumer_record(tp, record)


class Consumer(driver.Consumer):
    """Reading starts where the table says, not where the group has committed."""

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Faust calls this after each recovery (tables/recovery.py); with nothing committed it seeks nowhere."""
        offsets = dict(await super().seek_to_committed())
        app: Any = self.app
        resume: Mapping[Any, int] = app.resume_offsets()
        for tp in list(self.assignment()):
            if ensure_TP(tp) in resume:
                # Also where it equals the committed offset: the position may be another. Never `_seek`:
                # it changes aiokafka's fetcher from the wrong thread.
                offsets[tp] = resume[ensure_TP(tp)]
                await self.seek_wait({tp: offsets[tp]})
        return offsets


class Producer(driver.Producer):
    """Faust turns idempotence on for exactly_once only; without it a retry may write twice or out of order."""

    def _settings_extra(self) -> Mapping[str, Any]:
        extra = dict(super()._settings_extra())
        app: Any = self.app
        return extra if app.embedded else {**extra, "acks": "all", "enable_idempotence": True}


class Transport(driver.Transport):
    Consumer: ClassVar[type] = Consumer
    Producer: ClassVar[type] = Producer


def install(source: str) -> None:
    """Make the records of this topic come as runs."""
    TRANSPORTS.aliases[SCHEME] = "aggregator.counting.quirks:Transport"
    _sources.add(source)
    fetcher.PartitionRecords = _Lean


def brokers(kafka: Kafka) -> str:
    """The addresses of brokers as Faust takes them."""
    return ";".join(f"{SCHEME}://{server}" for server in kafka.servers.split(","))


def tune() -> None:
    """Half of a small record's cost is the cyclic garbage collector, which finds nothing in it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
