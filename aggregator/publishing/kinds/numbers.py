"""Numbers: their distribution, and the alerts of quantiles and ranges.

A quantile rises or falls, a range surges or fades, and a quantile crosses its limit. A quantile surges if it has risen,
whatever has become of the share of a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from aggregator.publishing.alerts.change_proof import BACK
from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.state import State, dump, load
from aggregator.publishing.alerts.step import Final, ShownValue
from aggregator.publishing.alerts.step import step as step_by
from aggregator.publishing.alerts.watch import CHANGES, KINDS, Watch, watch_of
from aggregator.publishing.final_metrics import FinalMetrics, NumberMetrics
from aggregator.publishing.flags import in_record_order
from aggregator.publishing.kinds.attribute import AttributeChanges, CountedAttribute
from aggregator.records.alert import Alert, AlertKind
from aggregator.records.digits import DIGITS, digits_of, rounded
from aggregator.records.findings import GroupTotal, NumberFindings, WindowFindings
from aggregator.records.span import Span
from aggregator.records.subject import Subject
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from oracles.estimate import Estimate
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


def changes(window: WindowFindings, total: GroupTotal, state: bytes, pairs: Sequence[StretchPair]) -> AttributeChanges:
    """Return the alerts of quantiles and ranges, and the state for the next final."""
    findings = cast(NumberFindings, total.findings)
    watch = watch_of(window.query, findings.subject, window.span.window)
    new_state, alerts = step(watch, load(state) if state else None, window.span, findings, pairs, total.groups)
    return AttributeChanges(alerts, dump(new_state))


def step(
    watch: Watch,
    state: State | None,
    span: Span,
    findings: NumberFindings,
    comparisons: Sequence[StretchPair] = (),
    groups: GroupNumbers = GROUP_0,
) -> tuple[State, list[Alert]]:
    """Return the state after a final, and its alerts."""
    final = Final(span.start, span.end, findings.estimate, groups=groups)
    tests = NumberTests(watch, findings.numbers, {} if state is None else state.above)
    return step_by(watch, tests, state, final, comparisons)


@dataclass(frozen=True)
class Measure:
    """A quantile or range under watch."""

    name: str
    quantile: float | None
    ends: tuple[float, float] | None = None

    def rise(self, changes: NumberChanges) -> float:
        """Return by how many standard errors it has risen."""
        if self.ends is not None:
            return changes.range(*self.ends)
        return changes.quantile(self.quantile or 0.0)

    def interval(self, numbers: Numbers) -> tuple[float, float, float]:
        """Return its value in a stretch, with the ends of its 95% interval."""
        if self.ends is not None:
            row = numbers.range(*self.ends)
            return row.share, row.low, row.high
        return numbers.quantile(self.quantile or 0.0)

    def digits(self, scale: Scale) -> int:
        """Return the digits of a quantile on a scale, or of a share."""
        return DIGITS if self.quantile is None else digits_of(scale)


def measures_of(watch: Watch) -> dict[str, Measure]:
    """Return the quantiles and ranges whose changes are looked for, by name. No range has the name of a quantile."""
    measures = [Measure(quantile_name(share), share) for share in watch.quantiles]
    measures += [Measure(name, None, ends) for name, ends in watch.subject.ranges]
    return {measure.name: measure for measure in measures}


def budget_kinds(watch: Watch) -> float:
    """Return the number of kinds of alerts that share the budget. Without limits there are only surges and fades."""
    return KINDS if watch.limits else CHANGES


def limit_error(watch: Watch) -> float:
    """Return the probability of a false enter, and of a false leave, of one quantile in one final."""
    # Without limits nothing is tested, and `error` would divide by zero.
    return watch.error(kinds=budget_kinds(watch), tests=max(1, len(watch.limits)))


def change_error(watch: Watch) -> float:
    """Return the probability of a false surge, and of a false fade, of one quantile or range in one comparison."""
    return watch.look_error(kinds=budget_kinds(watch), tests=max(1, len(measures_of(watch))))


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
            # A quantile that is proved on neither side stays, or noise at the limit would bring an alert in each final.
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
        numbers = self.changes.before
        return rounded(measure.interval(numbers)[0], measure.digits(numbers.scale))

    def is_back(self, value: str, before: float) -> bool:
        """Whether the interval of the newest stretch holds the value before an alert."""
        if value not in self.measures or not self.changes.now.known:
            return False
        _, low, high = self.measures[value].interval(self.changes.now)
        return low <= before <= high

    def stands_still(self, value: str) -> bool:
        """Whether a quantile or range is what it was in the stretch before, within its error."""
        # A measure that nothing is known of, or that the query has no more, cannot go on.
        return abs(self._rises.get(value, 0.0)) <= BACK


@dataclass(frozen=True, eq=False)
class NumberTests:
    """The tests of the quantiles and ranges of a final."""

    watch: Watch
    numbers: Numbers
    old_thresholds: Mapping[str, float | None]
    """The quantiles above their limit before the final. See State."""

    @cached_property
    def _measures(self) -> dict[str, Measure]:
        return measures_of(self.watch)

    @cached_property
    def _limits(self) -> dict[str, float]:
        """The limits by the name of their quantile."""
        return {quantile_name(share): limit for share, limit in self.watch.limits}

    @cached_property
    def _sides(self) -> dict[str, str | None]:
        """The side of its limit on which each quantile is proved to be."""
        error = limit_error(self.watch)
        return {quantile_name(share): crossing(self.numbers, share, limit, error) for share, limit in self.watch.limits}

    @property
    def has_answers(self) -> bool:
        return self.numbers.known and bool(self.numbers.estimate.n_independent)

    @property
    def crossings(self) -> list[tuple[AlertKind, str]]:
        crossings: list[tuple[AlertKind, str]] = []
        for name, side in self._sides.items():
            if side == "above" and name not in self.old_thresholds:
                crossings.append(("enter", name))
            elif side == "below" and name in self.old_thresholds:
                crossings.append(("leave", name))
        return crossings

    @property
    def above(self) -> dict[str, float | None]:
        return {
            name: self._limits[name]
            for name, side in self._sides.items()
            if side == "above" or (side is None and name in self.old_thresholds)
        }

    def changes(self, pair: StretchPair) -> ChangedNumbers:
        stretches = cast(TreeEstimate, pair.before), cast(TreeEstimate, pair.now)
        number_changes = NumberChanges.of(*stretches, self.numbers.scale, panel=self.watch.panel)
        return ChangedNumbers(number_changes, self._measures, normal_quantile(change_error(self.watch)))

    def shown(self, values: Sequence[str], estimate: Estimate, before: Estimate | None) -> list[ShownValue]:
        if not values:
            return []

        scale = self.numbers.scale
        numbers = Numbers(cast(TreeEstimate, estimate), scale)
        numbers_before = None if before is None else Numbers(cast(TreeEstimate, before), scale)
        limit_measures = {quantile_name(share): Measure(quantile_name(share), share) for share, _ in self.watch.limits}
        rows = []
        for name in values:
            measure = self._measures.get(name) or limit_measures[name]
            digits = measure.digits(scale)
            share, low, high = measure.interval(numbers)
            share_before = None
            if numbers_before is not None and numbers_before.known:
                share_before = measure.interval(numbers_before)[0]
            row = ShownValue(
                value=name,
                share=cast(float, rounded(share, digits)),
                low=rounded(low, digits),
                high=rounded(high, digits),
                before=rounded(share_before, digits),
                threshold=self._limits.get(name),
                by=LIMIT if name in self._limits else None,
                quantile=measure.quantile,
                unit=None if measure.quantile is None else self.watch.subject.domain.unit,
            )
            rows.append(row)
        return rows
