"""Hashed cells of strings: a client reports one of 2**b cells of a prefix, or of the whole string.

A string is a row of chunks of a few symbols. Level j hashes the first j + 1 chunks, and each of four maps hashes all.
A cell is the xor of one word for each chunk (tabulation), so the server extends a prefix by one xor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from oracles.discover.alphabet import Coding
from oracles.errors import ParameterError
from oracles.types import Ints

MAPS = 4
LEVEL_SLOTS = 5
MAP_SLOTS = 3
"""Numbers of slots of a level and of a map: a client draws one of all slots."""
LEAST_CELLS = 12
MOST_CELLS = 16
CHUNK = 2_048
"""Most numbers of a chunk, except the first one, which may have as many as there are cells."""
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
_WORDS = 8
"""Number of 32-bit words in a digest of SHA-256."""


@dataclass(frozen=True)
class Strings:
    """The chunks and cells of a query of unknown strings. The query's digest keys the hash.

    >>> strings = Strings(Coding(length=24), 16, bytes(8))
    >>> strings.chunks[:3], strings.levels, strings.slots
    ([2, 2, 2], 12, 72)
    >>> strings.text(strings.numbers("TypeError: x"))
    'typeerror: x'
    """

    coding: Coding
    cells: int
    """Logarithm of the number of cells of a level or a map, b."""
    digest: bytes

    def __post_init__(self) -> None:
        if not LEAST_CELLS <= self.cells <= MOST_CELLS:
            raise ParameterError(f"cells must be from {LEAST_CELLS} to {MOST_CELLS}, got {self.cells}")

    @cached_property
    def chunks(self) -> list[int]:
        """Number of symbols of each chunk."""
        base = self.coding.size + 1
        length = self.coding.length
        # The first chunk has no parents that multiply its candidates, so it may fill all cells.
        sizes = [min(_most_symbols(base, 1 << self.cells), length)]
        later_size = _most_symbols(base, CHUNK)
        while sum(sizes) < length:
            sizes.append(min(later_size, length - sum(sizes)))
        return sizes

    @property
    def levels(self) -> int:
        return len(self.chunks)

    @property
    def parts(self) -> int:
        """Number of levels and maps together."""
        return self.levels + MAPS

    @property
    def slots(self) -> int:
        return LEVEL_SLOTS * self.levels + MAP_SLOTS * MAPS

    def part(self, slot: Ints) -> Ints:
        """Return the level of each slot, or the number of levels plus the map."""
        maps = self.levels + (slot - LEVEL_SLOTS * self.levels) // MAP_SLOTS
        parts: Ints = np.where(slot < LEVEL_SLOTS * self.levels, slot // LEVEL_SLOTS, maps)
        return parts

    def numbers(self, text: str) -> Ints:
        """Return the number of each chunk of a text. Its first symbol is the most significant digit."""
        symbols = self.coding.symbols(text)
        base = self.coding.size + 1
        start = 0
        numbers = []
        for size in self.chunks:
            number = 0
            for symbol in symbols[start : start + size].tolist():
                number = number * base + symbol
            numbers.append(number)
            start += size
        return np.array(numbers, np.int64)

    def text(self, numbers: Ints) -> str:
        """Return the text of a number for each chunk."""
        symbols: list[int] = []
        for size, number in zip(self.chunks, numbers.tolist(), strict=True):
            digits = []
            for _ in range(size):
                number, digit = divmod(number, self.coding.size + 1)  # noqa: PLW2901 - digits from the last on
                digits.append(digit)
            symbols += reversed(digits)
        return self.coding.text(symbols)

    def is_name(self, text: str) -> bool:
        """Whether a text is the name of the strings that are coded like it, and of no others.

        Bytes that are no character have one mark in all names, for example in a name that was cut within a character.
        """
        is_clear = self.coding.alphabet is not None or _UNREADABLE not in text
        return is_clear and self.coding.name(text) == text

    def words(self, chunk: int, number: int) -> Ints:
        """Return the word of a chunk's number for each level and map."""
        blocks = range(-(-self.parts // _WORDS))
        # The digest keys the hash: whoever forges reports cannot prepare strings with one cell before the query exists.
        prefix = self.digest + chunk.to_bytes(2, "little") + number.to_bytes(4, "little")
        data = b"".join(sha256(prefix + bytes([block])).digest() for block in blocks)
        return np.frombuffer(data, "<u4")[: self.parts].astype(np.int64) & ((1 << self.cells) - 1)

    def cells_of(self, text: str) -> Ints:
        """Return the cell of a text for each level and map."""
        return self.cells_of_numbers(self.numbers(text))

    def cells_of_numbers(self, numbers: Ints) -> Ints:
        """Return the cell of a string for each level and map, by the numbers of its chunks."""
        cells = np.zeros(self.parts, np.int64)
        for chunk, number in enumerate(numbers.tolist()):
            cells[chunk:] ^= self.words(chunk, number)[chunk:]
        return cells

    def cells_of_many(self, texts: Sequence[str]) -> Ints:
        """Return the cells of many texts, a row for each. It hashes all numbers of all chunks first."""
        numbers = np.array([self.numbers(text) for text in texts]).reshape(len(texts), self.levels)
        cells = np.zeros((len(texts), self.parts), np.int64)
        for chunk in range(self.levels):
            places = np.searchsorted(self.valid(chunk), numbers[:, chunk])
            cells[:, chunk:] ^= self.table(chunk)[places, chunk:]
        return cells

    def valid(self, chunk: int) -> Ints:
        """Return the numbers of a chunk that have no symbol after an end, in order."""
        base = self.coding.size + 1
        numbers = np.zeros(1, np.int64)
        for width in range(self.chunks[chunk]):
            longer = np.arange(1, base)[:, None] * base**width + numbers
            numbers = np.concatenate([[0], longer.reshape(-1)])
        return numbers

    @cached_property
    def _tables(self) -> dict[int, Ints]:
        return {}

    def table(self, chunk: int) -> Ints:
        """Return the words of all valid numbers of a chunk, a row for each. They are kept."""
        if chunk not in self._tables:
            self._tables[chunk] = np.array([self.words(chunk, number) for number in self.valid(chunk).tolist()])
        return self._tables[chunk]


def _most_symbols(base: int, most: int) -> int:
    """Return the most symbols whose numbers are at most `most`, at least one."""
    symbols = 1
    while base ** (symbols + 1) <= most:
        symbols += 1
    return symbols
