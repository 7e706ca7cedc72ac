"""All that Faust and aiokafka do wrong for us, and nothing else: each with its reason, and a contract test.

tests/integration/test_quirks.py fails where a new version changes what is relied on here.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from aiokafka.consumer import fetcher
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)
from faust.transport.consumer import ensure_TP
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from faust.transport.utils import DefaultSchedulingStrategy

from hubbub.definitions.corrections import UNTRUSTED
from hubbub.inflation import Bounded
from hubbub.inflation import install as bound
from hubbub.kafka import Kafka
from hubbub.unread import Unread

SCHEME = "hubbub"
"""Of the addresses of brokers, so that Faust takes the transport below."""
LONGEST_RUN = 5_000
"""The event loop waits while a run is counted, and refused records cost more than good ones."""

Record = tuple[int, int, bytes | Unread | None]
"""Offset, timestamp and value: what the fetcher hands on of a source topic instead of a ConsumerRecord."""

_sources: set[str] = set()
_newest: dict[str, int] = {}
_checked: set[str] = set()
"""Those whose timestamps must be the log's own."""


class Run:
    """Consecutive records of one partition, travelling through Faust as one message with the last one's offset."""

    __slots__ = (
        *("records", "first", "topic", "partition", "offset", "timestamp", "timestamp_type"),
        *("headers", "key", "checksum", "serialized_key_size", "serialized_value_size"),
    )

    def __init__(self, tp: Any, records: list[Record]) -> None:
        self.records = records
        self.topic, self.partition = tp.topic, tp.partition
        self.first = _first(records[0])
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


def _first(record: Record) -> int:
    """The offset that reading must have come to: a batch that is not read is one record, with its last offset."""
    offset, _, value = record
    return value.first if isinstance(value, Unread) else offset


def newest(source: str) -> int:
    """The newest timestamp of this topic that was fetched, in ms; what is fetched waits to be counted."""
    return _newest.get(source, 0)


def _runs(tp: Any, records: list[Record]) -> list[Run]:
    _newest[tp.topic] = max([_newest.get(tp.topic, 0), *(record[1] for record in (*records[:1], *records[-1:]))])
    # Faust opens no gap of offsets after a read offset of 0 (transport/consumer.py, _drain_messages), and
    # then never commits again: so offsets 0 and 1 travel alone.
    alone = sum(record[0] <= 1 for record in records[:2])
    parts = [records[i : i + 1] for i in range(alone)]
    parts += [records[i : i + LONGEST_RUN] for i in range(alone, len(records), LONGEST_RUN)]
    return [Run(tp, part) for part in parts]


class _Lean(Bounded):
    """A ConsumerRecord is 85% of what a small record costs; a source's records are three values."""

    def __init__(self, tp: Any, records: Any, *arguments: Any, **more: Any) -> None:
        self._lean, self._checked = tp.topic in _sources, tp.topic in _checked
        super().__init__(tp, records, *arguments, **more)

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if self._lean:
            timestamp = record.timestamp if not self._checked or self._records.trusted else UNTRUSTED
            return record.offset, timestamp, record.value
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

    async def highwaters(self, *partitions: Any) -> Mapping[Any, Any]:
        """Only Faust's recovery asks: nothing is left for it to read, record by record (`Recovery` reads in bulk)."""
        return dict.fromkeys(partitions)

    async def verify_all_partitions_active(self) -> None:
        """Left to our watchdog: Faust's look crashes where a partition has no position for a moment, after a reset."""


class Producer(driver.Producer):
    """Faust turns idempotence on for exactly_once only; without it a retry may write twice or out of order."""

    def _settings_extra(self) -> Mapping[str, Any]:
        extra = dict(super()._settings_extra())
        app: Any = self.app
        return extra if app.embedded else {**extra, "acks": "all", "enable_idempotence": True}


class Transport(driver.Transport):
    Consumer: ClassVar[type] = Consumer
    Producer: ClassVar[type] = Producer


class _Uuid:
    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value

    @classmethod
    def decode(cls, data: Any) -> bytes:
        return bytes(data.read(16))


class _MetadataResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 10
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", CompactString("utf-8")),
                ("id", _Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("isr", CompactArray(Int32)),
                        ("offline_replicas", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )


class _MetadataRequest(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = 3
    API_VERSION = 10
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("id", _Uuid), ("name", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicIds(Request[_MetadataRequest]):  # type: ignore[misc]
    """aiokafka ends at version 5 of this request; topics have ids from 10 on."""

    API_KEY = 3

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def build(self, request_struct_class: Any) -> Any:
        topics: list[tuple[bytes, str, dict[int, bytes]]] = [(bytes(16), name, {}) for name in self._names]
        return request_struct_class(topics, False, False, False, {})


async def topic_ids(client: Any, names: Sequence[str]) -> dict[str, tuple[bytes, int]]:
    """The id and the number of partitions of each topic, as a broker that this client (aiokafka's) knows says it."""
    answer = await client.send(client.get_random_node(), TopicIds(names))
    return {name: (number, len(parts)) for code, name, number, _, parts, *_ in answer.topics if not code}


def install(source: str, *, checked: bool = False) -> None:
    """Make the records of this topic come as runs; `checked`: without times that are not the log's own."""
    if checked:
        _checked.add(source)
    TRANSPORTS.aliases[SCHEME] = "aggregator.counting.quirks:Transport"
    _sources.add(source)
    bound(source)
    fetcher.PartitionRecords = _Lean


def brokers(kafka: Kafka) -> str:
    """The addresses of brokers as Faust takes them."""
    return ";".join(f"{SCHEME}://{server}" for server in kafka.servers.split(","))


def tune() -> None:
    """Half of a small record's cost is the cyclic garbage collector, which finds nothing in it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
