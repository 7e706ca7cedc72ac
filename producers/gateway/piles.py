"""Piles: the reports of many requests for one query and pane, shuffled before they become frames.

Who reads the topic sees neither which reports came together, nor in which order, nor when: only
that they were of one pile. A pile of one request hides the order alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oracles.frame import HEADER_SIZE, blank, encode
from oracles.kernels import orders
from oracles.kernels.arrays import add_integers, integers
from oracles.types import Reports
from producers.batch import Sealed, random_id
from producers.gateway.submission import Lot

FULL = 896 << 10
"""Bytes of reports at which a pile goes at once: with those of one more request they fit in a frame of 1 MiB."""
SHORT = (1, 2)
"""Widths of reports of which so few differ that they are put in order by what they say: equal ones side by side."""


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
        digest, pane, width = self.lot.query.digest, self.lot.pane, self.lot.query.oracle.width
        most = max(1, (limit - HEADER_SIZE) // width)
        count = -(-self.n // most)
        if count == 1:
            id_ = random_id()
            data, rows = blank(digest, pane, self.n, width, id_)
            shuffle(self.pieces, rows)
            yield Sealed(id_, pane, self.n, data)
            return
        reports = np.empty((self.n, width), np.uint8)
        shuffle(self.pieces, reports)
        for first in range(count):
            rows = reports[first::count]  # a sample of all: equal reports stand side by side
            id_ = random_id()
            yield Sealed(id_, pane, len(rows), encode(digest, pane, rows, id_))


def shuffle(pieces: Sequence[Reports], into: Reports) -> None:
    """Fill `into` with the same reports in an order that says nothing of the one in which they came."""
    if into.shape[1] in SHORT:
        into[:] = repeated(np.concatenate(pieces))
    else:
        orders.shuffle(pieces, into)


def repeated(reports: Reports) -> Reports:
    """The reports that there are in random order, each as often as it is there. Faster than any shuffling."""
    words = integers(reports)
    counts = np.zeros(int(words.max()) + 1, np.int64)
    add_integers(counts, reports)
    found = np.random.default_rng().permutation(np.flatnonzero(counts))
    return np.repeat(found.astype(words.dtype), counts[found]).view(np.uint8).reshape(reports.shape)
