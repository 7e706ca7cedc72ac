"""The answer about all groups of a query in one window, side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Self

import numpy as np

from aggregator.board.answers import lookup
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad
from aggregator.board.answers.rows import Through, Withheld
from aggregator.board.answers.view import View
from aggregator.board.answers.window_answers import Level, TableAnswer, Unit
from aggregator.board.store.entry import Entry
from aggregator.board.store.store import Store, Windows
from aggregator.records.decoder import Record
from aggregator.records.list_intervals import intervals_at
from aggregator.records.number_answers import Measure, NumberAnswers
from aggregator.records.rows import WindowRow
from hubbub.http.schema import Attribute, Count, Digest, Known
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL, listed_level


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSizeRow:
    """A group, and its reports in the window."""

    group: Annotated[str, {"description": "A value of the groups, or (none)"}]
    n: Count
    withheld: Withheld


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupAnswerRow:
    """One value or one answer about numbers in one group. Null if the group's record does not publish it."""

    group: str
    value: str
    measure: Measure
    share: Known
    low: Known
    high: Known


@dataclass(frozen=True, kw_only=True)
class GroupAnswers(TableAnswer):
    """The same values in each group with reports: the named ones, or the largest of the total."""

    table = "values"
    columns = tuple(field.name for field in fields(GroupAnswerRow))

    query: str
    digest: Digest
    attribute: Attribute
    by: Annotated[str, {"description": "What the groups differ by"}]
    window: WindowRow
    final: bool
    through: Through
    level: Level
    unit: Unit
    names: Annotated[list[str], {"description": "The values, or the names of answers about numbers, in order"}]
    groups: list[GroupSizeRow]
    values: list[GroupAnswerRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        top = parameters.whole("top")
        series, total = lookup.view(store, parameters, name)
        query = total.definition.query
        if query.groups is None:
            raise bad(f"query {name} has no groups; add `groups` to the query file")
        names = _names(total, parameters, top)
        labels = [query.groups.label(number) for number in (*range(1, query.groups.count), 0)]
        entries = [_entry(series.kinds_of(label).get(total.record.span.window), total.record) for label in labels]
        parts = {
            label: entry.part(total.definition.name)
            for label, entry in zip(labels, entries, strict=True)
            if entry is not None and total.definition.name in [part.attribute for part in entry.parts]
        }
        visible = {label: part for label, part in parts.items() if part.withheld is None}
        level = _level(total, parameters, names, visible)
        return cls(
            query=query.name,
            digest=series.digest,
            attribute=total.definition.name,
            by=query.groups.name,
            window=WindowRow.of(total.record.span),
            final=total.record.final,
            through=total.part.through,
            level=level,
            unit=total.definition.domain.unit,
            names=names,
            groups=[GroupSizeRow(group=label, n=part.n, withheld=part.withheld) for label, part in parts.items()],
            values=[row for label, part in visible.items() for row in _rows(label, part, names, level)],
        )


def _entry(windows: Windows | None, total: Entry) -> Entry | None:
    """Return the group's record of the same window as the total."""
    if windows is None:
        return None
    if total.final:
        return windows.finals.get(total.span.end)
    return windows.provisional if windows.provisional and windows.provisional.span == total.span else None


def _names(total: View, parameters: Parameters, top: int) -> list[str]:
    """Return the requested names, or the largest values of the total, or all answers of a query of numbers."""
    names = parameters.values()
    if total.definition.has_numbers:
        for each in names or []:
            lookup.check_answer(total.definition, each)
        return names or NumberAnswers(total.part).names
    if names is not None:
        return total.names(names)
    order = np.argsort(-total.part.shares[UNBIASED], kind="stable")[:top]
    return [total.part.values[at] for at in order.tolist()]


def _level(total: View, parameters: Parameters, names: Sequence[str], visible: dict[str, Record]) -> float:
    """Return the level of intervals of values that are listed because they are large, over all groups."""
    if total.definition.has_numbers or parameters.values() is not None or not visible:
        return LEVEL
    listed = sum(name in part.values for part in visible.values() for name in names)
    return listed_level(listed, total.definition.domain.size * len(visible))


def _rows(group: str, part: Record, names: Sequence[str], level: float) -> Iterator[GroupAnswerRow]:
    """Yield the answers of one group, in the order of the names."""
    if part.has_numbers:
        for row in NumberAnswers(part).rows(names):
            yield GroupAnswerRow(
                group=group, value=row.name, measure=row.measure, share=row.value, low=row.low, high=row.high
            )
        return
    places = {value: place for place, value in enumerate(part.values)}
    listed = [places[name] for name in names if name in places]
    _, low, high = intervals_at(part, np.array(listed, np.int64), level)
    ends = dict(zip(listed, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    shares = part.shares[UNBIASED]
    for name in names:
        place = places.get(name)
        least, most = (None, None) if place is None else ends[place]
        share = None if place is None else float(shares[place])
        yield GroupAnswerRow(group=group, value=name, measure="share", share=share, low=least, high=most)
