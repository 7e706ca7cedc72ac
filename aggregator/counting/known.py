"""The ids that a tally knows: a set of names, or where kernels are compiled a table of 16 to 32 bytes an id."""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import compiled

Names = NDArray[np.uint64]
"""Ids as little-endian integers; 0 is none."""

_KEY = np.frombuffer(secrets.token_bytes(24), np.uint64)
"""Tells the places in tables; whoever knew it could choose ids that slow this worker down."""
_LEAST = 6
"""Of a table with anything in it, the binary logarithm of its places."""


class Plain(set[bytes]):
    """The ids as a set: what a Table has to equal."""

    def learn(self, numbers: Names) -> bool:
        """Whether all of these are ids, new, and none twice: then they are known from now on, else none of them."""
        names: list[bytes] = numbers.astype("<u8", copy=False).view("V8").tolist()
        new = set(names)
        if not numbers.all() or len(new) < len(names) or not self.isdisjoint(new):
            return False
        self |= new
        return True


class Table:
    """The same by the kernels: at most half of its places are taken."""

    __slots__ = ("_count", "_places", "_table")
    __hash__ = None  # type: ignore[assignment] # it grows

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        self._count = 0
        self._places = np.zeros(0, np.uint64)
        self._table: tuple[Any, int, Any] = (None, 0, None)
        """The places, how many as a power of two, and the key, as the kernels take them."""
        numbers = np.unique(np.frombuffer(b"".join(names), "<u8"))
        self.learn(numbers[numbers != 0])

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: bytes) -> bool:
        if not self._count:
            return False
        return bool(compiled.lib().knows_id(*self._table, int.from_bytes(name, "little")))

    def __iter__(self) -> Iterator[bytes]:
        numbers = np.sort(self._places[self._places != 0])
        return iter([number.to_bytes(8, "little") for number in numbers.tolist()])

    def __eq__(self, other: object) -> Any:
        return set(self) == set(other) if isinstance(other, Plain | Table | set) else NotImplemented

    def add(self, name: bytes) -> None:
        self._make_room(1)
        self._count += compiled.lib().learn_ids(*self._table, compiled.buffer("uint64_t[]", name), 1)

    def learn(self, numbers: Names) -> bool:
        """As `Plain.learn`."""
        if not len(numbers):
            return True
        self._make_room(len(numbers))
        if not self._learn(numbers):
            return False
        self._count += len(numbers)
        return True

    def _make_room(self, more: int) -> None:
        wanted = 2 * (self._count + more)
        if wanted <= len(self._places):
            return
        before = self._places
        bits = max(_LEAST, (wanted - 1).bit_length())
        self._places = np.zeros(1 << bits, np.uint64)
        self._table = compiled.buffer("uint64_t[]", self._places), bits, compiled.buffer("uint64_t[]", _KEY)
        self._learn(before[before != 0])

    def _learn(self, numbers: Names) -> bool:
        ids = compiled.buffer("uint64_t[]", np.ascontiguousarray(numbers, np.uint64))
        return bool(compiled.lib().learn_ids(*self._table, ids, len(numbers)))


def known(names: Iterable[bytes] = ()) -> Plain | Table:
    """What knows these ids."""
    return Table(names) if compiled.in_use() and hasattr(compiled.lib(), "learn_ids") else Plain(names)
