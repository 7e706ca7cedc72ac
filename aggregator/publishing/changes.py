"""The changes that alerts tell: what has changed between the final windows of one query, attribute and kind of window.

Pure: the state after a final is a function of the finals up to it, and an alert a function of the
state before and the final, so that a restart repeats an alert byte for byte or not at all.

In two windows other people answer. An alert speaks of the population they come from, so its tests
take them as a sample of it; a value that sits at the threshold then stays as it is, even at an
epsilon so large that each window's own share is known to the last client.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.merging.windows import Span
from aggregator.publishing.alert import Alert, AlertKind, encode
from aggregator.publishing.analysis import Subject
from aggregator.publishing.digits import rounded
from aggregator.publishing.record import Built
from aggregator.publishing.rise import risen
from aggregator.publishing.window import WindowRow
from oracles.errors import ReportError
from oracles.estimate import Estimate, Pure
from oracles.heavy import Evidence, bounds
from oracles.query import Query
from oracles.query.footprint import SPACING
from oracles.query.settings import Threshold, Window
from oracles.types import Floats

Counts = NDArray[np.integer]

VERSION = 2
"""Of the state; one of version 1 is read too."""
DAY = 86_400
_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_EVERYONE = 1 << 62
"""A population so large that any number of clients is a small sample of it."""


@dataclass(frozen=True)
class Watch:
    """A kind of window that is watched, and how many false alerts it may bring."""

    query: str
    digest: bytes
    attribute: str | None
    window: Window
    name: Callable[[int], str] = field(compare=False)
    """The value at a position."""
    threshold: Threshold
    family_error: float
    alerts_a_day: float
    finals_a_day: float
    """How many finals share those: of all windows and attributes, if the number is to hold for all of them."""
    panel: bool = False
    """Whether the same clients repeat their answers from window to window."""

    @property
    def error(self) -> float:
        """How many false alerts of each of the three kinds one final may bring."""
        return min(0.5, self.alerts_a_day / (3.0 * self.finals_a_day))


@dataclass(frozen=True, eq=False)
class Final:
    """One attribute of a final window."""

    start: int
    end: int
    estimate: Estimate
    probability: Floats | None = None
    """Each value's chance to exceed the threshold, where there is a posterior."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A final that later ones are compared with; shares and variances follow from it exactly."""

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
    """The finals up to one, as far as the next one needs them."""

    end: int
    """Of the last final; those up to it are done."""
    entered: Mapping[int, float | None] = field(default_factory=dict)
    """Positions of the values that are above the threshold since their last alert, and what it was then.

    One that is not known, in a state of version 1, is that of the next final."""
    surged: tuple[tuple[int, int], ...] = ()
    """Positions whose rise is known, and the end of the window that showed it."""
    kept: tuple[Kept, ...] = ()
    shown: bool = False
    """Whether any final had values to show; those of the first were there before: a baseline."""


def alerts(
    query: Query, span: Span, built: Built, states: Sequence[bytes]
) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """The changes that a final brings: the states after it, one for each attribute, and its alerts as keys and values.

    `states` are those that the final before it brought; none before the first.
    """
    after: list[bytes] = []
    said: list[Alert] = []
    for found, before in zip(built.findings, states or [b""] * len(built.findings), strict=True):
        if found.withheld:
            after.append(before)
            continue
        final = Final(span.start, span.end, found.estimate, found.likely)
        state, new = step(watch_of(query, found.subject, span.window), load(before) if before else None, final)
        after.append(dump(state))
        said += new
    return after, [(alert.key, encode(alert)) for alert in said]


def watch_of(query: Query, subject: Subject, window: Window) -> Watch:
    """Its false alerts are shared out over all that is watched: each kind of window and each attribute."""
    finals = len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)
    return Watch(
        *(query.name, query.digest, subject.name, window, subject.domain.name),
        *(query.threshold, query.family_error, query.alerts_a_day, finals, query.answers != "fresh"),
    )


def dump(state: State) -> bytes:
    """A state as bytes: a line of JSON, then the counts of the kept windows."""
    head = {
        "version": VERSION,
        "end": state.end,
        "shown": state.shown,
        "entered": sorted(state.entered.items()),
        "surged": state.surged,
        "kept": [(one.end, one.n, one.n_independent, len(one.counts), one.counts.itemsize) for one in state.kept],
    }
    counts = [one.counts.astype(f"<u{one.counts.itemsize}").tobytes() for one in state.kept]
    return b"".join([orjson.dumps(head), b"\n", *counts])


def load(data: bytes) -> State:
    """The state that `dump` wrote; a ReportError where there is none."""
    line, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(line)
        if head["version"] not in (1, VERSION):
            raise ReportError(f"a state of alerts of version {head['version']} cannot be read")
        kept, start = [], 0
        for end, n, independent, size, width in head["kept"]:
            _check_whole(end, n, independent, size)
            kept.append(Kept(end, n, independent, np.frombuffer(body, _WIDTHS[width], size, start)))
            start += size * width
        surged = tuple((value, end) for value, end in head["surged"])
        _check_whole(head["end"], start, *(number for pair in surged for number in pair))
        entered = dict.fromkeys(head["entered"]) if head["version"] == 1 else dict(head["entered"])
        state = State(head["end"], entered, surged, tuple(kept), bool(head.get("shown", True)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"no state of alerts: {error!r}") from error
    if start != len(body):
        raise ReportError(f"a state of alerts with {len(body)} bytes of counts, which says {start}")
    return state


def check_states(query: Query, states: Sequence[bytes]) -> None:
    """Raise a ReportError where these are not the states of the query's attributes."""
    for data, domain in zip(states, query.domains, strict=bool(states)):
        state = load(data) if data else State(0)
        _check_whole(*state.entered)
        if any(not 0 <= value < domain.size for value in (*state.entered, *(value for value, _ in state.surged))):
            raise ReportError(f"a state of alerts about values that {query.name} does not have")
        if any(
            tau is not None and not (isinstance(tau, float | int) and 0 < tau <= 1) for tau in state.entered.values()
        ):
            raise ReportError("a state of alerts with a threshold that is no share")
        for kept in state.kept:
            fits = len(kept.counts) == domain.size and 1 <= kept.n_independent <= kept.n <= _EVERYONE
            if not fits or int(kept.counts.max()) > kept.n:
                raise ReportError(f"a state of alerts with a window that is none of {query.name}")


def _check_whole(*numbers: object) -> None:
    if any(type(number) is not int or abs(number) > _EVERYONE for number in numbers):
        raise ReportError("the times, positions and counts in a state of alerts are whole numbers")


def finals_a_day(window: Window, pane: int) -> float:
    """How many finals a kind of window brings in a day."""
    return DAY / (window.step or pane)


def step(watch: Watch, state: State | None, final: Final) -> tuple[State, list[Alert]]:
    """The state after `final`, and the alerts that it brings; none and no change for one that is done."""
    if state is None:
        state = State(final.start)
    elif final.end <= state.end:
        return state, []
    sample = replace(final.estimate, population=_EVERYONE)
    if not sample.n_independent:
        return replace(state, end=final.end), []
    now = bounds(sample, watch.threshold, watch.family_error)[0]
    tau = now if now < 1.0 else None
    entered = {v: tau if its is None else its for v, its in state.entered.items()}
    enter = set(Evidence(sample, Threshold("share", now), watch.error).decided.tolist()) - entered.keys()
    leave = _sunk(sample, entered, watch.error)
    entered |= dict.fromkeys(enter, tau)
    earlier = next((kept for kept in reversed(state.kept) if kept.end <= final.start), None)
    before = earlier.estimate(sample.oracle) if earlier else None
    # A rise is said once: compared with a window before it, a hopping one would show it at every step.
    known = {v: end for v, end in state.surged if not earlier or end > earlier.end}
    surge = risen(before, final.estimate, watch.error, panel=watch.panel) - known.keys() if before else set()

    said: list[tuple[AlertKind, set[int]]] = [("enter", enter), ("leave", leave), ("surge", surge)]
    alerts = [
        _alert(watch, final, before, kind, v, threshold=entered.get(v, tau), baseline=not state.shown)
        for kind, values in said
        for v in sorted(values)
    ]
    known |= dict.fromkeys(surge, final.end)
    stays = {v: its for v, its in entered.items() if v not in leave}
    kept = _keep(watch.window, state.kept, final)
    return State(final.end, stays, tuple(sorted(known.items())), kept, shown=True), alerts


def _sunk(sample: Estimate, entered: Mapping[int, float | None], error: float) -> set[int]:
    """Those of the entered values that are proved to be below the thresholds that they entered by."""
    sunk: set[int] = set()
    for tau in {tau for tau in entered.values() if tau is not None}:
        positions = np.array([v for v, its in sorted(entered.items()) if its == tau and sample.shares[v] < tau])
        if len(positions):
            p = replace(sample, shares=sample.shares[positions]).test(tau, below=True)
            sunk.update(positions[p <= error / len(sample.shares)].tolist())
    return sunk


def _keep(window: Window, kept: tuple[Kept, ...], final: Final) -> tuple[Kept, ...]:
    """The windows that later ones are compared with: for `all`, which overlaps itself, none."""
    if window.kind == "all":
        return ()
    if not kept or final.end - kept[-1].end >= window.size / SPACING:
        estimate = final.estimate
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))  # no value has more than n
        kept = (*kept, Kept(final.end, estimate.n, estimate.n_independent, counts))
    next_start = final.start + window.step
    done = sum(one.end <= next_start for one in kept) - 1
    return kept[max(done, 0) :]


def _alert(
    watch: Watch,
    final: Final,
    before: Estimate | None,
    kind: AlertKind,
    value: int,
    *,
    threshold: float | None,
    baseline: bool,
) -> Alert:
    one = replace(final.estimate, shares=final.estimate.shares[value : value + 1])
    low, high = one.interval()
    return Alert.of(
        kind=kind,
        query=watch.query,
        digest=watch.digest.hex(),
        attribute=watch.attribute,
        value=watch.name(value),
        window=WindowRow.of(Span(watch.window, final.start, final.end)),
        share=float(one.shares[0]),
        low=rounded(float(low[0])),
        high=rounded(float(high[0])),
        threshold=rounded(threshold),
        baseline=baseline,
        before=None if before is None else float(before.shares[value]),
        probability=None if final.probability is None else rounded(float(final.probability[value])),
    )
