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

from hubbub.columns import Columns
from hubbub.definitions.corrections import UNTRUSTED
from hubbub.inflation import Bounded, Compressed
from hubbub.inflation import install as bound
from hubbub.kafka import Kafka
from hubbub.unread import Unread
from oracles.kernels.batches import can_walk

SCHEME = "hubbub"
"""Of the addresses of brokers, so that Faust takes the transport below."""
LONGEST_RUN = 5_000
"""The event loop waits while a run is counted, and refused records cost more than good ones."""
LONGEST_WALK = 20_000
"""The same of records that come as columns."""

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

    def __init__(self, tp: Any, records: "list[Record] | Columns") -> None:
        self.records = records
        self.topic, self.partition = tp.topic, tp.partition
        if isinstance(records, Columns):
            self.first, self.offset, self.timestamp = records.first, records.last, records.newest
        else:
            self.first = _first_offset(records[0])
            self.offset, self.timestamp, _ = records[-1]
        self.timestamp_type = 0
        self.headers: tuple[()] = ()
        self.key = self.checksum = None
        self.serialized_key_size = self.serialized_value_size = 0

    @property
    def value(self) -> "Run":
        return self

    @property
    def newest(self) -> int:
        """The newest of the records' times."""
        records = self.records
        return records.newest if isinstance(records, Columns) else max(time for _, time, _ in records)


class Coalesce(DefaultSchedulingStrategy):
    """A message costs Faust about 100 microseconds whatever is in it, so a whole fetched run becomes one."""

    def iterate(self, records: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, Any]]:
        runs = {tp: _runs(tp, found) if tp.topic in _sources else found for tp, found in records.items()}
        found: Iterator[tuple[Any, Any]] = super().iterate(runs)
        return found


def _first_offset(record: Record) -> int:
    """The offset that reading must have come to: a batch that is not read is one record, with its last offset."""
    offset, _, value = record
    return value.first if isinstance(value, Unread) else offset


def newest(source: str) -> int:
    """The newest timestamp of this topic that was fetched, in ms; what is fetched waits to be counted."""
    return _newest.get(source, 0)


def _runs(tp: Any, fetched: "list[Record | Columns]") -> list[Run]:
    parts: list[list[Record] | Columns] = []
    for one in fetched:
        if isinstance(one, Columns):
            parts.append(one)
        elif parts and isinstance(parts[-1], list) and len(parts[-1]) < LONGEST_RUN:
            parts[-1].append(one)
        else:
            parts.append([one])
    runs = [Run(tp, part) for part in parts]
    first = [one[1] for one in fetched[:1] if not isinstance(one, Columns)]
    _newest[tp.topic] = max([_newest.get(tp.topic, 0), *first, *(run.timestamp for run in runs)])
    return runs


class _Lean(Bounded):
    """A ConsumerRecord is 85% of what a small record costs; a source's records are three values."""

    def __init__(self, tp: Any, records: Any, *arguments: Any, **more: Any) -> None:
        self._lean, self._checked = tp.topic in _sources, tp.topic in _checked
        super().__init__(tp, records, *arguments, **more)

    def _unpack_records(self) -> Iterator[Any]:
        """Whole batches as columns where they are as they nearly always are, else record by record."""
        if not (self._lean and can_walk() and self._isolation_level == fetcher.READ_UNCOMMITTED):
            yield from super()._unpack_records()
            return
        while self._records.has_next():
            walked = self._records.walk(self.next_fetch_offset, LONGEST_WALK, checked=self._check_crcs)
            if walked is None:
                yield from self._unpack_batch(self._records.next_batch())
                continue
            columns, self.next_fetch_offset = walked
            if len(columns):
                yield columns

    def _unpack_batch(self, batch: Any) -> Iterator[Any]:
        """As aiokafka does it (`PartitionRecords._unpack_records`) where transactions are not looked at."""
        if self._check_crcs and not batch.validate_crc():
            raise fetcher.Errors.CorruptRecordException(f"Invalid CRC - {self._tp}")
        records = batch
        if isinstance(batch, Compressed) and not batch.is_control_batch:
            records, columns = batch.opened(self.next_fetch_offset, LONGEST_WALK)
            if columns is not None:
                self.next_fetch_offset = batch.next_offset
                if len(columns):
                    yield columns
                return
        for record in () if batch.is_control_batch else records:
            if record.offset >= self.next_fetch_offset:
                found = self._consumer_record(self._tp, record)
                self.next_fetch_offset = record.offset + 1
                yield found
        self.next_fetch_offset = batch.next_offset

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

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Faust lists every offset that an event skips, to see that none is missing; a run is all of its own."""
        if tp.topic not in _sources:
            await super()._add_gap(tp, offset_from, offset_to)

    def _new_offset(self, tp: Any) -> int | None:
        """Only the newest event of a source is acknowledged, once all before it stands in the table."""
        if tp.topic not in _sources:
            found: int | None = super()._new_offset(tp)
            return found
        acked = self._acked[tp]
        if not acked:
            return None
        newest: int = max(acked)
        self._acked_index[tp].difference_update(acked)
        acked.clear()
        return newest + 1

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
