"""Domains: the possible answers and their positions."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oracles.errors import ReportError
from oracles.numbers import Scale
from oracles.query.settings import shown
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
    """Values in order, or only their number: then their names are "0", "1", ... Numbers have a scale of bins."""

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

    @classmethod
    def of_pair(cls, rows: "Domain", columns: "Domain") -> "Domain":
        """Return the domain of all pairs, as the cells of a table in the order of its rows."""
        return cls(None, rows.size * columns.size, False, parts=(rows, columns))

    @classmethod
    def of_strings(cls, discovery: Discovery) -> "Domain":
        """Return the domain of unknown strings."""
        return cls(None, 1 << discovery.cells, False, discovery=discovery)

    @property
    def kind(self) -> str:
        """The kind of the answers."""
        if self.discovery is not None:
            return NAMES
        return VALUES if self.scale is None else NUMBERS

    @property
    def in_file(self) -> Any:
        """The domain as a query file has it, with all defaults, and with the values of its file."""
        if self.discovery is not None:
            return self.discovery.table
        if self.scale is None:
            return self.named if self.values is None else list(self.values)

        table = {"low": self.scale.low, "high": self.scale.high, "bins": self.scale.bins, "scale": self.scale.kind}
        return table if self.unit is None else {**table, "unit": self.unit}

    @property
    def meaning(self) -> dict[str, Any]:
        """The settings that the digest covers. The unit of numbers is for people only."""
        if self.discovery is not None:
            return {"domain": self.discovery.meaning}
        if self.scale is not None:
            return {"domain": {key: value for key, value in self.in_file.items() if key != "unit"}}
        return {"domain": self.in_file, "other": self.other}

    @property
    def edges(self) -> list[float] | None:
        """Edges of the bins of numbers, or None if the answers are values."""
        return None if self.scale is None else self.scale.edges.tolist()

    @property
    def named(self) -> int:
        """Number of values without "(other)"."""
        return self.size - self.other

    def limit(self, publish: int | None) -> int | None:
        """Return the most values that a record shows of itself, or None for all of them.

        Readers compute conditional shares of a pair from all its cells, so `publish` does not apply to pairs.
        """
        return publish if self.parts is None else None

    def name(self, position: int) -> str:
        """Return the value at `position`."""
        if not 0 <= position < self.size:
            raise ReportError(f"a position in this domain must be from 0 to {self.size - 1}, got {position}")
        if self.scale is not None:
            return self.scale.text(position)
        if self.parts is not None:
            return pair_text(self.pair(position))
        if position == self.named:
            return OTHER
        return str(position) if self.values is None else self.values[position]

    def pair(self, position: int) -> list[str]:
        """Return the two values of the pair at `position`."""
        rows, columns = self._two
        return [rows.name(position // columns.size), columns.name(position % columns.size)]

    @property
    def _two(self) -> tuple["Domain", "Domain"]:
        if self.parts is None:
            raise TypeError("the domain has single values")
        return self.parts

    @cached_property
    def names(self) -> tuple[str, ...] | None:
        """Names of all values in order, or None if the domain is a size."""
        if self.parts is not None:
            return tuple(self.name(position) for position in range(self.size))
        return None if self.values is None else self.values + (OTHER,) * self.other

    def position(self, value: str | float) -> int:
        """Return the position of `value`. Values outside the domain have that of "(other)", if there is one.

        A number beyond an end of the scale counts in the bin at that end.
        """
        position = self.find(value)
        if position is None and self.scale is not None:
            raise ReportError(f"an answer must be a number and not NaN, got {shown(value)}")
        if position is None and self.other:
            return self.size - 1
        if position is None:
            raise ReportError(
                f'value {shown(value)} is not in the domain of {self.size} values, and there is no "{OTHER}"'
            )
        return position

    def find(self, value: object) -> int | None:
        """Return the position of `value`, or None. The values of a size may be integers.

        A pair is a list of two values, or its text.
        """
        if self.discovery is not None:
            return None
        if self.scale is not None:
            return _bin(self.scale, value)
        if self.parts is not None:
            return self._find_pair(value)

        if value == OTHER and self.other:
            return self.size - 1
        if self.values is not None:
            return self._positions.get(composed(value)) if isinstance(value, str) else None

        # A text such as "007" or "+7" is no name of a position, although int() reads it.
        number = int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
        return number if type(number) is int and 0 <= number < self.named else None

    def _find_pair(self, value: object) -> int | None:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            # Requests have such texts too, and thousands of brackets exceed the depth of the parser.
            except (ValueError, RecursionError):
                return None
        if not isinstance(value, list | tuple) or len(value) != 2:
            return None
        row, column = (domain.find(name) for domain, name in zip(self._two, value, strict=True))
        return None if row is None or column is None else row * self._two[1].size + column

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


def _bin(scale: Scale, value: object) -> int | None:
    """Return the bin of a number, or of its text. None for everything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    # Python takes true for the number 1.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return None
    return int(scale.positions([float(max(min(value, scale.high), scale.low))])[0])


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
