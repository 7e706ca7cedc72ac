"""Where randomness comes from, and the three exact draws that every oracle is made of.

A *source* is a stream of random bytes. Events, uniform integers and uniform subsets are read off it
with integer arithmetic only, so their probabilities are exactly the stated fractions. The order in
which bytes are consumed is part of the wire format (docs/wire-format.md): a client in another
language that reads the same bytes sends the same report.
"""

import math
import os
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from oracles.errors import EntropyError, ParameterError

Bytes = NDArray[np.uint8]


class Source(ABC):
    """A stream of random bytes and the exact draws made from it."""

    @abstractmethod
    def raw(self, count: int) -> Bytes:
        """The next `count` bytes of the stream."""

    def events(self, threshold: int, *shape: int) -> NDArray[np.bool_]:
        """Independent events, each with probability exactly threshold / 2**64.

        An event compares a 64-bit integer with the threshold, most significant byte first: one byte
        decides 255 times of 256, and only a tie reads the other seven. All first bytes are read
        first, in C order, then the ties' in the same order, little-endian.
        """
        high, low = divmod(threshold, 1 << 56)
        first = self.raw(math.prod(shape))
        happens = first < high
        ties = _positions(first == high) if low else ()
        if len(ties):
            rest = np.zeros((len(ties), 8), np.uint8)
            rest[:, :7] = self.raw(7 * len(ties)).reshape(-1, 7)
            happens[ties] = rest.view("<u8")[:, 0] < low
        return happens.reshape(shape)

    def below(self, bound: int, count: int) -> NDArray[np.int64]:
        """Uniform integers 0..bound-1, by rejection of masked little-endian integers.

        Each is read in 1, 2, 4 or 8 bytes, the least that hold bound - 1; those rejected are drawn
        again, together, in their order. A bound of 1 reads nothing.
        """
        bits = (bound - 1).bit_length()
        drawn = np.zeros(count, np.int64)
        width = next(w for w in (1, 2, 4, 8) if 8 * w >= bits)
        todo: NDArray[np.int64] | slice = slice(None)
        left = count if bits else 0
        while left:
            values = self.raw(left * width).view(f"<u{width}") & ((1 << bits) - 1)
            drawn[todo] = values.astype(np.int64)
            todo = np.flatnonzero(drawn >= bound)
            left = len(todo)
        return drawn

    def subsets(self, count: int, among: int, chosen: int) -> NDArray[np.bool_]:
        """For each of `count` rows a uniform subset of `chosen` of `among` items.

        Each item gets a 32-bit little-endian key, and the smallest keys are chosen. A row whose
        boundary is tied is drawn again, which makes the choice exactly uniform.
        """
        picked = np.full((count, among), chosen == among)
        if chosen in (0, among):
            return picked
        todo: NDArray[np.int64] | slice = slice(None)
        left = count
        while left:
            keys = self.raw(4 * left * among).view("<u4").reshape(left, among)
            edge = np.partition(keys, chosen - 1, axis=1)[:, chosen - 1, None]
            picked[todo] = keys <= edge
            todo = np.flatnonzero(np.count_nonzero(picked, axis=1) != chosen)
            left = len(todo)
        return picked


class System(Source):
    """The operating system's entropy: what clients draw from, always."""

    def raw(self, count: int) -> Bytes:
        try:
            data = os.urandom(count)
        except (OSError, NotImplementedError) as error:
            raise EntropyError(f"the system's entropy failed, nothing was perturbed: {error}") from error
        if len(data) != count:
            raise EntropyError(f"the system gave {len(data)} bytes of entropy where {count} were asked for")
        return np.frombuffer(data, np.uint8)


class Seeded(Source):
    """A seeded NumPy generator: for simulations, never for a person's answer."""

    def __init__(self, rng: "np.random.Generator") -> None:
        self.rng = rng

    def raw(self, count: int) -> Bytes:
        words = self.rng.integers(0, 1 << 64, -(-count // 8), dtype=np.uint64)
        return words.astype("<u8", copy=False).view(np.uint8)[:count]


def source(rng: "np.random.Generator | Source | None") -> Source:
    """None is the system's entropy; a simulation says so by passing its generator."""
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
    """np.flatnonzero, which for large masks that are nearly empty looks at eight flags at a time first."""
    if len(mask) % 8 or len(mask) < 1 << 12:
        return np.flatnonzero(mask)
    eights = np.flatnonzero(mask.view(np.uint64) != 0)
    among = np.flatnonzero(mask.reshape(-1, 8)[eights])
    positions: NDArray[np.int64] = eights[among >> 3] * 8 + (among & 7)
    return positions
