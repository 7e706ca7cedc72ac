"""The parts of a record. The encoder fills them, and the decoder checks them against their schema."""

import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from aggregator.records import documents
from aggregator.records.characters import is_visible
from aggregator.records.digits import DIGITS
from aggregator.records.span import Span
from aggregator.records.words import FLAGS, WITHHELD
from aggregator.tallies.snapshot import Snapshot
from hubbub.http.schema import Chance, Count, Name, Schema, Time
from oracles.errors import ReportError
from oracles.estimate import Pure
from oracles.query import Query
from oracles.query.settings import Window

MOST_FLAGS = 64
"""Most flags of a record."""
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

    @classmethod
    def of(cls, total: Snapshot) -> "RefusedRow":
        return cls(duplicate=total.duplicates, implausible=total.implausible)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class OracleRow:
    """The randomisation of the reports, and the epsilon that protects them."""

    name: Name
    p: float
    q: float
    epsilon: float
    record_epsilon: float

    @classmethod
    def of(cls, query: Query, oracle: Pure) -> "OracleRow":
        return cls(
            name=oracle.name,
            p=oracle.p,
            q=oracle.q,
            epsilon=query.epsilon,
            record_epsilon=float(f"{query.record_epsilon:.{DIGITS}g}"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityRow:
    """The flags of a window. Readers show the other members of `quality` as they are."""

    flags: Annotated[list[Name], {"maxItems": MOST_FLAGS}]


HITTER = documents.written(
    HitterRow,
    {
        "value": documents.VALUE,
        "p_value": {"type": "number", "minimum": 0, "maximum": 1},
        "ranks": {
            "type": "array",
            "prefixItems": [{"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 1}],
            "items": False,
            "minItems": 2,
        },
    },
)
ORACLE = documents.written(
    OracleRow,
    {
        "name": {"enum": documents.ORACLE_NAMES},
        "p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "q": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        "epsilon": {"type": "number", "exclusiveMinimum": 0, "maximum": 16},
        "record_epsilon": {"type": "number", "exclusiveMinimum": 0},
    },
)
SET: Schema = {
    **documents.by_name(documents.NUMBER, {"anyOf": [{"enum": ["share", "stderr", "low", "high"]}, documents.METHOD]}),
    "properties": {
        "share": documents.NUMBER,
        "stderr": documents.POSITIVE,
        "low": documents.CHANCE,
        "high": documents.CHANCE,
    },
    "required": ["share", "stderr", "low", "high"],
}
QUALITY: Schema = {
    "type": "object",
    "properties": {
        "sum": documents.NUMBER,
        "prior_rejected": {"type": "boolean"},
        "risk": documents.by_name(documents.NUMBER, documents.METHOD),
        "flags": {"type": "array", "uniqueItems": True, "items": {"enum": [*FLAGS, *WITHHELD]}},
        "prior": {
            "type": "object",
            "properties": {
                "family": {"enum": ["power_law", "gaussian", "laplace", "poisson", "free", None]},
                "parameters": {"type": "object", "additionalProperties": {"type": "number"}},
                "kolmogorov_smirnov": {"type": "number", "minimum": 0, "maximum": 1},
                "note": {"type": ["string", "null"]},
            },
            "required": ["family", "parameters", "kolmogorov_smirnov", "note"],
            "additionalProperties": False,
        },
        "expected": documents.by_name(
            {
                "type": "object",
                "properties": {"precision": documents.CHANCE, "recall": documents.CHANCE},
                "required": ["precision", "recall"],
                "additionalProperties": False,
            },
            documents.METHOD,
        ),
    },
    "required": ["sum", "prior_rejected", "risk", "flags"],
    "dependentRequired": {"expected": ["prior"]},
    "additionalProperties": False,
}
_WINDOW_MEMBERS: dict[str, Schema] = {
    "start": {"type": "integer"},
    "end": {"type": "integer"},
    "size": documents.COUNT,
    "step": documents.COUNT,
}
_WINDOW_RULE: Schema = {
    "if": {"properties": {"kind": {"const": "all"}}},
    "then": {"properties": {"size": {"const": 0}, "step": {"const": 0}}},
    "else": {"properties": {"size": {"minimum": 1}, "step": {"minimum": 1}}},
}
FINAL_WINDOW = {**documents.written(WindowRow, {**_WINDOW_MEMBERS}), **_WINDOW_RULE}
WINDOW = {
    **documents.written(WindowRow, {"through": {"type": "integer"}, **_WINDOW_MEMBERS}, optional=("through",)),
    **_WINDOW_RULE,
}


_FORMULAS = frozenset("=+-@|\u2212")
"""The characters that begin a formula, in their normal form: spreadsheets read superscript and full-width ones too."""
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
    beginning = next(filter(is_visible, text), "")
    return unicodedata.normalize("NFKC", beginning) in _FORMULAS or text.startswith(_BREAKS)
