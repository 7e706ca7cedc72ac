"""The answers about successive windows: the history of a value, and the numbers of reports."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self

from aggregator.board.answers import lookup
from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import bad
from aggregator.board.answers.rows import GroupName, PointRow, Through
from aggregator.board.answers.window_answers import TableAnswer, Unit
from aggregator.board.store.entry import Entry
from aggregator.board.store.store import Store
from aggregator.records.number_answers import Measure
from aggregator.records.rows import WindowRow
from hubbub.http.schema import Attribute, Count, Digest


@dataclass(frozen=True, kw_only=True, slots=True)
class CountRow(WindowRow):
    """A window and its numbers of reports."""

    final: bool
    through: Through
    n: Count
    duplicate: Count
    implausible: Count
    flags: Annotated[list[str], {"description": "small or held: the window is withheld, and its numbers are 0"}]

    @classmethod
    def of_record(cls, record: Entry) -> "CountRow":
        window, start, end = record.span
        return cls(
            kind=window.kind,
            start=start,
            end=end,
            size=window.size,
            step=window.step,
            final=record.final,
            through=record.through,
            n=record.n,
            duplicate=record.refused.duplicate,
            implausible=record.refused.implausible,
            flags=record.flags,
        )


@dataclass(frozen=True, kw_only=True)
class History(TableAnswer):
    table = "points"
    columns = ("start", "end", "n", "share", "unbiased", "low", "high", "truth", "withheld")

    query: str
    digest: Digest
    attribute: Attribute
    group: GroupName
    value: str
    method: str | None
    measure: Measure
    unit: Unit
    level: Annotated[float | None, {"description": "The level of the intervals; null if it is that of each name"}]
    points: list[PointRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        fields, points = _history(store, parameters, name)
        return cls(**fields, points=[*points])

    @classmethod
    def parts(cls, store: Store, parameters: Parameters, name: str) -> Iterator[Self | None]:
        fields, points = _history(store, parameters, name)
        rows = []
        for point in points:
            rows.append(point)
            # The points of a long history take seconds together, so other requests come between.
            yield None
        yield cls(**fields, points=rows)


def _history(store: Store, parameters: Parameters, name: str) -> tuple[dict[str, Any], Iterator[PointRow]]:
    """Return the fields of a history, and its points, each computed when it is needed."""
    series, windows = lookup.windows(store, parameters, name)
    definition = lookup.definition(store.definition(series), parameters)
    entries = lookup.between(windows, parameters)
    # A provisional window has no record of an attribute that it withholds.
    records = [entry for entry in entries if entry.final or entry.shows(definition.name)]

    value = parameters.text("value")
    if value is None:
        raise bad("the parameter value is missing: name a value of the domain", parameter="value")

    fields, points = kind_of(definition).series(series, definition, records, value, parameters)
    about = {
        "query": series.query,
        "digest": series.digest,
        "attribute": definition.name,
        "group": lookup.group_name(definition.query, parameters.text("group")),
        "value": value,
    }
    return about | fields, points


@dataclass(frozen=True, kw_only=True)
class WindowCounts(TableAnswer):
    table = "windows"
    columns = ("kind", "start", "end", "size", "step", "final", "n", "duplicate", "implausible")

    query: str
    digest: Digest
    group: GroupName
    windows: list[CountRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, windows = lookup.windows(store, parameters, name)
        counts = [CountRow.of_record(entry) for entry in lookup.between(windows, parameters)]
        group = lookup.group_name(store.definition(series), parameters.text("group"))
        return cls(query=series.query, digest=series.digest, group=group, windows=counts)
