"""Alerts: what has changed between the final windows of one query, attribute and kind of window.

Pure: the state after a final is a function of the finals up to it, and an alert a function of the
state before and the final, so that a restart repeats an alert byte for byte or not at all.

In two windows other people answer. An alert speaks of the population they come from, so its tests
take them as a sample of it; a value that sits at the threshold then stays as it is, even at an
epsilon so large that each window's own share is known to the last client.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.merging.windows import Span
from aggregator.publishing.analysis import Subject
from aggregator.publishing.record import VERSION, Built, window_of
from oracles.errors import ReportError
from oracles.estimate import Estimate, Floats, quantile
from oracles.heavy import Evidence, bounds
from oracles.pure import Pure
from oracles.query import Query
from oracles.query.settings import Threshold, Window

Kind = Literal["enter", "leave", "surge"]
Alert = dict[str, Any]
Counts = NDArray[np.integer]

DAY = 86_400
_EVERYONE = 1 << 62
"""A population so large that any number of clients is a small sample of it."""
_SPACING = 4
"""Windows are kept no closer than this part of their size: a hopping one of a day needs 6, not 8,640."""


@dataclass(frozen=True)
class Watch:
    """What is watched, and how many false alerts it may bring."""

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
    """What later windows are compared with; shares and variances follow from it exactly."""

    end: int
    n: int
    n_independent: int
    counts: Counts
    """The support of each value, in the narrowest type that holds it."""

    def estimate(self, oracle: Pure) -> Estimate:
        counts = self.counts.astype(np.int64)
        return Estimate(oracle.shares(counts, self.n), self.n, oracle, self.n_independent, _EVERYONE)


@dataclass(frozen=True, eq=False)
class State:
    """What the next final needs to know of those before it."""

    end: int
    """Of the last final; those up to it are done."""
    entered: frozenset[int] = frozenset()
    """Positions of the values that are above the threshold since their last alert."""
    surged: tuple[tuple[int, int], ...] = ()
    """Positions whose rise is known, and the end of the window that showed it."""
    kept: tuple[Kept, ...] = ()


def alerts(
    query: Query, span: Span, built: Built, states: Sequence[bytes]
) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """What a final brings: the states after it, one for each attribute, and its alerts as keys and values.

    `states` are those that the final before it brought; none before the first.
    """
    after: list[bytes] = []
    said: list[Alert] = []
    for found, before in zip(built.findings, states or [b""] * len(built.findings), strict=True):
        final = Final(span.start, span.end, found.estimate, found.likely)
        state, new = step(watch(query, found.subject, span.window), load(before) if before else None, final)
        after.append(dump(state))
        said += new
    return after, [(alert_key(alert), orjson.dumps(alert)) for alert in said]


def watch(query: Query, subject: Subject, window: Window) -> Watch:
    """Its false alerts are shared out over all that is watched: each kind of window and each attribute."""
    finals = len(query.domains) * sum(finals_a_day(window, query.pane) for window in query.windows)
    return Watch(
        *(query.name, query.digest, subject.name, window, subject.domain.name),
        *(query.threshold, query.family_error, query.alerts_a_day, finals),
    )


def alert_key(alert: Alert) -> bytes:
    """An alert that is told again, after a restart, has the key that it had."""
    window = alert["window"]
    parts = [alert["query"], alert["digest"], alert["attribute"] or ""]
    parts += [window["kind"], window["size"], window["step"], window["end"], alert["kind"], alert["value"]]
    return "|".join(map(str, parts)).encode()


def dump(state: State) -> bytes:
    """A state as bytes: a line of JSON, then the counts of the kept windows."""
    head = {
        "version": VERSION,
        "end": state.end,
        "entered": sorted(state.entered),
        "surged": state.surged,
        "kept": [(one.end, one.n, one.n_independent, len(one.counts), one.counts.itemsize) for one in state.kept],
    }
    counts = [one.counts.astype(f"<u{one.counts.itemsize}").tobytes() for one in state.kept]
    return b"".join([orjson.dumps(head), b"\n", *counts])


def load(data: bytes) -> State:
    """The state that `dump` wrote."""
    line, _, body = data.partition(b"\n")
    head = orjson.loads(line)
    if head["version"] != VERSION:
        raise ReportError(f"a state of alerts of version {head['version']} cannot be read")
    kept, start = [], 0
    for end, n, independent, size, width in head["kept"]:
        kept.append(Kept(end, n, independent, np.frombuffer(body, f"<u{width}", size, start)))
        start += size * width
    surged = tuple((value, end) for value, end in head["surged"])
    return State(head["end"], frozenset(head["entered"]), surged, tuple(kept))


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
    above, proved = bounds(sample, watch.threshold, watch.family_error)
    enter = set(Evidence(sample, Threshold("share", proved), watch.error).decided.tolist()) - state.entered
    leave = _sunk(sample, state.entered, above, watch.error)
    earlier = next((kept for kept in reversed(state.kept) if kept.end <= final.start), None)
    before = earlier.estimate(sample.oracle) if earlier else None
    # A rise is said once: compared with a window before it, a hopping one would show it at every step.
    known = {v: end for v, end in state.surged if not earlier or end > earlier.end}
    surge = _risen(before, sample, watch.error) - known.keys() if before else set()

    said: list[tuple[Kind, set[int]]] = [("enter", enter), ("leave", leave), ("surge", surge)]
    alerts = [_alert(watch, final, before, kind, v) for kind, values in said for v in sorted(values)]
    known |= dict.fromkeys(surge, final.end)
    entered = (state.entered | enter) - leave
    return State(final.end, entered, tuple(sorted(known.items())), _keep(watch.window, state.kept, final)), alerts


def _sunk(sample: Estimate, entered: Iterable[int], above: float, error: float) -> set[int]:
    """Those of the entered values that are proved to be below the threshold."""
    positions = np.array(sorted(entered), np.int64)
    p = replace(sample, shares=sample.shares[positions]).test(min(above, 1.0), below=True)
    return set(positions[p <= error / len(sample.shares)].tolist())


def _risen(before: Estimate, now: Estimate, error: float) -> set[int]:
    """Values whose share has risen, by the Gaussian test and by one that holds for small counts too."""
    z = quantile(error / len(now.shares))
    rise = now.shares - before.shares
    risen = np.flatnonzero(rise > z * np.sqrt(now.stderr**2 + before.stderr**2))
    return set(risen[_signed_root(before, now, risen) > z].tolist())


def _signed_root(before: Estimate, now: Estimate, values: NDArray[np.int64]) -> Floats:
    """How far two support counts are from one rate: the root of the likelihood ratio.

    With half a count taken from the rise. It is as normal as z for large counts, and stays so for
    the handful that a value of a large domain has with grr, where z gives many times too many.
    """
    from scipy import special

    n, m = before.n_independent, now.n_independent
    c = np.minimum(before.counts[values] * (n / before.n) + 0.5, n)
    k = np.maximum(now.counts[values] * (m / now.n) - 0.5, 0.0)
    rate = (c + k) / (n + m)
    likelier = sum(
        special.rel_entr(part, of * rate) + special.rel_entr(of - part, of * (1.0 - rate))
        for part, of in ((c, n), (k, m))
    )
    root: Floats = np.where(k * n > c * m, np.sqrt(np.maximum(2.0 * likelier, 0.0)), 0.0)
    return root


def _keep(window: Window, kept: tuple[Kept, ...], final: Final) -> tuple[Kept, ...]:
    """The windows that later ones are compared with: for `all`, which overlaps itself, none."""
    if window.kind == "all":
        return ()
    if not kept or final.end - kept[-1].end >= window.size / _SPACING:
        estimate = final.estimate
        counts = estimate.counts.astype(np.min_scalar_type(estimate.n))  # no value has more than n
        kept = (*kept, Kept(final.end, estimate.n, estimate.n_independent, counts))
    next_start = final.start + window.step
    done = sum(one.end <= next_start for one in kept) - 1
    return kept[max(done, 0) :]


def _alert(watch: Watch, final: Final, before: Estimate | None, kind: Kind, value: int) -> Alert:
    one = replace(final.estimate, shares=final.estimate.shares[value : value + 1])
    low, high = one.interval()
    said: Alert = {
        "kind": kind,
        "query": watch.query,
        "digest": watch.digest.hex(),
        "attribute": watch.attribute,
        "value": watch.name(value),
        "window": window_of(Span(watch.window, final.start, final.end)),
        "share": float(one.shares[0]),
        "low": float(low[0]),
        "high": float(high[0]),
        "before": None if before is None else float(before.shares[value]),
        "probability": None if final.probability is None else float(final.probability[value]),
    }
    name = sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
    return {"version": VERSION, "id": name, **said}
