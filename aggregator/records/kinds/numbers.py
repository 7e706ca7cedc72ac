"""Records of numbers: their distribution, and the differences of quantiles, means and ranges."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from aggregator.records.crowd_privacy import of_record
from aggregator.records.differences import PANEL, DifferenceRow, Differences, one_side
from aggregator.records.digits import DIGITS, digits_of, rounded
from aggregator.records.display import is_weak_number
from aggregator.records.findings import GroupTotal, NumberFindings, WindowFindings
from aggregator.records.kinds.answer import ShownAnswer
from aggregator.records.list_intervals import ListedIntervals
from aggregator.records.number_answers import GEOMETRIC_MEAN, MEAN, NumberAnswers, NumberRow
from aggregator.records.number_rows import number_fields
from aggregator.records.percentages import percent
from aggregator.records.record import Record
from aggregator.records.rows import OracleRow, RefusedRow
from oracles.consistency import UNBIASED
from oracles.estimate.changes import holm
from oracles.estimate.intervals import LEVEL
from oracles.estimate.looks import ONE_LOOK, Looks
from oracles.numbers import LOG, Numbers, Scale
from oracles.numbers.number_differences import NumberDifference, NumberDifferences
from oracles.query.settings import quantile_of
from oracles.types import Ints

COLUMNS: dict[str, type] = {"number": float, "unit": str}
"""The columns of a table that only this kind has."""


def fields(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the distribution of the numbers."""
    query = window.query
    findings = cast(NumberFindings, total.findings)
    estimate = findings.estimate
    subject = findings.subject

    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": OracleRow.of(query, estimate.oracle),
        "shift_per_fake": rounded(estimate.oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "numbers": number_fields(findings.numbers, subject.domain, query.quantiles, subject.ranges),
        "refused": RefusedRow.of(total.reports),
        "quality": {
            "sum": rounded(float(estimate.shares.sum())),
            "prior_rejected": False,
            "risk": {},
            "flags": findings.flags,
        },
        "central": of_record(window, subject.name, estimate.n),
    }


def answers(record: Record, limit: int) -> Iterator[ShownAnswer]:
    """Yield the answers that the query asks for. One without a value or an interval is not shown."""
    del limit
    numbers = NumberAnswers(record)
    for row in numbers.rows():
        if row.value is not None and row.low is not None and row.high is not None:
            yield ShownAnswer(
                name=row.name,
                value=row.value,
                low=row.low,
                high=row.high,
                measure=row.measure,
                unit=numbers.unit if row.measure == "number" else None,
                is_present=True,
                is_weak=row.measure == "number"
                and is_weak_number(row.name, row.low, row.high, cast(Scale, numbers.scale)),
            )


def rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the cells of each quantile and mean, in the unit of the query, and of the share of each range."""
    numbers = NumberAnswers(record)
    for row in numbers.rows():
        value = {UNBIASED: row.value} if row.measure == "share" else {"number": row.value, "unit": numbers.unit}
        yield {"value": row.name, **value, "stderr": row.stderr, "low": row.low, "high": row.high, "level": LEVEL}


def words(record: Record, *, has_search: bool | None) -> list[str]:
    """Return how well the share of the numbers below any number is known."""
    del has_search
    resolution = (record.member("numbers") or {}).get("resolution")
    return [] if resolution is None else [f"shares of numbers known to ± {percent(resolution, 1)}"]


def intervals(record: Record, places: Ints, total: int | None = None) -> ListedIntervals:
    """Return the intervals of the record. Each answer was named before, so a list needs no wider ones."""
    del total
    shown = [*answers(record, len(places))]
    low = np.array([shown[place].low for place in places], np.float64)
    high = np.array([shown[place].high for place in places], np.float64)
    return ListedIntervals(LEVEL, low, high)


def differences(
    before: Record,
    after: Record,
    size: int,
    family_error: float,
    names: Sequence[str] | None = None,
    top: int | None = None,
    *,
    apart: bool = False,
    looks: Looks = ONE_LOOK,
) -> Differences:
    """Return the differences of quantiles, means and ranges: the named ones, or all that the query asks for.

    Each has an interval of 95% at least. Holm's procedure counts all that the query asks for.
    """
    del size
    reference_answers = NumberAnswers(before)
    answers = NumberAnswers(after)
    if not (reference_answers.known and answers.known):
        return Differences(LEVEL, 0, 0, [])

    reference = cast(Numbers, reference_answers.numbers)
    changes = NumberDifferences(reference, cast(Numbers, answers.numbers), not apart and after.answers in PANEL, looks)
    tested = {}
    for name in [*answers.names, *(names or [])]:
        change = _number_change(changes, name, reference_answers, answers)
        if change is not None:
            tested[name] = change

    # Named answers that the query does not ask for are tests too, so they count in the procedure.
    p_values = np.array([change.p_value for change in tested.values()])
    proofs = holm(p_values, len(tested), looks.part * family_error).tolist()
    rows = {}
    for (name, change), is_proved in zip(tested.items(), proofs, strict=True):
        # A test and a difference that disagree about the direction prove none.
        is_sure = is_proved and change.side != 0.0 and change.side * change.difference > 0.0
        is_range = name in answers.ranges
        row = _share_row(name, change, is_sure) if is_range else _number_row(name, reference.scale, change, is_sure)
        rows[name] = one_side(row)

    selection = [name for name in (answers.names if names is None else names) if name in rows]
    count = sum(bool(row.proved) for row in rows.values())
    width = changes.law.width(LEVEL)
    return Differences(LEVEL, len(rows), count, [rows[name] for name in selection[:top]], width)


def _on_scale(change: NumberDifference, scale: Scale) -> NumberDifference:
    """Return a change of numbers whose interval does not leave the scale."""
    width = scale.high - scale.low
    return change._replace(low=max(change.low, -width), high=min(change.high, width))


def _number_change(
    changes: NumberDifferences, name: str, reference: NumberAnswers, answers: NumberAnswers
) -> NumberDifference | None:
    """Return the change of the answer with a name, or None if there is no such answer."""
    if name in answers.ranges:
        return _range_change(changes, name, reference, answers)

    share = quantile_of(name)
    if name == MEAN:
        change = changes.mean()
    elif name == GEOMETRIC_MEAN and changes.before.scale.kind == LOG:
        change = changes.geometric_mean()
    elif share is not None:
        change = changes.quantile(share)
    else:
        return None

    # With more bins than steps the records show finer answers than a reader computes from the steps.
    if answers.shows_all_bins:
        return change
    return _as_shown(change, reference.row(name), answers.row(name))


def _as_shown(change: NumberDifference, reference: NumberRow | None, answer: NumberRow | None) -> NumberDifference:
    """Return a change from the values that both records show. They are finer than the steps that its error is from."""
    if reference is None or answer is None or reference.value is None or answer.value is None:
        return change

    # The interval is that of the steps. It grows if it would not hold the finer difference.
    difference = answer.value - reference.value
    return change._replace(
        before=reference.value,
        after=answer.value,
        difference=difference,
        low=min(change.low, difference),
        high=max(change.high, difference),
    )


def _range_change(
    changes: NumberDifferences, name: str, reference: NumberAnswers, answers: NumberAnswers
) -> NumberDifference | None:
    """Return the change of a range of the query, by the shares that both records show.

    An earlier record may lack the range, because the query file named it later. In that case the steps of the
    cumulative shares tell its change. They are coarser than many bins, so there is none if the range holds no whole
    step.
    """
    ends = answers.ranges[name]
    if reference.ranges.get(name) == ends:
        reference_share = reference.known_range(name)
        share = answers.known_range(name)
        return None if reference_share is None or share is None else changes.shares(reference_share, share)

    start_bin, end_bin = changes.after.scale.bounds(*ends)
    return changes.range(*ends) if start_bin < end_bin else None


def _share_row(name: str, change: NumberDifference, is_proved: bool) -> DifferenceRow:
    """Return the row of the share of a range."""
    columns = _columns(change, DIGITS)
    return DifferenceRow(value=name, measure="share", **columns, p_value=change.p_value, proved=is_proved)


def _number_row(name: str, scale: Scale, change: NumberDifference, is_proved: bool) -> DifferenceRow:
    """Return the row of a number on a scale."""
    columns = _columns(_on_scale(change, scale), digits_of(scale))
    return DifferenceRow(value=name, measure="number", **columns, p_value=change.p_value, proved=is_proved)


def _columns(change: NumberDifference, digits: int) -> dict[str, Any]:
    """Return the numbers of a change, as a row of differences has them."""
    numbers = change._asdict()
    del numbers["p_value"], numbers["side"]
    return {key: rounded(number, digits) for key, number in numbers.items()}
