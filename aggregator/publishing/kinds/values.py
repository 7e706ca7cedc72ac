"""Values: their shares by each method, and the frequent ones."""

from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.flags import in_record_order
from aggregator.publishing.kinds.attribute import CountedAttribute
from aggregator.records.findings import Findings, MethodResult
from oracles.calibrate import calibrate
from oracles.consistency import UNBIASED, apply
from oracles.consistency import find as method_of
from oracles.heavy import Evidence
from oracles.query import Query
from oracles.risk import risk


def find(attribute: CountedAttribute) -> Findings:
    """Return the shares of all values by each method, and the frequent values."""
    query = attribute.query
    estimate = attribute.estimate
    assert estimate is not None  # noqa: S101 - only unknown strings have none
    flags = set(attribute.flags)

    fits_a_prior = any(method_of(name).fits_a_prior for name in query.methods)
    calibration = calibrate(estimate, fallback=query.fallback) if fits_a_prior else None
    prior = calibration
    if calibration is not None and calibration.rejected:
        prior = None
        flags.add("prior_rejected")

    # A rejected prior has no shares, so the fallback takes the place of each method that fits one.
    names = (UNBIASED, *query.methods)
    methods = [query.fallback if prior is None and method_of(name).fits_a_prior else name for name in names]
    evidence = Evidence(estimate, query.threshold, query.family_error, prior)
    results = {method: _method_result(method, evidence) for method in dict.fromkeys(methods)}
    return Findings(
        subject=attribute.subject,
        estimate=estimate,
        calibration=calibration,
        by_method={name: results[method] for name, method in zip(names, methods, strict=True)},
        likely=evidence.likely,
        detectable=estimate.detectable(query.family_error),
        flags=in_record_order(flags),
    )


def _method_result(method: str, evidence: Evidence) -> MethodResult:
    estimate = evidence.estimate
    prior = evidence.posterior
    shares = apply(method, estimate, calibrated=prior)
    error = risk(method, estimate, calibrated=prior, shares=shares)
    return MethodResult(method, shares, evidence.hitters(shares), error)


def metrics(query: Query, findings: Findings) -> FinalMetrics:
    """Return the metrics of the total of an attribute."""
    return FinalMetrics(
        name=findings.subject.name,
        flags=findings.flags,
        sigma=float(findings.estimate.sigma),
        detectable=findings.detectable,
        threshold=query.threshold.share(findings.estimate.n),
    )
