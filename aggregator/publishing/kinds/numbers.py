"""The alerts of numbers: a quantile that rose or fell, a range that surged or faded, a quantile beyond its limit.

Pure, like the decision about values. A quantile surges if it has risen, whatever has become of the share of a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.silence import Look, after_silence, in_order, longest_silence
from aggregator.publishing.alerts.state import State, Value, later_references, newest_before
from aggregator.publishing.alerts.watch import Measure, NumberWatch
from aggregator.publishing.final_metrics import FinalMetrics, NumberMetrics
from aggregator.publishing.flags import in_record_order
from aggregator.publishing.kinds.attribute import CountedAttribute
from aggregator.records.alert import Alert, AlertKind, StretchRow
from aggregator.records.digits import DIGITS, digits_of, rounded
from aggregator.records.findings import NumberFindings
from aggregator.records.rows import WindowRow
from aggregator.records.span import Span
from aggregator.records.subject import Subject
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from oracles.estimate.covariance import quantile as normal_quantile
from oracles.numbers import Numbers, Quantity, Scale
from oracles.numbers.number_changes import NumberChanges, crossing
from oracles.numbers.tree import TreeEstimate
from oracles.query import Query
from oracles.query.settings import quantile_name

LIMIT = "limit"
"""The kind of a threshold that is the limit of a quantile."""


def find(attribute: CountedAttribute) -> NumberFindings:
    """Return the distribution of the numbers."""
    estimate = cast(TreeEstimate, attribute.estimate)
    numbers = Numbers(estimate, _scale(attribute.subject))
    return NumberFindings(attribute.subject, estimate, numbers, in_record_order(attribute.flags))


def _scale(subject: Subject) -> Scale:
    return cast(Scale, subject.domain.scale)


def metrics(query: Query, findings: NumberFindings) -> FinalMetrics:
    """Return the metrics of the total of an attribute. A window that is too small to know a number has none."""
    subject = findings.subject
    numbers = findings.numbers
    if not numbers.known:
        return FinalMetrics(subject.name, findings.flags)

    ranges = {}
    for name, ends in subject.ranges:
        row = numbers.range(*ends)
        ranges[name] = Quantity(row.share, row.low, row.high)
    quantiles = {repr(share): numbers.quantile(share) for share in query.quantiles}
    return FinalMetrics(subject.name, findings.flags, numbers=NumberMetrics(numbers.mean(), quantiles, ranges))


@dataclass(frozen=True, eq=False)
class ChangedNumbers:
    """The quantiles and ranges that have changed between two stretches."""

    changes: NumberChanges
    measures: Mapping[str, Measure]
    z: float
    """The standard errors that a change must exceed."""

    @cached_property
    def _rises(self) -> dict[str, float]:
        if not self.changes.known:
            return {}
        return {name: measure.rise(self.changes) for name, measure in self.measures.items()}

    @property
    def rises(self) -> list[str]:
        return [name for name, rise in self._rises.items() if rise > self.z]

    @property
    def falls(self) -> list[str]:
        return [name for name, rise in self._rises.items() if rise < -self.z]

    def before(self, value: str) -> float | None:
        measure = self.measures[value]
        return rounded(measure.interval(self.changes.before)[0], _digits(measure, self.changes.before.scale))

    def is_back(self, value: str, before: float) -> bool:
        """Whether the interval of the newest stretch holds the value before an alert."""
        if value not in self.measures or not self.changes.now.known:
            return False
        _, low, high = self.measures[value].interval(self.changes.now)
        return low <= before <= high


def number_step(
    watch: NumberWatch,
    state: State | None,
    span: Span,
    findings: NumberFindings,
    comparisons: Sequence[StretchPair],
    groups: GroupNumbers = GROUP_0,
) -> tuple[State, list[Alert]]:
    """Return the state after a final, and its alerts. A final that is done already changes nothing."""
    estimate, numbers = findings.estimate, findings.numbers
    if state is None:
        state = State(span.start)
    elif span.end <= state.end:
        return state, []
    if not numbers.known or not estimate.n_independent:
        return replace(state, end=span.end), []
    measures = {measure.name: measure for measure in watch.measures}
    reference = newest_before(state.references, span.start, groups)
    pairs = list(comparisons)
    before = None if reference is None else Numbers(reference.estimate(estimate.oracle), watch.scale)
    if reference is not None and before is not None:
        earlier = reference.end - watch.window.size, reference.end
        pairs.insert(0, StretchPair(1, before.estimate, estimate, earlier, (span.start, span.end)))
    looks = [Look(each, _changed(watch, each, measures)) for each in pairs]
    longest = longest_silence(watch.window, watch.season)
    silences, hits = after_silence(state.silences, looks, span.end, longest)

    writer = _NumberWriter(watch, span, baseline=not state.has_values)
    above: dict[Value, float | None] = {}
    news: list[Alert] = []
    for share, limit in watch.limits:
        measure = Measure(quantile_name(share), share)
        side = crossing(numbers, share, limit, watch.limit_error)
        if side == ("below" if measure.name in state.above else "above"):
            kind: AlertKind = "leave" if side == "below" else "enter"
            earlier_value = None if before is None or not before.known else measure.interval(before)[0]
            news.append(writer.crossing(kind, measure, numbers, earlier_value))
        if side == "above" or (measure.name in state.above and side is None):
            above[measure.name] = limit
    news += [writer.change(kind, measures[name], look) for (kind, name), look in in_order(hits)]
    references = later_references(watch.window, state.references, span.start, span.end, estimate, groups)
    return State(span.end, above, silences, references, has_values=True), news


def _changed(watch: NumberWatch, pair: StretchPair, measures: Mapping[str, Measure]) -> ChangedNumbers:
    before, now = cast(TreeEstimate, pair.before), cast(TreeEstimate, pair.now)
    changes = NumberChanges.of(before, now, watch.scale, panel=watch.panel)
    return ChangedNumbers(changes, measures, normal_quantile(watch.look_error))


def _digits(measure: Measure, scale: Scale) -> int:
    """Return the digits of a quantile on a scale, or of a share."""
    return DIGITS if measure.quantile is None else digits_of(scale)


@dataclass(frozen=True)
class _NumberWriter:
    """Writes the alerts of one final."""

    watch: NumberWatch
    span: Span
    baseline: bool

    def crossing(self, kind: AlertKind, measure: Measure, numbers: Numbers, before: float | None) -> Alert:
        """Return the alert of a quantile that has crossed its limit."""
        return self._alert(kind, measure, measure.interval(numbers), before, None)

    def change(self, kind: AlertKind, measure: Measure, look: Look) -> Alert:
        """Return the alert of a quantile or range that has risen or fallen between two stretches."""
        now = Numbers(cast(TreeEstimate, look.stretches.now), self.watch.scale)
        return self._alert(kind, measure, measure.interval(now), look.changes.before(measure.name), look.stretches)

    def _alert(
        self,
        kind: AlertKind,
        measure: Measure,
        interval: tuple[float, float, float],
        before: float | None,
        stretches: StretchPair | None,
    ) -> Alert:
        watch, digits = self.watch, _digits(measure, self.watch.scale)
        value, low, high = (rounded(each, digits) for each in interval)
        limit = watch.limit(measure)
        return Alert.of(
            kind=kind,
            query=watch.query,
            digest=watch.digest.hex(),
            attribute=watch.attribute,
            value=measure.name,
            window=WindowRow.of(self.span),
            share=value,
            low=low,
            high=high,
            threshold=limit,
            by=None if limit is None else LIMIT,
            baseline=self.baseline,
            before=rounded(before, digits),
            probability=None,
            scale=None if stretches is None else stretches.scale,
            from_=None if stretches is None else StretchRow(*stretches.earlier),
            to=None if stretches is None else StretchRow(*stretches.newest),
            quantile=measure.quantile,
            unit=None if measure.quantile is None else watch.unit,
        )
