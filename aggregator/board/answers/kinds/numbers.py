"""The rows of answers about numbers, each built from a record, with true numbers in a simulation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from aggregator.board.answers import lookup, rows
from aggregator.board.answers.kinds import values
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad
from aggregator.board.answers.rows import GroupAnswerRow, MayBeZero, PointRow, ValueRow, Weak
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry
from aggregator.board.store.series import Series
from aggregator.records.display import is_weak, is_weak_number, is_weak_share, may_be_zero
from aggregator.records.number_answers import GEOMETRIC_MEAN, MEAN, NumberAnswers
from aggregator.records.number_rows import HistogramRow
from aggregator.records.record import Record
from hubbub.http.schema import Chance, Count, Known, read
from oracles.consistency import NORM_SUB, UNBIASED
from oracles.estimate.covariance import quantile as normal_quantile
from oracles.estimate.intervals import LEVEL
from oracles.numbers import LINEAR, LOG, Scale
from oracles.query.settings import quantile_name, quantile_of
from oracles.types import Floats

BLOCK_METHODS = (UNBIASED, NORM_SUB)
"""The methods of a histogram. Shares by the second one are for the eye."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QuantileRow:
    """A quantile of a window."""

    name: str
    p: Annotated[float, {"description": "The share of the numbers below it"}]
    value: Known
    low: Known
    high: Known
    truth: Known
    may_be_zero: MayBeZero
    weak: Weak


@dataclass(frozen=True, kw_only=True, slots=True)
class RangeShareRow:
    """The share of the numbers between two edges of bins."""

    name: str | None
    from_: float
    to: float
    share: Known
    stderr: Known
    low: Chance
    high: Chance
    truth: Chance
    may_be_zero: MayBeZero
    weak: Weak


@dataclass(frozen=True, kw_only=True, slots=True)
class StepRow:
    """The share of the numbers below an edge of bins."""

    number: float
    share: Chance
    low: Chance
    high: Chance
    truth: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberDomainRow:
    """The scale of numbers, and the names of the answers that the query asks for."""

    low: float
    high: float
    scale: Annotated[str, {"enum": [LINEAR, LOG]}]
    bins: Count
    unit: str | None
    quantiles: list[str]
    ranges: Annotated[dict[str, tuple[float, float]], {"description": "The ends of each range, by its name"}]

    @classmethod
    def of(cls, definition: Definition) -> "NumberDomainRow":
        scale = definition.scale
        return cls(
            low=scale.low,
            high=scale.high,
            scale=scale.kind,
            bins=scale.bins,
            unit=definition.domain.unit,
            quantiles=[*map(quantile_name, definition.query.quantiles)],
            ranges=dict(definition.subject.ranges),
        )


def domain_fields(definition: Definition) -> dict[str, Any]:
    """Return the scale, and the names of the answers."""
    return values.domain_fields(definition) | {"numbers": NumberDomainRow.of(definition)}


def answer(series: Series, view: View, parameters: Parameters) -> dict[str, Any]:
    """Return the distribution of numbers. Its values are the blocks of the histogram, in order."""
    if parameters.values() is not None:
        raise bad("numbers have no values; ask for quantiles, a range or the cdf", parameter="values")

    truth = rows.true_shares(series, view)
    method = parameters.choice("method", BLOCK_METHODS) or UNBIASED
    blocks = histogram_rows(view, method, truth)
    return {
        "method": method,
        "methods": list(BLOCK_METHODS),
        "size": view.definition.domain.size,
        "published": len(blocks),
        "values": blocks[: parameters.whole("top")],
        "numbers": number_fields(view),
        "truths": true_answers(view, truth),
        "error": rows.error(blocks),
    }


def series(
    history: Series, definition: Definition, records: Sequence[Entry], value: str, _: Parameters
) -> tuple[dict[str, Any], Iterator[PointRow]]:
    """Return a quantile, mean or range in successive windows."""
    lookup.check_answer(definition, value)
    points = (
        number_point(record, definition, value, rows.true_shares_of(history, record, definition)) for record in records
    )
    measure = "share" if value in dict(definition.subject.ranges) else "number"
    return {"method": UNBIASED, "measure": measure, "unit": definition.domain.unit, "level": LEVEL}, points


def compare(view: View, names: list[str] | None) -> list[str] | None:
    """Return the requested quantiles, means and ranges."""
    for name in names or []:
        lookup.check_answer(view.definition, name)
    return names


def group_names(total: View, names: list[str] | None, _: int) -> list[str]:
    """Return these answers, or all that the query asks for."""
    return names or NumberAnswers(total.part).names


def group_level(_: View, _listed: int, _groups: int) -> float:
    """Return the level of each interval. All answers are listed, so their number needs no wider ones."""
    return LEVEL


def group_rows(group: str, part: Record, names: Sequence[str], _: float) -> Iterator[GroupAnswerRow]:
    """Yield the answers of one group, in the order of the names."""
    answers = NumberAnswers(part)
    for row in answers.rows(names):
        yield GroupAnswerRow(
            group=group,
            value=row.name,
            measure=row.measure,
            share=row.value,
            low=row.low,
            high=row.high,
            may_be_zero=may_be_zero(row.low, row.high, row.measure),
            weak=is_weak(row.name, row.measure, row.low, row.high, answers.scale),
        )


def leader(part: Record) -> dict[str, Any]:
    """Return the first quantile of a window."""
    record = NumberAnswers(part)
    row = record.row(record.names[0])
    number: dict[str, Any] = dict.fromkeys(("value", "share", "low", "high"))
    if row is not None:
        number = {"value": row.name, "share": row.value, "low": row.low, "high": row.high}
    return {**number, "measure": "number", "unit": record.unit, "level": LEVEL}


def answers(view: View) -> NumberAnswers:
    return NumberAnswers(view.part)


def histogram_rows(view: View, method: str, truth: Floats | None) -> list[ValueRow]:
    """Return a row for each block of the histogram, in the order of the numbers. `present` holds for all together."""
    fields = view.part.rest()["numbers"]
    if fields is None:
        return []

    histogram = read(HistogramRow, fields["histogram"])
    edges = histogram.edges
    count = len(histogram.shares)
    shares = histogram.shares if method == UNBIASED else histogram.norm_sub
    true: list[Any] = [None] * count if truth is None else truth.reshape(count, -1).sum(axis=1).tolist()

    # The blocks are proved together, so each has its part of the error.
    reach = normal_quantile(view.definition.query.family_error / count)
    return [
        ValueRow(
            value=f"{edges[number]!r}..{edges[number + 1]!r}",
            share=shares[number],
            unbiased=unbiased,
            stderr=stderr,
            low=histogram.low[number],
            high=histogram.high[number],
            listed=False,
            decided=False,
            present=unbiased is not None and stderr is not None and unbiased > reach * stderr,
            probability=None,
            ranks=None,
            truth=true[number],
            by_weight=None,
            by_weight_low=None,
            by_weight_high=None,
        )
        for number, (unbiased, stderr) in enumerate(zip(histogram.shares, histogram.stderr, strict=True))
    ]


def number_fields(view: View) -> dict[str, Any] | None:
    """Return the numbers of the record without the cumulative shares, and which are weak. None if it is withheld."""
    fields: dict[str, Any] | None = view.part.rest()["numbers"]
    if fields is None:
        return None

    scale = view.definition.scale
    means = {name: _shown(name, fields[name], scale) for name in (MEAN, GEOMETRIC_MEAN) if fields.get(name)}
    quantiles = {share: _shown(share, row, scale) for share, row in fields["quantiles"].items()}
    ranges = {name: row | {"weak": is_weak_share(row["low"], row["high"])} for name, row in fields["ranges"].items()}
    rest = {name: value for name, value in fields.items() if name != "cdf"}
    return rest | means | {"quantiles": quantiles, "ranges": ranges}


def _shown(name: str, row: dict[str, Any], scale: Scale) -> dict[str, Any]:
    return row | {"weak": is_weak_number(name, row["low"], row["high"], scale)}


def true_answers(view: View, truth: Floats | None) -> dict[str, float | None] | None:
    """Return the true quantiles, means and ranges of a window, by their names."""
    if truth is None:
        return None
    return {name: true_answer(view.definition, name, truth) for name in answers(view).names}


def number_point(entry: Entry, definition: Definition, name: str, truth: Floats | None) -> PointRow:
    """Return a named answer about numbers in one window."""
    part = entry.part(definition.name)
    row = NumberAnswers(part).row(name)
    value, low, high = (None, None, None) if row is None else (row.value, row.low, row.high)
    true = rows.shown_truth(part, truth)

    return PointRow(
        start=entry.span.start,
        end=entry.span.end,
        n=part.n,
        share=value,
        unbiased=value,
        low=low,
        high=high,
        truth=None if true is None else true_answer(definition, name, true),
        withheld=part.withheld,
        may_be_zero=row is not None and may_be_zero(low, high, row.measure),
        weak=row is not None and is_weak(name, row.measure, low, high, definition.scale),
    )


def true_answer(definition: Definition, name: str, shares: Floats) -> float | None:
    """Return an answer by the true shares of the bins."""
    scale = definition.scale
    ranges = dict(definition.subject.ranges)
    if name in ranges:
        return true_range(scale, shares, *ranges[name])
    if name == MEAN:
        return float(shares @ scale.middles)
    if name == GEOMETRIC_MEAN:
        # Of the middles, as the workers compute it, so that the truth differs by the noise alone.
        return float(np.exp(shares @ np.log(scale.middles)))
    share = quantile_of(name)
    return None if share is None else true_quantile(scale, shares, share)


def true_quantile(scale: Scale, shares: Floats, share: float) -> float:
    cdf = np.cumsum(shares)
    cdf[-1] = 1.0  # a rounded sum below 1 would leave the last bin open
    return scale.quantile(cdf, share)


def true_range(scale: Scale, shares: Floats, start: float, end: float) -> float:
    start_bin, end_bin = scale.bounds(start, end)
    return float(np.clip(shares[start_bin:end_bin].sum(), 0.0, 1.0))
