"""Crowds that have strings, and the tallies of their reports. The counts are drawn as real reports would give them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oracles.discover import Coding, Slots, Strings
from oracles.mechanisms import fitted
from oracles.types import Floats, Ints

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LENGTH, SHORTEST = 24, 4


class DrawnSlots(Slots):
    """Slots whose tally holds the support of every cell. Such tallies add and multiply like those of reports."""

    def __init__(self, strings: Strings, epsilon: float) -> None:
        super().__init__(strings, lambda size: fitted("auto", epsilon, size, None))

    def support(self, state: Ints, n: int) -> list[Ints]:
        del n
        return list(state[: -self.strings.parts].reshape(self.strings.parts, -1))

    def draw(self, cells: Ints, holders: Ints, rng: np.random.Generator) -> Ints:
        """Return a tally of clients. `cells` has a row for each string, and `holders` says how many have it."""
        strings, cell = self.strings, self.cell_oracle
        chances = np.bincount(strings.part(np.arange(strings.slots))) / strings.slots
        remaining, left, counts, answering = holders.copy(), 1.0, [], []
        for part, chance in enumerate(chances):
            # Rounding may put the last chance above 1.
            part_holders = rng.binomial(remaining, min(1.0, chance / left))
            remaining -= part_holders
            left -= chance
            cell_holders = np.bincount(cells[:, part], part_holders, 1 << strings.cells).astype(np.int64)
            clients = int(part_holders.sum())
            counts.append(rng.binomial(cell_holders, cell.p) + rng.binomial(clients - cell_holders, cell.q))
            answering.append(clients)
        return np.concatenate([*counts, answering]).astype(np.int64)


@dataclass(frozen=True)
class Crowd:
    """Words of random letters whose shares follow Zipf's law."""

    words: tuple[str, ...]
    shares: Floats
    digest: bytes = bytes(8)
    cells: int = 16

    @classmethod
    def zipf(cls, size: int, seed: int, exponent: float = 1.1) -> "Crowd":
        """Return about `size` different words."""
        rng = np.random.default_rng(seed)
        lengths = rng.integers(SHORTEST, LENGTH + 1, size)
        letters = rng.integers(0, len(LETTERS), int(lengths.sum()), np.uint8) + ord("a")
        text, ends = letters.tobytes().decode(), np.cumsum(lengths).tolist()
        words = dict.fromkeys(text[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True))
        weights = np.arange(1, len(words) + 1) ** -exponent
        return cls(tuple(words), weights / weights.sum(), rng.bytes(8))

    @cached_property
    def strings(self) -> Strings:
        return Strings(Coding(LENGTH, LETTERS, "none"), self.cells, self.digest)

    @cached_property
    def numbers(self) -> Ints:
        """The number of each chunk of each word."""
        # The character before `a` stands for the end of a word and has the number 0.
        joined = np.frombuffer("".join(word.ljust(LENGTH, "`") for word in self.words).encode(), np.uint8)
        symbols = (joined.reshape(-1, LENGTH) - ord("`")).astype(np.int64)
        columns, start = [], 0
        for size in self.strings.chunks:
            weights = (len(LETTERS) + 1) ** np.arange(size - 1, -1, -1)
            columns.append(symbols[:, start : start + size] @ weights)
            start += size
        return np.column_stack(columns)

    @cached_property
    def text_cells(self) -> Ints:
        """The cell of each word for each level and map."""
        strings = self.strings
        cells = np.zeros((len(self.words), strings.parts), np.int32)
        for chunk in range(strings.levels):
            places = np.searchsorted(strings.valid(chunk), self.numbers[:, chunk])
            cells[:, chunk:] ^= strings.table(chunk)[places, chunk:].astype(np.int32)
        return cells

    def people(self, n: int, rng: np.random.Generator, plan: dict[int, float] | None = None) -> Ints:
        """Return how many of `n` clients have each word. `plan` has the shares of some words, by place."""
        shares = self.shares * (1.0 - sum((plan or {}).values()))
        shares[list(plan or {})] = list((plan or {}).values())
        return rng.multinomial(n, shares / shares.sum())

    @cached_property
    def places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}


def plain(name: str) -> str:
    """Return a name without the mark of an open end. No word of a crowd is longer than the limit."""
    return name.removesuffix("…")
