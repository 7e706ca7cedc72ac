"""The differences between two records of one query, attribute and kind of window: two windows or two groups. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aggregator.records.digits import DIGITS, digits_of, rounded
from aggregator.records.list_intervals import estimate_of
from aggregator.records.number_answers import GEOMETRIC_MEAN, MEAN, Measure, NumberAnswers, NumberRow
from aggregator.records.record import Record
from hubbub.http.schema import Chance, Known
from oracles.consistency import UNBIASED
from oracles.estimate import Estimate
from oracles.estimate.changes import compare, holm
from oracles.estimate.intervals import LEVEL, listed_level
from oracles.numbers import LOG, Scale
from oracles.numbers.number_differences import NumberDifference, NumberDifferences
from oracles.query.settings import quantile_of
from oracles.types import Ints

PANEL = ("life", "once")
"""The kinds of answers with which a client repeats itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DifferenceRow:
    """A value in two windows or groups. A value that only one record publishes is not tested, and has no difference."""

    value: str
    measure: Measure
    before: Known
    after: Known
    difference: Known
    stderr: Known
    low: Known
    high: Known
    p_value: Chance
    proved: bool
    """Whether a difference is proved, by Holm's procedure over the whole domain."""


class Differences(NamedTuple):
    """The differences of two records, the largest first."""

    level: float
    """The level of the intervals."""
    common: int
    """Number of values that both records publish."""
    proofs: int
    """Number of values of which a difference is proved, listed or not."""
    rows: list[DifferenceRow]


def differences(
    before: Record,
    after: Record,
    size: int,
    family_error: float,
    names: Sequence[str] | None = None,
    top: int | None = None,
    *,
    apart: bool = False,
) -> Differences:
    """Return the differences of the named values, or of the `top` ones with the largest differences.

    Two records of groups are `apart`: no client answers in both, so their estimates are independent.

    Named values keep intervals of 95%. Values that are listed for the size of their difference have a higher level.
    Without reports there are no differences. For numbers see `_number_differences`.
    """
    if after.has_numbers:
        return _number_differences(before, after, family_error, names, top, apart=apart)
    places = {value: at for at, value in enumerate(before.values)}
    both = [at for at, value in enumerate(after.values) if value in places]
    values = [after.values[at] for at in both]
    earlier, later = np.array([places[value] for value in values], np.int64), np.array(both, np.int64)
    if not (values and before.n_independent and after.n_independent):
        return Differences(LEVEL, 0, 0, [])
    one, two = _estimate(before, size, earlier), _estimate(after, size, later)
    is_panel = not apart and after.answers in PANEL and after.attribute is None and len(values) == size
    changes = compare(one, two, size=size, panel=is_panel, family_error=family_error)
    rows = {
        value: DifferenceRow(
            value=value,
            measure="share",
            before=float(one.shares[at]),
            after=float(two.shares[at]),
            difference=float(changes.difference[at]),
            stderr=float(changes.stderr[at]),
            low=float(changes.low[at]),
            high=float(changes.high[at]),
            p_value=float(changes.p_values[at]),
            proved=bool(changes.proved[at]),
        )
        for at, value in enumerate(values)
    }
    common, proofs = len(rows), int(changes.proved.sum())
    for record, key in ((before, "before"), (after, "after")):
        for value, share in zip(record.values, record.shares[UNBIASED].tolist(), strict=True):
            if value not in rows:
                rows[value] = _untested(value, key, share)
    if names is not None:
        return Differences(LEVEL, common, proofs, [rows[name] for name in names if name in rows])
    order = sorted(rows.values(), key=_size, reverse=True)[:top]
    level = listed_level(len(order), size)
    if level == LEVEL:
        return Differences(level, common, proofs, order)
    wide = compare(one, two, size=size, panel=is_panel, level=level, family_error=family_error)
    ends = {value: (float(wide.low[at]), float(wide.high[at])) for at, value in enumerate(values)}
    for at, row in enumerate(order):
        if row.difference is not None:
            order[at] = replace(row, low=ends[row.value][0], high=ends[row.value][1])
    return Differences(level, common, proofs, order)


def _number_differences(
    before: Record,
    after: Record,
    family_error: float,
    names: Sequence[str] | None,
    top: int | None,
    *,
    apart: bool,
) -> Differences:
    """Return the differences of quantiles, means and ranges: the named ones, or all that the query asks for.

    Each has an interval of 95% at least. Holm's procedure counts all that the query asks for.
    """
    earlier, later = NumberAnswers(before), NumberAnswers(after)
    one, two = earlier.numbers, later.numbers
    if one is None or two is None or not (one.known and two.known):
        return Differences(LEVEL, 0, 0, [])
    changes = NumberDifferences(one, two, not apart and after.answers in PANEL)
    answers = {name: _number_change(changes, name, earlier, later) for name in [*later.names, *(names or [])]}
    tested = {name: change for name, change in answers.items() if change is not None}
    proofs = holm(np.array([change.p_value for change in tested.values()]), len(tested), family_error).tolist()
    rows = {
        name: _number_row(name, None if name in later.ranges else one.scale, change, is_proved)
        for (name, change), is_proved in zip(tested.items(), proofs, strict=True)
    }
    selection = [name for name in (later.names if names is None else names) if name in rows][:top]
    return Differences(LEVEL, len(rows), sum(proofs), [rows[name] for name in selection])


def _number_change(
    changes: NumberDifferences, name: str, earlier: NumberAnswers, later: NumberAnswers
) -> NumberDifference | None:
    """Return the change of the answer with a name, or None if there is no such answer."""
    if name in later.ranges:
        return _range_change(changes, name, earlier, later)
    share = quantile_of(name)
    if name == MEAN:
        change = changes.mean()
    elif name == GEOMETRIC_MEAN and changes.before.scale.kind == LOG:
        change = changes.geometric_mean()
    elif share is not None:
        change = changes.quantile(share)
    else:
        return None
    return change if later.shows_all_bins else _as_shown(change, earlier.row(name), later.row(name))


def _as_shown(change: NumberDifference, before: NumberRow | None, after: NumberRow | None) -> NumberDifference:
    """Return a change from the values that both records show. They are finer than the steps that its error is from."""
    if before is None or after is None or before.value is None or after.value is None:
        return change
    difference = after.value - before.value
    low, high = min(change.low, difference), max(change.high, difference)
    return change._replace(before=before.value, after=after.value, difference=difference, low=low, high=high)


def _range_change(
    changes: NumberDifferences, name: str, earlier: NumberAnswers, later: NumberAnswers
) -> NumberDifference | None:
    """Return the change of a range of the query, by the shares that both records show.

    An earlier record may lack the range, because the query file named it later. Then the steps of the cumulative shares
    tell its change. They are coarser than many bins, so there is none if the range holds no whole step.
    """
    ends = later.ranges[name]
    if earlier.ranges.get(name) == ends:
        before, after = (each.known_range(name) for each in (earlier, later))
        return None if before is None or after is None else changes.shares(before, after)
    first, last = changes.after.scale.bounds(*ends)
    return changes.range(*ends) if first < last else None


def _number_row(name: str, scale: Scale | None, change: NumberDifference, is_proved: bool) -> DifferenceRow:
    """Return the row of a number on a scale, or of a share."""
    measure: Measure = "share" if scale is None else "number"
    digits = DIGITS if scale is None else digits_of(scale)
    columns = {key: rounded(number, digits) for key, number in change._asdict().items() if key != "p_value"}
    return DifferenceRow(value=name, measure=measure, **columns, p_value=change.p_value, proved=is_proved)


def _estimate(record: Record, size: int, places: Ints) -> Estimate:
    """Return the worker's estimate of the values at these places of a record."""
    estimate = estimate_of(record, size)
    return replace(estimate, shares=estimate.shares[places])


def _untested(value: str, key: str, share: float) -> DifferenceRow:
    before, after = (share, None) if key == "before" else (None, share)
    unknown = {"difference": None, "stderr": None, "low": None, "high": None, "p_value": None}
    return DifferenceRow(value=value, measure="share", before=before, after=after, proved=False, **unknown)


def _size(row: DifferenceRow) -> tuple[float, float]:
    """Return the key by which rows are ordered: rows with a difference first, by the size of their difference."""
    return -1.0 if row.difference is None else abs(row.difference), max(row.before or 0.0, row.after or 0.0)
