"""An answer of a record, as every kind hands it to readers."""

from dataclasses import dataclass

from aggregator.records.number_answers import Measure


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownAnswer:
    """A value with its share, or a number that a query asks for, with its 95% interval."""

    name: str
    value: float
    """The unbiased share, or the number."""
    low: float
    high: float
    measure: Measure = "share"
    unit: str | None = None
    """The unit of a number."""
    consistent: float | None = None
    """The share by the query's first method."""
    is_frequent: bool = False
    """Whether the value exceeds the threshold of the query."""
    is_proved: bool = False
    is_present: bool = False
    """Whether the amount is proved not to be zero."""
    is_weak: bool = False
    """Whether the interval of a number says so little that words stand in its place."""
    ranks: tuple[int, ...] | None = None
    """The first and the last place that the true share can have, if they are in the record."""
