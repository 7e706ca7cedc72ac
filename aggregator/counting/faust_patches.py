"""The patches of Faust and aiokafka. Each has its reason here, and a test of the code that it replaces.

tests/unit/test_faust_patches.py fails if a new version changes anything that the patches rely on.
"""

import gc
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import aiokafka
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatch
from faust.transport.consumer import ensure_TP
from faust.transport.drivers import TRANSPORTS
from faust.transport.drivers import aiokafka as driver
from faust.transport.utils import DefaultSchedulingStrategy

from hubbub.fast_paths import note
from hubbub.kafka.columns import UNTRUSTED, RecordColumns, UnreadableBatch
from hubbub.kafka.patches import paced_fetches
from hubbub.kafka.patches.bounded_batches import Bounded, Compressed, FetchedBatches
from hubbub.kafka.patches.bounded_batches import install as bound
from hubbub.kafka.settings import Kafka
from oracles.kernels.batches import can_walk

SCHEME = "hubbub"
"""The scheme of broker addresses that makes Faust use the transport below."""
LONGEST_RUN = 5_000
"""The most records of a run. The event loop waits while a run is counted, and refused records cost most."""
LONGEST_WALK = 20_000
"""The most records of a run of columns. Longer batches are walked in parts."""

LOOK_WHILE_PAUSED = 0.05
"""Seconds between two looks whether a partition may be read again."""

Record = tuple[int, int, bytes | UnreadableBatch | None]
"""Offset, timestamp and value. For a source topic the fetcher returns these instead of a ConsumerRecord."""

_RECORDS = fetcher.PartitionRecords
"""The class of aiokafka, before any patch."""
_sources: set[str] = set()
"""The topics whose records come as runs."""
_newest_times: dict[str, int] = {}
"""The newest timestamp of each topic so far, in ms."""
_log_time_sources: set[str] = set()
"""The topics whose timestamps must be log times."""


class FetchedRun:
    """Consecutive records of one partition, which Faust handles as one message with the offset of the last record."""

    # Faust reads these attributes of a ConsumerRecord, and fails without one of them.
    timestamp_type = 0
    headers = ()
    key = None
    checksum = None
    serialized_key_size = 0
    serialized_value_size = 0

    def __init__(self, tp: Any, records: "list[Record] | RecordColumns") -> None:
        self.records = records
        self.topic = tp.topic
        self.partition = tp.partition
        if isinstance(records, RecordColumns):
            self.first = records.first
            self.offset = records.last
            self.timestamp = records.newest
        else:
            self.first = _first_offset(records[0])
            self.offset, self.timestamp, _ = records[-1]

    @property
    def value(self) -> "FetchedRun":
        return self

    @property
    def newest(self) -> int:
        """The newest timestamp of the records."""
        records = self.records
        return records.newest if isinstance(records, RecordColumns) else max(time for _, time, _ in records)


class RunScheduler(DefaultSchedulingStrategy):
    """A scheduler that makes one message of each run, because a message costs Faust about 100 microseconds."""

    def iterate(self, records: Mapping[Any, list[Any]]) -> Iterator[tuple[Any, Any]]:
        runs = {tp: _runs(tp, batch) if tp.topic in _sources else batch for tp, batch in records.items()}
        messages: Iterator[tuple[Any, Any]] = super().iterate(runs)
        return messages


def _first_offset(record: Record) -> int:
    """Return the first offset of a record. An unreadable batch is one record that has the offset of its last."""
    offset, _, value = record
    return value.first if isinstance(value, UnreadableBatch) else offset


def newest(source: str) -> int:
    """Return the newest timestamp that was fetched from a topic, in ms, or 0. Its record may not be counted yet."""
    return _newest_times.get(source, 0)


def _runs(tp: Any, records: "list[Record | RecordColumns]") -> list[FetchedRun]:
    parts: list[list[Record] | RecordColumns] = []
    for record in records:
        if isinstance(record, RecordColumns):
            parts.append(record)
        elif parts and isinstance(parts[-1], list) and len(parts[-1]) < LONGEST_RUN:
            parts[-1].append(record)
        else:
            parts.append([record])
    runs = [FetchedRun(tp, part) for part in parts]

    times = [_newest_times.get(tp.topic, 0), *(run.timestamp for run in runs)]
    if records and not isinstance(records[0], RecordColumns):
        times.append(records[0][1])
    _newest_times[tp.topic] = max(times)
    return runs


class _LeanRecords(Bounded):
    """Fetched records as three values each, because a ConsumerRecord is 85% of the cost of a small record."""

    def __init__(self, tp: Any, records: Any, *arguments: Any, **more: Any) -> None:
        self._lean = tp.topic in _sources
        self._needs_log_time = tp.topic in _log_time_sources
        super().__init__(tp, records, *arguments, **more)

    def _unpack_records(self) -> Iterator[Any]:
        """Yield whole batches as columns if possible, otherwise single records."""
        if not (self._lean and _can_walk() and self._isolation_level == fetcher.READ_UNCOMMITTED):
            yield from super()._unpack_records()
            return
        while self._records.has_next():
            yield from self._walk(self._records, checks=self._check_crcs)
            if self._records.has_next():
                yield from self._unpack_batch(self._records.next_batch())

    def _walk(self, batches: FetchedBatches, *, checks: bool) -> Iterator[RecordColumns]:
        """Yield the records as columns, as far as the batches are usual."""
        while batches.has_next():
            walk = batches.walk(self.next_fetch_offset, LONGEST_WALK, checks=checks)
            if not walk:
                return
            columns, self.next_fetch_offset = walk
            if len(columns):
                yield columns

    def _unpack_batch(self, batch: Any) -> Iterator[Any]:
        """Yield the records of a batch, like aiokafka's `PartitionRecords._unpack_records` without transactions."""
        if self._check_crcs and not batch.validate_crc():
            raise fetcher.Errors.CorruptRecordException(f"Invalid CRC - {self._tp}")

        records = () if batch.is_control_batch else batch

        if isinstance(records, Compressed):
            plain = records.plain()
            inner = FetchedBatches(plain)
            yield from self._walk(inner, checks=False)
            records = DefaultRecordBatch(plain) if inner.has_next() else ()

        for record in records:
            if record.offset >= self.next_fetch_offset:
                result = self._consumer_record(self._tp, record)
                self.next_fetch_offset = record.offset + 1
                yield result

        # The last records of a batch may be compacted away. Without this the same batch is fetched again and again.
        self.next_fetch_offset = batch.next_offset

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if self._lean:
            timestamp = record.timestamp if not self._needs_log_time or self._records.trusted else UNTRUSTED
            return record.offset, timestamp, record.value
        return super()._consumer_record(tp, record)


class Consumer(driver.Consumer):
    """A consumer that starts at the offsets of the table, not at the committed offsets of the group."""

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Seek to the offsets of the table. Faust calls this after each recovery (tables/recovery.py)."""
        offsets = dict(await super().seek_to_committed())
        app: Any = self.app
        resume: Mapping[Any, int] = app.resume_offsets()
        for tp in list(self.assignment()):
            if ensure_TP(tp) in resume:
                # Seek even if the offset is the committed one, because the position may differ. Never use
                # `_seek`, which changes the fetcher of aiokafka from the wrong thread.
                offsets[tp] = resume[ensure_TP(tp)]
                await self.seek_wait({tp: offsets[tp]})
        return offsets

    async def sleep(self, n: Any) -> None:
        """Pause. During a recovery all partitions are paused, and Faust would look only after a whole second."""
        await super().sleep(LOOK_WHILE_PAUSED if n == 1 else n)

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Skip the list of missing offsets that Faust keeps, because a run is complete by itself."""
        if tp.topic not in _sources:
            await super()._add_gap(tp, offset_from, offset_to)

    def _new_offset(self, tp: Any) -> int | None:
        """Return the offset to commit. Of a source only the newest event is acknowledged, after a checkpoint."""
        if tp.topic not in _sources:
            offset: int | None = super()._new_offset(tp)
            return offset
        # Faust's own method lists and sorts every offset of a run at each commit: 0.36 us a message.
        acks = self._acked[tp]
        if not acks:
            return None

        newest_ack: int = max(acks)
        self._acked_index[tp].difference_update(acks)
        acks.clear()
        return newest_ack + 1

    async def highwaters(self, *partitions: Any) -> Mapping[Any, Any]:
        """Return no ends, so that Faust's recovery reads nothing. `Recovery` reads the changelog in bulk."""
        return dict.fromkeys(partitions)

    async def verify_all_partitions_active(self) -> None:
        """Do nothing: the watchdog checks it. Faust's check crashes while a partition has no position after a reset."""


class Producer(driver.Producer):
    """An idempotent producer. Without idempotence a retry may write twice or out of order."""

    def _settings_extra(self) -> Mapping[str, Any]:
        extra = dict(super()._settings_extra())
        app: Any = self.app
        return {**extra, "acks": "all", "enable_idempotence": True} if app.is_idempotent else extra


class Transport(driver.Transport):
    Consumer: ClassVar[type] = Consumer
    Producer: ClassVar[type] = Producer


def _can_walk() -> bool:
    """Whether batches become columns: the kernels can walk them, and aiokafka keeps fetched records as it did."""
    return can_walk() and _has_layout()


@cache
def _has_layout() -> bool:
    """Whether aiokafka's `PartitionRecords` has the parts that `_LeanRecords` replaces or reads."""
    names = {"_tp", "_records", "_check_crcs", "_isolation_level", "next_fetch_offset"}

    create, unpack = (getattr(_RECORDS, name, None) for name in ("__init__", "_unpack_records"))
    return {*getattr(getattr(create, "__code__", None), "co_names", ())} >= names and unpack is not None


def install(source: str, *, has_log_time: bool = False) -> None:
    """Deliver the records of a topic as runs. With `has_log_time`, mark timestamps that are no log times."""
    if has_log_time:
        _log_time_sources.add(source)
    TRANSPORTS.aliases[SCHEME] = "aggregator.counting.faust_patches:Transport"
    _sources.add(source)
    bound(source)
    paced_fetches.install(source)
    fetcher.PartitionRecords = _LeanRecords
    kernels = "the kernels are not compiled, or this processor has no instruction for checksums"
    layout = f"aiokafka {aiokafka.__version__} keeps fetched records in another form"
    note("columns", on=_can_walk(), reason=layout if can_walk() else kernels)


def brokers(kafka: Kafka) -> str:
    """Return the addresses of the brokers in the form of Faust."""
    return ";".join(f"{SCHEME}://{server}" for server in kafka.servers.split(","))


def tune() -> None:
    """Run the garbage collector less often. It takes half the time of a small record, and frees nothing."""
    gc.collect()
    # Objects of the start live as long as the process, so the collector need not visit them again and again.
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
