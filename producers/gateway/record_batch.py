"""A record batch of one large record, as Kafka has it, for aiokafka to send in place of one that it makes itself.

That one is copied twice, and summed up byte by byte, which takes longer than to sort what it holds.
"""

import struct

from oracles.kernels import batches

ALONE = 16 << 10
"""Bytes of a record that has a batch of its own anyway: aiokafka puts no other beside it."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH = struct.calcsize(">qi")
_CRC = struct.calcsize(">qiib")
_AFTER_CRC = _CRC + 4
_FORMAT = 2
_NO_LEADER = _NO_PRODUCER = -1


class RecordBatch:
    """What aiokafka wants of a builder, closed from the start: no record is added."""

    def __init__(self, value: bytes | memoryview, timestamp_ms: int) -> None:
        self._value = value
        self._time = timestamp_ms
        self._producer = (_NO_PRODUCER, -1, 0)
        self._made: bytearray | None = None

    def append(self, **_: object) -> None:
        """No room for any."""

    def close(self) -> None:
        """It is."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return len(self._build())

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Of an idempotent producer, before it is sent first."""
        self._producer = producer_id, producer_epoch, base_sequence

    def _build(self) -> bytearray:
        """Its bytes, the same ones however often it is sent."""
        if self._made is None:
            self._made = _made(self._value, self._time, self._producer)
        return self._made


def _made(value: bytes | memoryview, time: int, producer: tuple[int, int, int]) -> bytearray:
    # Attributes, time and number, both counted from the batch's, no key; behind the value no header.
    rest = b"".join((b"\0\0\0", _varint(-1), _varint(len(value))))
    length = _varint(len(rest) + len(value) + 1)
    size = _HEADER.size + len(length) + len(rest) + len(value) + 1
    header = _HEADER.pack(0, size - _AFTER_LENGTH, _NO_LEADER, _FORMAT, 0, 0, 0, time, time, *producer, 1)
    made = bytearray().join((header, length, rest, value, b"\0"))
    crc = batches.crc32c(memoryview(made)[_AFTER_CRC:])
    struct.pack_into(">I", made, _CRC, crc)
    return made


def _varint(number: int) -> bytes:
    """In zigzag, seven bits a byte.

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
