"""The domains of numbers, of unknown strings and of pairs."""

import json
import math
from functools import cached_property
from typing import Any

from oracles.errors import ReportError
from oracles.mechanisms import NUMBER_ORACLES
from oracles.numbers import Scale
from oracles.query.domain import NAMES, NUMBERS, Domain, pair_text
from oracles.query.settings import Rule, shown
from oracles.query.strings import ORACLES_OF_CELLS, Discovery


class NumberDomain(Domain):
    """Numbers in the bins of a scale. A number beyond an end counts in the bin at that end."""

    kind = NUMBERS
    oracles = tuple(NUMBER_ORACLES)
    wrong_oracle = f'must be "{oracles[0]}" or "auto" for numbers, got {{!r}}'
    no_sets = "must be absent: sets are for values, and ranges for numbers"
    no_ranges = ""
    can_pair = False
    scale: Scale

    @property
    def in_file(self) -> dict[str, Any]:
        scale = self.scale
        table = {"low": scale.low, "high": scale.high, "bins": scale.bins, "scale": scale.kind}
        return table if self.unit is None else {**table, "unit": self.unit}

    @property
    def meaning(self) -> dict[str, Any]:
        # The unit is for people only.
        return {"domain": {key: value for key, value in self.in_file.items() if key != "unit"}}

    @property
    def edges(self) -> list[float]:
        edges: list[float] = self.scale.edges.tolist()
        return edges

    @property
    def valid_value(self) -> str:
        low, high = self.scale.low, self.scale.high
        return f"a number of the scale, from {low:g} to {high:g}, such as {low:g}"

    def written(self, value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if self.scale.low <= value <= self.scale.high else None

    @property
    def top_amount(self) -> int:
        # A sum is at least 0, also on a scale of negative numbers only.
        return max(math.ceil(self.scale.high), 0)

    def position_of_amount(self, amount: float) -> int:
        return self.position(amount)

    def wrong_form(self, answer: object) -> str | None:
        return None if isinstance(answer, int | float) and not isinstance(answer, bool) else "a number"

    def _text(self, position: int) -> str:
        return self.scale.text(position)

    def position(self, value: str | float) -> int:
        position = self.find(value)
        if position is None:
            raise ReportError(f"an answer must be a number and not NaN, got {shown(value)}")
        return position

    def find(self, value: object) -> int | None:
        """Return the bin of a number, or of its text. None for everything else."""
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return None
        # Python takes true for the number 1.
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
            return None
        return int(self.scale.positions([float(max(min(value, self.scale.high), self.scale.low))])[0])


class NameDomain(Domain):
    """Unknown strings, of which cells are counted."""

    kind = NAMES
    oracles = ORACLES_OF_CELLS
    wrong_oracle = f'must be one of {", ".join(ORACLES_OF_CELLS)} or "auto" for unknown strings, got {{!r}}'
    no_sets = "must be absent: sets are for values that the file lists"
    comparisons = 0
    discovery: Discovery

    @classmethod
    def of(cls, discovery: Discovery) -> "NameDomain":
        """Return the domain of unknown strings."""
        return cls(None, 1 << discovery.cells, False, discovery=discovery)

    @property
    def in_file(self) -> dict[str, Any]:
        return self.discovery.table

    @property
    def meaning(self) -> dict[str, Any]:
        return {"domain": self.discovery.meaning}

    @property
    def rule(self) -> Rule:
        """The rule of a string in a file. Any string may be a name."""
        return Rule("a text", lambda value: isinstance(value, str))

    def wrong_form(self, answer: object) -> str | None:
        return None if isinstance(answer, str) else "a text"

    def find(self, value: object) -> int | None:
        del value
        return None


class PairDomain(Domain):
    """Pairs of values: the cells of a table in the order of its rows."""

    can_pair = False
    has_lists = True
    parts: tuple[Domain, Domain]

    @classmethod
    def of(cls, rows: Domain, columns: Domain) -> "PairDomain":
        """Return the domain of all pairs of two domains."""
        return cls(None, rows.size * columns.size, False, parts=(rows, columns))

    def limit(self, publish: int | None) -> int | None:
        """Return None, because readers compute conditional shares of a pair from all its cells."""
        del publish
        return None

    @property
    def name_bytes(self) -> int:
        return sum(part.name_bytes for part in self.parts) + len("[,]")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.name(position) for position in range(self.size))

    def _text(self, position: int) -> str:
        return pair_text(self.pair(position))

    def pair(self, position: int) -> list[str]:
        """Return the two values of the pair at `position`."""
        rows, columns = self.parts
        return [rows.name(position // columns.size), columns.name(position % columns.size)]

    def find(self, value: object) -> int | None:
        """Return the position of a list of two values, or of its text. None if it is no pair."""
        if isinstance(value, str):
            try:
                value = json.loads(value)
            # Requests have such texts too, and thousands of brackets exceed the depth of the parser.
            except (ValueError, RecursionError):
                return None
        if not isinstance(value, list | tuple) or len(value) != 2:
            return None
        row, column = (domain.find(name) for domain, name in zip(self.parts, value, strict=True))
        return None if row is None or column is None else row * self.parts[1].size + column
