"""A record batch of one large record, which aiokafka sends instead of its own batch.

aiokafka copies the record twice and computes the checksum byte by byte. That takes longer than sorting the reports.
"""

import struct

from oracles.kernels import batches

ALONE = 16 << 10
"""Bytes from which aiokafka sends a record in a batch of its own."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH = struct.calcsize(">qi")
_CRC = struct.calcsize(">qiib")
_AFTER_CRC = _CRC + 4
_FORMAT = 2
_NO_LEADER = _NO_PRODUCER = -1


class SingleRecordBatch:
    """A closed batch with the methods of aiokafka's batch builder."""

    def __init__(self, value: bytes | memoryview, timestamp_ms: int) -> None:
        self._value = value
        self._time = timestamp_ms
        self._producer = (_NO_PRODUCER, -1, 0)
        self._bytes: bytearray | None = None

    def append(self, **_: object) -> None:
        """Refuse another record, because the batch is full."""

    def close(self) -> None:
        """Do nothing, because the batch is closed from the start."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return len(self._build())

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set the numbers of an idempotent producer. aiokafka calls it before it sends the batch."""
        self._producer = producer_id, producer_epoch, base_sequence

    def _build(self) -> bytearray:
        """Return the bytes of the batch, which stay the same if it is sent again."""
        if self._bytes is None:
            self._bytes = _encode(self._value, self._time, self._producer)
        return self._bytes


def _encode(value: bytes | memoryview, time: int, producer: tuple[int, int, int]) -> bytearray:
    # Attributes, time and offset relative to the batch, no key. After the value comes an empty list of headers.
    rest = b"".join((b"\0\0\0", _varint(-1), _varint(len(value))))
    length = _varint(len(rest) + len(value) + 1)
    size = _HEADER.size + len(length) + len(rest) + len(value) + 1
    header = _HEADER.pack(0, size - _AFTER_LENGTH, _NO_LEADER, _FORMAT, 0, 0, 0, time, time, *producer, 1)
    batch = bytearray().join((header, length, rest, value, b"\0"))
    crc = batches.crc32c(memoryview(batch)[_AFTER_CRC:])
    struct.pack_into(">I", batch, _CRC, crc)
    return batch


def _varint(number: int) -> bytes:
    """Return the number in zigzag encoding, seven bits a byte.

    >>> list(_varint(-1)), list(_varint(300))
    ([1], [216, 4])
    """
    rest = number << 1 ^ number >> 63
    octets = bytearray()
    while rest > 127:
        octets.append(rest & 127 | 128)
        rest >>= 7
    octets.append(rest)
    return bytes(octets)
