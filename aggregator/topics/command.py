"""`hubbub topics`: creates the topics that are missing, mends those that are wrong, and says what it did."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code

from aggregator.plan.check import parse_size
from aggregator.topics.settings import (
    MIB,
    REPORTS,
    Described,
    Topic,
    faults,
    impossible,
    improvements,
    lasting,
    layout,
    mends,
    parts,
    refusals,
)
from hubbub.kafka import Kafka, KafkaSettingError, KafkaUnreachable, add_options, started
from oracles.errors import HubbubError
from oracles.frame import MAX_FRAME

PARTITIONS = 12
LARGEST_FRAME = 64 * MIB
SETTLE = 15.0
"""Seconds until all brokers know of a new topic or setting."""
_TOPIC_OVERRIDE = 1
"""Kafka's number for a setting that was made on the topic itself."""
_UNKNOWN, _EXISTS = 3, 36
"""Kafka's numbers for a topic that a broker has not heard of, and for one that is there already."""

HELP = """\
Create the topics that hubbub needs, mend the settings of those that are there, and say what was
changed, a line each. What is right is left as it is, so running it again changes nothing.

example:
  $ hubbub topics --kafka 127.0.0.1:9092 --partitions 12 --dry-run
  would create hubbub.reports: 12 partitions, 1 replica, cleanup.policy=delete, ...

A login is read from HUBBUB_KAFKA_SECURITY_PROTOCOL, _SASL_MECHANISM, _USERNAME, _PASSWORD and
_CA_FILE; HUBBUB_MAX_FRAME is the largest frame that the reports take (default: 1MiB).

Exit code: 0 all is right (or, with --dry-run, can be made so); 2 wrong options; 3 Kafka cannot be
reached; 4 something is wrong that cannot be changed, such as the number of partitions: nothing is
changed then."""


class TopicsError(HubbubError):
    """Topics on which the guarantees cannot be kept, or that a broker refuses to make so; a line each."""

    exit_code = 4


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    try:
        kafka = Kafka.read(options)
        ensuring = ensure(kafka, options.partitions, options.replication, options.max_frame, dry=options.dry_run)
        lines = asyncio.run(ensuring)
    except (KafkaSettingError, KafkaUnreachable, TopicsError) as error:
        sys.stderr.write("".join(f"hubbub topics: {line}\n" for line in str(error).splitlines()))
        return error.exit_code
    except KafkaError as error:
        sys.stderr.write(f"hubbub topics: Kafka refused: {error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hubbub topics", description=HELP, formatter_class=raw)
    add_options(parser, embedded=True)
    count = f"of every topic but queries, which has one (default: {PARTITIONS})"
    parser.add_argument("--partitions", type=_count(10_000), default=PARTITIONS, metavar="N", help=count)
    copies = "copies of each partition (default: 1 where there is one broker, else 3)"
    parser.add_argument("--replication", type=_count(100), metavar="R", help=copies)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    options = parser.parse_args(arguments)
    try:
        options.max_frame = max_frame()
    except KafkaSettingError as error:
        parser.error(str(error))
    return options


def _count(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or not 0 < int(text) <= most:
            raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {most:,}, got {text!r}")
        return int(text)

    return parse


def max_frame(environment: Mapping[str, str] = os.environ) -> int:
    """Bytes of the largest frame, as HUBBUB_MAX_FRAME says."""
    text = environment.get("HUBBUB_MAX_FRAME") or str(MAX_FRAME)
    try:
        size = parse_size(text)
    except argparse.ArgumentTypeError as error:
        raise KafkaSettingError(f"HUBBUB_MAX_FRAME: {error}") from None
    if not 0 < size <= LARGEST_FRAME:
        raise KafkaSettingError(
            f"HUBBUB_MAX_FRAME: must be above 0 and at most {LARGEST_FRAME // MIB}MiB, got {text!r}"
        )
    return size


async def ensure(
    kafka: Kafka,
    partitions: int = PARTITIONS,
    replication: int | None = None,
    max_frame: int = MAX_FRAME,
    *,
    dry: bool = False,
) -> list[str]:
    """Make all topics right, and say what was done; a TopicsError, and nothing done, where that is impossible."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        brokers = len((await admin.describe_cluster())["brokers"])
        replication = replication or (1 if brokers == 1 else 3)
        wanted = layout(kafka.prefix, partitions, replication, max_frame, embedded=kafka.embedded)
        described = await describe(admin, [topic.name for topic in wanted])
        missing = [topic for topic in wanted if topic.name not in described]
        stuck = [fault for topic in wanted if (there := described.get(topic.name)) for fault in lasting(there, topic)]
        _refuse([*stuck, *impossible(missing, brokers)])
        changes = {topic.name: _changes(described[topic.name], topic) for topic in wanted if topic not in missing}
        if not dry:
            await create(admin, missing)
            await alter(admin, described, {name: change for name, change in changes.items() if change})
            _refuse(await _settled(admin, wanted))
        return list(_lines(wanted, described, changes, dry=dry))


async def verify(kafka: Kafka, max_frame: int = MAX_FRAME) -> int:
    """The number of partitions of the reports; a TopicsError where a worker must not count."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        wanted = layout(kafka.prefix, 1, 1, max_frame)
        described = await describe(admin, [topic.name for topic in wanted])
    _refuse(refusals(described, kafka.prefix, max_frame, embedded=kafka.embedded))
    return described[kafka.topic(REPORTS)].partitions


def _refuse(found: Sequence[str]) -> None:
    if found:
        raise TopicsError("\n".join(found))


def _changes(there: Described, topic: Topic) -> dict[str, str]:
    return {**improvements(there, topic), **mends(there, topic)}


def _lines(
    wanted: Sequence[Topic], described: Mapping[str, Described], changes: Mapping[str, Mapping[str, str]], *, dry: bool
) -> Iterator[str]:
    for topic in wanted:
        there = described.get(topic.name)
        if there is None:
            copies = f"{topic.replication} replica{'s' * (topic.replication != 1)}"
            settings = [f"{name}={value}" for name, value in topic.settings.items()]
            made = ", ".join([parts(topic.partitions), copies, *settings])
            yield f"{'would create' if dry else 'created'} {topic.name}: {made}"
        elif not changes[topic.name]:
            yield f"right {topic.name}: {parts(there.partitions)}"
        else:
            for name, value in changes[topic.name].items():
                has = there.settings.get(name, "unknown")
                yield f"{'would set' if dry else 'set'} {topic.name}: {name} from {has} to {value}"


async def partition_counts(kafka: Kafka) -> dict[str, int]:
    """How many partitions each topic has. All are listed, since asking for one by name may create it."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        return {topic["topic"]: len(topic["partitions"]) for topic in await admin.describe_topics()}


async def describe(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, Described]:
    """The topics of these names that there are. All are listed, since asking for one by name may create it."""
    listed = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names if listed.get(name)]
    found = {}
    for response in await admin.describe_configs(resources) if resources else []:
        for code, message, _, name, entries in response.resources:
            if code == _UNKNOWN:
                continue  # new or just deleted: this broker knows less than the one that was asked before
            if code:
                raise for_code(code)(f"settings of {name}: {message}")
            found[name] = Described(
                name,
                partitions=len(listed[name]),
                replication=min(len(partition["replicas"]) for partition in listed[name]),
                settings={key: value or "" for key, value, *_ in entries},
                own=frozenset(key for key, _, _, source, *_ in entries if source == _TOPIC_OVERRIDE),
            )
    return found


async def create(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> None:
    if not topics:
        return
    new = [NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=topic.settings) for topic in topics]
    response = await admin.create_topics(new)
    # Where another run was quicker, what it made is looked at in the end.
    _refuse(
        [
            f"{name}: {message or for_code(code).__name__}"
            for name, code, message in response.topic_errors
            if code not in (0, _EXISTS)
        ]
    )


async def alter(
    admin: AIOKafkaAdminClient, described: Mapping[str, Described], changes: Mapping[str, Mapping[str, str]]
) -> None:
    """Change these settings. The request replaces all that a topic has of its own, so those are sent along."""
    resources = [
        ConfigResource(
            ConfigResourceType.TOPIC,
            name,
            {**{key: described[name].settings[key] for key in described[name].own}, **change},
        )
        for name, change in changes.items()
    ]
    for response in await admin.alter_configs(resources) if resources else []:
        found = [(name, code, message) for code, message, _, name in response.resources if code]
        _refuse([f"{name}: {message or for_code(code).__name__}" for name, code, message in found])


async def _settled(admin: AIOKafkaAdminClient, wanted: Sequence[Topic]) -> list[str]:
    """The faults that remain once every broker had the time to hear of the changes."""
    names = [topic.name for topic in wanted]
    clock = asyncio.get_running_loop().time
    until = clock() + SETTLE
    while found := faults(await describe(admin, names), wanted):
        if clock() > until:
            break
        await asyncio.sleep(0.1)
    return found
