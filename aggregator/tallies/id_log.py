"""The log of the ids of counted frames, and the bytes of its segments."""

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from aggregator.tallies.id_set import IdArray
from aggregator.tallies.packing import TYPES, head, narrowest
from oracles.errors import ReportError
from oracles.types import Ints

_VERSION = 2
_BITS = len(TYPES)
"""The number, in place of a type, for one bit for each offset from the second to the last."""
_SEGMENT = struct.Struct("<BBxxIq")
"""Version, type, number of ids, first offset."""

SEGMENT = 50_000
"""The most ids in one record. Its size then is below the limit of every Kafka service."""


class IdEntry(NamedTuple):
    """The id of a frame, and the offset of the frame."""

    id: bytes
    offset: int


class IdLog(Sequence[IdEntry]):
    """A sequence of entries in the order of their offsets. Two arrays hold it, because objects need more memory."""

    def __init__(self, ids: bytearray | None = None, offsets: "array[int] | None" = None) -> None:
        self.ids = bytearray() if ids is None else ids
        """The ids, joined."""
        self.offsets = array("q") if offsets is None else offsets

    @classmethod
    def of(cls, entries: Sequence[IdEntry]) -> "IdLog":
        return cls(bytearray().join(entry.id for entry in entries), array("q", [entry.offset for entry in entries]))

    def append(self, frame_id: bytes, offset: int) -> None:
        self.ids += frame_id
        self.offsets.append(offset)

    def extend(self, ids: IdArray, offsets: Ints) -> None:
        self.ids += ids.astype("<u8", copy=False).tobytes()
        self.offsets.frombytes(offsets.tobytes())

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[IdEntry]:
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> IdEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "IdLog": ...
    def __getitem__(self, index: int | slice) -> "IdEntry | IdLog":
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return IdLog(self.ids[8 * start : 8 * stop], self.offsets[start:stop])
        place = range(len(self))[index]
        return IdEntry(bytes(self.ids[8 * place : 8 * place + 8]), self.offsets[place])

    def __eq__(self, other: object) -> Any:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it is mutable


def encode_ids(segment: Sequence[IdEntry]) -> bytes:
    """Return the bytes of a segment: at least one entry, in the order of the offsets.

    The key of the record holds the first and the last offset, so all records under one key are equal,
    even if a second worker writes one late.
    """
    entries = segment if isinstance(segment, IdLog) else IdLog.of(segment)
    offsets = np.array(entries.offsets, np.int64)
    kind, steps = _pack(offsets[1:] - offsets[:-1])
    return _SEGMENT.pack(_VERSION, kind, len(entries), entries.offsets[0]) + entries.ids + steps


def decode_ids(data: bytes) -> list[IdEntry]:
    """Read a segment, or raise a ReportError."""
    version, kind, count, first_offset = head(_SEGMENT, data, "segment")
    if version != _VERSION or not count or first_offset < 0 or any(data[2:4]):
        raise ReportError(
            f"a segment of version {version}, type {kind}, {count} ids from offset {first_offset} is invalid"
        )

    end = _SEGMENT.size + 8 * count
    if len(data) < end:
        raise ReportError(f"a segment of {len(data)} bytes is too short for {count} ids")
    steps = _unpack(data[end:], kind, count)
    offsets = [first_offset, *(first_offset + reach for reach in np.cumsum(steps).tolist())]
    ids = [data[place : place + 8] for place in range(_SEGMENT.size, end, 8)]
    return list(map(IdEntry, ids, offsets))


def _pack(steps: Ints) -> tuple[int, bytes]:
    """Return the type and the bytes of the steps between offsets: one bit for each offset, or the narrowest type."""
    kind = narrowest(steps)
    reach = int(steps.sum())
    # Frames with ids mostly lie side by side, and then a bit for each offset is shorter than a byte.
    if (reach + 7) // 8 > len(steps) * TYPES[kind].itemsize:
        return kind, steps.astype(TYPES[kind]).tobytes()

    bits = np.zeros(reach, np.bool_)
    bits[np.cumsum(steps) - 1] = True
    return _BITS, np.packbits(bits, bitorder="little").tobytes()


def _unpack(data: bytes, kind: int, count: int) -> Ints:
    """Return the steps between `count` offsets. Only the bytes that `_pack` writes are valid."""
    if kind == _BITS and len(data) <= count * 8:  # with more bytes, a type for each step is shorter
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        steps = np.diff(np.flatnonzero(bits), prepend=-1)
    else:
        steps = _unpack_type(data, kind, count - 1)

    if len(steps) != count - 1 or (steps <= 0).any() or float(steps.sum(dtype=np.float64)) >= 1 << 62:
        raise ReportError("the offsets of a segment do not ascend")
    # Only one form is valid, so that whoever writes a segment again writes the same bytes.
    if _pack(steps) != (kind, data):
        raise ReportError("the offsets of a segment are not packed in the fewest bytes")
    return steps


def _unpack_type(data: bytes, kind: int, count: int) -> Ints:
    if kind >= len(TYPES) or len(data) != count * TYPES[kind].itemsize:
        raise ReportError(f"a segment holds {len(data)} bytes for {count} steps of type {kind}")
    return np.frombuffer(data, TYPES[kind]).astype(np.int64)
