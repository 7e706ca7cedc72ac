"""The differences between two records of one query, attribute and kind of window: two windows or two groups. Pure.

Those of listed values are computed here.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from aggregator.records.list_intervals import estimate_of
from aggregator.records.number_answers import Measure
from aggregator.records.record import Record
from aggregator.records.subject import IMPOSSIBLE
from hubbub.http.schema import Chance, Known
from oracles.consistency import UNBIASED
from oracles.estimate import Estimate
from oracles.estimate.changes import compare
from oracles.estimate.intervals import LEVEL, listed_level
from oracles.estimate.looks import ONE_LOOK, Looks
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
    proved: bool | None
    """Whether a difference is proved, by Holm's procedure over the whole domain. None if a record is impossible."""


class Differences(NamedTuple):
    """The differences of two records, the largest first."""

    level: float
    """The level of the intervals."""
    common: int
    """Number of values that both records publish."""
    proofs: int
    """Number of values of which a difference is proved, listed or not."""
    rows: list[DifferenceRow]
    width: float | None = None
    """Width of the intervals as a multiple of those of one look. None if nothing is compared."""


def value_differences(
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
    """Return the differences of the named values, or of the `top` ones with the largest differences.

    Two records of groups are `apart`: no client answers in both, so their estimates are independent.

    Named values keep intervals of 95%. Values that are listed for the size of their difference have a higher level.
    Without reports there are no differences.
    """
    # Each record lists the values in an order of its own, and a cut record lacks some.
    places = {value: place for place, value in enumerate(before.values)}
    common_places = [place for place, value in enumerate(after.values) if value in places]
    values = [after.values[place] for place in common_places]
    if not (values and before.n_independent and after.n_independent):
        return Differences(LEVEL, 0, 0, [])

    reference_places = np.array([places[value] for value in values], np.int64)
    reference = _estimate(before, size, reference_places, apart=apart)
    estimate = _estimate(after, size, np.array(common_places, np.int64), apart=apart)
    is_panel = not apart and after.answers in PANEL
    # The bounds of a panel need all values. With several attributes a client may answer another one in each window.
    is_measurable = after.attribute is None and len(values) == size
    comparison = partial(compare, reference, estimate, size=size, panel=is_panel, measurable=is_measurable, looks=looks)
    changes = comparison(family_error=family_error)
    law = looks.law(before.n_independent, after.n_independent)
    rows = {
        value: DifferenceRow(
            value=value,
            measure="share",
            before=float(reference.shares[place]),
            after=float(estimate.shares[place]),
            difference=float(changes.difference[place]),
            stderr=float(changes.stderr[place]),
            low=float(changes.low[place]),
            high=float(changes.high[place]),
            p_value=float(changes.p_values[place]),
            proved=bool(changes.proved[place]),
        )
        for place, value in enumerate(values)
    }
    rows |= _untested_rows(before, after, rows.keys())
    proofs = int(changes.proved.sum())
    # Counts that no crowd has prove nothing, however large the difference is.
    if IMPOSSIBLE in (*before.flags, *after.flags):
        rows = {value: replace(row, proved=None) for value, row in rows.items()}
        proofs = 0
    if names is not None:
        selection = [one_side(rows[name]) for name in names if name in rows]
        return Differences(LEVEL, len(values), proofs, selection, law.width(LEVEL))

    # Rows at the top are partly there by luck, so their intervals are for all values of the domain.
    order = sorted(rows.values(), key=_size, reverse=True)[:top]
    level = listed_level(len(order), size)
    if level == LEVEL:
        return Differences(level, len(values), proofs, [*map(one_side, order)], law.width(level))

    listed = comparison(level=level)
    ends = {value: (float(listed.low[place]), float(listed.high[place])) for place, value in enumerate(values)}
    for place, row in enumerate(order):
        if row.difference is not None:
            low, high = ends[row.value]
            order[place] = replace(row, low=low, high=high)
    return Differences(level, len(values), proofs, [*map(one_side, order)], law.width(level))


def _untested_rows(before: Record, after: Record, tested: Container[str]) -> dict[str, DifferenceRow]:
    """Return the rows of the values that only one of the records publishes."""
    rows = {}
    for value, share in zip(before.values, before.shares[UNBIASED].tolist(), strict=True):
        if value not in tested:
            rows[value] = _untested(value, share, None)
    for value, share in zip(after.values, after.shares[UNBIASED].tolist(), strict=True):
        if value not in tested:
            rows[value] = _untested(value, None, share)
    return rows


def one_side(row: DifferenceRow) -> DifferenceRow:
    """Return a row whose interval, if the change is proved, has nothing on the other side of 0. An end cut there is 0.

    The cut removes the truth only if the test has proved the wrong side.
    """
    if not row.proved or row.difference is None or row.low is None or row.high is None:
        return row
    return replace(row, low=max(row.low, 0.0)) if row.difference > 0.0 else replace(row, high=min(row.high, 0.0))


def _estimate(record: Record, size: int, places: Ints, *, apart: bool) -> Estimate:
    """Return the worker's estimate of the values at these places of a record."""
    # A record does not say whether clients answer by tables, so errors of all that answer for life allow for them.
    has_table = not apart and record.answers == "life"
    # The places are those of the record, and not those of the domain, so the shares are picked after the estimate.
    estimate = estimate_of(record, size, has_table=has_table)
    return replace(estimate, shares=estimate.shares[places])


def _untested(value: str, reference_share: float | None, share: float | None) -> DifferenceRow:
    return DifferenceRow(
        value=value,
        measure="share",
        before=reference_share,
        after=share,
        difference=None,
        stderr=None,
        low=None,
        high=None,
        p_value=None,
        proved=False,
    )


def _size(row: DifferenceRow) -> tuple[float, float]:
    """Return the key by which rows are ordered: rows with a difference first, by the size of their difference."""
    return -1.0 if row.difference is None else abs(row.difference), max(row.before or 0.0, row.after or 0.0)
