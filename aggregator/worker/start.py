"""The start of a worker, step by step."""

import argparse
import logging
import sys
from contextlib import AsyncExitStack

from aggregator.process.state_limit import StateLimit
from aggregator.process.watchdog import Watchdog
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.topics.command import verify
from aggregator.topics.sizes import sizes
from aggregator.topics.upgrade_gate import UpgradeGate
from aggregator.worker.port import PortAnswers, WorkerPort
from aggregator.worker.worker import Worker
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.http.health import serving_alone
from hubbub.http.port_metrics import PortMetrics
from hubbub.http.port_shares import PortShares
from hubbub.kafka.broker_probe import PATIENCE as PROBE_PATIENCE
from hubbub.kafka.broker_probe import with_remaining
from hubbub.kafka.clients import partitions as partition_counts
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import QUERIES, REPORTS, Kafka
from oracles.query import File

log = logging.getLogger(__name__)


async def run_worker(kafka: Kafka, file: File, options: argparse.Namespace, estimators: EstimatorPool) -> int:
    """Start step by step, and run. All steps before the definitions only ask, so a start that fails changes nothing."""
    async with AsyncExitStack() as stack:
        port = WorkerPort()
        shares = PortShares()
        address = serving_alone(port.handlers, options.host, options.port, shares=shares)
        host, number = await stack.enter_async_context(address)
        sys.stdout.write(f"hubbub worker: http://{host}:{number}/metrics\n")
        sys.stdout.flush()

        # The watchdog comes before Kafka, since every later step may wait for a broker without end.
        watchdog = stack.enter_context(Watchdog(kafka))
        options.sizes = sizes(file.queries.values())
        worker = await build_worker(stack, kafka, file, options, watchdog, estimators=estimators)
        worker.metrics.registry.register(PortMetrics("worker", shares))
        port.answers = PortAnswers(worker.metrics.registry, worker.missing, lambda: worker.remark)
        return await worker.run()


async def build_worker(
    stack: AsyncExitStack,
    kafka: Kafka,
    file: File,
    options: argparse.Namespace,
    watchdog: Watchdog,
    *,
    estimators: EstimatorPool | None = None,
) -> Worker:
    """Connect to Kafka, register the definitions, and return the worker. `stack` ends its connections."""
    kafka = await with_remaining(kafka, lambda kafka: _require_definitions(kafka, options), _warn_of_missing)
    follower = await with_remaining(kafka, lambda kafka: stack.enter_async_context(Follower(kafka)), _warn_of_missing)
    # Topics of an older release may lack some of this one, until `hubbub topics` raises the version.
    gate = UpgradeGate(kafka, follower, options.upgrade_patience, watchdog.note_start)
    await gate.wait()
    partitions = await with_remaining(
        kafka, lambda kafka: verify(kafka, options.max_frame, options.sizes), _warn_of_missing
    )

    outbox = await stack.enter_async_context(Outbox(kafka))
    broker = await stack.enter_async_context(OffsetLookup(kafka, kafka.topic(REPORTS)))
    # One worker may be left with all partitions.
    limit = StateLimit(partitions, options.max_state)
    registrar = Registrar(options.queries, follower, limit.require)
    await registrar.register(file, options.retire)
    return Worker(
        kafka,
        follower,
        registrar,
        partitions,
        options,
        outbox,
        broker,
        watchdog,
        gate,
        estimators=estimators or EstimatorPool(),
    )


def _warn_of_missing(text: str) -> None:
    log.warning("a broker is missing, so the start waits up to %.0f s: %s", PROBE_PATIENCE, text)


async def _require_definitions(kafka: Kafka, options: argparse.Namespace) -> Kafka:
    """Return the brokers that answered. If the topic of the definitions is missing, raise a TopicsError."""
    try:
        await partition_counts(kafka, QUERIES)
    except TopicMissing:
        # It waits for a broker that has just started and does not know the topics yet.
        await verify(kafka, options.max_frame, options.sizes)
    return kafka
