"""The answer about all groups of a query in one window, side by side."""

from dataclasses import dataclass, fields
from typing import Annotated, Self

from aggregator.board.answers import lookup
from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.rows import GroupAnswerRow, Through, Withheld
from aggregator.board.answers.window_answers import Level, TableAnswer, Unit
from aggregator.board.store.entry import Entry
from aggregator.board.store.store import Store, Windows
from aggregator.records.rows import WindowRow
from hubbub.http.schema import Attribute, Count, Digest
from oracles.estimate.intervals import LEVEL


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSizeRow:
    """A group, and its reports in the window."""

    group: Annotated[str, {"description": "A value of the groups, or (none)"}]
    n: Count
    withheld: Withheld


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
        attribute = total.definition.name
        groups = lookup.groups(query)

        kind = kind_of(total.definition)
        requested = parameters.values()
        names = kind.group_names(total, kind.compare(total, requested), top)

        labels = [groups.label(number) for number in (*range(1, groups.count), 0)]
        entries = [_entry(series.kinds_of(label).get(total.record.span.window), total.record) for label in labels]
        # A provisional window has no record of an attribute that it withholds.
        parts = {
            label: entry.part(attribute)
            for label, entry in zip(labels, entries, strict=True)
            if entry is not None and attribute in [part.attribute for part in entry.parts]
        }

        shown_labels = {label for label, entry in zip(labels, entries, strict=True) if entry and entry.shows(attribute)}
        visible = {label: part for label, part in parts.items() if label in shown_labels}
        level = LEVEL
        if requested is None and visible:
            # Values that are listed because they are large need wider intervals, over all groups.
            listed = sum(name in part.values for part in visible.values() for name in names)
            level = kind.group_level(total, listed, len(visible))

        values: list[GroupAnswerRow] = []
        for label, part in visible.items():
            values.extend(kind.group_rows(label, part, names, level))
        return cls(
            query=query.name,
            digest=series.digest,
            attribute=attribute,
            by=groups.name,
            window=WindowRow.of(total.record.span),
            final=total.record.final,
            through=total.part.through,
            level=level,
            unit=total.definition.domain.unit,
            names=names,
            groups=[GroupSizeRow(group=label, n=part.n, withheld=part.withheld) for label, part in parts.items()],
            values=values,
        )


def _entry(windows: Windows | None, total: Entry) -> Entry | None:
    """Return the group's record of the same window as the total."""
    if windows is None:
        return None
    if total.final:
        return windows.finals.get(total.span.end)
    return windows.provisional if windows.provisional and windows.provisional.span == total.span else None
