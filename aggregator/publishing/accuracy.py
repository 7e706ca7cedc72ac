"""The accuracy of a simulation's finals, as metrics. It compares estimates with the true counts."""

import asyncio
import logging
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from aggregator.process.metrics import Metrics
from aggregator.records.findings import AnyFindings, Findings
from aggregator.records.span import Span
from aggregator.records.subject import PARTIAL_GROUPS
from aggregator.records.truth import Truth
from hubbub import outside
from hubbub.kafka.log_reader import Batches, open_log
from hubbub.kafka.settings import LARGEST, TRUTH, Kafka
from hubbub.true_counts import decode
from oracles.query import Query
from oracles.types import Floats

log = logging.getLogger(__name__)

PANES = 10_000
"""Most panes of true counts in memory, of all queries together. The oldest are dropped first."""
AHEAD = 600
"""Seconds by which a pane may start in the future. The clocks of two machines may differ."""
WAIT = 3.0
"""Seconds from a final to its measurement, since the true counts of its last pane may come later."""
WAITING = 16
"""Most finals that wait for their measurement."""


@dataclass
class Truths:
    """The true counts of all queries."""

    unreadable: int = 0
    """Number of unreadable records since the last fetch."""
    _by_digest: dict[str, Truth] = field(default_factory=dict)

    def put(self, value: bytes | None, now: float = math.inf) -> None:
        """Add one record. Skip an unreadable one, or one far in the future, since anybody may write to the topic."""
        try:
            record = decode(value or b"")
        except ValueError as error:
            if not self.unreadable:  # one line for all unreadable records of a fetch
                log.warning("true counts skipped, since the record is unreadable: %r", error)
            self.unreadable += 1
            return

        if record.pane <= now + AHEAD:
            self._by_digest.setdefault(record.digest, Truth()).put(record.pane, record.source, record.counts)

        # Anybody may write to the topic, so the panes of a made-up digest count like all others.
        while sum(map(len, self._by_digest.values())) > PANES:
            digest = min(self._by_digest, key=lambda digest: self._by_digest[digest].oldest or 0)
            self._by_digest[digest].drop_oldest()
            if not self._by_digest[digest]:
                del self._by_digest[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._by_digest

    def shares(self, query: Query, span: Span) -> list[Floats] | None:
        """Return the true shares of each attribute in a window, or None if they are unknown."""
        truth = self._by_digest.get(query.digest.hex())
        totals = truth.counts(span) if truth else None
        if totals is None or [len(total) for total in totals] != [domain.size for domain in query.domains]:
            return None
        if not all(total.sum() for total in totals):
            return None
        return [total / total.sum() for total in totals]


@dataclass
class Accuracy:
    """A reader of the topic `truth`, and the finals that wait for their measurement."""

    kafka: Kafka
    partitions: int
    metrics: Metrics
    truth: Truths = field(default_factory=Truths)
    _waiting: deque[tuple[float, Query, Span, tuple[AnyFindings, ...]]] = field(
        default_factory=lambda: deque(maxlen=WAITING)
    )

    def measures(self, query: Query, span: Span) -> bool:
        """Whether true counts of a window may come. Only simulated queries have them."""
        # The start of `all` may be dropped.
        return query.digest.hex() in self.truth and span.window.kind != "all"

    def enqueue(self, query: Query, span: Span, findings: tuple[AnyFindings, ...]) -> None:
        """Measure a final later, when its true counts had time to come."""
        if self.measures(query, span):
            self._waiting.append((outside.monotonic() + WAIT, query, span, findings))

    async def run(self) -> None:
        """Read and measure until this task is cancelled. An error ends the measurement, but not the worker."""
        topics = {TRUTH: range(self.partitions)}
        try:
            async with open_log(self.kafka, topics, max_partition_fetch_bytes=LARGEST) as log_reader:
                async for batches in log_reader.batches():
                    self._take(batches)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("the measurement of accuracy has ended with an error. The worker continues without it")

    def _take(self, batches: Batches) -> None:
        for record in chain(*batches.values()):
            self.truth.put(record.value, outside.wall())
        self.metrics.unread.labels(TRUTH).inc(self.truth.unreadable)
        self.truth.unreadable = 0

        while self._waiting and self._waiting[0][0] <= outside.monotonic():
            _, query, span, findings = self._waiting.popleft()
            self.measure(query, span, findings)

    def measure(self, query: Query, span: Span, findings: tuple[AnyFindings, ...]) -> None:
        """Set the metrics of one final."""
        for attribute, truth in zip(findings, self.truth.shares(query, span) or (), strict=False):
            if not isinstance(attribute, Findings) or PARTIAL_GROUPS in attribute.flags:
                continue  # the true counts are those of all groups

            labels = query.name, attribute.subject.name or ""
            for method, result in attribute.by_method.items():
                self.metrics.true_mse.labels(*labels, method).set(float(np.mean((result.shares - truth) ** 2)))
            low, high = attribute.estimate.interval()
            self.metrics.coverage.labels(*labels).set(float(np.mean((low <= truth) & (truth <= high))))
