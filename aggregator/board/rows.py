"""What each question is answered: from what is kept to what is told. Pure."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from aggregator.board import lookup
from aggregator.board import reply as figures
from aggregator.board.parameters import Asked
from aggregator.board.problems import bad, missing
from aggregator.board.store import Series, Store, Windows
from aggregator.board.view import View
from aggregator.publishing.analysis import UNBIASED, subjects
from aggregator.publishing.record import told_hitters, window_of
from oracles.query.settings import Window

TOP = 100
"""Rows, where it is not said how many."""
ALERT_KINDS = ("enter", "leave", "surge")
Said = dict[str, Any]


class Told(NamedTuple):
    """An answer, and which of its members is the table, with what columns."""

    said: Said
    table: str
    columns: tuple[str, ...]

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = self.said[self.table]
        return rows


def queries(store: Store, asked: Asked) -> Told:
    del asked
    columns = ("name", "digest", "retired", "solution", "epsilon", "record_epsilon", "pane", "period", "simulated")
    return Told({"queries": [_query(store, name) for name in store.names]}, "queries", columns)


def _query(store: Store, name: str) -> Said:
    series = store.series(name)
    query = store.definition(series)
    return {
        "name": name,
        "digest": series.digest,
        "retired": name not in store.definitions.active,
        "solution": query.solution,
        "epsilon": query.epsilon,
        "record_epsilon": query.record_epsilon,
        "answers": query.answers,
        "pane": query.pane,
        "lateness": query.lateness,
        "period": query.period,
        "methods": [UNBIASED, *query.methods],
        "threshold": {"kind": query.threshold.kind, "value": query.threshold.value},
        "family_error": query.family_error,
        "attributes": [
            {
                "name": subject.name,
                "size": subject.domain.size,
                "other": subject.domain.other,
                "oracle": oracle,
                "sets": [each for each, _ in subject.sets],
            }
            for subject, oracle in zip(subjects(query), query.oracle_names, strict=True)
        ],
        "windows": [_kind(series, window) for window in query.windows],
        "simulated": series.truth.newest is not None,
    }


def _kind(series: Series, window: Window) -> Said:
    windows = series.kinds.get(window, Windows(window))
    provisional = windows.provisional
    return {
        "kind": window.kind,
        "size": window.size,
        "step": window.step,
        "kept": len(windows.ends),
        "latest": windows.ends[-1] if windows.ends else None,
        "provisional": provisional.span.end if provisional else None,
    }


def estimate(store: Store, asked: Asked, name: str) -> Told:
    series, view = lookup.view(store, asked, name)
    method = lookup.method(view.part, asked)
    wanted = asked.values(lookup.MANY)
    every = figures.values(view, method, figures.true_shares(series, view))
    here = {row["value"]: row for row in every}
    chosen = [here[value] for value in wanted if value in here] if wanted else every
    if wanted:
        view.positions(wanted)
    told = view.part.told()
    said = _about(view) | {
        "method": method,
        "methods": list(view.part.shares),
        "oracle": told["oracle"],
        "sigma": view.part.sigma,
        "detectable": view.part.detectable,
        "shift_per_fake": view.part.shift_per_fake,
        "threshold": view.threshold,
        "size": view.definition.domain.size,
        "published": len(every),
        "missing": [value for value in wanted or [] if value not in here],
        "values": chosen[: asked.whole("top", 1, lookup.MANY, lookup.MANY if wanted else TOP)],
        "sets": told["sets"],
        "refused": view.record.refused,
        "quality": told["quality"],
        "error": figures.error(every),
    }
    columns = ("value", "share", "unbiased", "stderr", "low", "high", "listed", "decided", "truth")
    return Told(said, "values", columns)


def in_set(store: Store, asked: Asked, name: str) -> Told:
    series, view = lookup.view(store, asked, name)
    method = lookup.method(view.part, asked)
    values, of = asked.values(lookup.MANY), asked.text("name")
    if (values is None) == (of is None):
        raise bad("name a set of the query file as `name`, or members of one as `values`", parameter="values")
    if of is not None:
        told = view.named(of)
        share = told["share" if method == UNBIASED else method]
        stderr = told["stderr"] if method == UNBIASED else None
        members = dict(subjects(view.definition.query)[view.definition.attribute].sets)[of]
    else:
        share, stderr = view.answer(method, values or [])
        members = tuple(view.positions(values or []))
    true = figures.true_shares(series, view)
    row = {
        "name": of,
        "values": [view.definition.domain.name(position) for position in members],
        "share": share,
        "stderr": stderr,
        "truth": None if true is None else float(true[list(members)].sum()),
    }
    return Told(_about(view) | {"method": method, "sets": [row]}, "sets", ("name", "share", "stderr", "truth"))


def heavy_hitters(store: Store, asked: Asked, name: str) -> Told:
    _, view = lookup.view(store, asked, name)
    method = lookup.method(view.part, asked)
    query = view.definition.query
    threshold = lookup.threshold(asked, query)
    family_error = asked.above("family_error", 0.0, 0.5, query.family_error)
    share: float | None
    if (threshold, family_error) == (query.threshold, query.family_error):
        share, found = view.threshold, view.part.told()["hitters"].get(method, [])
    else:
        share, again = view.hitters(method, threshold, family_error)
        found = told_hitters(view.definition.domain, again)
    said = _about(view) | {
        "method": method,
        "threshold": {"kind": threshold.kind, "value": threshold.value, "share": share},
        "family_error": family_error,
        "hitters": found[: asked.whole("top", 1, lookup.MANY, TOP)],
    }
    return Told(said, "hitters", ("value", "share", "decided", "p_value", "probability"))


def history(store: Store, asked: Asked, name: str) -> Told:
    series, windows = lookup.windows(store, asked, name)
    records = lookup.between(windows, asked)
    definition = lookup.definition(store.definition(series), asked)
    value = asked.text("value")
    position = None if value is None else definition.domain.find(value)
    if value is None:
        raise bad("value must name a value of the domain", parameter="value")
    if position is None:
        raise missing(f"{value!r} is not in the domain", value=value)
    method = lookup.method(records[-1].parts[definition.attribute], asked) if records else asked.text("method")
    truth = series.truth.shares([record.span for record in records], definition.attribute, position)
    points = [figures.point(record, definition.attribute, value, method) for record in records]
    said = _of(series) | {
        "attribute": definition.name,
        "value": value,
        "method": method,
        "points": [point | {"truth": true} for point, true in zip(points, truth, strict=True)],
    }
    return Told(said, "points", ("start", "end", "n", "share", "unbiased", "low", "high", "truth"))


def windows(store: Store, asked: Asked, name: str) -> Told:
    series, kept = lookup.windows(store, asked, name)
    rows: list[Said] = [
        {
            **window_of(record.span),
            "final": record.final,
            "n": record.n,
            "duplicate": record.refused["duplicate"],
            "implausible": record.refused["implausible"],
            "flags": record.flags,
        }
        for record in lookup.between(kept, asked)
    ]
    columns = ("kind", "start", "end", "size", "step", "final", "n", "duplicate", "implausible")
    return Told(_of(series) | {"windows": rows}, "windows", columns)


def alerts(store: Store, asked: Asked) -> Told:
    name, attribute = asked.text("query"), asked.text("attribute")
    if name is not None and name not in store.names:
        raise lookup.unknown(store, name)
    kind = asked.choice("kind", ALERT_KINDS)
    wanted = {"query": name, "attribute": attribute, "kind": kind}
    filters = {key: want for key, want in wanted.items() if want is not None}
    found = (alert for alert in store.alerts() if all(alert[key] == want for key, want in filters.items()))
    rows = list(islice(found, asked.whole("limit", 1, lookup.MANY, lookup.POINTS)))
    window = ("window.kind", "window.size", "window.start", "window.end")
    columns = ("kind", "query", "attribute", "value", *window, "share", "low", "high", "before", "probability", "id")
    return Told({"alerts": rows}, "alerts", columns)


def _of(series: Series) -> Said:
    return {"query": series.query, "digest": series.digest}


def _about(view: View) -> Said:
    """Which record is spoken of."""
    record = view.record
    return {
        "query": record.query,
        "digest": record.digest,
        "attribute": view.part.name,
        "window": window_of(record.span),
        "final": record.final,
        "n": view.part.n,
        "n_independent": view.part.n_independent,
    }
