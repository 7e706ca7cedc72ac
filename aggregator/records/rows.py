"""The parts of a record. The encoder fills them, and the decoder checks them against their schema."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from aggregator.records.span import Span
from hubbub.http.schema import Chance, Count, Time
from oracles.errors import ReportError
from oracles.query.settings import Window

Indication = Annotated[
    float | None,
    {"minimum": 0, "maximum": 1, "description": "An indication: the chance to exceed the threshold, if the prior fits"},
]
Ranks = Annotated[list[Count] | None, {"minItems": 2, "maxItems": 2}]


@dataclass(frozen=True, kw_only=True, slots=True)
class HitterRow:
    """A value that exceeds a threshold."""

    value: str
    share: float
    decided: bool
    p_value: Chance
    probability: Indication
    ranks: Ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedRow:
    """The numbers of reports that a window does not count."""

    duplicate: Count
    implausible: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdRow:
    """The threshold that a value must exceed to be listed."""

    kind: Literal["significance", "share", "count"]
    value: float


Kind = Literal["tumbling", "hopping", "all"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowRow:
    """The kind and bounds of a window. Size and step are 0 for `all`."""

    kind: Kind
    start: Time
    end: Time
    size: Time
    step: Time

    @property
    def span(self) -> Span:
        """The window. Raise a ReportError if it is invalid."""
        has_size = self.kind != "all"
        length = self.size if has_size else self.end - self.start
        if not 0 < length == self.end - self.start or has_size != (self.step > 0) or has_size != (self.size > 0):
            raise ReportError(f"invalid window: {self}")
        if (self.kind == "tumbling" and self.step != self.size) or self.step > self.size:
            raise ReportError(f"invalid window: {self}")
        return Span(Window(self.kind, self.size, self.step), self.start, self.end)

    @classmethod
    def of(cls, span: Span) -> "WindowRow":
        window, start, end = span
        return cls(kind=window.kind, start=start, end=end, size=window.size, step=window.step)


_FORMULAS = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""The characters that begin a formula, also in full width."""
_BREAKS = ("\t", "\r", "\n")
"""Characters after which some spreadsheets begin a new cell."""


def cell(value: Any) -> str:
    """Return a value as a cell of a table.

    Numbers have the fewest digits that read back the same. A text never starts as a formula of a spreadsheet.
    """
    if value is None or value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}" if _is_formula(value) else value
    return repr(value)


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may read the text as a formula. Some ignore blanks and invisible characters before it."""
    first = next((each for each in text if each.isprintable() and not each.isspace()), "")
    return first in _FORMULAS or text.startswith(_BREAKS)
