"""The answer of all queries, with their attributes and kinds of windows."""

from dataclasses import dataclass
from typing import Annotated, Self

from aggregator.board.answers.kinds import kind_of
from aggregator.board.answers.kinds.names import StringDomainRow
from aggregator.board.answers.kinds.numbers import NumberDomainRow
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.rows import Age, Lacks, NewestReport, NextDue, NextEnd, StateName
from aggregator.board.answers.view import Definition
from aggregator.board.answers.window_answers import TableAnswer
from aggregator.board.store.store import Series, Store, Windows
from aggregator.records.rows import Kind, ThresholdRow
from aggregator.records.span import expected_age, shortest_expected_age
from hubbub.http.schema import Attribute, Count, Digest
from oracles.consistency import UNBIASED
from oracles.query import Query
from oracles.query.groups import weight_table
from oracles.query.settings import ANSWERS, Window


@dataclass(frozen=True, kw_only=True, slots=True)
class KindRow:
    """A kind of window of a query, and the windows that the board keeps."""

    kind: Kind
    size: Count
    step: Count
    kept: Count
    latest: int | None
    provisional: int | None
    age: Age
    expected: Age

    @classmethod
    def of(cls, store: Store, series: Series, query: Query, window: Window) -> "KindRow":
        # Before its first final the board knows no windows of a kind.
        windows = series.kinds.get(window, Windows(window))
        latest = windows.ends[-1] if windows.ends else None

        return cls(
            kind=window.kind,
            size=window.size,
            step=window.step,
            kept=len(windows.ends),
            latest=latest,
            provisional=windows.provisional.span.end if windows.provisional else None,
            age=None if latest is None else store.age(latest),
            expected=None if latest is None else expected_age(query, window),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupsRow:
    """The groups of a query. They are public and in clear."""

    name: Annotated[str, {"description": "What the groups differ by, such as platform"}]
    values: list[str]
    weights: Annotated[
        dict[str, float] | None, {"description": "Known shares of the groups in the population; null without weights"}
    ]

    @classmethod
    def of(cls, query: Query) -> "GroupsRow | None":
        if not query.groups:
            return None
        weights = weight_table(query.groups, query.weights)
        return cls(name=query.groups.name, values=list(query.groups.values), weights=weights)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttributeRow:
    """An attribute of a query, or the only answer of a query without attributes."""

    name: Attribute
    size: Annotated[int | None, {"minimum": 1, "description": "Values of the domain; null if nobody lists them"}]
    other: bool
    oracle: str
    sets: list[str]
    numbers: NumberDomainRow | None
    strings: StringDomainRow | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRow:
    """A query, and the windows that the board keeps."""

    name: str
    digest: Digest
    retired: bool
    solution: Annotated[str | None, {"enum": ["spl", "smp", "rsfd", None]}]
    epsilon: float
    record_epsilon: float
    answers: Annotated[str, {"enum": list(ANSWERS), "description": "How a client repeats its noise"}]
    record_charge: Annotated[float, {"description": "Epsilon charged for a client's first answer"}]
    budget: float
    renew: Annotated[int | None, {"description": "Seconds until noise and charges restart"}]
    pane: Count
    starts: Annotated[int | None, {"description": "`from` of the query file: Unix seconds of the first report"}]
    until: Annotated[int | None, {"description": "Unix seconds after the last report"}]
    crowd: Annotated[int, {"minimum": 1, "description": "Smallest group of reports whose values are published"}]
    lateness: Count
    period: Count
    methods: list[str]
    threshold: ThresholdRow
    family_error: float
    groups: GroupsRow | None
    attributes: list[AttributeRow]
    windows: list[KindRow]
    simulated: Annotated[bool, {"description": "Whether the board has true counts"}]
    state: StateName
    latest: Annotated[int | None, {"description": "End of the newest final window of any kind"}]
    newest_report: NewestReport
    next_end: NextEnd
    next_due: NextDue
    lacks: Lacks
    age: Age
    expected: Age

    @classmethod
    def of(cls, store: Store, series: Series, query: Query, *, retired: bool) -> "QueryRow":
        latest = series.latest_end
        status = store.status(series)
        arrival, lack = store.outlook(series)

        definitions = [Definition(query, place) for place in range(len(query.domains))]
        attributes = [
            AttributeRow(
                name=definition.name,
                other=definition.domain.other,
                oracle=oracle,
                sets=[set_name for set_name, _ in definition.subject.sets],
                **kind_of(definition).domain_fields(definition),
            )
            for definition, oracle in zip(definitions, query.oracle_names, strict=True)
        ]

        return cls(
            name=query.name,
            digest=series.digest,
            retired=retired,
            solution=query.solution,
            epsilon=query.epsilon,
            record_epsilon=query.record_epsilon,
            answers=query.answers,
            record_charge=query.record_charge,
            budget=query.budget,
            renew=query.renew,
            pane=query.pane,
            starts=query.starts,
            until=query.until,
            crowd=query.crowd,
            lateness=query.lateness,
            period=query.period,
            methods=[UNBIASED, *query.methods],
            threshold=ThresholdRow(kind=query.threshold.kind, value=query.threshold.value),
            family_error=query.family_error,
            groups=GroupsRow.of(query),
            attributes=attributes,
            windows=[KindRow.of(store, series, query, window) for window in query.windows],
            simulated=series.truth.newest is not None,
            state=store.state(series),
            latest=latest,
            newest_report=status.newest_report if status else None,
            next_end=arrival.end if arrival else None,
            next_due=arrival.due if arrival else None,
            lacks=lack,
            age=None if latest is None else store.age(latest),
            expected=None if latest is None else shortest_expected_age(query),
        )


@dataclass(frozen=True, kw_only=True)
class Queries(TableAnswer):
    table = "queries"
    columns = (
        "name",
        "digest",
        "retired",
        "solution",
        "epsilon",
        "record_epsilon",
        "pane",
        "period",
        "simulated",
        "age",
        "expected",
    )

    queries: list[QueryRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del parameters, name
        active = store.definitions.active
        series = [store.series(name) for name in store.names]
        return cls(
            queries=[
                QueryRow.of(store, own_series, store.definition(own_series), retired=own_series.query not in active)
                for own_series in series
            ]
        )
