"""The answers about listed values: their shares by a method, their history, and the largest of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aggregator.board.answers import lookup, rows
from aggregator.board.answers.absence import missing_reasons, unknown_value
from aggregator.board.answers.parameters import MOST, Parameters
from aggregator.board.answers.rows import GroupAnswerRow, PointRow, ValueRow
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry
from aggregator.board.store.series import Series
from aggregator.records.display import is_weak_share, may_be_zero
from aggregator.records.kinds import kind_of
from aggregator.records.list_intervals import intervals_at
from aggregator.records.record import Record
from aggregator.records.subject import IMPOSSIBLE
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL, listed_level
from oracles.types import Floats


def domain_fields(definition: Definition) -> dict[str, Any]:
    """Return the size of the domain. It has neither a scale nor a code."""
    return {"size": definition.domain.size, "numbers": None, "strings": None}


def answer(series: Series, view: View, parameters: Parameters) -> dict[str, Any]:
    """Return the requested values, or the largest of the window, with the level of their intervals."""
    method = lookup.method(view.part, parameters)
    texts = parameters.values()
    names = view.names(texts) if texts else None

    truth = rows.true_shares(series, view)
    published = value_rows(view, method, truth)
    by_name = {row.value: row for row in published}
    selection = [by_name[name] for name in names if name in by_name] if names else published
    selection = selection[: parameters.whole("top", MOST if names else None)]

    interval_level = LEVEL
    if names is None:
        interval_level, selection = rows.listed(view, selection)

    # The intervals of a list of all values cost much, and without a truth nobody needs them.
    error = None
    if truth is not None:
        _, listed_rows = rows.listed(view, published)
        error = rows.error(listed_rows)
    absent = [name for name in names or [] if name not in by_name]
    return {
        "method": method,
        "methods": list(view.part.shares),
        "size": view.definition.domain.size,
        "threshold": view.threshold,
        "published": len(published),
        "missing": absent,
        "missing_reasons": missing_reasons(absent, view.part),
        "level": interval_level,
        "values": selection,
        "error": error,
    }


def series(
    history: Series, definition: Definition, records: Sequence[Entry], value: str, parameters: Parameters
) -> tuple[dict[str, Any], Iterator[PointRow]]:
    """Return the share of a value in successive windows."""
    method = lookup.history_method(records, definition, parameters)
    position = definition.domain.find(value)
    if position is None:
        raise unknown_value(definition.domain, value)

    spans = [record.span for record in records]
    truth = history.truth.shares(spans, definition.attribute, position)
    name = definition.domain.name(position)
    listed = parameters.number("listed")
    level = LEVEL if listed is None else listed_level(listed, definition.domain.size)
    points = (
        PointRow.of(record, definition.name, name, method, true_share if rows.has_truth(record) else None, level)
        for record, true_share in zip(records, truth, strict=True)
    )
    return {"method": method, "measure": "share", "unit": None, "level": level}, points


def compare(view: View, names: list[str] | None) -> list[str] | None:
    """Return the requested values as the records write them."""
    return view.names(names) if names else names


def group_names(total: View, names: list[str] | None, top: int) -> list[str]:
    """Return these values, or the largest of the total."""
    if names is not None:
        return names

    # Stable, or equal shares would change places from window to window.
    order = np.argsort(-total.part.shares[UNBIASED], kind="stable")[:top]
    return [total.part.values[place] for place in order.tolist()]


def group_level(total: View, listed: int, groups: int) -> float:
    """Return the level of intervals of values that are listed because they are large, over all groups."""
    return listed_level(listed, total.definition.domain.size * groups)


def group_rows(group: str, part: Record, names: Sequence[str], level: float) -> Iterator[GroupAnswerRow]:
    """Yield the shares in one group, in the order of the values."""
    places = {value: place for place, value in enumerate(part.values)}
    listed = [places[name] for name in names if name in places]
    _, low, high = intervals_at(part, np.array(listed, np.int64), level)
    ends = dict(zip(listed, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    shares = part.shares[UNBIASED]
    for name in names:
        place = places.get(name)
        low_end, high_end = (None, None) if place is None else ends[place]
        share = None if place is None else float(shares[place])
        yield GroupAnswerRow(
            group=group,
            value=name,
            measure="share",
            share=share,
            low=low_end,
            high=high_end,
            may_be_zero=may_be_zero(low_end, high_end),
            weak=is_weak_share(low_end, high_end),
        )


def leader(part: Record) -> dict[str, Any]:
    """Return the largest value of a window, with the interval of a value that was not named before."""
    shares = part.shares[UNBIASED]
    if not len(shares):
        return dict.fromkeys(("value", "share", "low", "high", "level"))

    place = int(np.argmax(shares))
    # The value is chosen because it leads, so its interval must hold for whichever value that is.
    level_of_list, low, high = kind_of(part).intervals(part, np.array([place]))
    return {
        "value": part.values[place],
        "share": float(shares[place]),
        "low": float(low[0]),
        "high": float(high[0]),
        "level": level_of_list,
    }


def value_rows(view: View, method: str, truth: Floats | None) -> list[ValueRow]:
    """Return a row for each published value, the largest share of the method first. Each has its own 95% interval."""
    part = view.part
    total = part.rest()["weighted"]
    nothing = [None] * len(part.values)
    total_columns = (
        (nothing, nothing, nothing)
        if total is None
        else (total["shares"].get(method, nothing), total["low"], total["high"])
    )

    # Older records have no such share, so their values are present only if a hitter proves it.
    # An impossible record has a significance, but proves nothing.
    proves = part.significance is not None and IMPOSSIBLE not in part.flags
    significance = part.significance if proves else np.inf
    hitters = {hitter.value: hitter for hitter in part.hitters(method)}
    proofs = {hitter.value for hitter in part.hitters(UNBIASED) if hitter.decided}
    true = [None] * len(part.values) if truth is None else truth[view.positions(part.values)].tolist()

    numbers = (part.shares[method], part.shares[UNBIASED], part.stderr, part.low, part.high)
    columns = [part.values, *(column.tolist() for column in numbers), true, *total_columns]
    order = np.argsort(-part.shares[method], kind="stable").tolist()
    value_rows = []
    for place in order:
        value, share, unbiased, stderr, low, high, truth_of, *by_weight = (column[place] for column in columns)
        hitter = hitters.get(value)
        is_decided = value in proofs or (hitter is not None and hitter.decided)
        value_rows.append(
            ValueRow(
                value=value,
                share=share,
                unbiased=unbiased,
                stderr=stderr,
                low=low,
                high=high,
                listed=hitter is not None or value in proofs,
                decided=is_decided,
                present=is_decided or unbiased >= significance,
                probability=hitter.probability if hitter else None,
                ranks=hitter.ranks if hitter else None,
                truth=truth_of,
                by_weight=by_weight[0],
                by_weight_low=by_weight[1],
                by_weight_high=by_weight[2],
            )
        )
    return value_rows
