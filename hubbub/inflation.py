"""A batch may have 64 MiB inflated; what is above, or cannot be read, is passed over, whatever topic it stands in.

aiokafka inflates without a bound, and raises anew at each fetch where a batch cannot be read: a few
bytes of a stranger's would end every reader at the same offset, for ever.
"""

import logging
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import numpy as np
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords

from hubbub.columns import Columns
from hubbub.unread import Unread
from oracles.kernels.batches import walk

log = logging.getLogger(__name__)

MOST = 64 << 20
"""Bytes of an inflated batch; no setting, so that all who count judge alike."""
passed_over: Counter[str] = Counter()
"""By topic, the batches that were not read."""

_kept: set[str] = set()
_BEGINNING = struct.Struct(">qiibIh")
"""Of a batch: base offset, length of what follows, epoch, magic, checksum, attributes."""
_OVERHEAD, _ATTRIBUTES, _COUNT, _HEADER = 12, 21, 57, 61
_CODEC = 7
_FEW = 32
"""Times that batches are inflated to as a rule."""
_XERIAL = b"\x82SNAPPY\x00"


class TooLarge(CorruptRecordException):  # type: ignore[misc] # aiokafka is untyped
    """Inflated it would be above `MOST`."""


class FetchedBatches:
    """The batches of one fetch, which ends where they come to `MOST` inflated: the rest of it is fetched anew."""

    def __init__(self, data: bytes) -> None:
        self._data, self._batches = memoryview(data), MemoryRecords(data)
        self._start = self._end = self._inflated = 0
        self._walked = False
        self.current: Any = None
        self.records = 1
        """How many the header of the current one names."""
        self.trusted = True
        """Whether the timestamps of the current one are the log's own."""

    def has_next(self) -> bool:
        if self._inflated >= MOST:
            return False
        return self._is_complete(self._end) if self._walked else bool(self._batches.has_next())

    def walk(self, offset: int, room: int, *, checked: bool) -> tuple[Columns, int] | None:
        """The records from this offset on of the next batches, as long as all is as it nearly always is.

        With the offset behind them; None where the next batch is for `next_batch`. So are those that have more
        than `room` records.
        """
        if not self._is_complete(self._end):
            return None
        found = walk(self._data, self._end, offset, room, checked=checked)
        if found.end == self._end:
            return None
        self._end, self._walked, self.current, self.trusted = found.end, True, None, True
        return Columns(self._data, found.offsets, found.times, found.places, found.sizes), found.next_offset

    def _is_complete(self, start: int) -> bool:
        end = start + _OVERHEAD
        if end > len(self._data):
            return False
        return end + int.from_bytes(self._data[start + 8 : end], "big", signed=True) <= len(self._data)

    def _parsed(self) -> Any:
        """The next batch by aiokafka, which knows nothing of what was walked."""
        if not self._walked:
            return self._batches.next_batch()
        self.current = None
        end = self._end + _OVERHEAD
        size = int.from_bytes(self._data[end - 4 : end], "big", signed=True)
        return MemoryRecords(bytes(self._data[self._end : max(end, end + size)])).next_batch()

    def size_in_bytes(self) -> int:
        return int(self._batches.size_in_bytes())

    def next_batch(self) -> Any:
        batch = self._parsed()
        if batch is None:
            return None
        start = self._start = self._end
        _, length, _, magic, _, attributes = _BEGINNING.unpack_from(self._data, start)
        self._end = start + _OVERHEAD + length
        self.records = int.from_bytes(self._data[start + _COUNT : start + _HEADER], "big") if magic > 1 else 1
        self.current, self.trusted = batch, bool(batch.timestamp_type)
        if magic > 1 and not attributes & _CODEC:
            return batch
        if magic > 1:
            return Compressed(batch, bytes(self._data[start : self._end]), self._fill)
        return Compressed(batch, b"", self._fill) if self._data[start + _OVERHEAD + 5] & _CODEC else batch

    def is_intact(self) -> bool:
        """Whether the current one has the checksum that its writer gave it; aiokafka's own can say so only once."""
        return bool(MemoryRecords(bytes(self._data[self._start : self._end])).next_batch().validate_crc())

    def _fill(self, size: int) -> None:
        self._inflated += size


class Compressed:
    """A batch that is inflated once it is looked into; of its header it says what aiokafka's says."""

    def __init__(self, batch: Any, data: bytes, fill: Callable[[int], None]) -> None:
        self._batch, self._data, self._fill = batch, data, fill

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(DefaultRecordBatch(self._plain()))

    def opened(self, offset: int, room: int) -> tuple[Iterator[Any], Columns | None]:
        """The records; as columns from this offset on, where all is as it nearly always is."""
        plain = self._plain()
        found = walk(memoryview(plain), 0, offset, room, checked=False)
        if found.end < len(plain):
            return iter(DefaultRecordBatch(plain)), None
        return iter(()), Columns(memoryview(plain), found.offsets, found.times, found.places, found.sizes)

    def _plain(self) -> bytes:
        """The same batch, not compressed."""
        if not self._data:
            raise CorruptRecordException("compressed in the way of Kafka before 0.11")
        try:
            inflated = inflate(self._batch.compression_type, self._data[_HEADER:])
        except CorruptRecordException:
            self._fill(MOST)  # it took the time of a large one
            raise
        self._fill(len(inflated))
        header = bytearray(self._data[:_HEADER])
        struct.pack_into(">i", header, 8, _HEADER - _OVERHEAD + len(inflated))
        struct.pack_into(">h", header, _ATTRIBUTES, self._batch.attributes & ~_CODEC)
        return bytes(header) + inflated


class Bounded(fetcher.PartitionRecords):  # type: ignore[misc]
    """Goes on behind a batch that cannot be read; an `Unread` stands for it where the topic's readers judge it."""

    _records: FetchedBatches
    next_fetch_offset: int
    _records_iterator: Any

    def __next__(self) -> Any:
        while True:
            try:
                return next(self._records_iterator)
            except StopIteration:
                self._records_iterator = None
                raise
            except (CorruptRecordException, ValueError) as error:
                batch = self._records.current
                if batch is None or not self._records.is_intact():
                    raise  # damaged on its way: it is fetched anew
                unread = self._leave(batch, error)
                self._records_iterator = self._unpack_records()
                if self._tp.topic in _kept:
                    return self._consumer_record(self._tp, _Stand(unread, batch))

    def _leave(self, batch: Any, error: Exception) -> Unread:
        """Go on behind the rest of this batch."""
        first, end = max(batch.base_offset, self.next_fetch_offset), batch.next_offset
        whole = isinstance(error, TooLarge) or first == batch.base_offset
        self.next_fetch_offset = end
        reason = "too_large" if isinstance(error, TooLarge) else "malformed"
        said = str(error) if isinstance(error, CorruptRecordException) else "a header's name is not UTF-8"
        records = max(1, self._records.records if whole else end - first)
        unread = Unread(batch.base_offset if whole else first, records, reason, f"its batch cannot be read: {said}")
        passed_over[self._tp.topic] += 1
        where = f"{self._tp.topic}, partition {self._tp.partition}, offset {unread.first}"
        log.error("%s: %d records are passed over: %s", where, records, unread.detail)
        return unread


class _Stand:
    """The record that stands for a batch."""

    key = checksum = None
    headers = ()

    def __init__(self, unread: Unread, batch: Any) -> None:
        self.offset = batch.next_offset - 1
        self.timestamp, self.timestamp_type = getattr(batch, "max_timestamp", 0), batch.timestamp_type
        self.value = unread


def inflate(codec: int, data: bytes) -> bytes:
    """A batch's records; TooLarge or CorruptRecordException without more memory than `MOST`."""
    try:
        if codec == DefaultRecordBatch.CODEC_SNAPPY:
            return _snappy(data)
        with_codec = {
            DefaultRecordBatch.CODEC_GZIP: cramjam.gzip,
            DefaultRecordBatch.CODEC_LZ4: cramjam.lz4,
            DefaultRecordBatch.CODEC_ZSTD: cramjam.zstd,
        }
        if codec not in with_codec:
            raise CorruptRecordException(f"compressed by {codec}, which is not known")
        return _bounded(with_codec[codec].decompress_into, data)
    except cramjam.DecompressionError as error:
        raise CorruptRecordException(f"it does not inflate: {error}") from None


def _bounded(into: Callable[[bytes, Any], int], data: bytes) -> bytes:
    for room in (_FEW * len(data), MOST):
        if room > MOST:
            continue
        space = np.empty(room, np.uint8)  # of which only what is written to takes memory
        try:
            return space[: into(data, space)].tobytes()
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
    raise TooLarge(f"inflated it is above {MOST} bytes")


def _snappy(data: bytes) -> bytes:
    """Of one block, or of blocks as Java writes them; each says how large it is."""
    blocks = [data]
    if data.startswith(_XERIAL):
        blocks, start = [], 16
        while start < len(data):
            size = int.from_bytes(data[start : start + 4], "big")
            blocks.append(data[start + 4 : start + 4 + size])
            start += 4 + size
    if sum(cramjam.snappy.decompress_raw_len(block) for block in blocks) > MOST:
        raise TooLarge(f"inflated it is above {MOST} bytes")
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def install(reports: str) -> None:
    """Bound all that this process reads from Kafka; of this topic the unread too is handed on, to be judged."""
    _kept.add(reports)
    fetcher.MemoryRecords = FetchedBatches
    if not issubclass(fetcher.PartitionRecords, Bounded):
        fetcher.PartitionRecords = Bounded
