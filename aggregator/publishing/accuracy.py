"""How right the finals of a simulation are: its truth beside them, as metrics."""

import asyncio
import logging
import math
import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from aiokafka import TopicPartition

from aggregator.merging.windows import Span
from aggregator.process.metrics import Metrics
from aggregator.publishing.analysis import Findings
from aggregator.publishing.truth import Truth
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import Kafka, consumer
from hubbub.names import TRUTH
from hubbub.truth import decode
from oracles.query import Query
from oracles.types import Floats

log = logging.getLogger(__name__)

PANES = 10_000
"""Of truth that are kept, the newest of all queries."""
AHEAD = 600
"""Seconds by which clocks may differ."""
WAIT = 3.0
"""Seconds until a final is measured: the truth about its last pane may come after it."""
WAITING = 16


@dataclass
class Truths:
    """The truth about each digest: of all together the newest panes."""

    unread: int = 0
    """Records that could not be read."""
    _of: dict[str, Truth] = field(default_factory=dict)

    def put(self, value: bytes | None, now: float = math.inf) -> None:
        """One record; what is none, or is far ahead, is passed over, since anybody may write it."""
        try:
            told = decode(value or b"")
        except ValueError as error:
            if not self.unread:  # one line stands for all of a fetch
                log.warning("a record of the truth cannot be read: %r", error)
            self.unread += 1
            return
        if told.pane <= now + AHEAD:
            self._of.setdefault(told.digest, Truth()).put(told.pane, told.source, told.counts)
        while sum(map(len, self._of.values())) > PANES:
            digest = min(self._of, key=lambda digest: self._of[digest].oldest or 0)
            self._of[digest].drop_oldest()
            if not self._of[digest]:
                del self._of[digest]

    def __contains__(self, digest: str) -> bool:
        return digest in self._of

    def shares(self, query: Query, span: Span) -> list[Floats] | None:
        """The true shares of each attribute in a window; None where nothing is known of it."""
        truth = self._of.get(query.digest.hex())
        totals = truth.counts(span) if truth else None
        if totals is None or [len(total) for total in totals] != [domain.size for domain in query.domains]:
            return None
        return [total / total.sum() for total in totals] if all(total.sum() for total in totals) else None


@dataclass
class Accuracy:
    """The truth topic, read apart from everything else, and the finals that wait to be measured."""

    kafka: Kafka
    partitions: int
    metrics: Metrics
    truth: Truths = field(default_factory=Truths)
    _waiting: deque[tuple[float, Query, Span, tuple[Findings, ...]]] = field(
        default_factory=lambda: deque(maxlen=WAITING)
    )

    def measures(self, query: Query, span: Span) -> bool:
        """Whether the truth about a window may come: of a query that is not simulated none does."""
        return query.digest.hex() in self.truth and span.window.kind != "all"  # of `all` the beginning may be gone

    def later(self, query: Query, span: Span, findings: tuple[Findings, ...]) -> None:
        """Measure a final once the truth about it had the time to come."""
        if self.measures(query, span):
            self._waiting.append((time.monotonic() + WAIT, query, span, findings))

    async def run(self) -> None:
        """Until cancelled. Nothing rests on it, so that it ends nothing where it fails."""
        reader = consumer(self.kafka, max_partition_fetch_bytes=LARGEST)
        try:
            await reader.start()
            reader.assign([TopicPartition(self.kafka.topic(TRUTH), p) for p in range(self.partitions)])
            await reader.seek_to_beginning()
            while True:
                for records in (await reader.getmany(timeout_ms=500)).values():
                    for record in records:
                        self.truth.put(record.value, time.time())
                    self.metrics.unread.labels(TRUTH).inc(self.truth.unread)
                    self.truth.unread = 0
                while self._waiting and self._waiting[0][0] <= time.monotonic():
                    _, query, span, findings = self._waiting.popleft()
                    self.measure(query, span, findings)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("accuracy is not measured any more")
        finally:
            await reader.stop()

    def measure(self, query: Query, span: Span, findings: tuple[Findings, ...]) -> None:
        """Set the metrics of one final."""
        for found, truth in zip(findings, self.truth.shares(query, span) or (), strict=False):
            if found.withheld:
                continue
            labels = query.name, found.subject.name or ""
            for method, by in found.by.items():
                self.metrics.true_mse.labels(*labels, method).set(float(np.mean((by.shares - truth) ** 2)))
            low, high = found.estimate.interval()
            self.metrics.coverage.labels(*labels).set(float(np.mean((low <= truth) & (truth <= high))))
