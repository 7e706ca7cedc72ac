"""Domains: the possible answers and their positions. Values are here, and the other kinds in `domain_kinds`."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from oracles.errors import ReportError
from oracles.mechanisms import ORACLES
from oracles.numbers import Scale
from oracles.query.settings import Rule, shown
from oracles.query.strings import Discovery

OTHER = "(other)"
"""Name of the last value, if answers outside the domain count too."""

VALUES = "values"
NUMBERS = "numbers"
NAMES = "names"
KINDS = (VALUES, NUMBERS, NAMES)
"""The kinds of answers: listed values, numbers on a scale, and strings that nobody listed."""

Sets = tuple[tuple[str, tuple[int, ...]], ...]
"""Names of sets with the positions of their values, both in order."""
Ranges = tuple[tuple[str, tuple[float, float]], ...]
"""Names of ranges of numbers with their ends, in the order of the names."""
BINS_BY_DEFAULT = 256

_NUMBER = re.compile("0|[1-9][0-9]{0,9}")


@dataclass(frozen=True)
class Domain:
    """Values in order, or only their number: then their names are "0", "1", ... Other kinds are subclasses."""

    kind: ClassVar[str] = VALUES
    """The kind of the answers."""
    oracles: ClassVar[tuple[str, ...]] = tuple(ORACLES)
    """Oracles of the answers, by their names in a query file."""
    wrong_oracle: ClassVar[str] = '"{}" is for numbers; use domain = {{ low = ..., high = ... }}, or another oracle'
    """The message about another oracle. The braces stand for its name."""
    no_sets: ClassVar[str] = ""
    """Why the answers have no sets, or nothing."""
    no_ranges: ClassVar[str] = "must be absent: ranges are for numbers, and sets for values"
    has_lists: ClassVar[bool] = False
    """Whether a record has a list for each value."""
    can_pair: ClassVar[bool] = True
    """Whether the answers can be counted in pairs with others."""

    values: tuple[str, ...] | None
    size: int
    """Number of names that the oracle counts: the values, and "(other)" if there is one."""
    other: bool
    scale: Scale | None = None
    """Scale of numbers, or None if the answers are values."""
    unit: str | None = None
    """Unit of numbers, for people."""
    parts: tuple["Domain", "Domain"] | None = None
    """Domains of the two values of a pair, or None if an answer is a single value."""
    discovery: Discovery | None = None
    """Coding of unknown strings, or None if the values are listed. The size is then the number of cells."""

    @property
    def only_oracle(self) -> str | None:
        """The oracle of the answers if there is nothing to choose."""
        return self.oracles[0] if len(self.oracles) == 1 else None

    @property
    def in_file(self) -> Any:
        """The domain as a query file has it, with all defaults, and with the values of its file."""
        return self.named if self.values is None else list(self.values)

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that the digest covers."""
        return {"domain": self.in_file, "other": self.other}

    @property
    def edges(self) -> list[float] | None:
        """Edges of the bins of numbers, or None if the answers are values."""
        return None

    @property
    def rule(self) -> Rule:
        """The rule of a value in a file, which becomes its position."""
        return Rule("a value of the domain", lambda value: self.find(value) is not None, self.find)

    @property
    def valid_value(self) -> str:
        """The values in words, with one as an example."""
        if self.values is None:
            return f"a whole number from 0 to {self.named - 1}, such as 0"
        return f"a value of the domain, such as {json.dumps(self.values[0], ensure_ascii=False)}"

    def written(self, value: object) -> str | float | None:
        """Return a value in the one form that a digest covers, or None if it is no value."""
        position = self.find(value)
        if position is None:
            return None
        return position if self.values is None else self.name(position)

    @property
    def top_amount(self) -> int:
        """The least whole number that counts at the upper end."""
        return self.named - 1

    def position_of_amount(self, amount: float) -> int:
        """Return the position of a number. Numbers beyond an end count at that end, fractions are cut off."""
        return int(min(max(amount, 0), self.named - 1))

    @property
    def name_bytes(self) -> int:
        """Bytes of the longest name of a value in JSON, in which a character may take six bytes."""
        if not self.values:
            return len(str(self.size)) + 3
        return 6 * max(map(len, self.values)) + 3

    @property
    def comparisons(self) -> int:
        """Number of values of which windows are compared with earlier ones."""
        return self.size

    @property
    def named(self) -> int:
        """Number of values without "(other)"."""
        return self.size - self.other

    def limit(self, publish: int | None) -> int | None:
        """Return the most values that a record shows of itself, or None for all of them."""
        return publish

    def wrong_form(self, answer: object) -> str | None:
        """Return the form that a client's answer must have, or None if it has it.

        Only a wrong value counts as "(other)". A wrong type is an error, or it would be counted there unnoticed.
        """
        if isinstance(answer, str) or (self.values is None and type(answer) is int):
            return None
        return "a whole number or its name" if self.values is None else "the name of a value"

    def name(self, position: int) -> str:
        """Return the value at `position`."""
        if not 0 <= position < self.size:
            raise ReportError(f"a position in this domain must be from 0 to {self.size - 1}, got {position}")
        return self._text(position)

    def _text(self, position: int) -> str:
        if position == self.named:
            return OTHER
        return str(position) if self.values is None else self.values[position]

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """Names of all values in order, or None if the domain is a size."""
        return None if self.values is None else self.values + (OTHER,) * self.other

    def position(self, value: str | float) -> int:
        """Return the position of `value`. Values outside the domain have that of "(other)", if there is one."""
        position = self.find(value)
        if position is None and self.other:
            return self.size - 1
        if position is None:
            raise ReportError(
                f'value {shown(value)} is not in the domain of {self.size} values, and there is no "{OTHER}"'
            )
        return position

    def find(self, value: object) -> int | None:
        """Return the position of `value`, or None. The values of a size may be integers."""
        if value == OTHER and self.other:
            return self.size - 1
        if self.values is not None:
            return self._positions.get(composed(value)) if isinstance(value, str) else None

        # A text such as "007" or "+7" is no name of a position, although int() reads it.
        number = int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
        return number if type(number) is int and 0 <= number < self.named else None

    @cached_property
    def _positions(self) -> dict[str, int]:
        # Definitions in a topic may have values with the same normal form. The first one counts.
        values = self.values or ()
        return {composed(values[position]): position for position in reversed(range(len(values)))}


def pair_text(pair: Sequence[str]) -> str:
    """Return a pair as one text: its JSON without spaces.

    >>> pair_text(["3.2", "TypeError"])
    '["3.2","TypeError"]'
    """
    return json.dumps(list(pair), ensure_ascii=False, separators=(",", ":"))


def composed(text: str) -> str:
    """Return a text in Unicode's normal form C, so that an e with an accent is one answer however it was typed."""
    # ASCII has one form, and this test is faster than the search for it.
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def is_nameable(value: object) -> bool:
    if not isinstance(value, str) or value in ("", OTHER):
        return False

    # JSON can hold half of a pair of surrogates, which no record in UTF-8 can.
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
