"""The metrics of what is published."""

from collections.abc import Iterable

import orjson

from aggregator.process.metrics import Metrics
from aggregator.publishing.record import Built
from oracles.query import Query


def observe(metrics: Metrics, query: Query, built: Built, alerts: Iterable[tuple[bytes, bytes]]) -> None:
    """Those of a final, and of the alerts that it brings."""
    for found in built.findings:
        if found.withheld:
            continue
        labels = query.name, found.subject.name or ""
        metrics.sigma.labels(*labels).set(found.estimate.sigma)
        metrics.detectable.labels(*labels).set(found.detectable if found.detectable is not None else 1.0)
        if (threshold := query.threshold.share(found.estimate.n)) is not None:
            metrics.threshold.labels(*labels).set(threshold)
    for flag in {flag for found in built.findings for flag in found.flags}:
        metrics.flags.labels(query.name, flag).inc()
    for _, value in alerts:
        alert = orjson.loads(value)
        baseline = "true" if alert.get("baseline") else "false"
        metrics.alerts.labels(query.name, alert["kind"], baseline).inc()
