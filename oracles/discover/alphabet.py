"""The coding of strings: a string as a fixed number of symbols, and back.

Symbols are 1..A, in the order of the alphabet, and 0 after the end. Two strings that are alike in their first `length`
symbols are the same answer, so a coded string that fills them all means "this or longer".
"""

import unicodedata
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oracles.errors import ParameterError
from oracles.types import Ints

DEFAULT_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789-._/: "
NORMALS = ("NFC lower", "NFC", "none")
"""Normal forms of texts. "lower" lowers ASCII letters only."""
OPEN_END = "\N{HORIZONTAL ELLIPSIS}"
"""The end of a name that fills the length."""
LONGEST = 128
MOST_SYMBOLS = 255
_BYTES = 255
"""Number of symbols of strings of bytes. A byte 0 counts as the last of them."""
_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


@dataclass(frozen=True)
class Coding:
    """The symbols of strings. Without an alphabet they are the bytes of UTF-8.

    A character that the alphabet lacks becomes its last symbol, so no client is silent.

    >>> coding = Coding(length=4, alphabet="ab ")
    >>> coding.symbols("ABBA, all").tolist(), coding.text([1, 2, 2, 1]), coding.text([1, 2, 0, 0])
    ([1, 2, 2, 1], 'abba…', 'ab')
    """

    length: int
    alphabet: str | None = DEFAULT_ALPHABET
    normal: str = NORMALS[0]

    def __post_init__(self) -> None:
        if not 1 <= self.length <= LONGEST:
            raise ParameterError(f"length must be from 1 to {LONGEST}, got {self.length}")
        if self.normal not in NORMALS:
            raise ParameterError(f"normal must be one of {', '.join(NORMALS)}, got {self.normal!r}")
        if self.alphabet is None:
            return
        if not 2 <= len(self.alphabet) <= MOST_SYMBOLS or len(set(self.alphabet)) != len(self.alphabet):
            raise ParameterError(f"alphabet must have from 2 to {MOST_SYMBOLS} different symbols")
        if OPEN_END in self.alphabet:
            raise ParameterError(f"alphabet must not hold {OPEN_END!r}, which marks the end of a name that was cut")

    @property
    def size(self) -> int:
        """Number of symbols, A."""
        return _BYTES if self.alphabet is None else len(self.alphabet)

    def symbols(self, text: str) -> Ints:
        """Return the first symbols of a text, and zeros after its end."""
        if self.normal != "none":
            text = unicodedata.normalize("NFC", text)
        if self.normal.endswith("lower"):
            text = text.translate(_LOWER)
        last_symbol = self.size

        # 0 is the end, so a byte of 0 needs another symbol.
        if self.alphabet is None:
            codes = [byte or last_symbol for byte in text.encode("utf-8", "surrogatepass")[: self.length]]
        else:
            codes = [self._numbers.get(symbol, last_symbol) for symbol in text[: self.length]]
        return np.array(codes + [0] * (self.length - len(codes)), np.int64)

    def text(self, symbols: Ints | list[int]) -> str:
        """Return the text of symbols. A text of all symbols ends with an ellipsis."""
        codes = [int(code) for code in symbols if code]
        if self.alphabet is None:
            text = bytes(codes).decode("utf-8", "replace")
        else:
            text = "".join(self.alphabet[code - 1] for code in codes)
        return text + OPEN_END if len(codes) == self.length else text

    def name(self, text: str) -> str:
        """Return the name of a text: all texts that are coded alike have one name."""
        return self.text(self.symbols(text))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {symbol: i + 1 for i, symbol in enumerate(self.alphabet or "")}
