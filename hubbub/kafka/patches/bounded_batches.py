"""A bound of 64 MiB for decompressed batches in all topics. Larger and unreadable batches are skipped.

aiokafka decompresses without a bound. It raises an error at each fetch of an unreadable batch, so a few forged bytes
would stop every reader at the same offset for ever.
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

from hubbub.kafka.columns import RecordColumns, UnreadableBatch
from oracles.kernels.batches import walk

log = logging.getLogger(__name__)

MOST = 64 << 20
"""Maximum bytes of a decompressed batch. This is no setting, so that workers and audits treat each batch alike."""
skipped: Counter[str] = Counter()
"""The number of skipped batches by topic."""

_reported_topics: set[str] = set()
"""The topics whose readers receive an `UnreadableBatch` for each skipped batch."""
_BEGINNING = struct.Struct(">qiibIh")
"""The start of a batch: base offset, length of the rest, epoch, magic, checksum, attributes."""
_OVERHEAD = 12
_ATTRIBUTES = 21
_COUNT = 57
_HEADER = 61
_CODEC = 7
_FEW = 32
"""The growth that is enough for nearly all batches."""
_XERIAL = b"\x82SNAPPY\x00"


class TooLarge(CorruptRecordException):  # type: ignore[misc] # aiokafka is untyped
    """A batch that is larger than `MOST` bytes when decompressed."""


class FetchedBatches:
    """The batches of one fetch, up to `MOST` decompressed bytes together. The rest is fetched again."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._start = 0
        self._end = 0
        self._inflated = 0
        self._part = (0, 0)
        self.current: Any = None
        self.records = 1
        """The number of records in the header of the current batch."""
        self.trusted = True
        """Whether the current batch has log times."""

    def has_next(self) -> bool:
        return self._inflated < MOST and self._is_complete(self._end)

    def walk(self, offset: int, room: int, *, checks: bool) -> tuple[RecordColumns, int] | None:
        """Return the next `room` records of usual batches from this offset on, and the offset after them.

        Return None if `next_batch` must read the next batch, because it is unusual.
        """
        if not self._is_complete(self._end):
            return None
        result = walk(self._data, self._end, offset, room, checksums=checks, part=self._part)
        if (result.end, result.part) == (self._end, self._part):
            return None

        self._end = result.end
        self._part = result.part
        # These batches were read without aiokafka. An earlier batch here would be skipped in their place.
        self.current = None
        self.trusted = True
        return RecordColumns(self._data, result.offsets, result.times, result.places, result.sizes), result.next_offset

    def _is_complete(self, start: int) -> bool:
        end = start + _OVERHEAD
        if end > len(self._data):
            return False
        return end + int.from_bytes(self._data[start + 8 : end], "big", signed=True) <= len(self._data)

    def _parse(self) -> Any:
        """Return the next batch as aiokafka reads it. aiokafka needs bytes, and does not know what `walk` has read."""
        self.current = None
        end = self._end + _OVERHEAD
        size = int.from_bytes(self._data[end - 4 : end], "big", signed=True)
        return MemoryRecords(bytes(self._data[self._end : max(end, end + size)])).next_batch()

    def size_in_bytes(self) -> int:
        return len(self._data)

    def next_batch(self) -> Any:
        batch = self._parse()
        if batch is None:
            return None

        start = self._end
        self._start = start
        self._part = (0, 0)
        _, length, _, magic, _, attributes = _BEGINNING.unpack_from(self._data, start)
        self._end = start + _OVERHEAD + length
        # Formats before 2 have no number of records in the header.
        self.records = int.from_bytes(self._data[start + _COUNT : start + _HEADER], "big") if magic > 1 else 1
        self.current = batch
        self.trusted = bool(batch.timestamp_type)

        if magic > 1 and not attributes & _CODEC:
            return batch
        if magic > 1:
            return Compressed(batch, bytes(self._data[start : self._end]), self._fill)
        return Compressed(batch, b"", self._fill) if self._data[start + _OVERHEAD + 5] & _CODEC else batch

    def is_intact(self) -> bool:
        """Whether the checksum of the current batch is correct. aiokafka's own batch can check it only once."""
        return bool(MemoryRecords(bytes(self._data[self._start : self._end])).next_batch().validate_crc())

    def _fill(self, size: int) -> None:
        self._inflated += size


class Compressed:
    """A compressed batch that is decompressed when its records are read. Its header is that of aiokafka's batch."""

    def __init__(self, batch: Any, data: bytes, fill: Callable[[int], None]) -> None:
        self._batch = batch
        self._data = data
        self._fill = fill

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(DefaultRecordBatch(self.plain()))

    def plain(self) -> bytes:
        """Return the batch without compression."""
        if not self._data:
            raise CorruptRecordException("its compression is older than Kafka 0.11")

        try:
            records = inflate(self._batch.compression_type, self._data[_HEADER:])
        except CorruptRecordException:
            self._fill(MOST)  # decompression took the time of a large batch
            raise
        self._fill(len(records))

        header = bytearray(self._data[:_HEADER])
        struct.pack_into(">i", header, 8, _HEADER - _OVERHEAD + len(records))
        struct.pack_into(">h", header, _ATTRIBUTES, self._batch.attributes & ~_CODEC)
        return bytes(header) + records


class Bounded(fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one fetch, without unreadable batches. In `reports` an `UnreadableBatch` replaces them."""

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
                    raise  # damaged in transit, so aiokafka fetches it again

                replacement = self._skip(batch, error)
                # A generator that has raised an error ends, so the records after the batch need a new one.
                self._records_iterator = self._unpack_records()
                if self._tp.topic in _reported_topics:
                    return self._consumer_record(self._tp, _ReplacementRecord(replacement, batch))

    def _skip(self, batch: Any, error: Exception) -> UnreadableBatch:
        """Skip the rest of this batch, and return its replacement."""
        start = max(batch.base_offset, self.next_fetch_offset)
        end = batch.next_offset
        # A batch that is too large has given no record yet, although a reader may begin inside it.
        is_whole = isinstance(error, TooLarge) or start == batch.base_offset
        self.next_fetch_offset = end

        reason = "too_large" if isinstance(error, TooLarge) else "malformed"
        fault = str(error) if isinstance(error, CorruptRecordException) else "the name of a header is not UTF-8"
        records = max(1, self._records.records if is_whole else end - start)
        offset = batch.base_offset if is_whole else start
        replacement = UnreadableBatch(offset, records, reason, f"batch unreadable: {fault}")

        skipped[self._tp.topic] += 1
        place = f"{self._tp.topic}, partition {self._tp.partition}, offset {replacement.first}"
        log.error("%s: %d records are skipped: %s", place, records, replacement.detail)
        return replacement


class _ReplacementRecord:
    """The record that replaces an unreadable batch."""

    key = None
    checksum = None
    headers = ()

    def __init__(self, replacement: UnreadableBatch, batch: Any) -> None:
        self.offset = batch.next_offset - 1
        self.timestamp = getattr(batch, "max_timestamp", 0)
        self.timestamp_type = batch.timestamp_type
        self.value = replacement


def inflate(codec: int, data: bytes) -> bytes:
    """Decompress the records of a batch into at most `MOST` bytes, or raise TooLarge or CorruptRecordException."""
    try:
        if codec == DefaultRecordBatch.CODEC_SNAPPY:
            return _snappy(data)

        with_codec = {
            DefaultRecordBatch.CODEC_GZIP: cramjam.gzip,
            DefaultRecordBatch.CODEC_LZ4: cramjam.lz4,
            DefaultRecordBatch.CODEC_ZSTD: cramjam.zstd,
        }
        if codec not in with_codec:
            raise CorruptRecordException(f"its compression {codec} is unknown")
        return _bounded(with_codec[codec].decompress_into, data)
    except cramjam.DecompressionError as error:
        raise CorruptRecordException(f"it cannot be decompressed: {error}") from None


def _bounded(decompress: Callable[[bytes, Any], int], data: bytes) -> bytes:
    # Only a batch that grows more than 32 times needs the large room.
    for room in (_FEW * len(data), MOST):
        if room > MOST:
            continue
        space = np.empty(room, np.uint8)  # only the bytes that are written take memory
        try:
            return space[: decompress(data, space)].tobytes()
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise
    raise TooLarge(f"it is larger than {MOST} bytes when decompressed")


def _snappy(data: bytes) -> bytes:
    """Decompress one block, or several blocks as Java writes them. Each block has its size in front."""
    blocks = [data]
    if data.startswith(_XERIAL):
        blocks = []
        start = 16
        while start < len(data):
            size = int.from_bytes(data[start : start + 4], "big")
            blocks.append(data[start + 4 : start + 4 + size])
            start += 4 + size

    # Each block states its size, so a forged batch is refused before any memory is taken.
    if sum(cramjam.snappy.decompress_raw_len(block) for block in blocks) > MOST:
        raise TooLarge(f"it is larger than {MOST} bytes when decompressed")
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def install(reports: str) -> None:
    """Bound all batches that this process reads. Readers of the topic `reports` receive an `UnreadableBatch` too."""
    _reported_topics.add(reports)
    fetcher.MemoryRecords = FetchedBatches
    if not issubclass(fetcher.PartitionRecords, Bounded):
        fetcher.PartitionRecords = Bounded
