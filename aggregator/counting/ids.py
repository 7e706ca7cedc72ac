"""Ids of frames that are counted, each with the offset at which it was; they are written in segments."""

import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from aggregator.counting.known import Names
from aggregator.counting.packing import TYPES, head, narrowest
from oracles.errors import ReportError
from oracles.types import Ints

_SINCE_FIRST, _VERSION = 1, 2
_BITS = len(TYPES)
"""In place of a type: a bit for each offset behind the first, up to the last."""
_SEGMENT = struct.Struct("<BBxxIq")


class CountedId(NamedTuple):
    """A frame's id and the offset at which it was counted."""

    id: bytes
    offset: int


SEGMENT = 50_000
"""Ids in one record, at most: below what any service takes for one."""


class Ids(Sequence[CountedId]):
    """CountedId ids in the order of their offsets, kept as two arrays: an object each would cost more than the rest."""

    def __init__(self, names: bytearray | None = None, offsets: "array[int] | None" = None) -> None:
        self.names = bytearray() if names is None else names
        """One after another."""
        self.offsets = array("q") if offsets is None else offsets

    @classmethod
    def of(cls, entries: Sequence[CountedId]) -> "Ids":
        return cls(bytearray().join(entry.id for entry in entries), array("q", [entry.offset for entry in entries]))

    def append(self, name: bytes, offset: int) -> None:
        self.names += name
        self.offsets.append(offset)

    def extend(self, names: Names, offsets: Ints) -> None:
        self.names += names.astype("<u8", copy=False).tobytes()
        self.offsets.frombytes(offsets.tobytes())

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[CountedId]:
        return map(self.__getitem__, range(len(self)))

    @overload
    def __getitem__(self, index: int) -> CountedId: ...
    @overload
    def __getitem__(self, index: slice) -> "Ids": ...
    def __getitem__(self, index: int | slice) -> "CountedId | Ids":
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return Ids(self.names[8 * start : 8 * stop], self.offsets[start:stop])
        at = range(len(self))[index]
        return CountedId(bytes(self.names[8 * at : 8 * at + 8]), self.offsets[at])

    def __eq__(self, other: object) -> Any:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it grows


def encode_ids(segment: Sequence[CountedId]) -> bytes:
    """A segment of ids, in the order of their offsets. There is no empty one.

    Its key should hold its first and last offset: then all that is written under it, by a zombie
    too, says the same.
    """
    ids = segment if isinstance(segment, Ids) else Ids.of(segment)
    offsets = np.array(ids.offsets, np.int64)
    kind, steps = _packed(np.diff(offsets))
    return _SEGMENT.pack(_VERSION, kind, len(ids), ids.offsets[0]) + ids.names + steps


def decode_ids(data: bytes) -> list[CountedId]:
    """The entries of a segment; a ReportError where `data` is none."""
    version, kind, count, first = head(_SEGMENT, data, "segment")
    if version not in (_SINCE_FIRST, _VERSION) or not count or first < 0 or any(data[2:4]):
        raise ReportError(f"a segment of version {version}, type {kind}, {count} ids from offset {first} on")
    end = _SEGMENT.size + 8 * count
    if len(data) < end:
        raise ReportError(f"a segment of {count} ids in {len(data)} bytes")
    steps = (_steps if version == _VERSION else _since_first)(data[end:], kind, count)
    offsets = [first, *(first + reach for reach in np.cumsum(steps).tolist())]
    names = [data[at : at + 8] for at in range(_SEGMENT.size, end, 8)]
    return list(map(CountedId, names, offsets))


def _packed(steps: Ints) -> tuple[int, bytes]:
    """Steps from one offset to the next: as a bit for each offset, or each in the narrowest type that holds all."""
    kind, reach = narrowest(steps), int(steps.sum())
    if (reach + 7) // 8 > len(steps) * TYPES[kind].itemsize:
        return kind, steps.astype(TYPES[kind]).tobytes()
    taken = np.zeros(reach, np.bool_)
    taken[np.cumsum(steps) - 1] = True
    return _BITS, np.packbits(taken, bitorder="little").tobytes()


def _steps(data: bytes, kind: int, count: int) -> Ints:
    """The steps of `count` offsets, as the writer has packed them and in no other way."""
    if kind == _BITS and len(data) <= count * 8:  # else a type for each step would be shorter
        taken = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        steps = np.diff(np.flatnonzero(taken), prepend=-1)
    else:
        steps = _typed(data, kind, count - 1)
    if len(steps) != count - 1 or (steps <= 0).any() or float(steps.sum(dtype=np.float64)) >= 1 << 62:
        raise ReportError("the offsets of a segment ascend")
    if _packed(steps) != (kind, data):
        raise ReportError("the offsets of a segment stand in the fewest bytes")
    return steps


def _since_first(data: bytes, kind: int, count: int) -> Ints:
    """The same of a segment as versions up to 0.1 have written it, which holds steps from its first offset."""
    steps = _typed(data, kind, count)
    if steps[0] or (np.diff(steps) <= 0).any() or narrowest(steps) != kind or int(steps[-1]) >= 1 << 62:
        raise ReportError("the offsets of a segment ascend")
    return np.diff(steps)


def _typed(data: bytes, kind: int, count: int) -> Ints:
    if kind >= len(TYPES) or len(data) != count * TYPES[kind].itemsize:
        raise ReportError(f"{count} offsets of type {kind} in {len(data)} bytes")
    return np.frombuffer(data, TYPES[kind]).astype(np.int64)
