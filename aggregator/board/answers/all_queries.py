"""The answer of the overview: one row for each query, with its state and the largest value of its newest window."""

from dataclasses import dataclass
from typing import Annotated, Any, Self

from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.rows import (
    Age,
    Lacks,
    NeededPeople,
    NewestReport,
    NextDue,
    NextEnd,
    NothingProved,
    NothingText,
    StateName,
    Withheld,
    nothing_fields,
)
from aggregator.board.answers.view import Definition
from aggregator.board.answers.window_answers import TableAnswer, Unit
from aggregator.board.store.entry import newest_reason
from aggregator.board.store.store import Series, Store
from aggregator.records.number_answers import Measure
from aggregator.records.rows import Kind
from aggregator.records.span import shortest_expected_age
from hubbub.http.schema import Attribute, Count, Digest, Known

HOUR = 3600
"""Seconds for which alerts count."""
_LEADER = ("value", "share", "low", "high", "level")
"""The members about the leading answer, which are null if it is not proved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OverviewRow:
    """A query, its state, and the newest window with values of its first attribute and kind of window."""

    name: str
    digest: Digest
    state: StateName
    age: Age
    expected: Age
    latest: Annotated[int | None, {"description": "End of the newest final window of any kind"}]
    newest_report: NewestReport
    next_end: NextEnd
    next_due: NextDue
    lacks: Lacks
    starts: Annotated[int | None, {"description": "Unix seconds of the first report"}]
    until: Annotated[int | None, {"description": "Unix seconds after the last report"}]
    crowd: Annotated[int, {"minimum": 1}]
    attribute: Attribute
    kind: Kind
    size: Count
    step: Count
    end: Annotated[int | None, {"description": "End of the newest window with values; null if there is none"}]
    n: Annotated[int | None, {"minimum": 0, "description": "Reports in that window"}]
    value: Annotated[
        str | None,
        {"description": "The value with the largest unbiased share; of numbers the first quantile; null if not proved"},
    ]
    measure: Measure
    unit: Unit
    share: Known
    low: Known
    high: Known
    level: Annotated[float | None, {"description": "Level of the interval of a value that is named because it leads"}]
    nothing_proved: NothingProved
    people_for_10_percent: NeededPeople
    nothing_text: NothingText
    withheld_reason: Withheld
    alerts: Annotated[int, {"minimum": 0, "description": "Alerts in windows of the last hour, without baselines"}]

    @classmethod
    def of(cls, store: Store, series: Series, alerts: int) -> Self:
        query = store.definition(series)
        status = store.status(series)
        arrival, lack = store.outlook(series)
        windows = store.first_kind(series)
        definition = Definition(query, 0)
        newest, withheld = windows.shown(definition.name)
        age = None if series.latest_end is None else store.age(series.latest_end)

        # A query without values has all members too, as the schema says.
        leader: dict[str, Any] = {
            "n": None,
            "measure": "share",
            "unit": None,
            **dict.fromkeys((*_LEADER, "nothing_proved", "people_for_10_percent", "nothing_text")),
        }
        if newest is not None:
            part = newest.part(definition.name)
            leader |= {"n": part.n, **kind_of(definition).leader(part)}
            leader |= nothing_fields(definition, part.n, leader)
            if leader["nothing_proved"]:
                leader |= dict.fromkeys(_LEADER)

        return cls(
            name=series.query,
            digest=series.digest,
            state=store.state(series),
            age=age,
            expected=None if age is None else shortest_expected_age(query),
            latest=series.latest_end,
            newest_report=status.newest_report if status else None,
            next_end=arrival.end if arrival else None,
            next_due=arrival.due if arrival else None,
            lacks=lack,
            starts=query.starts,
            until=query.until,
            crowd=query.crowd,
            attribute=definition.name,
            kind=windows.window.kind,
            size=windows.window.size,
            step=windows.window.step,
            end=newest.span.end if newest else None,
            withheld_reason=newest_reason(withheld, definition.name),
            alerts=alerts,
            **leader,
        )


@dataclass(frozen=True, kw_only=True)
class AllQueries(TableAnswer):
    """All queries at a glance."""

    table = "queries"
    columns = (
        *("name", "state", "age", "expected", "attribute", "kind", "size", "step", "end", "n"),
        *("value", "measure", "unit", "share", "low", "high", "level", "alerts"),
    )

    queries: list[OverviewRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del parameters, name
        alerts = store.alert_counts(HOUR)
        return cls(queries=[OverviewRow.of(store, store.series(name), alerts[name]) for name in store.names])
