"""The answers of the API: value classes, and how each comes from what is kept. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, ClassVar, Self

from aggregator.board import lookup, rows
from aggregator.board.parameters import MOST, Parameters
from aggregator.board.reply import bad, missing
from aggregator.board.rows import CountRow, ErrorRow, PointRow, QueryRow, SetRow, ThresholdRow, ValueRow
from aggregator.board.store import Store
from aggregator.board.view import View
from aggregator.publishing.alert import Alert
from aggregator.publishing.analysis import subjects
from aggregator.publishing.parts import HitterRow, RefusedRow
from aggregator.publishing.record import hitter_rows
from aggregator.publishing.schema import Attribute, Count, Digest, Known
from aggregator.publishing.window import WindowRow
from oracles.consistency import UNBIASED


@dataclass(frozen=True, kw_only=True)
class TableAnswer(ABC):
    """An answer, and which of its members is the table, with what columns."""

    table: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        """The series kept of the query of this name, as far as the parameters ask for it."""

    @property
    def rows(self) -> Sequence[Any]:
        rows: Sequence[Any] = getattr(self, self.table)
        return rows


@dataclass(frozen=True, kw_only=True)
class OfWindow(TableAnswer):
    """An answer about one attribute of one record."""

    query: str
    digest: Digest
    attribute: Attribute
    window: WindowRow
    final: bool
    n: Count
    n_independent: Count
    method: str


@dataclass(frozen=True, kw_only=True)
class Queries(TableAnswer):
    table = "queries"
    columns = (
        *("name", "digest", "retired", "solution", "epsilon", "record_epsilon", "pane", "period", "simulated"),
        *("age", "expected"),
    )

    queries: list[QueryRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del parameters, name
        found = [store.series(each) for each in store.names]
        active = store.definitions.active
        return cls(
            queries=[
                QueryRow.of(store, each, store.definition(each), retired=each.query not in active) for each in found
            ]
        )


@dataclass(frozen=True, kw_only=True)
class WindowEstimate(OfWindow):
    table = "values"
    columns = ("value", "share", "unbiased", "stderr", "low", "high", "listed", "decided", "truth")

    methods: list[str]
    oracle: dict[str, Any]
    sigma: Known
    detectable: Known
    shift_per_fake: Known
    threshold: Annotated[float | None, {"description": "The share above which a value is listed"}]
    size: Count
    published: Annotated[int, {"minimum": 0, "description": "Values in the record"}]
    missing: Annotated[list[str], {"description": "Values that were asked for and are not published"}]
    values: list[ValueRow]
    sets: dict[str, Any]
    refused: RefusedRow
    quality: dict[str, Any]
    error: Annotated[ErrorRow | None, {"description": "In a simulation: how far the shares are from the truth"}]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.view(store, parameters, name)
        method = lookup.method(view.part, parameters)
        wanted = parameters.values()
        every = rows.values(view, method, rows.true_shares(series, view))
        here = {row.value: row for row in every}
        chosen = [here[value] for value in wanted if value in here] if wanted else every
        if wanted:
            view.positions(wanted)
        rest = view.part.rest()
        return cls(
            **_heading(view, method),
            methods=list(view.part.shares),
            oracle=rest["oracle"],
            sigma=view.part.sigma,
            detectable=view.part.detectable,
            shift_per_fake=view.part.shift_per_fake,
            threshold=view.threshold,
            size=view.definition.domain.size,
            published=len(every),
            missing=[value for value in wanted or [] if value not in here],
            values=chosen[: parameters.whole("top", MOST if wanted else None)],
            sets=rest["sets"],
            refused=view.record.refused,
            quality=rest["quality"],
            error=rows.error(every),
        )


@dataclass(frozen=True, kw_only=True)
class SetShares(OfWindow):
    table = "sets"
    columns = ("name", "share", "stderr", "truth")

    sets: list[SetRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, view = lookup.view(store, parameters, name)
        method = lookup.method(view.part, parameters, consistent=True)
        values, of = parameters.values(), parameters.text("name")
        if (values is None) == (of is None):
            raise bad("name a set of the query file as `name`, or members of one as `values`", parameter="values")
        if of is not None:
            named = view.named(of)
            share = named.get("share" if method == UNBIASED else method)
            stderr = named.get("stderr") if method == UNBIASED else None
            # A later version of the definition may not have this set any more.
            members = dict(subjects(view.definition.query)[view.definition.attribute].sets).get(of, ())
        else:
            share, stderr = view.answer(method, values or [])
            members = tuple(view.positions(values or []))
        true = rows.true_shares(series, view)
        row = SetRow(
            name=of,
            values=[view.definition.domain.name(position) for position in members],
            share=share,
            stderr=stderr,
            truth=None if true is None or not members else float(true[list(members)].sum()),
        )
        return cls(**_heading(view, method), sets=[row])


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdShare(ThresholdRow):
    """A threshold, and the share that it comes to in a window."""

    share: Known


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(OfWindow):
    table = "hitters"
    columns = ("value", "share", "decided", "p_value", "probability")

    threshold: ThresholdShare
    family_error: float
    hitters: list[HitterRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        _, view = lookup.view(store, parameters, name)
        method = lookup.method(view.part, parameters)
        query = view.definition.query
        threshold = lookup.threshold(parameters, query)
        family_error = parameters.above("family_error", query.family_error)
        share: float | None
        if (threshold, family_error) == (query.threshold, query.family_error):
            share, found = view.threshold, view.part.hitters(method)
        else:
            share, again = view.hitters(method, threshold, family_error)
            found = hitter_rows(view.definition.domain, method, again)
        return cls(
            **_heading(view, method),
            threshold=ThresholdShare(kind=threshold.kind, value=threshold.value, share=share),
            family_error=family_error,
            hitters=found[: parameters.whole("top")],
        )


@dataclass(frozen=True, kw_only=True)
class History(TableAnswer):
    table = "points"
    columns = ("start", "end", "n", "share", "unbiased", "low", "high", "truth")

    query: str
    digest: Digest
    attribute: Attribute
    value: str
    method: str | None
    points: list[PointRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, kept = lookup.windows(store, parameters, name)
        records = lookup.between(kept, parameters)
        definition = lookup.definition(store.definition(series), parameters)
        value = parameters.text("value")
        position = None if value is None else definition.domain.find(value)
        if value is None:
            raise bad("value must name a value of the domain", parameter="value")
        if position is None:
            raise missing(f"{value!r} is not in the domain", value=value)
        at = definition.attribute
        method = lookup.method(records[-1].parts[at], parameters) if records else parameters.text("method")
        truth = series.truth.shares([record.span for record in records], at, position)
        return cls(
            query=series.query,
            digest=series.digest,
            attribute=definition.name,
            value=value,
            method=method,
            points=[PointRow.of(each, at, value, method, true) for each, true in zip(records, truth, strict=True)],
        )


@dataclass(frozen=True, kw_only=True)
class WindowCounts(TableAnswer):
    table = "windows"
    columns = ("kind", "start", "end", "size", "step", "final", "n", "duplicate", "implausible")

    query: str
    digest: Digest
    windows: list[CountRow]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        series, kept = lookup.windows(store, parameters, name)
        found = lookup.between(kept, parameters)
        return cls(query=series.query, digest=series.digest, windows=[CountRow.of_record(each) for each in found])


@dataclass(frozen=True, kw_only=True)
class Alerts(TableAnswer):
    table = "alerts"
    columns = (
        *("kind", "query", "attribute", "value", "window.kind", "window.size", "window.start", "window.end"),
        *("share", "low", "high", "before", "probability", "id"),
    )

    alerts: list[Alert]

    @classmethod
    def of(cls, store: Store, parameters: Parameters, name: str) -> Self:
        del name
        query, attribute = parameters.text("query"), parameters.text("attribute")
        if query is not None and query not in store.names:
            raise lookup.unknown(store, query)
        kind = parameters.choice("kind")
        wanted = {"query": query, "attribute": attribute, "kind": kind}
        filters = {key: want for key, want in wanted.items() if want is not None}
        found = (alert for alert in store.alerts() if all(getattr(alert, key) == want for key, want in filters.items()))
        limit = parameters.whole("limit")
        return cls(alerts=list(islice(found, limit)))


def _heading(view: View, method: str) -> dict[str, Any]:
    """Which record is spoken of."""
    record = view.record
    return {
        "query": record.query,
        "digest": record.digest,
        "attribute": view.part.attribute,
        "window": WindowRow.of(record.span),
        "final": record.final,
        "n": view.part.n,
        "n_independent": view.part.n_independent,
        "method": method,
    }
