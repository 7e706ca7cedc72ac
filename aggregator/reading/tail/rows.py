"""The rows of a summary: a value with its share, or a number that a query of numbers asks for."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from aggregator.reading.tail.notation import plain, quantity
from aggregator.records.display import is_weak_share
from aggregator.records.percentages import digits, percent

WEAK = "too few reports"
"""The words in place of a number that says too little."""


@dataclass(frozen=True)
class TailRow(ABC):
    """A named number of a window, with its 95% interval from `low` to `high`."""

    value: str
    """The value as published. Use `name` for the terminal, or `visible` if it is shortened to a width."""
    amount: float
    """The unbiased share, or the number."""
    low: float
    high: float

    @property
    def visible(self) -> str:
        """The value, in quotes if it is empty or only blanks."""
        return self.value if self.value.strip(" ") else f'"{self.value}"'

    @property
    def name(self) -> str:
        return plain(self.visible)

    @property
    def error(self) -> float:
        return (self.high - self.low) / 2.0

    @abstractmethod
    def text(self, amount: float) -> str:
        """Return an amount of this row, with as many digits as its error allows."""

    @property
    def is_weak(self) -> bool:
        """Whether the interval says so little that words stand in the amount's place."""
        return is_weak_share(self.low, self.high)

    @property
    def shown(self) -> str:
        """The amount, or words if it is weak."""
        return WEAK if self.is_weak else self.text(self.amount)

    @property
    @abstractmethod
    def interval(self) -> str: ...

    @property
    @abstractmethod
    def short_interval(self) -> str:
        """The interval with the unit or the sign once."""

    @property
    def mark(self) -> str:
        """The sign of a frequent value."""
        return ""

    @property
    def rank(self) -> str:
        """The places that the value can have, or a text that is empty if it may be zero."""
        return ""

    @property
    def method_share(self) -> str:
        """The share by the query's first method."""
        return ""

    @property
    def is_present(self) -> bool:
        """Whether the amount is proved not to be zero."""
        return True

    def __str__(self) -> str:
        return WEAK if self.is_weak else f"{self.text(self.amount)} ({self.interval})"


@dataclass(frozen=True)
class SummaryRow(TailRow):
    """A value of a window with its share, or a range of numbers."""

    consistent: float | None = None
    """The share by the query's first method."""
    frequent: bool = False
    proved: bool = False
    present: bool = False
    """Whether the value is proved to be present, so that its share is not zero."""
    ranks: tuple[int, ...] | None = None
    """The first and the last place that its true share can have, if they are in the record."""

    @property
    def mark(self) -> str:
        if self.proved:
            return "●"
        return "○" if self.frequent else ""

    @property
    def rank(self) -> str:
        if self.ranks is None:
            return ""
        best, worst = self.ranks
        return str(best) if best == worst else f"{best}-{worst}"

    @property
    def method_share(self) -> str:
        return "" if self.consistent is None or self.is_weak else percent(self.consistent, self.digits)

    @property
    def is_present(self) -> bool:
        return self.present

    @property
    def digits(self) -> int:
        return digits(self.error)

    def text(self, amount: float) -> str:
        # An unbiased share may lie outside of 0 to 1, and no share of a crowd does.
        return percent(min(max(amount, 0.0), 1.0), self.digits)

    @property
    def interval(self) -> str:
        return "" if self.is_weak else f"{self.text(self.low)} to {self.text(self.high)}"

    @property
    def short_interval(self) -> str:
        return f"{self.text(self.low).rstrip('%')} to {self.text(self.high)}"


@dataclass(frozen=True)
class SummaryQuantity(TailRow):
    """A quantile or a mean of numbers."""

    unit: str | None = None
    says_little: bool = False
    """Whether the interval covers most of the scale."""

    @property
    def is_weak(self) -> bool:
        return self.says_little

    def text(self, amount: float) -> str:
        return quantity(amount, self.error, self.unit)

    @property
    def interval(self) -> str:
        if self.is_weak:
            return ""
        # The unit follows the number before the interval, and would stand in a line three times.
        return f"{quantity(self.low, self.error)} to {quantity(self.high, self.error)}"

    @property
    def short_interval(self) -> str:
        return self.interval
