"""Which query, kind of window, record, attribute and method a request is about; a Problem where there is none."""

from aggregator.board.entry import Entry
from aggregator.board.parameters import LATEST, Parameters
from aggregator.board.reply import missing
from aggregator.board.store import Series, Store, Windows
from aggregator.board.view import Definition, View
from aggregator.publishing.analysis import subjects
from aggregator.publishing.record_reader import Record
from hubbub.problem import Problem
from oracles.consistency import UNBIASED
from oracles.query import Query
from oracles.query.settings import Threshold


def unknown(store: Store, name: str) -> Problem:
    there = f"there are {', '.join(store.names)}" if store.names else "none is defined yet"
    return missing(f"there is no query {name!r}; {there}", query=name)


def windows(store: Store, parameters: Parameters, name: str) -> tuple[Series, Windows]:
    """The kind of window that is asked about: the first of the query's that fits."""
    if name not in store.names:
        raise unknown(store, name)
    series = store.series(name)
    kind = parameters.choice("kind")
    size, step = parameters.number("size"), parameters.number("step")
    kinds = list(dict.fromkeys([*store.definition(series).windows, *series.kinds]))
    for window in kinds:
        if kind in (None, window.kind) and size in (None, window.size) and step in (None, window.step):
            return series, series.kinds.get(window, Windows(window))
    there = "; ".join(f"kind={window.kind}&size={window.size}&step={window.step}" for window in kinds)
    raise missing(f"{name} has no such kind of window; there are {there}")


def view(store: Store, parameters: Parameters, name: str) -> tuple[Series, View]:
    """One attribute of one record."""
    series, kept = windows(store, parameters, name)
    subject = definition(store.definition(series), parameters)
    record = _entry(kept, parameters)
    return series, View(record, record.parts[subject.attribute], subject)


def between(kept: Windows, parameters: Parameters) -> list[Entry]:
    """The newest of the finals that are asked for and, where that is wanted, what is known of the next one."""
    start, end = parameters.whole("from"), parameters.whole("to")
    found = list(kept.between(start, end))
    if parameters.flag("provisional") and kept.provisional and start <= kept.provisional.span.end < end:
        found.append(kept.provisional)
    return found[-parameters.whole("limit") :]


def definition(query: Query, parameters: Parameters) -> Definition:
    """The attribute that is asked about: the first where none is named."""
    name = parameters.text("attribute")
    names = [subject.name for subject in subjects(query)]
    if name is None:
        return Definition(query, 0)
    if names == [None]:
        raise missing(f"{query.name} asks one thing, without attributes", parameter="attribute")
    if name not in names:
        raise missing(f"there is no attribute {name!r}; there are {', '.join(map(str, names))}", parameter="attribute")
    return Definition(query, names.index(name))


def method(part: Record, parameters: Parameters, *, consistent: bool = False) -> str:
    """The method asked for, else unbiased, whose errors are known; of sums the first consistent method of the query."""
    named = parameters.choice("method", list(part.shares))
    first = next((name for name in part.shares if name != UNBIASED), UNBIASED)
    return named or (first if consistent else UNBIASED)


def threshold(parameters: Parameters, query: Query) -> Threshold:
    """The threshold asked for, else that of the query."""
    text = parameters.text("threshold")
    if text is None:
        return query.threshold
    if text == "significance":
        return Threshold("significance")
    value = parameters.above("threshold", 0.0)
    return Threshold("share" if value < 1.0 else "count", value)


def _entry(kept: Windows, parameters: Parameters) -> Entry:
    provisional = kept.provisional if parameters.flag("provisional") else None
    if parameters.text("window") in (None, LATEST):
        record = provisional or kept.latest
        if record is None:
            raise missing("no window is final yet; provisional=true gives what is known of the next one")
        return record
    end = parameters.whole("window", 0)
    if provisional is not None and provisional.span.end == end:
        return provisional
    if end not in kept.finals:
        held = f"{len(kept.ends)} are kept, of which the last ends at {kept.ends[-1]}" if kept.ends else "none is kept"
        raise missing(f"no window that ends at {end} is kept; {held}", window=end)
    return kept.finals[end]
