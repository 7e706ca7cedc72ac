"""How right the finals of a simulation are: its truth beside them, as metrics."""

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition

from aggregator.merging.windows import Span
from aggregator.process.metrics import Metrics
from aggregator.publishing.analysis import Findings
from aggregator.publishing.truth import Ints, read
from aggregator.topics.settings import LARGEST, TRUTH
from hubbub.kafka import Kafka
from oracles.query import Query

log = logging.getLogger(__name__)

PANES = 10_000
"""Of truth that are kept, the newest of all queries."""
WAIT = 3.0
"""Seconds until a final is measured: the truth about its last pane may come after it."""
WAITING = 16


@dataclass
class Truth:
    """The true counts, as simulations tell them: the newest record of each source, added over sources."""

    _panes: dict[tuple[bytes, int], dict[str, tuple[Ints, ...]]] = field(default_factory=dict)

    def put(self, value: bytes | None) -> None:
        """One record; what is none is passed over, since anybody may write it."""
        try:
            told = read(value or b"")
            self._panes.setdefault((bytes.fromhex(told.digest), int(told.pane)), {})[str(told.source)] = told.counts
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            log.warning("a record of the truth cannot be read: %r", error)
        while len(self._panes) > PANES:
            del self._panes[next(iter(self._panes))]

    def shares(self, query: Query, span: Span) -> list[np.ndarray[Any, np.dtype[np.float64]]] | None:
        """The true shares of each attribute in a window; None where nothing is known of it."""
        sizes = [domain.size for domain in query.domains]
        totals = [np.zeros(size, np.int64) for size in sizes]
        for pane in range(span.start, span.end, query.pane):
            for counts in self._panes.get((query.digest, pane), {}).values():
                if [len(each) for each in counts] != sizes:
                    return None
                for total, each in zip(totals, counts, strict=True):
                    np.add(total, each, out=total)
        return [total / total.sum() for total in totals] if all(total.sum() for total in totals) else None


@dataclass
class Accuracy:
    """The truth topic, read apart from everything else, and the finals that wait to be measured."""

    kafka: Kafka
    partitions: int
    metrics: Metrics
    truth: Truth = field(default_factory=Truth)
    _waiting: deque[tuple[float, Query, Span, tuple[Findings, ...]]] = field(
        default_factory=lambda: deque(maxlen=WAITING)
    )

    def later(self, query: Query, span: Span, findings: tuple[Findings, ...]) -> None:
        """Measure a final once the truth about it had the time to come."""
        if span.window.kind != "all":  # the truth about the beginning may be gone
            self._waiting.append((time.monotonic() + WAIT, query, span, findings))

    async def run(self) -> None:
        """Until cancelled. Nothing rests on it, so that it ends nothing where it fails."""
        consumer = AIOKafkaConsumer(
            **self.kafka.client(), group_id=None, auto_offset_reset="earliest", max_partition_fetch_bytes=LARGEST
        )
        try:
            await consumer.start()
            consumer.assign([TopicPartition(self.kafka.topic(TRUTH), p) for p in range(self.partitions)])
            await consumer.seek_to_beginning()
            while True:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    for record in records:
                        self.truth.put(record.value)
                while self._waiting and self._waiting[0][0] <= time.monotonic():
                    _, query, span, findings = self._waiting.popleft()
                    self.measure(query, span, findings)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("accuracy is not measured any more")
        finally:
            await consumer.stop()

    def measure(self, query: Query, span: Span, findings: tuple[Findings, ...]) -> None:
        """Set the metrics of one final."""
        for found, truth in zip(findings, self.truth.shares(query, span) or (), strict=False):
            labels = query.name, found.subject.name or ""
            for method, by in found.by.items():
                self.metrics.true_mse.labels(*labels, method).set(float(np.mean((by.shares - truth) ** 2)))
            low, high = found.estimate.interval()
            self.metrics.coverage.labels(*labels).set(float(np.mean((low <= truth) & (truth <= high))))
