"""The command `hubbub topics`, which creates missing topics, fixes wrong settings, and prints the changes."""

import argparse
import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError

from aggregator.topics import fence, formats_return, snapshot_offsets
from aggregator.topics.broker_topics import SETTLE, alter, create, describe, refuse, repeat
from aggregator.topics.formats_version import FormatsRise, stop_workers
from aggregator.topics.layout import (
    GUARANTEES,
    SettingRefusal,
    Topic,
    TopicDescription,
    faults,
    fixes,
    improvements,
    lasting,
    layout,
    obstacles,
    other_number,
    partitions_text,
    present_number,
    refusals,
)
from aggregator.topics.sizes import Sizes, sizes
from hubbub.command import logs
from hubbub.command.idle_options import refuse_idle
from hubbub.command.options import add_kafka, add_max_frame, add_option, parser_of, whole
from hubbub.command.report import Report, add_format
from hubbub.kafka.clients import admin as admin_client
from hubbub.kafka.clients import started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import CLOCKS, QUERIES, REPORTS, SNAPSHOTS, WORKER, Kafka
from oracles.frame import MAX_FRAME
from oracles.query import load

log = logging.getLogger(__name__)

PARTITIONS = 12
"""The partitions of a new prefix."""
HEARSAY = 3.0
"""Seconds after which a worker believes a broker that does not know a topic."""

HELP = """\
Create the topics that hubbub needs, fix wrong settings of existing ones, and print a line for each
change. Correct topics stay as they are, so a second run changes nothing.

example:
  $ hubbub topics --kafka 127.0.0.1:9092 --partitions 12 --dry-run
  would create hubbub.reports: 12 partitions, 1 replica, cleanup.policy=delete, ...

The environment sets the login: HUBBUB_KAFKA_SECURITY_PROTOCOL and others (docs/topics.md).
HUBBUB_MAX_FRAME is the size of the largest frame in the reports (default: 1MiB).

Topics of an older release may have a lower formats version. Then the command changes nothing and exits
with 4. Stop all workers, and run it with --raise-formats (docs/life.md).

Exit code: 0 all topics are right (with --dry-run: can be made right); 2 wrong options; 3 Kafka cannot
be reached; 4 a fault cannot be fixed, such as the number of partitions, and nothing was changed; or
Kafka refuses a setting: the others are set, and a message names the guarantee that does not hold."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    report = Report("topics", options)
    logs.ours_only()

    def work() -> int:
        kafka = Kafka.read(options)
        needs = sizes(load(options.queries).values()) if options.queries else None
        partitions = options.partitions
        replication = options.replication
        frame = options.max_frame

        if options.lower_formats:
            report.say("".join(f"{line}\n" for line in asyncio.run(formats_return.lower(kafka, dry=options.dry_run))))
            return 0

        rise = FormatsRise(kafka, may_rise=options.raise_formats, stop=options.stop_workers, hint=options.stop_hint)

        ensuring = ensure(kafka, partitions, replication, frame, sizes=needs, dry=options.dry_run, rise=rise)
        lines = asyncio.run(ensuring)
        if options.fence:
            lines += asyncio.run(fence.build(kafka, dry=options.dry_run))
        report.say("".join(f"{line}\n" for line in lines))
        report.members["changes"] = steps(lines)
        report.members["right"] = [line.removeprefix(RIGHT) for line in lines if line.startswith(RIGHT)]
        return 0

    return report.run(work)


RIGHT = "right "
"""The start of the line of a topic that needs no change."""


def steps(lines: Sequence[str]) -> list[str]:
    """Return the lines of `ensure` that change something."""
    return [line for line in lines if not line.startswith(RIGHT)]


_SHAPE = ("--partitions", "--replication", "--max-frame", "--queries", "--stop-workers", "--stop-hint")
"""The options that decide how topics are made."""


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("topics", HELP)
    add_kafka(parser, embedded=True)
    partitions_help = (
        "number of partitions of every topic except queries, which has 1 or 2 (default: that of the reports, or "
        f"{PARTITIONS} for a new prefix)"
    )
    parser.add_argument("--partitions", type=whole(1, 10_000), metavar="N", help=partitions_help)
    replicas_help = "number of copies of each partition (default: 1 if there is one broker, otherwise 3)"
    parser.add_argument("--replication", type=whole(1, 100), metavar="R", help=replicas_help)

    add_max_frame(parser)
    file = os.environ.get("HUBBUB_QUERIES") or ("hubbub.toml" if Path("hubbub.toml").exists() else None)
    queries_help = (
        "query file, used to size max.message.bytes (HUBBUB_QUERIES; default: hubbub.toml if it exists, else 64MiB)"
    )
    parser.add_argument("--queries", default=file, metavar="FILE", help=queries_help)

    raising = "raise the formats version to that of this release, while no worker runs"
    parser.add_argument("--raise-formats", action="store_true", help=raising)
    lowering = "return to the formats version of release 0.2.0, while no worker runs and without a fence (docs/life.md)"
    parser.add_argument("--lower-formats", action="store_true", help=lowering)
    stopping = "command that stops all workers if --raise-formats needs it; it runs without a shell"
    add_option(parser, "HUBBUB_STOP_WORKERS", "--stop-workers", stopping, type=stop_workers, metavar="COMMAND")
    hint = "how people stop all workers here, for the message about running workers"
    add_option(parser, "HUBBUB_STOP_HINT", "--stop-hint", hint, default="", metavar="TEXT")

    fencing = "shut out workers of older releases for ever, by a second partition of queries (docs/life.md)"
    parser.add_argument("--fence", action="store_true", help=fencing)
    parser.add_argument("--dry-run", action="store_true", help="print the changes, and make none")
    add_format(parser)
    options = parser.parse_args(arguments)
    if options.lower_formats and (options.raise_formats or options.fence):
        parser.error("--lower-formats returns to an older release, and --raise-formats and --fence forbid that")
    if options.lower_formats:
        refuse_idle(parser, arguments, _SHAPE, "with --lower-formats, which leaves the topics as they are")
    if not options.raise_formats:
        refuse_idle(parser, arguments, ("--stop-workers",), "without --raise-formats")
    return options


async def ensure(
    kafka: Kafka,
    partitions: int | None = None,
    replication: int | None = None,
    max_frame: int = MAX_FRAME,
    *,
    sizes: Sizes | None = None,
    dry: bool = False,
    rise: FormatsRise | None = None,
) -> list[str]:
    """Create and fix all topics, and return a line each. Raise TopicsError and change nothing if that is impossible.

    Without `partitions` the topics have as many as the present ones, or 12 if there are none.
    If the broker refuses a setting that guarantees need, the other settings are made, and then a
    TopicsError names the guarantee.
    """
    async with started(admin_client(kafka), kafka) as admin:
        brokers = await _brokers(admin, kafka)
        replication = replication or (1 if brokers == 1 else 3)
        names = [topic.name for topic in layout(kafka.prefix, 1, 1, max_frame, sizes, embedded=kafka.embedded)]
        descriptions = await describe(admin, names)
        if partitions is None:
            partitions = present_number(descriptions, kafka.prefix) or PARTITIONS
        # Advice to count from nothing would destroy results, where only the option is wrong.
        wrong_option = other_number(descriptions, kafka.prefix, partitions)
        refuse([wrong_option] if wrong_option else [])
        topics = layout(kafka.prefix, partitions, replication, max_frame, sizes, embedded=kafka.embedded)
        missing = [topic for topic in topics if topic.name not in descriptions]
        obstructions: list[str] = []
        for topic in topics:
            if topic.name in descriptions:
                obstructions += lasting(descriptions[topic.name], topic)
        # Nothing is changed if one topic cannot be made right, so that the operator decides before half is done.
        refuse([*obstructions, *obstacles(missing, brokers)])

        # Before any change, since a refusal must leave all topics as they are.
        rise = rise or FormatsRise(kafka)
        await rise.prepare(admin, is_new=kafka.topic(QUERIES) not in descriptions, dry=dry)

        changes = {topic.name: _changes(descriptions[topic.name], topic) for topic in topics if topic not in missing}

        refusals: list[SettingRefusal] = []
        if not dry:
            refusals = await create(admin, missing)
            refusals += await alter(admin, descriptions, {name: change for name, change in changes.items() if change})
            refused_settings = {topic.name: set[str]() for topic in topics}
            for refusal in refusals:
                refused_settings[refusal.topic].add(refusal.name)
            possible = [topic.without(refused_settings[topic.name]) for topic in topics]
            refuse(await _remaining_faults(admin, possible))
            results = await describe(admin, [topic.name for topic in topics])
            # Before the version: a worker of this release may start as soon as it is there.
            if kafka.topic(SNAPSHOTS) in descriptions and (rise.is_due or kafka.topic(CLOCKS) not in descriptions):
                await snapshot_offsets.write_offsets(kafka, partitions)
            await rise.finish()
            refuse([refusal.sentence(results[refusal.topic]) for refusal in refusals if refusal.name in GUARANTEES])

        lines = _lines(topics, descriptions, changes, dry=dry)
        return [*lines, *rise.lines, *(f"left {refusal}" for refusal in refusals)]


async def verify(kafka: Kafka, max_frame: int = MAX_FRAME, sizes: Sizes | None = None) -> int:
    """Return the number of partitions of the reports. Raise a TopicsError if a worker must not count."""
    async with started(admin_client(kafka), kafka) as admin:
        names = [topic.name for topic in layout(kafka.prefix, 1, 1, max_frame, sizes)]
        # A broker that has just started may not know topics that others have.
        descriptions = await repeat(lambda: describe(admin, names), lambda answer: len(answer) == len(names), HEARSAY)
        with suppress(GroupCoordinatorNotAvailableError):  # a new cluster raises it
            await admin.find_coordinator(kafka.topic(WORKER))  # without the right to join, Faust would wait for ever

    refuse(refusals(descriptions, kafka.prefix, max_frame, sizes, embedded=kafka.embedded))
    return descriptions[kafka.topic(REPORTS)].partitions


async def check_settings(kafka: Kafka, max_frame: int, sizes: Sizes) -> None:
    """Check the settings of the topics, which may have changed since the start. Raise a TopicsError if necessary."""
    try:
        await verify(kafka, max_frame, sizes)
    except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
        log.warning("settings of the topics not checked: %r", error)


async def _brokers(admin: AIOKafkaAdminClient, kafka: Kafka) -> int:
    """Return the number of brokers. Kafka lists a broker a moment after its start."""
    cluster = await repeat(admin.describe_cluster, lambda cluster: bool(cluster["brokers"]), SETTLE)
    if not cluster["brokers"]:
        raise KafkaUnreachable(
            f"Kafka at {kafka.servers} answers, but lists no active broker; check the log of the broker"
        )
    return len(cluster["brokers"])


def _changes(description: TopicDescription, topic: Topic) -> dict[str, str]:
    return {**improvements(description, topic), **fixes(description, topic)}


def _lines(
    topics: Sequence[Topic],
    descriptions: Mapping[str, TopicDescription],
    changes: Mapping[str, Mapping[str, str]],
    *,
    dry: bool,
) -> Iterator[str]:
    for topic in topics:
        description = descriptions.get(topic.name)

        if description is None:
            replicas = "1 replica" if topic.replication == 1 else f"{topic.replication} replicas"
            settings = [f"{name}={value}" for name, value in topic.settings.items()]
            text = ", ".join([partitions_text(topic.partitions), replicas, *settings])
            yield f"{'would create' if dry else 'created'} {topic.name}: {text}"
        elif not changes[topic.name]:
            yield f"{RIGHT}{topic.name}: {partitions_text(description.partitions)}"
        else:
            for name, value in changes[topic.name].items():
                has = description.settings.get(name, "unknown")
                yield f"{'would set' if dry else 'set'} {topic.name}: {name} from {has} to {value}"


async def _remaining_faults(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> list[str]:
    """Return the faults that remain after every broker had time to learn of the changes."""
    names = [topic.name for topic in topics]

    async def ask() -> list[str]:
        return faults(await describe(admin, names), topics)

    return await repeat(ask, lambda remaining: not remaining, SETTLE)
