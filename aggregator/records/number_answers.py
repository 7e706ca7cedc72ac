"""The named answers of a record of numbers: the mean, the quantiles, and the ranges of the query file. Pure.

The record has the answers that its query names. Any other quantile, and any range, follow from `levels` and `cdf`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from aggregator.records.number_rows import QuantityRow, RangeRow, quantity_row, range_fields
from aggregator.records.record import Record
from hubbub.http.schema import Known, read
from oracles.numbers import LOG, Numbers, Scale
from oracles.query.settings import quantile_name, quantile_of

MEAN = "mean"
GEOMETRIC_MEAN = "geometric_mean"
Measure = Annotated[
    Literal["share", "number"], {"description": "number: value, low and high are in the unit of the query"}
]


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberRow:
    """One answer about numbers, with its interval: a mean, a quantile, or the share of a range."""

    name: str
    measure: Measure
    value: Known
    stderr: Known
    """Standard error of a share, or None."""
    low: Known
    high: Known


class NumberAnswers:
    """The answers of one record of numbers, by their names. A withheld record has none."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._fields: dict[str, Any] = record.rest()["numbers"] or {}

    @property
    def withheld(self) -> bool:
        return not self._fields

    @cached_property
    def numbers(self) -> Numbers | None:
        """The distribution, in at most 1,024 bins. None if the window is withheld."""
        return self._record.numbers()

    @property
    def known(self) -> bool:
        """Whether the window shows numbers."""
        return self.numbers is not None and self.numbers.known

    @property
    def shows_all_bins(self) -> bool:
        """Whether the cumulative shares have a step for each bin."""
        return not self._fields or len(self._fields["cdf"]) == self._fields["bins"]

    @property
    def unit(self) -> str | None:
        unit: str | None = self._fields.get("unit")
        return unit

    @property
    def scale(self) -> Scale | None:
        """The scale of the numbers. None if the window is withheld."""
        return None if self.numbers is None else self.numbers.scale

    @property
    def quantiles(self) -> list[float]:
        """The quantiles of the query, as shares."""
        return [float(share) for share in self._fields.get("quantiles", {})]

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The ends of the ranges of the query."""
        return {name: (row["from"], row["to"]) for name, row in self._fields.get("ranges", {}).items()}

    @property
    def names(self) -> list[str]:
        """The names of all answers that the query asks for: quantiles, means and ranges."""
        if not self._fields:
            return []

        means = [MEAN]
        if self._fields.get("geometric_mean"):
            means.append(GEOMETRIC_MEAN)
        return [*map(quantile_name, self.quantiles), *means, *self.ranges]

    def rows(self, names: Sequence[str] | None = None) -> list[NumberRow]:
        """Return the answers with these names, by default all that the query asks for. Skip unknown names."""
        rows = map(self.row, self.names if names is None else names)
        return [row for row in rows if row is not None]

    def row(self, name: str) -> NumberRow | None:
        """Return the answer with a name: a range of the query, a mean, or any quantile, such as p95 or p99.9."""
        # A range of the query is no quantile: the query file refuses ranges with names such as p95.
        if name in self._fields.get("ranges", {}):
            row = read(RangeRow, self._fields["ranges"][name])
            return NumberRow(name=name, measure="share", value=row.share, stderr=row.stderr, low=row.low, high=row.high)

        if name in (MEAN, GEOMETRIC_MEAN):
            fields = self._fields.get(name)
            return None if fields is None else _number_row(name, read(QuantityRow, fields))

        share = quantile_of(name)
        return None if share is None else self.quantile(share)

    def quantile(self, share: float) -> NumberRow | None:
        """Return any quantile. None if the window is withheld."""
        # A record has the quantiles of its query from all bins. The steps of `cdf` are coarser.
        fields = self._fields.get("quantiles", {}).get(repr(share))
        if fields is not None:
            return _number_row(quantile_name(share), read(QuantityRow, fields))

        numbers = self.numbers
        if numbers is None:
            return None
        return _number_row(quantile_name(share), quantity_row(numbers.quantile(share), numbers.scale))

    def range(self, start: float, end: float) -> dict[str, float | None] | None:
        """Return any range, with the edges of its bins, or None if the window is withheld."""
        return None if self.numbers is None else range_fields(self.numbers, start, end)

    def named_range(self, name: str | None) -> dict[str, Any] | None:
        """Return a range of the query as the record has it, or None if the record does not have it."""
        fields: dict[str, Any] | None = self._fields.get("ranges", {}).get(name)
        return fields

    def known_range(self, name: str) -> tuple[float, float] | None:
        """Return the share and the standard error of a range of the query, or None if they are unknown."""
        row = read(RangeRow, self._fields["ranges"][name])
        return None if row.share is None or row.stderr is None else (row.share, row.stderr)


def is_answer(name: str, scale: Scale, ranges: Sequence[str]) -> bool:
    """Whether numbers of this scale, with these ranges, have an answer of this name."""
    # A scale from zero on has no logarithm of its lower end, so no geometric mean.
    means = (MEAN, GEOMETRIC_MEAN) if scale.kind == LOG else (MEAN,)
    return name in (*means, *ranges) or quantile_of(name) is not None


def _number_row(name: str, row: QuantityRow) -> NumberRow:
    return NumberRow(name=name, measure="number", value=row.value, stderr=None, low=row.low, high=row.high)
