"""A window as records and alerts name it."""

from dataclasses import dataclass
from typing import Literal

from aggregator.merging.windows import Span
from aggregator.publishing.schema import Time
from oracles.errors import ReportError
from oracles.query.settings import Window

Kind = Literal["tumbling", "hopping", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowRow:
    """Its kind, its bounds, and how its kind is made: a size and a step, 0 for `all`."""

    kind: Kind
    start: Time
    end: Time
    size: Time
    step: Time

    @property
    def span(self) -> Span:
        regular = self.kind != "all"
        length = self.size if regular else self.end - self.start
        if not 0 < length == self.end - self.start or regular != (self.step > 0) or regular != (self.size > 0):
            raise ReportError(f"no window is {self}")
        if (self.kind == "tumbling" and self.step != self.size) or self.step > self.size:
            raise ReportError(f"no window is {self}")
        return Span(Window(self.kind, self.size, self.step), self.start, self.end)

    @classmethod
    def of(cls, span: Span) -> "WindowRow":
        window, start, end = span
        return cls(kind=window.kind, start=start, end=end, size=window.size, step=window.step)
