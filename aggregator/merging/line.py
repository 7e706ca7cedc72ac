"""Panes in the order of time: of each a few numbers at hand, and its merged tally, narrow as it travels, in a store."""

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from aggregator.counting.tally import Snapshot, decoded_again, encode_snapshot
from oracles.types import Ints

Answering = Callable[[Snapshot], Sequence[int]]
"""How many reports of a tally speak of each attribute."""
Place = Any
"""Where a store has a piece: a number of its own, or the piece itself."""


class PaneStore(Protocol):
    """Pieces of bytes, each kept until it is dropped."""

    def put(self, data: bytes) -> Place: ...
    def get(self, place: Place) -> bytes: ...
    def drop(self, place: Place) -> None: ...
    def fresh(self) -> "PaneStore":
        """Another of its kind, for what is kept for a while only."""


class Memory:
    """The store that keeps all in memory."""

    def put(self, data: bytes) -> Place:
        return data

    def get(self, place: Place) -> bytes:
        return bytes(place)

    def drop(self, place: Place) -> None:
        """It goes with whoever knows it."""

    def fresh(self) -> "Memory":
        return self


def everyone(snapshot: Snapshot) -> Sequence[int]:
    """Of a query with one answer."""
    return (snapshot.n,)


class Line:
    """A queue of panes: of each its start and how many answered stand at hand, its tally in a store."""

    def __init__(self, store: PaneStore | None = None, answering: Answering = everyone) -> None:
        self._store, self._answering = store or Memory(), answering
        self._places: deque[Place] = deque()
        self._heads = array("q")
        """Of each pane its start and n, then how many answered for each attribute."""
        self._width = 3

    def __del__(self) -> None:
        self.clear()  # the store outlives it

    def __len__(self) -> int:
        return len(self._places)

    def append(self, start: int, snapshot: Snapshot) -> None:
        head = (start, snapshot.n, *self._answering(snapshot))
        self._width = len(head)
        self._heads.extend(head)
        self._places.append(self._store.put(encode_snapshot(snapshot)))

    def start(self, at: int = 0) -> int:
        return self._heads[at * self._width]

    def n(self, at: int = 0) -> int:
        return self._heads[at * self._width + 1]

    def first_with_reports(self) -> int | None:
        """The start of the first pane that anybody answered in."""
        return next((self.start(at) for at in range(len(self)) if self.n(at)), None)

    def __getitem__(self, at: int) -> Snapshot:
        return decoded_again(self._store.get(self._places[at]))

    def popleft(self) -> Snapshot:
        first = self[0]
        self._store.drop(self._places.popleft())
        del self._heads[: self._width]
        return first

    def clear(self) -> None:
        while self._places:
            self._store.drop(self._places.popleft())
        del self._heads[:]

    def answered(self, count: int) -> Ints:
        """Of the first panes, a row each: the start, and how many answered for each attribute."""
        rows = np.array(self._heads[: count * self._width], np.int64).reshape(-1, self._width)
        return np.delete(rows, 1, axis=1)
