"""The command `hubbub worker`: its options, and the start of its estimators."""

import argparse
import asyncio
from contextlib import AsyncExitStack

from aggregator.counting.checkpoint_plan import BYTES_PER_S
from aggregator.process.state_limit import add_max_state
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.topics.upgrade_gate import PATIENCE
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
from hubbub.kafka.settings import Kafka, parse_instance
from oracles.query import File, load_file

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
    """Start the estimators, and run the worker."""
    async with AsyncExitStack() as stack:
        estimators = EstimatorPool()
        stack.callback(estimators.close)
        estimators.start(file.queries.values())
        # Faust and aiohttp take half of a worker's imports. The estimators start meanwhile, on another core.
        from aggregator.worker.start import run_worker

        return await run_worker(kafka, file, options, estimators)
