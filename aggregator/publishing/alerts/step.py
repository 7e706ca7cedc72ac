"""The step from final to final of one attribute: its alerts, and the state for the next final.

Pure. The state after a final depends only on the finals up to it. An alert depends only on the state before, the
blocks before and the final, so a restart repeats an alert byte for byte, or not at all.

Values and numbers take the same step. They differ in two tests: whether a value is beyond its threshold, and whether
it has changed between two stretches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.silence import Look, ProvedChanges, after_silence, in_order, longest_silence
from aggregator.publishing.alerts.state import State, Value, later_references, newest_before
from aggregator.publishing.alerts.watch import Watch
from aggregator.records.alert import Alert, AlertKind, StretchRow
from aggregator.records.rows import WindowRow
from aggregator.records.span import Span
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from oracles.estimate import Estimate
from oracles.types import Floats


@dataclass(frozen=True, eq=False)
class Final:
    """One attribute of a final window."""

    start: int
    end: int
    estimate: Estimate
    probability: Floats | None = None
    """The probability of each value to exceed the threshold, if there is a posterior."""
    groups: GroupNumbers = GROUP_0
    """The groups in it."""


class ShownValue(NamedTuple):
    """A value as an alert shows it. See Alert."""

    value: str
    share: float
    low: float | None
    high: float | None
    before: float | None
    threshold: float | None
    by: str | None
    probability: float | None = None
    quantile: float | None = None
    unit: str | None = None


class FinalTests(Protocol):
    """The tests of one kind of answers in a final."""

    @property
    def has_answers(self) -> bool:
        """Whether the final knows anything. If not, only its end counts."""

    @property
    def crossings(self) -> Sequence[tuple[AlertKind, Value]]:
        """The values that have crossed their threshold, in the order of their alerts."""

    @property
    def above(self) -> Mapping[Value, float | None]:
        """The values above their threshold after the final. See State."""

    def changes(self, pair: StretchPair) -> ProvedChanges:
        """Return what has changed between two stretches."""

    def shown(self, values: Sequence[Value], estimate: Estimate, before: Estimate | None) -> list[ShownValue]:
        """Return values as alerts show them, in a stretch and in the one before."""


def step(
    watch: Watch, tests: FinalTests, state: State | None, final: Final, comparisons: Sequence[StretchPair] = ()
) -> tuple[State, list[Alert]]:
    """Return the state after a final, and its alerts. A final that is done already changes nothing."""
    if state is None:
        state = State(final.start)
    elif final.end <= state.end:
        return state, []
    if not tests.has_answers:
        return replace(state, end=final.end), []

    pairs = list(comparisons)
    reference = newest_before(state.references, final.start, final.groups)
    reference_estimate = None
    if reference is not None:
        reference_estimate = reference.estimate(final.estimate.oracle)
        stretch = reference.end - watch.window.size, reference.end
        pairs.insert(0, StretchPair(1, reference_estimate, final.estimate, stretch, (final.start, final.end)))

    # One change shows in many comparisons. The silence after the first alert keeps the others back.
    looks = [Look(pair, tests.changes(pair)) for pair in pairs]
    longest = longest_silence(watch.window, watch.season)
    silences, hits = after_silence(state.silences, looks, final.end, longest)

    writer = _Writer(watch, Span(watch.window, final.start, final.end), baseline=not state.has_values)
    alerts: list[Alert] = []
    crossing_values = [value for _, value in tests.crossings]
    rows = tests.shown(crossing_values, final.estimate, reference_estimate)
    for (kind, _), row in zip(tests.crossings, rows, strict=True):
        alerts.append(writer.alert(kind, row))
    for (direction, value), look in in_order(hits):
        stretches = look.stretches
        (row,) = tests.shown([value], stretches.now, stretches.before)
        alerts.append(writer.alert(direction, row, stretches))

    references = later_references(watch.window, state.references, final.start, final.end, final.estimate, final.groups)
    return State(final.end, tests.above, silences, references, has_values=True, arms=state.arms), alerts


@dataclass(frozen=True)
class _Writer:
    """Writes the alerts of one final."""

    watch: Watch
    span: Span
    baseline: bool

    def alert(self, kind: AlertKind, row: ShownValue, stretches: StretchPair | None = None) -> Alert:
        """Return the alert of a value that crossed its threshold, or changed between two stretches."""
        return Alert.of(
            kind=kind,
            query=self.watch.query,
            digest=self.watch.digest.hex(),
            attribute=self.watch.subject.name,
            window=WindowRow.of(self.span),
            baseline=self.baseline,
            scale=None if stretches is None else stretches.scale,
            from_=None if stretches is None else StretchRow(*stretches.earlier),
            to=None if stretches is None else StretchRow(*stretches.newest),
            **row._asdict(),
        )
