"""The value classes of rows in answers, with their schemas, each built from the store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, TypeVar

import numpy as np

from aggregator.board.answers.absence import shown
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry
from aggregator.board.store.store import Series
from aggregator.records.display import is_weak_share, may_be_zero, nothing_proved
from aggregator.records.kinds import kind_of
from aggregator.records.list_intervals import ListedIntervals, intervals_at
from aggregator.records.number_answers import Measure
from aggregator.records.record import Record
from aggregator.records.rows import HitterRow, Indication, Ranks
from aggregator.records.status import Lack, State
from aggregator.records.subject import PARTIAL_GROUPS
from aggregator.records.words import WITHHELD
from hubbub.http.schema import Chance, Count, Known, Time
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
from oracles.types import Floats

_T = TypeVar("_T")

Withheld = Annotated[
    str | None, {"enum": [*WITHHELD, None], "description": "Why a window has no values; null if it has them"}
]
Through = Annotated[int | None, {"description": "End of the panes in a provisional window; null for a final"}]
GroupName = Annotated[
    dict[str, str] | None, {"description": "The group, such as platform: ios. Null for the total of all groups"}
]
NothingProved = Annotated[
    bool | None, {"description": "Whether the leading answer may be zero or is weak; null without a window with values"}
]
NeededPeople = Annotated[
    int | None,
    {"description": "People that show a share of 10%, or a quantile to 10% in rank; null if something is proved"},
]
NothingText = Annotated[str | None, {"description": "The sentence in place of the numbers; null if one is proved"}]
StateName = Annotated[State, {"description": "The first state that fits"}]
NewestReport = Annotated[int | None, {"description": "End of the newest closed pane with reports; null if unknown"}]
NextEnd = Annotated[int | None, {"description": "End of the next window that closes; null after the last one"}]
NextDue = Annotated[
    int | None,
    {"description": "`next_end` plus the lateness; a final with reports comes seconds later"},
]
Lacks = Annotated[
    Lack | None,
    {"description": "What is missing for the next final; null if nothing is. `worker` may also mean the first pane"},
]
MayBeZero = Annotated[bool, {"description": "Whether the interval holds 0"}]
Weak = Annotated[bool, {"description": "The interval says so little that words should stand in the number's place"}]
Age = Annotated[float | None, {"minimum": 0, "description": "Seconds; null before the first final window"}]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueRow:
    """A value of a window, with its errors and, in a simulation, its true share."""

    value: str
    share: Known
    unbiased: Known
    stderr: Known
    low: Chance
    high: Chance
    listed: Annotated[bool, {"description": "The share of the method is above the threshold"}]
    decided: Annotated[bool, {"description": "Proved to be above the threshold"}]
    present: Annotated[bool, {"description": "Proved to be present. Otherwise the share may be zero"}]
    probability: Indication
    ranks: Ranks
    truth: Chance
    by_weight: Annotated[float | None, {"description": "The share in a total with known shares of the groups"}]
    by_weight_low: Chance
    by_weight_high: Chance
    may_be_zero: MayBeZero = field(init=False)
    weak: Weak = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "may_be_zero", may_be_zero(self.low, self.high))
        object.__setattr__(self, "weak", is_weak_share(self.low, self.high))


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightRow:
    """The size of a total that is weighted to known shares of the groups. Its intervals are 95% for each value."""

    n_effective: Annotated[float, {"description": "Reports of an unweighted total with the same error"}]
    weight: Annotated[float, {"description": "Sum of the weights of the groups in this total"}]

    @classmethod
    def of(cls, part: Record) -> "WeightRow | None":
        fields = part.rest()["weighted"]
        return None if fields is None else cls(n_effective=fields["n_effective"], weight=fields["weight"])


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedHitterRow(HitterRow):
    """A listed value that exceeds a threshold, with the interval of its unbiased share."""

    low: Chance
    high: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRow:
    """The error of the published shares against the truth, in a simulation."""

    values: Count
    rms: Known
    max: Known
    covered: Count


@dataclass(frozen=True, kw_only=True, slots=True)
class SetRow:
    """The share of a set of values."""

    name: str | None
    values: list[str]
    share: Known
    stderr: Known
    truth: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRow:
    """A value in one window, with nulls if the window is withheld or does not publish the value."""

    start: Time
    end: Time
    n: Count
    share: Known
    unbiased: Known
    low: Known
    high: Known
    truth: Known
    withheld: Withheld
    may_be_zero: MayBeZero
    weak: Weak

    @classmethod
    def of(
        cls,
        record: Entry,
        attribute: str | None,
        value: str,
        method: str | None,
        truth: float | None,
        level: float = LEVEL,
    ) -> "PointRow":
        part = record.part(attribute)
        place = part.values.index(value) if value in part.values else None

        # An older window may lack the method of the newest one.
        columns = part.shares.get(method or ""), part.shares[UNBIASED], part.low, part.high
        share, unbiased, low, high = (
            None if column is None or place is None else float(column[place]) for column in columns
        )

        # The record has the intervals of one value that was chosen before looking.
        if place is not None and level != LEVEL:
            _, lows, highs = intervals_at(part, np.array([place]), level)
            low = float(lows[0])
            high = float(highs[0])

        return cls(
            start=record.span.start,
            end=record.span.end,
            n=part.n,
            share=share,
            unbiased=unbiased,
            low=low,
            high=high,
            truth=shown_truth(part, truth),
            withheld=part.withheld,
            may_be_zero=may_be_zero(low, high),
            weak=is_weak_share(low, high),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupAnswerRow:
    """One value or one answer about numbers in one group. Null if the group's record does not publish it."""

    group: str
    value: str
    measure: Measure
    share: Known
    low: Known
    high: Known
    may_be_zero: MayBeZero
    weak: Weak


def nothing_fields(definition: Definition, n: int, leader: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that say whether a window with this leading answer proves nothing, and what stands there."""
    answer = leader["value"] or "", leader["low"], leader["high"]
    words = nothing_proved(definition.query, definition.attribute, n, answer)
    return {
        "nothing_proved": words is not None,
        "people_for_10_percent": words.people if words else None,
        "nothing_text": words.text if words else None,
    }


def nothing_of(view: View, leader: Callable[[Record], dict[str, Any]]) -> dict[str, Any]:
    """Return the same members of a window with a kind of answers. A withheld window lacks them."""
    part = view.part
    return shown(part, lambda: nothing_fields(view.definition, part.n, leader(part)), {})


def listed(view: View, rows: Sequence[ValueRow]) -> tuple[float, list[ValueRow]]:
    """Return rows of values that are listed together because they are large, and the level of their intervals."""
    level, low, high = _intervals(view, [row.value for row in rows])
    return level, [
        replace(row, low=low_end, high=high_end)
        for row, low_end, high_end in zip(rows, low.tolist(), high.tolist(), strict=True)
    ]


def listed_hitters(view: View, rows: Sequence[HitterRow]) -> tuple[float, list[ListedHitterRow]]:
    """Return rows of hitters that are listed together, and the level of their intervals."""
    values = set(view.part.values)
    published = [row.value for row in rows if row.value in values]
    level, low, high = _intervals(view, published)
    ends = dict(zip(published, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    hitters = []
    for row in rows:
        low_end, high_end = ends.get(row.value, (None, None))
        hitters.append(ListedHitterRow(**asdict(row), low=low_end, high=high_end))
    return level, hitters


def _intervals(view: View, values: Sequence[str]) -> ListedIntervals:
    places = {value: place for place, value in enumerate(view.part.values)}
    listed_places = np.array([places[value] for value in values], np.int64)
    return kind_of(view.part).intervals(view.part, listed_places)


def error(rows: Sequence[ValueRow]) -> ErrorRow | None:
    """Return the error of all published values with these intervals, or None without a truth."""
    if not rows or rows[0].truth is None:
        return None

    share, low, high, truth = np.array([(row.share, row.low, row.high, row.truth) for row in rows], np.float64).T
    return ErrorRow(
        values=len(rows),
        rms=float(np.sqrt(np.mean((share - truth) ** 2))),
        max=float(np.max(np.abs(share - truth))),
        covered=int(np.count_nonzero((low <= truth) & (truth <= high))),
    )


def shown_truth(part: Record, truth: _T | None) -> _T | None:
    """Return a truth about a window, or None if the window is withheld, since it would tell what the window hides."""
    return shown(part, lambda: truth, None)


def true_shares(series: Series, view: View) -> Floats | None:
    """Return the true share of every value in a final window with values, or None without true counts."""
    return shown(view.part, lambda: true_shares_of(series, view.record, view.definition), None)


def has_truth(record: Entry) -> bool:
    """Whether the true counts of a simulation belong to a window. They are those of all groups, in whole panes."""
    return record.final and record.group is None and PARTIAL_GROUPS not in record.flags


def true_shares_of(series: Series, record: Entry, definition: Definition) -> Floats | None:
    """Return the true share of every value in a window, or None if it is not final or has no true counts."""
    totals = series.truth.counts(record.span) if has_truth(record) else None
    counts = None if totals is None else totals[definition.attribute]
    if counts is None or not counts.any():
        return None
    shares: Floats = counts / counts.sum()
    return shares
