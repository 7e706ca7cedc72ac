"""Finds the query, window, attribute and method of a request, and raises Problem if one is missing."""

from collections.abc import Sequence
from dataclasses import replace

from aggregator.board.answers.parameters import LATEST, Parameters
from aggregator.board.answers.reply import bad, missing
from aggregator.board.answers.view import Definition, View
from aggregator.board.store.entry import Entry, newest_reason
from aggregator.board.store.store import Series, Store, Windows
from aggregator.records.number_answers import is_answer
from aggregator.records.record import Record
from aggregator.records.subject import subjects
from hubbub.http.problem import Problem
from hubbub.texts import few
from oracles.consistency import UNBIASED
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS, VALUES
from oracles.query.groups import Groups
from oracles.query.settings import Threshold

_REFUSALS = {
    VALUES: "the answers of query {} are values, and not numbers; ask for its estimate or a set",
    NUMBERS: "the answers of query {} are numbers; ask for its quantiles, a range or its cdf",
    NAMES: "query {} has no list of values; ask its estimate for any string with value=",
}
"""The messages about requests that do not suit a kind of answers. The braces stand for the query."""


def unknown(store: Store, name: str) -> Problem:
    names = f"the queries are {few(store.names)}" if store.names else "no query is defined yet"
    return missing(f"there is no query {name!r}; {names}", query=name)


def windows(store: Store, parameters: Parameters, name: str) -> tuple[Series, Windows]:
    """Return the windows of the first kind that matches the parameters."""
    if name not in store.names:
        raise unknown(store, name)
    series = store.series(name)
    windows_of = series.kinds_of(group(store.definition(series), parameters.text("group")))

    kind = parameters.choice("kind")
    size = parameters.number("size")
    step = parameters.number("step")
    # An earlier version of the query may have had other kinds of windows, which the board still keeps.
    kinds = list(dict.fromkeys([*store.definition(series).windows, *series.kinds]))
    for window in kinds:
        if kind in (None, window.kind) and size in (None, window.size) and step in (None, window.step):
            return series, windows_of.get(window, Windows(window))

    choices = "; ".join(f"kind={window.kind}&size={window.size}&step={window.step}" for window in kinds)
    raise missing(f"query {name} has no such kind of window; it has {choices}")


def group(query: Query, value: str | None) -> str | None:
    """Return the requested group, or None for the total."""
    if value is None:
        return None
    labels = query.groups.labels
    if not labels:
        raise missing(f"query {query.name} has no groups; leave `group` out", parameter="group")
    if value not in labels:
        raise missing(f"there is no group {value!r}; the groups are {few(labels)}", parameter="group")
    return value


def groups(query: Query) -> Groups:
    """Return the groups of a query. Raise a Problem if it has none."""
    if not query.groups:
        raise bad(f"query {query.name} has no groups; add `groups` to the query file")
    return query.groups


def group_name(query: Query, value: str | None) -> dict[str, str] | None:
    """Return a group as answers name it, or None for the total."""
    return {query.groups.name: value} if value in query.groups.labels else None


def view(store: Store, parameters: Parameters, name: str) -> tuple[Series, View]:
    """Return one attribute of one window."""
    series, matches = windows(store, parameters, name)
    view = view_of(matches, parameters, definition(store.definition(series), parameters))
    return series, replace(view, maps_gap=store.maps_gap)


def view_of(windows: Windows, parameters: Parameters, subject: Definition) -> View:
    """Return this attribute of the requested window."""
    record, withheld = _entry(windows, parameters, subject.name)
    part = record.part(subject.name)
    since = withheld[0].span.end if withheld else None
    reason = part.withheld or newest_reason(withheld, subject.name)
    maps = windows.maps.get(record.span.end) if record.final else None
    return View(record, part, subject, since, reason, maps)


def kind_view(store: Store, parameters: Parameters, name: str, kind: str) -> tuple[Series, View]:
    """Return one attribute of one window, whose answers are of this kind."""
    series, subject = view(store, parameters, name)
    check_kind(subject.definition, kind)
    return series, subject


def check_kind(definition: Definition, *kinds: str) -> None:
    """Raise a Problem, with a request that works, unless the answers are of one of these kinds."""
    kind = definition.domain.kind
    if kind not in kinds:
        raise bad(_REFUSALS[kind].format(definition.query.name))


def check_answer(definition: Definition, name: str) -> None:
    """Raise a Problem unless a query of numbers has an answer of this name."""
    ranges = [range_name for range_name, _ in definition.subject.ranges]
    if not is_answer(name, definition.scale, ranges):
        choices = f"; the ranges are {', '.join(ranges)}" if ranges else ""
        raise missing(f"{name!r} is no quantile such as p95, no mean and no range of the query{choices}", value=name)


def view_at(windows: Windows, definition: Definition, end: int) -> View:
    """Return one attribute of the final that ends at this time."""
    record = _final(windows, end)
    return View(record, record.part(definition.name), definition)


def between(windows: Windows, parameters: Parameters) -> list[Entry]:
    """Return the newest finals of the requested time and, on request, the provisional window after them."""
    start = parameters.whole("from")
    end = parameters.whole("to")
    entries = list(windows.between(start, end))
    if parameters.flag("provisional") and windows.provisional and start <= windows.provisional.span.end < end:
        entries.append(windows.provisional)
    return entries[-parameters.whole("limit") :]


def definition(query: Query, parameters: Parameters) -> Definition:
    """Return the requested attribute, by default the first."""
    name = parameters.text("attribute")
    names = [subject.name for subject in subjects(query)]
    if name is None:
        return Definition(query, 0)
    if names == [None]:
        raise missing(f"query {query.name} has no attributes; leave `attribute` out", parameter="attribute")
    if name not in names:
        raise missing(
            f"there is no attribute {name!r}; the attributes are {', '.join(map(str, names))}", parameter="attribute"
        )
    return Definition(query, names.index(name))


def method(part: Record, parameters: Parameters, *, consistent: bool = False) -> str:
    """Return the requested method.

    The default is `unbiased`, whose errors are known. With `consistent` it is the first consistent method of the query.
    """
    choice = parameters.choice("method", list(part.shares))
    if choice is not None or not consistent:
        return choice or UNBIASED
    return next((name for name in part.shares if name != UNBIASED), UNBIASED)


def history_method(records: Sequence[Entry], definition: Definition, parameters: Parameters) -> str | None:
    """Return the requested method of a history. Its newest window knows the methods."""
    return method(records[-1].part(definition.name), parameters) if records else parameters.text("method")


def threshold(parameters: Parameters, query: Query) -> Threshold:
    """Return the requested threshold, by default the one of the query."""
    text = parameters.text("threshold")
    if text is None:
        return query.threshold
    if text == "significance":
        return Threshold("significance")
    value = parameters.above("threshold", 0.0)
    return Threshold("share" if value < 1.0 else "count", value)


def _entry(windows: Windows, parameters: Parameters, attribute: str | None) -> tuple[Entry, list[Entry]]:
    """Return the requested window, and the withheld finals in a row with it, if there are no later ones."""
    provisional = windows.provisional if parameters.flag("provisional") else None
    if provisional is not None and not provisional.shows(attribute):
        provisional = None

    newest, withheld = windows.shown(attribute)
    if parameters.text("window") in (None, LATEST):
        if provisional is not None:
            return provisional, []
        # If no window shows values, the newest one says why.
        record = newest or windows.latest
        if record is None:
            raise _no_final(parameters.text("group"))
        return record, withheld

    end = parameters.whole("window", 0)
    if provisional is not None and provisional.span.end == end:
        return provisional, []
    return _final(windows, end), withheld if newest is None or end >= newest.span.end else []


def _no_final(group: str | None) -> Problem:
    if group is None:
        return missing("no window is final yet; provisional=true returns the provisional one")
    return missing(f"no final window has reports of group {group!r}; `groups` lists the groups that have some")


def _final(windows: Windows, end: int) -> Entry:
    if end not in windows.finals:
        ends = windows.ends
        holdings = f"it keeps {len(ends)}, and the last one ends at {ends[-1]}" if ends else "it keeps none"
        raise missing(f"the board keeps no window that ends at {end}; {holdings}", window=end)
    return windows.finals[end]
