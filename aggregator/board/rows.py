"""The rows of answers: value classes that carry their schema, and how each is made of what is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from aggregator.board.entry import Entry
from aggregator.board.store import Series, Store, Windows
from aggregator.board.view import View
from aggregator.publishing.analysis import subjects
from aggregator.publishing.freshness import expected, shortest
from aggregator.publishing.parts import Ranks
from aggregator.publishing.schema import Attribute, Chance, Count, Digest, Known, Time
from aggregator.publishing.window import Kind, WindowRow
from oracles.consistency import UNBIASED
from oracles.query import Query
from oracles.query.settings import ANSWERS, Window
from oracles.types import Floats

Age = Annotated[float | None, {"minimum": 0, "description": "Seconds; null before the first final"}]


@dataclass(frozen=True, kw_only=True, slots=True)
class CountRow(WindowRow):
    """A window that is kept, and how many reports it holds."""

    final: bool
    n: Count
    duplicate: Count
    implausible: Count
    flags: list[str]

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
            n=record.n,
            duplicate=record.refused.duplicate,
            implausible=record.refused.implausible,
            flags=record.flags,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class KindRow:
    """A kind of window of a query, and what is kept of it."""

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
            expected=None if latest is None else expected(query, window),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class AttributeRow:
    """One attribute of a query, or its one answer."""

    name: Attribute
    size: Count
    other: bool
    oracle: str
    sets: list[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdRow:
    """The share that a value must exceed to be listed."""

    kind: Literal["significance", "share", "count"]
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRow:
    """A query, and which of its windows are known."""

    name: str
    digest: Digest
    retired: bool
    solution: Annotated[str | None, {"enum": ["spl", "smp", "rsfd", None]}]
    epsilon: float
    record_epsilon: float
    answers: Annotated[str, {"enum": list(ANSWERS), "description": "How a client repeats itself"}]
    record_charge: Annotated[float, {"description": "Epsilon that a client's first answer is charged"}]
    budget: float
    renew: Annotated[int | None, {"description": "Seconds after which noise and charges begin anew"}]
    pane: Count
    lateness: Count
    period: Count
    methods: list[str]
    threshold: ThresholdRow
    family_error: float
    attributes: list[AttributeRow]
    windows: list[KindRow]
    simulated: Annotated[bool, {"description": "Whether the truth is known"}]
    age: Age
    expected: Age

    @classmethod
    def of(cls, store: Store, series: Series, query: Query, *, retired: bool) -> "QueryRow":
        latest = series.latest_end
        attributes = [
            AttributeRow(
                name=subject.name,
                size=subject.domain.size,
                other=subject.domain.other,
                oracle=oracle,
                sets=[each for each, _ in subject.sets],
            )
            for subject, oracle in zip(subjects(query), query.oracle_names, strict=True)
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
            lateness=query.lateness,
            period=query.period,
            methods=[UNBIASED, *query.methods],
            threshold=ThresholdRow(kind=query.threshold.kind, value=query.threshold.value),
            family_error=query.family_error,
            attributes=attributes,
            windows=[KindRow.of(store, series, query, window) for window in query.windows],
            simulated=series.truth.newest is not None,
            age=None if latest is None else store.age(latest),
            expected=None if latest is None else shortest(query),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueRow:
    """A value of a window, with its errors and, in a simulation, the truth beside it."""

    value: str
    share: Known
    unbiased: Known
    stderr: Known
    low: Chance
    high: Chance
    listed: Annotated[bool, {"description": "The method's share exceeds the threshold"}]
    decided: Annotated[bool, {"description": "Proved to exceed it"}]
    probability: Chance
    ranks: Ranks
    truth: Chance


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRow:
    """How far the published shares are from the truth, in a simulation."""

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
    """A value in one window; nulls where the window does not publish it."""

    start: Time
    end: Time
    n: Count
    share: Known
    unbiased: Known
    low: Chance
    high: Chance
    truth: Chance

    @classmethod
    def of(cls, record: Entry, attribute: int, value: str, method: str | None, truth: float | None) -> "PointRow":
        part = record.parts[attribute]
        at = part.values.index(value) if value in part.values else None
        columns = part.shares.get(method or ""), part.shares[UNBIASED], part.low, part.high
        share, unbiased, low, high = (None if c is None or at is None else float(c[at]) for c in columns)
        start, end = record.span.start, record.span.end
        return cls(start=start, end=end, n=part.n, share=share, unbiased=unbiased, low=low, high=high, truth=truth)


def values(view: View, method: str, truth: Floats | None) -> list[ValueRow]:
    """All that a record publishes, in the order of the method's shares."""
    part = view.part
    hitters = {each.value: each for each in part.hitters(method)}
    proved = {each.value for each in part.hitters(UNBIASED) if each.decided}
    true = [None] * len(part.values) if truth is None else truth[view.positions(part.values)].tolist()
    numbers = (part.shares[method], part.shares[UNBIASED], part.stderr, part.low, part.high)
    columns = [part.values, *(column.tolist() for column in numbers), true]
    order = np.argsort(-part.shares[method], kind="stable").tolist()
    rows = []
    for at in order:
        value, share, unbiased, stderr, low, high, truth_of = (column[at] for column in columns)
        hitter = hitters.get(value)
        rows.append(
            ValueRow(
                value=value,
                share=share,
                unbiased=unbiased,
                stderr=stderr,
                low=low,
                high=high,
                listed=hitter is not None or value in proved,
                decided=value in proved or (hitter is not None and hitter.decided),
                probability=hitter.probability if hitter else None,
                ranks=hitter.ranks if hitter else None,
                truth=truth_of,
            )
        )
    return rows


def error(rows: Sequence[ValueRow]) -> ErrorRow | None:
    if not rows or rows[0].truth is None:
        return None
    share, low, high, truth = np.array([(row.share, row.low, row.high, row.truth) for row in rows], np.float64).T
    return ErrorRow(
        values=len(rows),
        rms=float(np.sqrt(np.mean((share - truth) ** 2))),
        max=float(np.max(np.abs(share - truth))),
        covered=int(np.count_nonzero((low <= truth) & (truth <= high))),
    )


def true_shares(series: Series, view: View) -> Floats | None:
    """The true share of every value in the window, where a simulation tells."""
    totals = series.truth.counts(view.record.span)
    counts = None if totals is None else totals[view.definition.attribute]
    if counts is None or not counts.any() or not view.record.final:
        return None
    shares: Floats = counts / counts.sum()
    return shares
