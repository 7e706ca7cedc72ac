"""Sources of random bytes, and the exact draws from which every oracle is made.

Events, uniform integers, uniform subsets and independent words have exactly the stated fractions as probabilities,
because they use integer arithmetic only. The order in which they read bytes is part of the wire format
(docs/wire-format.md). A client in another language that reads the same bytes sends the same report.
"""

import math
import os
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oracles.errors import EntropyError, ParameterError
from oracles.kernels.parity import dependent

Bytes = NDArray[np.uint8]


class TableLaw(Protocol):
    """A law of random tables, which draws from a source."""

    def draw(self, count: int, draw: "Source") -> NDArray[np.int64]: ...


class Source(ABC):
    """A stream of random bytes, and exact draws from it."""

    @abstractmethod
    def raw(self, count: int) -> Bytes:
        """Return the next `count` bytes of the stream."""

    def events(self, threshold: int, *shape: int) -> NDArray[np.bool_]:
        """Return independent events, each with probability exactly threshold / 2**64.

        An event compares a 64-bit integer with the threshold, the most significant byte first. One byte decides
        255 times of 256, and only a tie reads the other seven. All first bytes are read first, in C order. Then
        the bytes of the ties follow in the same order, little-endian.
        """
        high, low = divmod(threshold, 1 << 56)
        leading_bytes = self.raw(math.prod(shape))
        happens = leading_bytes < high
        # With low = 0 no later byte can be below it, so other languages must not read them either.
        ties = _positions(leading_bytes == high) if low else ()
        if len(ties):
            later_bytes = np.zeros((len(ties), 8), np.uint8)
            later_bytes[:, :7] = self.raw(7 * len(ties)).reshape(-1, 7)
            happens[ties] = later_bytes.view("<u8")[:, 0] < low
        return happens.reshape(shape)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Return uniform integers of 0..bound-1, by rejection of masked little-endian integers.

        An integer takes 1, 2, 4 or 8 bytes, the least that hold bound - 1. Rejected integers are drawn again
        together, in their order. A bound of 1 reads nothing.
        """
        bits = (bound - 1).bit_length()
        integers = np.zeros(count, np.int64)
        width = next(w for w in (1, 2, 4, 8) if 8 * w >= bits)
        todo: NDArray[np.int64] | slice = slice(None)
        missing = count if bits else 0
        while missing:
            values = self.raw(missing * width).view(f"<u{width}") & ((1 << bits) - 1)
            integers[todo] = values.astype(np.int64)
            todo = np.flatnonzero(integers >= bound)
            missing = len(todo)
        return integers

    def subsets(self, count: int, items: int, members: int) -> NDArray[np.bool_]:
        """Return for each of `count` rows a uniform subset: `members` of `items` items.

        Each item gets a 32-bit little-endian key, and the smallest keys win. A row with a tie at the boundary
        is drawn again, so the choice is exactly uniform.
        """
        subsets = np.full((count, items), members == items)
        if members in (0, items):
            return subsets

        todo: NDArray[np.int64] | slice = slice(None)
        missing = count
        while missing:
            keys = self.raw(4 * missing * items).view("<u4").reshape(missing, items)
            edge = np.partition(keys, members - 1, axis=1)[:, members - 1, None]
            subsets[todo] = keys <= edge
            todo = np.flatnonzero(np.count_nonzero(subsets, axis=1) != members)
            missing = len(todo)
        return subsets

    def independent(self, count: int, bits: int, words: int) -> NDArray[np.int64]:
        """Return for each of `count` rows uniform words of `bits` bits that are linearly independent over GF(2).

        The first word of every row is drawn first, then the second, and so on. A row with dependent words is
        drawn again, all its words, so the choice is exactly uniform.
        """
        rows = np.zeros((count, words), np.int64)
        todo: NDArray[np.int64] | slice = slice(None)
        missing = count
        while missing:
            rows[todo] = np.stack([self.below(1 << bits, missing) for _ in range(words)], axis=1)
            todo = np.flatnonzero(dependent(list(rows.T)))
            missing = len(todo)
        return rows

    def tables(self, law: "TableLaw", count: int) -> NDArray[np.int64]:
        """Return `count` random tables of this law, one in each row."""
        return law.draw(count, self)


class System(Source):
    """The operating system's entropy: every client draws from it."""

    def raw(self, count: int) -> Bytes:
        try:
            data = os.urandom(count)
        except (OSError, NotImplementedError) as error:
            raise EntropyError(f"the system's entropy failed, so no value was perturbed: {error}") from error
        if len(data) != count:
            raise EntropyError(f"the system gave {len(data)} of {count} bytes of entropy, so no value was perturbed")
        return np.frombuffer(data, np.uint8)


class Seeded(Source):
    """A seeded NumPy generator, for simulations and never for a person's answer."""

    def __init__(self, rng: "np.random.Generator") -> None:
        self.rng = rng

    def raw(self, count: int) -> Bytes:
        words = self.rng.integers(0, 1 << 64, -(-count // 8), dtype=np.uint64)
        return words.astype("<u8", copy=False).view(np.uint8)[:count]


def source(rng: "np.random.Generator | Source | None") -> Source:
    """Return the source for `rng`. None is the system's entropy, and a simulation passes its generator."""
    if rng is None:
        return System()
    if isinstance(rng, np.random.Generator):
        return Seeded(rng)
    if isinstance(rng, Source):
        return rng
    raise ParameterError(
        f"rng must be a numpy.random.Generator (a simulation) or None (the system's entropy), not {type(rng).__name__}"
    )


def _positions(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return np.flatnonzero(mask), faster for large masks with few flags: it looks at eight flags at a time."""
    if len(mask) % 8 or len(mask) < 1 << 12:
        return np.flatnonzero(mask)
    eights = np.flatnonzero(mask.view(np.uint64) != 0)
    flags = np.flatnonzero(mask.reshape(-1, 8)[eights])
    positions: NDArray[np.int64] = eights[flags >> 3] * 8 + (flags & 7)
    return positions
