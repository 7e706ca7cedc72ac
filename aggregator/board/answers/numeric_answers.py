"""The answers of the API that only numbers have: quantiles, ranges, and the cumulative distribution."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Annotated, Any, Self

import numpy as np

from aggregator.board.answers import lookup, rows
from aggregator.board.answers.guarantees import ReadableBelow, readable
from aggregator.board.answers.kinds.numbers import (
    QuantileRow,
    RangeShareRow,
    StepRow,
    answers,
    true_quantile,
    true_range,
)
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad, missing
from aggregator.board.answers.window_answers import Unit, WindowAnswer, heading
from aggregator.board.store.store import Store
from aggregator.records.display import is_weak_number, is_weak_share, may_be_zero
from aggregator.records.number_answers import NumberAnswers
from hubbub.http.schema import json_name, schema
from oracles.consistency import UNBIASED
from oracles.numbers import Scale
from oracles.query.domain import NUMBERS
from oracles.query.settings import quantile_name

_NO_RANGE = dict.fromkeys(("share", "stderr", "low", "high"))


@dataclass(frozen=True, kw_only=True)
class Quantiles(WindowAnswer):
    """Quantiles of a window: those of the request, by default those of the query."""

    table = "quantiles"
    columns = tuple(field.name for field in fields(QuantileRow))

    readable_below: ReadableBelow
    unit: Unit
    quantiles: list[QuantileRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.kind_view(store, parameters, name, NUMBERS)
        definition = view.definition
        true = rows.true_shares(series, view)
        record = answers(view)

        quantiles = []
        for share in parameters.shares("p") or definition.query.quantiles:
            row = record.quantile(share)
            value, low, high = (None, None, None) if row is None else (row.value, row.low, row.high)
            truth = None if true is None else true_quantile(definition.scale, true, share)
            answer_name = quantile_name(share)
            quantiles.append(
                QuantileRow(
                    name=answer_name,
                    p=share,
                    value=value,
                    low=low,
                    high=high,
                    truth=truth,
                    may_be_zero=may_be_zero(low, high, "number"),
                    weak=is_weak_number(answer_name, low, high, definition.scale),
                )
            )
        return cls(
            **heading(view, UNBIASED),
            readable_below=readable(view),
            unit=definition.domain.unit,
            quantiles=quantiles,
        )


@dataclass(frozen=True, kw_only=True)
class RangeShares(WindowAnswer):
    """The shares of ranges of numbers: the one of the request, by default all of the query file."""

    table = "ranges"
    columns = tuple(json_name(field.name) for field in fields(RangeShareRow))

    unit: Unit
    ranges: list[Annotated[dict[str, Any], schema(RangeShareRow)]]

    @property
    def rows(self) -> Sequence[Any]:
        return [SimpleNamespace(**row) for row in self.ranges]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.kind_view(store, parameters, name, NUMBERS)
        definition = view.definition
        true = rows.true_shares(series, view)
        record = answers(view)

        shares = []
        for range_name, (start, end) in _ranges(parameters, dict(definition.subject.ranges), definition.scale):
            # The row in the record comes from all bins. The cumulative shares have fewer steps.
            row = record.named_range(range_name) or _range_row(record, definition.scale, start, end)
            truth = None if true is None else true_range(definition.scale, true, row["from"], row["to"])
            ends = (row["low"], row["high"])
            shown = {"may_be_zero": may_be_zero(*ends), "weak": is_weak_share(*ends)}
            shares.append({"name": range_name, **row, "truth": truth, **shown})
        return cls(**heading(view, UNBIASED), unit=definition.domain.unit, ranges=shares)


def _range_row(record: NumberAnswers, scale: Scale, start: float, end: float) -> dict[str, Any]:
    """Return a range that the record does not name, from its cumulative shares, which have at most 1,024 steps."""
    if start >= end:
        raise bad(f"from must be below to, got {start:g} and {end:g}", parameter="from")
    steps = record.scale or scale
    first_step, end_step = steps.bounds(start, end)
    if first_step >= end_step:
        are_bins = steps.bins == scale.bins
        reason = "bin;" if are_bins else f"step; a record has {steps.bins:,} steps for {scale.bins:,} bins, so"
        raise bad(f"the range from {start:g} to {end:g} holds no whole {reason} use ends that are further apart")
    ends = {"from": float(steps.edges[first_step]), "to": float(steps.edges[end_step])}
    return {**ends, **_NO_RANGE, **(record.range(start, end) or {})}


def _ranges(
    parameters: Parameters, named: dict[str, tuple[float, float]], scale: Scale
) -> list[tuple[str | None, tuple[float, float]]]:
    """Return the names and ends of the requested ranges. A missing end is that of the scale."""
    name = parameters.text("name")
    start = parameters.decimal("from")
    end = parameters.decimal("to")
    has_ends = start is not None or end is not None
    if name is not None and has_ends:
        raise bad("give either `name`, a range of the query file, or `from` and `to`", parameter="name")
    if has_ends:
        return [(None, (scale.low if start is None else start, scale.high if end is None else end))]
    if name is not None and name not in named:
        choices = f"the ranges are {', '.join(named)}" if named else "the query file has no ranges"
        raise missing(f"there is no range {name!r}; {choices}", parameter="name")
    return [(choice, ends) for choice, ends in named.items() if name in (None, choice)]


@dataclass(frozen=True, kw_only=True)
class CumulativeShares(WindowAnswer):
    """The cumulative distribution of a window, at the edges of its bins, at most 1,024."""

    table = "steps"
    columns = tuple(field.name for field in fields(StepRow))

    readable_below: ReadableBelow
    unit: Unit
    steps: list[StepRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.kind_view(store, parameters, name, NUMBERS)
        numbers = answers(view).numbers
        true = rows.true_shares(series, view)

        steps: list[StepRow] = []
        if numbers is not None:
            # The record may have fewer steps than the truth has bins, and rounded sums may exceed 1.
            bins = len(numbers.cdf)
            sums = None if true is None else np.clip(np.cumsum(true)[len(true) // bins - 1 :: len(true) // bins], 0, 1)
            truth = [None] * bins if sums is None else sums.tolist()

            columns = (
                numbers.scale.edges[1:].tolist(),
                numbers.cdf.tolist(),
                *(end.tolist() for end in numbers.band()),
            )
            keys = ("number", "share", "low", "high", "truth")
            steps = [
                StepRow(**dict(zip(keys, map(_known, row), strict=True))) for row in zip(*columns, truth, strict=True)
            ]
        return cls(
            **heading(view, UNBIASED),
            readable_below=readable(view),
            unit=view.definition.domain.unit,
            steps=steps,
        )


def _known(number: float | None) -> Any:
    return None if number is None or number != number else number  # noqa: PLR0124 - only NaN differs from itself
