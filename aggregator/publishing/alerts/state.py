"""The changes between the final windows of one query, attribute and kind of window, and the states to find them.

Pure. The state after a final depends only on the finals up to it. An alert depends only on the state before
and the final. So a restart repeats an alert byte for byte, or not at all.

In two windows different people answer. An alert is about the population that they come from. So its tests
treat the people as a sample of it. A value at the threshold then stays as it is, even with an epsilon so
large that the window's own share is exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.merging.windows import Span
from aggregator.publishing.alerts.message import Alert, AlertKind, encode
from aggregator.publishing.alerts.surge_test import risen
from aggregator.publishing.findings import Findings, Subject
from aggregator.publishing.records.digits import rounded
from aggregator.publishing.records.encoder import WindowRecords
from aggregator.publishing.records.rows import WindowRow
from oracles.errors import ReportError
from oracles.estimate import Estimate, Pure
from oracles.heavy import Evidence, bounds
from oracles.query import Query
from oracles.query.footprint import SPACING
from oracles.query.settings import Threshold, Window
from oracles.types import Floats

Counts = NDArray[np.integer]

VERSION = 2
"""The version of a state record."""
DAY = 86_400
_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_EVERYONE = 1 << 62
"""A population so large that any number of clients is a small sample of it."""


@dataclass(frozen=True)
class Watch:
    """One attribute and kind of window under watch, and its budget of false alerts."""

    query: str
    digest: bytes
    attribute: str | None
    window: Window
    name: Callable[[int], str] = field(compare=False)
    """Returns the value at a position."""
    threshold: Threshold
    family_error: float
    alerts_a_day: float
    finals_a_day: float
    """Number of finals that share the budget: of all windows and attributes, if it is to hold for all of them."""
    panel: bool = False
    """Whether the same clients repeat their answers from window to window."""

    @property
    def error(self) -> float:
        """Expected number of false alerts of each of the three kinds in one final."""
        return min(0.5, self.alerts_a_day / (3.0 * self.finals_a_day))


@dataclass(frozen=True, eq=False)
class Final:
    """One attribute of a final window."""

    start: int
    end: int
    estimate: Estimate
    probability: Floats | None = None
    """The probability of each value to exceed the threshold, if there is a posterior."""


@dataclass(frozen=True, eq=False)
class Reference:
    """A final for later ones to compare with. Its shares and variances follow exactly from its fields."""

    end: int
    n: int
    n_independent: int
    counts: Counts
    """The support of each value, in the narrowest type that holds it."""

    def estimate(self, oracle: Pure) -> Estimate:
        counts = self.counts.astype(np.int64)
        return Estimate(oracle.shares(counts, self.n), self.n, oracle, self.n_independent)


@dataclass(frozen=True, eq=False)
class State:
    """The data from earlier finals that the next final needs."""

    end: int
    """The end of the last final. All finals up to it are done."""
    above: Mapping[int, float | None] = field(default_factory=dict)
    """Positions of the values above the threshold since their last alert, with the threshold at their entry.

    None stands for the threshold of the next final.
    """
    surges: tuple[tuple[int, int], ...] = ()
    """Positions of the values whose surge has an alert, with the end of the window of that alert."""
    references: tuple[Reference, ...] = ()
    has_values: bool = False
    """Whether any final had values to show. The values of the first one were above before: a baseline."""


def alerts(
    query: Query, span: Span, window: WindowRecords, states: Sequence[bytes]
) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """Return the states after a final, one for each attribute, and the keys and values of its alerts.

    `states` are the states after the final before it. There are none before the first final.
    """
    after: list[bytes] = []
    changes: list[Alert] = []
    for findings, before in zip(window.findings, states or [b""] * len(window.findings), strict=True):
        if not isinstance(findings, Findings):
            after.append(before)
            continue
        final = Final(span.start, span.end, findings.estimate, findings.likely)
        state, new = step(watch_of(query, findings.subject, span.window), load(before) if before else None, final)
        after.append(dump(state))
        changes += new
    return after, [(alert.key, encode(alert)) for alert in changes]


def watch_of(query: Query, subject: Subject, window: Window) -> Watch:
    """Return the watch of an attribute. All kinds of windows and all attributes share the budget of false alerts."""
    finals = len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)
    return Watch(
        *(query.name, query.digest, subject.name, window, subject.domain.name),
        *(query.threshold, query.family_error, query.alerts_a_day, finals, query.answers != "fresh"),
    )


def dump(state: State) -> bytes:
    """Return a state as bytes: a line of JSON, then the counts of the references."""
    head = {
        "version": VERSION,
        "end": state.end,
        "shown": state.has_values,
        "entered": sorted(state.above.items()),
        "surged": state.surges,
        "kept": [(one.end, one.n, one.n_independent, len(one.counts), one.counts.itemsize) for one in state.references],
    }
    counts = [one.counts.astype(f"<u{one.counts.itemsize}").tobytes() for one in state.references]
    return b"".join([orjson.dumps(head), b"\n", *counts])


def load(data: bytes) -> State:
    """Return the state that `dump` has written, or raise a ReportError."""
    line, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(line)
        if head["version"] != VERSION:
            raise ReportError(f"the alert state has version {head['version']}, but {VERSION} is expected")
        references, start = [], 0
        for end, n, independent, size, width in head["kept"]:
            _check_whole(end, n, independent, size)
            references.append(Reference(end, n, independent, np.frombuffer(body, _WIDTHS[width], size, start)))
            start += size * width
        surges = tuple((value, end) for value, end in head["surged"])
        _check_whole(head["end"], start, *(number for pair in surges for number in pair))
        state = State(head["end"], dict(head["entered"]), surges, tuple(references), bool(head["shown"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"the alert state is unreadable: {error!r}") from error
    if start != len(body):
        raise ReportError(f"the alert state has {len(body)} bytes of counts, but claims {start}")
    return state


def check_states(query: Query, states: Sequence[bytes]) -> None:
    """Raise a ReportError unless the bytes are the states of the query's attributes."""
    for data, domain in zip(states, query.domains, strict=bool(states)):
        state = load(data) if data else State(0)
        _check_whole(*state.above)
        if any(not 0 <= value < domain.size for value in (*state.above, *(value for value, _ in state.surges))):
            raise ReportError(f"the alert state has values that query {query.name} does not have")
        if any(tau is not None and not (isinstance(tau, float | int) and 0 < tau <= 1) for tau in state.above.values()):
            raise ReportError("the alert state has a threshold outside of (0, 1]")
        for reference in state.references:
            fits = len(reference.counts) == domain.size and 1 <= reference.n_independent <= reference.n <= _EVERYONE
            if not fits or int(reference.counts.max()) > reference.n:
                raise ReportError(f"the alert state has a window that does not fit query {query.name}")


def _check_whole(*numbers: object) -> None:
    if any(type(number) is not int or abs(number) > _EVERYONE for number in numbers):
        raise ReportError("the alert state needs whole numbers as times, positions and counts")


def finals_a_day(window: Window, pane: int) -> float:
    """Return the number of finals of a kind of window in a day."""
    return DAY / (window.step or pane)


def step(watch: Watch, state: State | None, final: Final) -> tuple[State, list[Alert]]:
    """Return the state after `final`, and its alerts. A final that is done already changes nothing."""
    if state is None:
        state = State(final.start)
    elif final.end <= state.end:
        return state, []
    sample = replace(final.estimate, population=_EVERYONE)
    if not sample.n_independent:
        return replace(state, end=final.end), []
    now = bounds(sample, watch.threshold, watch.family_error)[0]
    tau = now if now < 1.0 else None
    above = {v: tau if its is None else its for v, its in state.above.items()}
    enter = set(Evidence(sample, Threshold("share", now), watch.error).decided.tolist()) - above.keys()
    leave = _below(sample, above, watch.error)
    above |= dict.fromkeys(enter, tau)
    reference = next((one for one in reversed(state.references) if one.end <= final.start), None)
    before = reference.estimate(sample.oracle) if reference else None
    # A surge has one alert. Without this, a hopping window would repeat it at every step.
    surges = {v: end for v, end in state.surges if not reference or end > reference.end}
    surge = risen(before, final.estimate, watch.error, panel=watch.panel) - surges.keys() if before else set()

    changes: list[tuple[AlertKind, set[int]]] = [("enter", enter), ("leave", leave), ("surge", surge)]
    intervals = _intervals(final.estimate, sorted(listed)) if (listed := enter | leave | surge) else {}
    alerts = [
        _alert(watch, final, before, kind, v, intervals[v], threshold=above.get(v, tau), baseline=not state.has_values)
        for kind, values in changes
        for v in sorted(values)
    ]
    surges |= dict.fromkeys(surge, final.end)
    remaining = {v: its for v, its in above.items() if v not in leave}
    references = _references(watch.window, state.references, final)
    return State(final.end, remaining, tuple(sorted(surges.items())), references, has_values=True), alerts


def _below(sample: Estimate, above: Mapping[int, float | None], error: float) -> set[int]:
    """Return the positions of `above` that are proved to be below the thresholds at their entry."""
    below: set[int] = set()
    for tau in {tau for tau in above.values() if tau is not None}:
        positions = np.array([v for v, its in sorted(above.items()) if its == tau and sample.shares[v] < tau])
        if len(positions):
            p = replace(sample, shares=sample.shares[positions]).test(tau, below=True)
            below.update(positions[p <= error / len(sample.shares)].tolist())
    return below


def _references(window: Window, references: tuple[Reference, ...], final: Final) -> tuple[Reference, ...]:
    """Return the references for later finals. `all` overlaps itself, so it has none."""
    if window.kind == "all":
        return ()
    if not references or final.end - references[-1].end >= window.size / SPACING:
        estimate = final.estimate
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))  # no value has more than n
        references = (*references, Reference(final.end, estimate.n, estimate.n_independent, counts))
    next_start = final.start + window.step
    obsolete = sum(one.end <= next_start for one in references) - 1
    return references[max(obsolete, 0) :]


def _intervals(estimate: Estimate, values: list[int]) -> dict[int, tuple[float, float]]:
    """Return the interval of each of these values."""
    low, high = replace(estimate, shares=estimate.shares[values]).interval()
    return dict(zip(values, zip(low.tolist(), high.tolist(), strict=True), strict=True))


def _alert(
    watch: Watch,
    final: Final,
    before: Estimate | None,
    kind: AlertKind,
    value: int,
    interval: tuple[float, float],
    *,
    threshold: float | None,
    baseline: bool,
) -> Alert:
    low, high = interval
    return Alert.of(
        kind=kind,
        query=watch.query,
        digest=watch.digest.hex(),
        attribute=watch.attribute,
        value=watch.name(value),
        window=WindowRow.of(Span(watch.window, final.start, final.end)),
        share=float(final.estimate.shares[value]),
        low=rounded(low),
        high=rounded(high),
        threshold=rounded(threshold),
        baseline=baseline,
        before=None if before is None else float(before.shares[value]),
        probability=None if final.probability is None else rounded(float(final.probability[value])),
    )
