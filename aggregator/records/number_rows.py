"""The part of a record that shows numbers: mean, quantiles, ranges and histogram, and all that a reader computes from.

`levels` and `cdf` give every other quantile, range and comparison with its error. Readers build the same tree from
them, with at most 1,024 bins.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from aggregator.records import documents
from aggregator.records.digits import all_rounded, digits_of, rounded
from aggregator.records.rows import OracleRow
from hubbub.http.schema import Chance, Count, Known, read, schema
from oracles.consistency import NORM_SUB
from oracles.errors import ParameterError, ReportError
from oracles.estimate.pure import Pure
from oracles.mechanisms.haar import LEAST_BITS
from oracles.numbers import LINEAR, LOG, Numbers, Quantity, Scale
from oracles.numbers.tree import Tree, TreeEstimate
from oracles.query.domain import Domain, Ranges
from oracles.types import Floats

MOST_STEPS = 1_024
"""Most steps of the cumulative shares in a record."""
MOST_NAMES = 64
"""Most quantiles or ranges of a record."""

_Column = Annotated[list[Known], {"maxItems": MOST_STEPS + 1}]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantityRow:
    """A number of the distribution, with its interval."""

    value: Known
    low: Known
    high: Known


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeRow:
    """The share of the numbers between two edges of bins."""

    share: Known
    stderr: Known
    low: Chance
    high: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleRow:
    """The bins of numbers, and what a cumulative share is known to."""

    low: float
    high: float
    scale: str
    bins: Annotated[int, {"minimum": 16, "maximum": 65_536}]
    unit: str | None
    resolution: Known
    mean: QuantityRow
    geometric_mean: QuantityRow | None
    levels: Annotated[list[Count], {"minItems": 4, "maxItems": 16}]
    cdf: _Column


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramRow:
    """The shares of blocks of bins. Those of `norm_sub` are for the eye."""

    edges: _Column
    shares: _Column
    stderr: _Column
    low: _Column
    high: _Column
    norm_sub: _Column


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedRow:
    """The quantiles and ranges by name."""

    quantiles: dict[str, Any]
    ranges: dict[str, Any]


_QUANTITY = schema(QuantityRow)
_COUNTED = documents.listed(documents.COUNT)
_RANGE = documents.written(
    RangeRow, {"from": {"type": "number"}, "to": {"type": "number"}, "stderr": documents.POSITIVE}
)
DISTRIBUTION = documents.written(
    ScaleRow,
    {
        "scale": {"enum": [LINEAR, LOG]},
        "unit": {"type": ["string", "null"], "maxLength": 16},
        "resolution": documents.POSITIVE,
        "levels": _COUNTED,
        "quantiles": {"type": "object", "additionalProperties": _QUANTITY},
        "ranges": documents.by_name(_RANGE),
        "histogram": documents.written(
            HistogramRow,
            {
                "edges": documents.listed({"type": "number"}),
                "stderr": documents.listed(documents.POSITIVE),
                "low": documents.listed(documents.CHANCE),
                "high": documents.listed(documents.CHANCE),
            },
        ),
    },
)


def number_fields(numbers: Numbers, domain: Domain, quantiles: tuple[float, ...], ranges: Ranges) -> dict[str, Any]:
    """Return the fields of a distribution."""
    scale = numbers.scale
    estimate = numbers.estimate

    histogram = numbers.histogram()
    columns = (histogram.shares, histogram.stderr, histogram.low, histogram.high, histogram.consistent)
    shares, stderr, low, high, consistent = all_rounded(np.stack(columns))

    # A slice is a view of all bins, so a copy keeps the steps alone.
    bins_per_step = max(1, scale.bins // MOST_STEPS)
    steps = estimate.cumulative()[0][bins_per_step - 1 :: bins_per_step].copy()

    return {
        "low": scale.low,
        "high": scale.high,
        "scale": scale.kind,
        "bins": scale.bins,
        "unit": domain.unit,
        "resolution": rounded(numbers.resolution),
        "mean": quantity_row(numbers.mean(), scale),
        "geometric_mean": quantity_row(numbers.geometric_mean(), scale) if scale.kind == LOG else None,
        "quantiles": {repr(share): quantity_row(numbers.quantile(share), scale) for share in quantiles},
        "ranges": {name: range_fields(numbers, *ends) for name, ends in ranges},
        "histogram": {
            "edges": histogram.edges.tolist(),
            "shares": shares,
            "stderr": stderr,
            "low": low,
            "high": high,
            NORM_SUB: consistent,
        },
        "levels": list(estimate.answering),
        "cdf": all_rounded(steps),
    }


def quantity_row(quantity: Quantity, scale: Scale) -> QuantityRow:
    digits = digits_of(scale)
    value, low, high = (rounded(number, digits) for number in quantity)
    return QuantityRow(value=value, low=low, high=high)


def range_fields(numbers: Numbers, start: float, end: float) -> dict[str, float | None]:
    """Return a range with the edges of its bins."""
    row = numbers.range(start, end)
    share, stderr, low, high = (rounded(number) for number in row[2:])
    # Edges are not rounded, because a reader finds the bins by them.
    return {"from": row.start, "to": row.end, "share": share, "stderr": stderr, "low": low, "high": high}


def numbers_of(row: ScaleRow, n: int, n_independent: int, oracle: OracleRow) -> Numbers:
    """Return the distribution that a record shows, with at most 1,024 bins."""
    bins = len(row.cdf)
    tree = Tree(bins.bit_length() - 1, 2.0 * oracle.p - 1.0)
    shares: Floats = np.diff(np.array(row.cdf, np.float64), prepend=0.0)
    # A tree of fewer bins lacks the finest levels, which come first.
    levels = tuple(row.levels[len(row.levels) - tree.levels :])

    law = Pure(oracle.name, bins, Fraction(oracle.p), Fraction(1, 2))
    estimate = TreeEstimate(shares, n, law, n_independent, tree=tree, answering=levels)
    return Numbers(estimate, _scale(row.low, row.high, bins, row.scale))


@lru_cache(maxsize=256)
def _scale(low: float, high: float, bins: int, kind: str) -> Scale:
    """Return a scale. All records of a query share one, since its exact edges take a hundredth of a second."""
    return Scale(low, high, bins, kind)


def check_fields(fields: Any) -> None:
    """Raise a ReportError unless these are the fields of a distribution."""
    row = read(ScaleRow, fields)
    histogram = read(HistogramRow, fields.get("histogram"))
    by_name = read(NamedRow, fields)

    # A tree has a power of two of bins, and one level for each doubling. Any other number would fail a reader later.
    steps = len(row.cdf)
    if steps & (steps - 1) or not 1 << LEAST_BITS <= steps <= row.bins or 1 << len(row.levels) != row.bins:
        raise ReportError(f"{steps} cumulative shares of {len(row.levels)} levels do not fit {row.bins} bins")

    blocks = len(histogram.shares)
    columns = (histogram.stderr, histogram.low, histogram.high, histogram.norm_sub)
    if any(len(column) != blocks for column in columns) or len(histogram.edges) != blocks + 1:
        raise ReportError("the columns of a histogram must be equally long")

    # Only the constructor knows whether such a scale exists, for example that a logarithmic one begins above 0.
    try:
        Scale(row.low, row.high, row.bins, row.scale)
    except ParameterError as error:
        raise ReportError(str(error)) from error

    _check_named(by_name.quantiles, QuantityRow)
    _check_named(by_name.ranges, RangeRow)


def _check_named(rows: dict[str, Any], kind: type[QuantityRow] | type[RangeRow]) -> None:
    """Raise a ReportError unless there are few enough rows, and each is one of this kind."""
    if len(rows) > MOST_NAMES:
        raise ReportError(f"a record has at most {MOST_NAMES} quantiles and as many ranges")
    for row in rows.values():
        read(kind, row)
