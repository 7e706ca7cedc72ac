"""Values: their shares by each method, and the alerts of shares that cross the threshold or change.

In two windows different people answer. An alert is about the population that they come from, so its tests treat the
people as a sample of it. A value at the threshold then stays as it is, even with an epsilon so large that the window's
own share is exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aggregator.publishing.alerts.change_proof import ChangedValues
from aggregator.publishing.alerts.change_proof import changes as changes_of_shares
from aggregator.publishing.alerts.comparisons import StretchPair
from aggregator.publishing.alerts.state import EVERYONE, State, dump, load
from aggregator.publishing.alerts.step import Final, ShownValue
from aggregator.publishing.alerts.step import step as step_by
from aggregator.publishing.alerts.watch import Watch, watch_of
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.flags import in_record_order
from aggregator.publishing.kinds.attribute import AttributeChanges, CountedAttribute
from aggregator.records.alert import Alert, AlertKind
from aggregator.records.digits import rounded
from aggregator.records.findings import Findings, GroupTotal, MethodResult, WindowFindings
from aggregator.records.subject import IMPOSSIBLE
from oracles.calibrate import calibrate
from oracles.consistency import UNBIASED, apply
from oracles.consistency import find as method_of
from oracles.estimate import Estimate
from oracles.estimate.impossible import impossible
from oracles.heavy import Evidence, bounds
from oracles.query import Query
from oracles.query.settings import Threshold
from oracles.risk import risk

LEVEL = 0.95
"""The level of the intervals in an alert."""


def find(attribute: CountedAttribute) -> Findings:
    """Return the shares of all values by each method, and the frequent values."""
    query = attribute.query
    estimate = attribute.estimate
    assert estimate is not None  # noqa: S101 - only unknown strings have none
    flags = set(attribute.flags)
    if impossible(estimate) if attribute.is_impossible is None else attribute.is_impossible:
        flags.add(IMPOSSIBLE)

    fits_a_prior = any(method_of(name).fits_a_prior for name in query.methods)
    family = query.prior or "power_law"
    calibration = calibrate(estimate, family, fallback=query.fallback) if fits_a_prior else None
    prior = calibration
    if calibration is not None and calibration.rejected:
        prior = None
        flags.add("prior_rejected")

    # A rejected prior has no shares, so the fallback takes the place of each method that fits one.
    names = (UNBIASED, *query.methods)
    methods = [query.fallback if prior is None and method_of(name).fits_a_prior else name for name in names]
    evidence = Evidence(estimate, query.threshold, query.family_error, prior)
    proves = IMPOSSIBLE not in flags
    results = {method: _method_result(method, evidence, proves=proves) for method in dict.fromkeys(methods)}
    return Findings(
        subject=attribute.subject,
        estimate=estimate,
        calibration=calibration,
        by_method={name: results[method] for name, method in zip(names, methods, strict=True)},
        likely=evidence.likely if proves else None,
        detectable=estimate.detectable(query.family_error),
        flags=in_record_order(flags),
    )


def _method_result(method: str, evidence: Evidence, *, proves: bool) -> MethodResult:
    estimate = evidence.estimate
    prior = evidence.posterior
    shares = apply(method, estimate, calibrated=prior)
    error = risk(method, estimate, calibrated=prior, shares=shares)
    hitters = evidence.hitters(shares) if proves else evidence.no_hitters()
    return MethodResult(method, shares, hitters, error)


def metrics(query: Query, findings: Findings) -> FinalMetrics:
    """Return the metrics of the total of an attribute."""
    return FinalMetrics(
        name=findings.subject.name,
        flags=findings.flags,
        sigma=float(findings.estimate.sigma),
        detectable=findings.detectable,
        threshold=query.threshold.share(findings.estimate.n),
    )


def changes(window: WindowFindings, total: GroupTotal, state: bytes, pairs: Sequence[StretchPair]) -> AttributeChanges:
    """Return the alerts of shares that crossed the threshold or changed, and the state for the next final."""
    findings = total.findings
    assert isinstance(findings, Findings)  # noqa: S101 - those of its own kind
    span = window.span
    watch = watch_of(window.query, findings.subject, span.window)
    final = Final(span.start, span.end, findings.estimate, findings.likely, total.groups)
    new_state, alerts = step(watch, load(state) if state else None, final, pairs)
    return AttributeChanges(alerts, dump(new_state))


def step(
    watch: Watch, state: State | None, final: Final, comparisons: Sequence[StretchPair] = ()
) -> tuple[State, list[Alert]]:
    """Return the state after a final, and its alerts."""
    tests = ShareTests(watch, final, {} if state is None else state.above)
    return step_by(watch, tests, state, final, comparisons)


@dataclass(frozen=True, eq=False)
class ShareTests:
    """The tests of the shares of a final. A value keeps the threshold of its entry until it leaves."""

    watch: Watch
    final: Final
    old_thresholds: Mapping[int, float | None]
    """The values above their threshold before the final, with their thresholds. See State."""

    @cached_property
    def _sample(self) -> Estimate:
        return replace(self.final.estimate, population=EVERYONE)

    @cached_property
    def _threshold(self) -> float:
        """The threshold of this window as a share. It is 1 or more if no share can prove anything."""
        return bounds(self._sample, self.watch.threshold, self.watch.family_error)[0]

    @property
    def _entry_threshold(self) -> float | None:
        return self._threshold if self._threshold < 1.0 else None

    @cached_property
    def _thresholds(self) -> dict[int, float | None]:
        """The thresholds of the values that were above before. One without a threshold takes that of this window."""
        return {
            value: self._entry_threshold if own_threshold is None else own_threshold
            for value, own_threshold in self.old_thresholds.items()
        }

    @cached_property
    def _enters(self) -> set[int]:
        evidence = Evidence(self._sample, Threshold("share", self._threshold), self.watch.error())
        return set(evidence.decided.tolist()) - self.old_thresholds.keys()

    @cached_property
    def _leaves(self) -> set[int]:
        """The values that are proved to be below the thresholds of their entry."""
        sample = self._sample
        # All values together share the error, because each of them is tested.
        error = self.watch.error() / len(sample.shares)
        values_by_threshold: dict[float, list[int]] = {}
        for value, threshold in sorted(self._thresholds.items()):
            if threshold is not None and sample.shares[value] < threshold:
                values_by_threshold.setdefault(threshold, []).append(value)

        leaves: set[int] = set()
        for threshold, values in values_by_threshold.items():
            positions = np.array(values)
            p = sample.test_shares(sample.shares[positions], threshold, below=True)
            leaves.update(positions[p <= error].tolist())
        return leaves

    @property
    def has_answers(self) -> bool:
        return bool(self._sample.n_independent)

    @property
    def crossings(self) -> list[tuple[AlertKind, int]]:
        enters: list[tuple[AlertKind, int]] = [("enter", value) for value in sorted(self._enters)]
        leaves: list[tuple[AlertKind, int]] = [("leave", value) for value in sorted(self._leaves)]
        return enters + leaves

    @property
    def above(self) -> dict[int, float | None]:
        remaining = {value: threshold for value, threshold in self._thresholds.items() if value not in self._leaves}
        return remaining | dict.fromkeys(self._enters, self._entry_threshold)

    def changes(self, pair: StretchPair) -> ChangedValues:
        return changes_of_shares(pair.before, pair.now, self.watch.look_error(), panel=self.watch.panel)

    def shown(self, values: Sequence[int], estimate: Estimate, before: Estimate | None) -> list[ShownValue]:
        if not values:
            return []

        # One call for all values, because the first final of a large domain may have thousands.
        positions = np.array(values)
        low, high = estimate.intervals_at(positions, LEVEL)
        shares = estimate.shares[positions]
        shares_before = [None] * len(values) if before is None else before.shares[positions].tolist()
        probability = self.final.probability
        rows = []
        for place, value in enumerate(values):
            row = ShownValue(
                value=self.watch.subject.domain.name(value),
                share=float(shares[place]),
                low=rounded(float(low[place])),
                high=rounded(float(high[place])),
                before=shares_before[place],
                threshold=rounded(self._thresholds.get(value, self._entry_threshold)),
                by=self.watch.threshold.kind,
                probability=None if probability is None else rounded(float(probability[value])),
            )
            rows.append(row)
        return rows
