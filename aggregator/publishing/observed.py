"""The metrics of what is published."""

from collections.abc import Iterable

import orjson

from aggregator.process.metrics import Metrics
from aggregator.publishing.final import Seen
from oracles.query import Query


def observe(metrics: Metrics, query: Query, seen: Iterable[Seen], alerts: Iterable[tuple[bytes, bytes]]) -> None:
    """Those of a final, and of the alerts that it brings."""
    flags: set[str] = set()
    for found in seen:
        flags.update(found.flags)
        if found.withheld:
            continue
        labels = query.name, found.attribute or ""
        metrics.sigma.labels(*labels).set(found.sigma)
        metrics.detectable.labels(*labels).set(found.detectable if found.detectable is not None else 1.0)
        if found.threshold is not None:
            metrics.threshold.labels(*labels).set(found.threshold)
    for flag in flags:
        metrics.flags.labels(query.name, flag).inc()
    for _, value in alerts:
        alert = orjson.loads(value)
        baseline = "true" if alert.get("baseline") else "false"
        metrics.alerts.labels(query.name, alert["kind"], baseline).inc()
