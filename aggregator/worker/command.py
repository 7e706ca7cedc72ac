"""The command `hubbub worker`: its options and its start."""

import argparse
import asyncio
import logging
import sys
from contextlib import AsyncExitStack

from aggregator.counting.checkpoint_plan import BYTES_PER_S
from aggregator.process.state_limit import StateLimit, add_max_state
from aggregator.process.watchdog import Watchdog
from aggregator.topics.command import verify
from aggregator.topics.sizes import sizes
from aggregator.topics.upgrade_gate import PATIENCE, UpgradeGate
from aggregator.worker.port import PortAnswers, WorkerPort
from aggregator.worker.worker import Worker
from hubbub.command import logs
from hubbub.command.exit import exit_process, until_asked
from hubbub.command.options import (
    add_address,
    add_flag,
    add_kafka,
    add_max_frame,
    add_option,
    add_queries,
    parsed,
    parser_of,
    rate,
    run,
    size,
    size_text,
)
from hubbub.command.retirement import add_retire, retired
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
from hubbub.kafka.settings import QUERIES, REPORTS, Kafka, parse_instance
from oracles.query import File, load_file

log = logging.getLogger(__name__)

HELP = """\
Count the reports of all queries exactly, even after crashes, and publish estimates. You can start
several workers: they share the partitions, and each takes over the work of another that stops.

example:
  $ hubbub topics && hubbub worker --queries hubbub.toml
  $ curl 127.0.0.1:8801/readyz

Exit code: 0 stopped by Ctrl-C or SIGTERM; 2 wrong options or query file; 3 Kafka cannot be reached;
4 a guarantee cannot be kept (for example, wrong topic settings); 1 any other error. After 1 a
supervisor should start the worker again. It continues from the last checkpoint."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    logs.configure(options.log, options.log_level)

    def work() -> None:
        exit_process(asyncio.run(until_asked(_run(Kafka.read(options), load_file(options.queries), options))) or 0)

    return run("worker", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("worker", HELP)
    add_kafka(parser, embedded=True)
    add_queries(parser)
    add_address(parser, 8801, "/metrics, /healthz and /readyz")

    add_option(
        parser,
        "HUBBUB_CHECKPOINT_BYTES_PER_S",
        "--checkpoint-bytes-per-s",
        "maximum bytes of checkpoints per second; large ones are written less often",
        default=size_text(BYTES_PER_S),
        type=size,
        metavar="SIZE",
    )
    add_max_frame(parser)
    add_max_state(parser)
    add_option(
        parser,
        "HUBBUB_UPGRADE_PATIENCE",
        "--upgrade-patience",
        "seconds to wait for the formats version, and for workers of older releases to stop; max: for ever",
        default=f"{PATIENCE:.0f}",
        type=rate,
        metavar="S",
    )

    add_retire(parser)
    add_option(
        parser,
        "HUBBUB_INSTANCE",
        "--instance",
        "name of this worker in its group; a process that comes back under it gets its partitions at once",
        note="default: none",
        type=parsed(parse_instance),
        metavar="NAME",
    )
    leaving = "give the name up at SIGTERM and Ctrl-C, so that others take over at once"
    add_flag(parser, "HUBBUB_LEAVE", "--leave", leaving)
    logs.add_options(parser)
    options = parser.parse_args(arguments)
    options.retire = retired(options)

    if options.instance and options.embedded:
        parser.error("--instance needs Apache Kafka, not the embedded broker: remove it (or HUBBUB_INSTANCE)")
    if options.leave and not options.instance:
        parser.error("--leave needs --instance: a worker without a name leaves anyway; remove it (or HUBBUB_LEAVE)")
    if options.checkpoint_bytes_per_s < 1:
        parser.error("--checkpoint-bytes-per-s must be above 0")
    return options


async def _run(kafka: Kafka, file: File, options: argparse.Namespace) -> int:
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
        worker = await build_worker(stack, kafka, file, options, watchdog)
        worker.metrics.registry.register(PortMetrics("worker", shares))
        port.answers = PortAnswers(worker.metrics.registry, worker.missing, lambda: worker.remark)
        return await worker.run()


async def build_worker(
    stack: AsyncExitStack, kafka: Kafka, file: File, options: argparse.Namespace, watchdog: Watchdog
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
    return Worker(kafka, follower, registrar, partitions, options, outbox, broker, watchdog, gate)


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
