"""Piles: the reports of many requests for one query and pane, shuffled before they become frames.

Who reads the topic sees neither which reports came together, nor in which order, nor when: only
that they were of one pile. A pile of one request hides the order alone.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oracles.frame import HEADER_SIZE, encode
from oracles.types import Reports
from producers.batch import Sealed, random_id
from producers.gateway.submission import Lot

FULL = 896 << 10
"""Bytes of reports at which a pile goes at once: with those of one more request they fit in a frame of 1 MiB."""
WIDE = 4
_WORDS = (1, 2, WIDE)
"""Widths of reports that are put in order as words: all equal ones side by side."""

Words = NDArray[np.unsignedinteger]


@dataclass(slots=True, eq=False)
class Pile:
    """The reports that came in for one query and pane, and wait for more."""

    lot: Lot
    """The first of them."""
    n: int = 0
    pieces: list[Reports] = field(default_factory=list)

    def add(self, reports: Reports) -> None:
        self.pieces.append(reports)
        self.n += len(reports)

    @property
    def full(self) -> bool:
        """Whether it fills a frame: more would make nothing faster."""
        return self.n * self.lot.query.oracle.width >= FULL

    def frames(self, limit: int) -> Iterator[Sealed]:
        """The frames of all its reports, in an order that tells nothing, each with a random id."""
        reports = shuffled(self.pieces)
        most = max(1, (limit - HEADER_SIZE) // self.lot.query.oracle.width)
        count = -(-self.n // most)
        digest, pane = self.lot.query.digest, self.lot.pane
        for first in range(count):
            rows = reports[first::count]  # a sample of all: equal reports stand side by side
            id_ = random_id()
            yield Sealed(id_, pane, len(rows), encode(digest, pane, rows, id_))


def shuffled(pieces: Sequence[Reports]) -> Reports:
    """The same reports in an order that says nothing of the one in which they came."""
    n, width = sum(map(len, pieces)), pieces[0].shape[1]
    if n == 1:
        return pieces[0]
    if width not in _WORDS:
        # Not rng.permutation(reports): it moves row by row, which takes three times as long.
        return np.concatenate(pieces).take(np.random.default_rng().permutation(n), axis=0)
    words = [np.ascontiguousarray(piece).view(f"<u{width}").ravel() for piece in pieces]
    mixed = scattered(words, int.from_bytes(os.urandom(4), "little") | 1) if width == WIDE else repeated(words)
    return mixed.view(np.uint8).reshape(n, width)


def repeated(pieces: Sequence[Words]) -> Words:
    """The words that there are in random order, each as often as it is there. Faster than any sorting."""
    size = 1 + max(int(piece.max()) for piece in pieces)
    counts = np.bincount(pieces[0], minlength=size)
    for piece in pieces[1:]:
        counts += np.bincount(piece, minlength=size)
    found = np.random.default_rng().permutation(np.flatnonzero(counts))
    return np.repeat(found.astype(pieces[0].dtype), counts[found])


def scattered(pieces: Sequence[Words], key: int) -> Words:
    """The words sorted by their products with an odd key: of the order in which they came nothing is left.

    What comes out depends on which words there are, and on the key, alone. It takes half as long as
    a random permutation.
    """
    words = np.empty(sum(map(len, pieces)), np.uint32)
    start = 0
    for piece in pieces:
        np.multiply(piece, np.uint32(key), out=words[start : start + len(piece)])
        start += len(piece)
    words.sort()
    words *= np.uint32(pow(key, -1, 1 << 32))
    return words
