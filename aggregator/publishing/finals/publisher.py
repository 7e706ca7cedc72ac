"""The publisher of finals. It writes a query's records and alerts as they are made, and then the states after them."""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson
from prometheus_client import Gauge

from aggregator.merging.kinds import kind_of
from aggregator.merging.query_state import OwedFinal, QueryState
from aggregator.merging.windows import OpenWindow, Position
from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.publishing.final_metrics import FinalMetrics, NumberMetrics
from aggregator.publishing.finals.deletions import Deletions
from aggregator.publishing.finals.estimator import EstimateTask
from aggregator.publishing.finals.estimator_process import Answer, Question
from aggregator.publishing.finals.round import Batch
from aggregator.records.keys import provisional_key
from aggregator.records.span import Span
from aggregator.tallies import keys
from hubbub.kafka.outbox import Outbox, OutboxRecord, count_refused, is_oversized
from hubbub.kafka.settings import ALERTS, ESTIMATES, MAPS, SNAPSHOTS
from oracles.numbers import Quantity
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)


@dataclass
class FinalPublisher:
    """Writes the records of one worker."""

    partitions: int
    outbox: Outbox
    metrics: Metrics
    accuracy: Accuracy
    deletions: Deletions

    def final_task(self, batch: Batch) -> EstimateTask:
        """Return the task for the estimator that makes these finals."""
        query = batch.finals[0].query
        finals = [due.final for due in batch.finals]
        questions = [
            Question(
                *(final.span, final.total, final.withheld),
                with_findings=self.accuracy.measures(query, final.span),
                blocks=final.blocks,
            )
            for final in finals
        ]
        history = batch.state.names if kind_of(query).has_search else None
        return EstimateTask(query, questions, batch.state.alerts, batch.state.needed_blocks(batch.finals), history)

    def provisional_task(self, state: QueryState, windows: Sequence[OpenWindow]) -> EstimateTask:
        """Return the task for the estimator that makes the provisional records of these windows."""
        questions = [
            Question(window.span, window.total, window.withheld, window.through, totals=window.totals)
            for window in windows
        ]
        return EstimateTask(state.query_for(windows[0].span), questions, {})

    async def publish(self, state: QueryState, task: EstimateTask | None) -> None:
        """Publish finals as they are answered.

        Once the broker has acknowledged them, write the states after them, and delete the keys that they replace.
        """
        acks: list[Any] = []
        positions: dict[Window, Position] = {}
        async for answers in task.answers() if task is not None else _no_answers():
            finals = [state.answer(answer.states, answer.blocks, answer.search) for answer in answers]
            acks += await self._send(finals, answers)
            positions |= {due.final.span.window: due.final.position for due in finals}

        refused = await count_refused(acks)
        if refused:
            self._log_too_large_records(state.versions.query, refused)
        await self._settle(state, positions)

    async def publish_provisional(self, task: EstimateTask, is_current: Callable[[], bool]) -> None:
        """Publish the records of provisional windows while the query stays with this worker."""
        async for answers in task.answers():
            records = [OutboxRecord(*record) for answer in answers for record in answer.records]
            await self._send_records(task.query, ESTIMATES, records, is_current)
            self.metrics.records.labels(task.query.name, "false").inc(len(answers))

    def delete(self, state: QueryState, names: Iterable[bytes]) -> None:
        """Delete snapshots and states of a query soon."""
        self.deletions.add(keys.home(state.versions.query.digest, self.partitions), names)

    async def _send(self, finals: Sequence[OwedFinal], answers: Sequence[Answer]) -> list[Any]:
        """Send records and alerts, and return the acknowledgements to wait for."""
        query = finals[0].query
        records: list[OutboxRecord] = []
        maps: list[OutboxRecord] = []
        for due, answer in zip(finals, answers, strict=True):
            span = due.final.span
            records += [OutboxRecord(name, value, timestamp_ms=1000 * span.end) for name, value in answer.records]
            maps += [OutboxRecord(name, value, timestamp_ms=1000 * span.end) for name, value in answer.maps]
            # Deleted after the final, in the same partition: a reader of the final needs no provisional record.
            records += [OutboxRecord(provisional_key(name), None) for name, _ in answer.records]
            self._observe(query, span, answer)

        set_gauges(self.metrics, query, answers[-1].metrics)
        self.metrics.records.labels(query.name, "true").inc(len(answers))

        acks = await self._send_records(query, ESTIMATES, records)
        if maps:
            acks += await self._send_records(query, MAPS, maps)
        alerts: list[OutboxRecord] = []
        for answer in answers:
            alerts += [OutboxRecord(name, value) for name, value in answer.alerts]
        acks += await self.outbox.append_by_key(ALERTS, alerts)
        return acks

    async def _send_records(
        self,
        query: Query,
        topic: str,
        records: Sequence[OutboxRecord],
        is_current: Callable[[], bool] = lambda: True,
    ) -> list[Any]:
        """Send records of a query to their partition. Log and skip a record that is too large for the broker."""
        fitting = []
        for record in records:
            if is_oversized(record.value):
                self._log_too_large_records(query, 1)
            else:
                fitting.append(record)

        home = keys.home(query.digest, await self.outbox.partitions(topic))
        return await self.outbox.append(topic, home, fitting, is_current=is_current)

    def _log_too_large_records(self, query: Query, count: int) -> None:
        log.warning(
            "%d records of query %s are too large for their topic. Run `hubbub topics`, or lower `publish`",
            count,
            query.name,
        )
        self.metrics.too_large.labels(query.name).inc(count)

    def _observe(self, query: Query, span: Span, answer: Answer) -> None:
        """Count the flags and alerts of a final, and measure its accuracy later."""
        if answer.findings:
            self.accuracy.enqueue(query, span, answer.findings)

        # A final with a flag counts once, in however many attributes it has the flag.
        for flag in set(chain.from_iterable(attribute.flags for attribute in answer.metrics)):
            self.metrics.flags.labels(query.name, flag).inc()

        for _, value in answer.alerts:
            alert = orjson.loads(value)
            baseline = "true" if alert.get("baseline") else "false"
            self.metrics.alerts.labels(query.name, alert["kind"], baseline).inc()

    async def _settle(self, state: QueryState, positions: dict[Window, Position]) -> None:
        """Write the states at these positions, after the blocks and merged snapshots that a restart needs.

        Once they are acknowledged, delete the keys that they replace.
        """
        states = {window: state.state_writes(window, position) for window, position in positions.items()}
        blocks = state.take_new_blocks()
        other_writes = [*state.totals(), *chain.from_iterable(states.values())]
        refused = await self._write(state, [*blocks, *other_writes])
        if refused and blocks:
            # A block may be too large. The states are worth more: without them a restart repeats finals.
            refused = await self._write(state, other_writes)
        if refused:
            for window, records in states.items():
                self._log_too_large(state, window, sum(len(value or b"") for _, value in records))
            return

        obsolete: list[bytes] = []
        for window, position in positions.items():
            obsolete += state.acknowledge(window, position)
        obsolete += state.replaced_keys()
        self.delete(state, obsolete)

    def _log_too_large(self, state: QueryState, window: Window, size: int) -> None:
        """Note that a state is too large to write, so that a restart repeats the finals since the last one."""
        state.note_too_large(window)
        name = state.versions.query.name
        log.warning(
            "State of query %s is too large to store (%d bytes). After a restart its last finals are published again",
            name,
            size,
        )
        self.metrics.states_too_large.labels(name).inc()

    async def _write(self, state: QueryState, writes: Sequence[keys.Write]) -> int:
        """Append records to the query's snapshot partition. Return how many are too large for their topic."""
        home = keys.home(state.versions.query.digest, self.partitions)
        return await count_refused(await self.outbox.write(SNAPSHOTS, home, writes)) if writes else 0


async def _no_answers() -> AsyncIterator[list[Answer]]:
    """Yield nothing."""
    for answers in list[list[Answer]]():
        yield answers


def set_gauges(metrics: Metrics, query: Query, attributes: Iterable[FinalMetrics]) -> None:
    """Set the gauges of the newest final."""
    for attribute in attributes:
        labels = query.name, attribute.name or ""
        if attribute.numbers:
            set_number_gauges(metrics, labels, attribute.numbers)
        if math.isnan(attribute.sigma):
            continue

        metrics.sigma.labels(*labels).set(attribute.sigma)
        metrics.detectable.labels(*labels).set(attribute.detectable if attribute.detectable is not None else 1.0)
        if attribute.threshold is not None:
            metrics.threshold.labels(*labels).set(attribute.threshold)


def set_number_gauges(metrics: Metrics, labels: tuple[str, str], numbers: NumberMetrics) -> None:
    """Set the gauges of an attribute whose answers are numbers."""
    _set_quantity(metrics.mean, labels, numbers.mean)
    for share, quantile in numbers.quantiles.items():
        _set_quantity(metrics.quantile, (*labels, share), quantile)
    for name, range_share in numbers.ranges.items():
        _set_quantity(metrics.range_share, (*labels, name), range_share)


def _set_quantity(gauges: Sequence[Gauge], labels: tuple[str, ...], quantity: Quantity) -> None:
    """Set the gauges of a number and of the ends of its interval."""
    for gauge, number in zip(gauges, quantity, strict=True):
        gauge.labels(*labels).set(number)
