"""The set of the frame ids that a tally has counted. With compiled kernels it is a table of 16 to 32 bytes an id."""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import c_library

IdArray = NDArray[np.uint64]
"""Ids as little-endian integers. 0 stands for a frame without an id."""

_KEY = np.frombuffer(secrets.token_bytes(24), np.uint64)
"""The key of the hash that places ids in tables. It is secret, so that no client can choose ids that slow a worker."""
_MIN_BITS = 6
"""The binary logarithm of the number of places in the smallest table."""


class PythonIdSet(set[bytes]):
    """A set of ids in Python, and the model for CompiledIdSet."""

    def add_all(self, numbers: IdArray) -> bool:
        """Add these ids and return True if all are ids, new and distinct. If not, add none and return False."""
        ids: list[bytes] = numbers.astype("<u8", copy=False).view("V8").tolist()
        new_ids = set(ids)
        if not numbers.all() or len(new_ids) < len(ids) or not self.isdisjoint(new_ids):
            return False
        self |= new_ids
        return True


class CompiledIdSet:
    """A set of ids in a hash table of the kernels, at most half full."""

    __slots__ = ("_count", "_places", "_table")
    __hash__ = None  # type: ignore[assignment] # it is mutable

    def __init__(self, ids: Iterable[bytes] = ()) -> None:
        self._count = 0
        self._places = np.zeros(0, np.uint64)
        self._table: tuple[Any, int, Any] = (None, 0, None)
        """The places, the binary logarithm of their number, and the key, in the form of the kernels."""
        numbers = np.unique(np.frombuffer(b"".join(ids), "<u8"))
        self.add_all(numbers[numbers != 0])

    def __len__(self) -> int:
        return self._count

    def __contains__(self, frame_id: bytes) -> bool:
        if not self._count:
            return False
        return bool(c_library.lib().knows_id(*self._table, int.from_bytes(frame_id, "little")))

    def __iter__(self) -> Iterator[bytes]:
        numbers = np.sort(self._places[self._places != 0])
        return iter([number.to_bytes(8, "little") for number in numbers.tolist()])

    def __eq__(self, other: object) -> Any:
        return set(self) == set(other) if isinstance(other, PythonIdSet | CompiledIdSet | set) else NotImplemented

    def add(self, frame_id: bytes) -> None:
        self._make_room(1)
        self._count += c_library.lib().learn_ids(*self._table, c_library.buffer("uint64_t[]", frame_id), 1)

    def add_all(self, numbers: IdArray) -> bool:
        """Add these ids and return True if all are ids, new and distinct. If not, add none and return False."""
        if not len(numbers):
            return True
        self._make_room(len(numbers))
        if not self._insert(numbers):
            return False
        self._count += len(numbers)
        return True

    def _make_room(self, more: int) -> None:
        # Beyond half full the probes of a hash table grow long, and with a full one they never end.
        size = 2 * (self._count + more)
        if size <= len(self._places):
            return

        earlier_places = self._places
        bits = max(_MIN_BITS, (size - 1).bit_length())
        self._places = np.zeros(1 << bits, np.uint64)
        self._table = c_library.buffer("uint64_t[]", self._places), bits, c_library.buffer("uint64_t[]", _KEY)
        self._insert(earlier_places[earlier_places != 0])

    def _insert(self, numbers: IdArray) -> bool:
        buffer = c_library.buffer("uint64_t[]", np.ascontiguousarray(numbers, np.uint64))
        return bool(c_library.lib().learn_ids(*self._table, buffer, len(numbers)))


def id_set(ids: Iterable[bytes] = ()) -> PythonIdSet | CompiledIdSet:
    """Return a set of these ids, in the fastest form there is."""
    return CompiledIdSet(ids) if c_library.in_use() and hasattr(c_library.lib(), "learn_ids") else PythonIdSet(ids)
