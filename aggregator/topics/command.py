"""`hubbub topics`: creates the topics that are missing, mends those that are wrong, and says what it did."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import GroupCoordinatorNotAvailableError, TopicAuthorizationFailedError, for_code

from aggregator.errors import TopicsError
from aggregator.topics.correct import correct
from aggregator.topics.settings import (
    GUARANTEES,
    Denied,
    Described,
    Topic,
    faults,
    impossible,
    improvements,
    lasting,
    layout,
    mends,
    partitions_text,
    refusals,
)
from aggregator.topics.sizes import Sizes, sizes
from hubbub.definitions.corrections import Correction, parse
from hubbub.errors import KafkaUnreachable
from hubbub.kafka import Kafka, started
from hubbub.names import REPORTS, WORKER
from hubbub.options import add_kafka, add_max_frame, parser_of, run, whole
from oracles.errors import ParameterError
from oracles.frame import MAX_FRAME
from oracles.query import load

_Answer = TypeVar("_Answer")

PARTITIONS = 12
SETTLE = 15.0
"""Seconds until all brokers know of a new topic or setting."""
HEARSAY = 3.0
"""Seconds until a worker takes it that topics are missing which the broker it asks has not heard of."""
_TOPIC_OVERRIDE = 1
"""Kafka's number for a setting that was made on the topic itself."""
_UNKNOWN, _EXISTS = 3, 36
"""Kafka's numbers for a topic that a broker has not heard of, and for one that is there already."""
_REFUSED = (40, 44)
"""Kafka's numbers for a setting that it does not take, and for one that its operator's policy forbids."""

HELP = """\
Create the topics that hubbub needs, mend the settings of those that are there, and say what was
changed, a line each. What is right is left as it is, so running it again changes nothing.

example:
  $ hubbub topics --kafka 127.0.0.1:9092 --partitions 12 --dry-run
  would create hubbub.reports: 12 partitions, 1 replica, cleanup.policy=delete, ...

A login is read from the environment: HUBBUB_KAFKA_SECURITY_PROTOCOL and its like (docs/topics.md).
HUBBUB_MAX_FRAME is the largest frame that the reports take (default: 1MiB).

Exit code: 0 all is right (or, with --dry-run, can be made so); 2 wrong options; 3 Kafka cannot be
reached; 4 something is wrong that cannot be changed, such as the number of partitions: nothing is
changed then; or Kafka refuses a setting: all others are set, and it says what does not hold."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)

    def work() -> None:
        kafka = Kafka.read(options)
        if options.correct:
            for one in options.correct:
                sys.stdout.write(f"{asyncio.run(correct(kafka, one))}\n")
            return
        of = sizes(load(options.queries).values()) if options.queries else None
        partitions, replication, frame = options.partitions, options.replication, options.max_frame
        ensuring = ensure(kafka, partitions, replication, frame, sizes=of, dry=options.dry_run)
        sys.stdout.write("".join(f"{line}\n" for line in asyncio.run(ensuring)))

    return run("topics", work)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("topics", HELP)
    add_kafka(parser, embedded=True)
    count = f"of every topic but queries, which has one (default: {PARTITIONS})"
    parser.add_argument("--partitions", type=whole(1, 10_000), default=PARTITIONS, metavar="N", help=count)
    copies = "copies of each partition (default: 1 where there is one broker, else 3)"
    parser.add_argument("--replication", type=whole(1, 100), metavar="R", help=copies)
    add_max_frame(parser)
    file = os.environ.get("HUBBUB_QUERIES") or ("hubbub.toml" if Path("hubbub.toml").exists() else None)
    what = "whose records say how large messages get (HUBBUB_QUERIES; default: hubbub.toml if it is there, else 64MiB)"
    parser.add_argument("--queries", default=file, metavar="FILE", help=what)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    wrong = "correct the log's time there, by none or a time, for the next count from nothing; changes no topic"
    kind, form = _correction, "P:FROM:TO=none|TIME"
    parser.add_argument("--correct", action="append", type=kind, metavar=form, help=wrong)
    return parser.parse_args(arguments)


def _correction(text: str) -> Correction:
    try:
        return parse(text)
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


async def ensure(
    kafka: Kafka,
    partitions: int = PARTITIONS,
    replication: int | None = None,
    max_frame: int = MAX_FRAME,
    *,
    sizes: Sizes | None = None,
    dry: bool = False,
) -> list[str]:
    """Make all topics right, and say what was done; a TopicsError, and nothing done, where that is impossible.

    What a broker refuses to set is left as it is, and a TopicsError at the end says what does not hold without it.
    """
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        brokers = await _brokers(admin, kafka)
        replication = replication or (1 if brokers == 1 else 3)
        wanted = layout(kafka.prefix, partitions, replication, max_frame, sizes, embedded=kafka.embedded)
        described = await describe(admin, [topic.name for topic in wanted])
        missing = [topic for topic in wanted if topic.name not in described]
        stuck = [fault for topic in wanted if (there := described.get(topic.name)) for fault in lasting(there, topic)]
        _refuse([*stuck, *impossible(missing, brokers)])
        changes = {topic.name: _changes(described[topic.name], topic) for topic in wanted if topic not in missing}
        refused: list[Denied] = []
        if not dry:
            refused = await create(admin, missing)
            refused += await alter(admin, described, {name: change for name, change in changes.items() if change})
            had = [topic.without({one.name for one in refused if one.topic == topic.name}) for topic in wanted]
            _refuse(await _settled(admin, had))
            found = await describe(admin, [topic.name for topic in wanted])
            _refuse([one.sentence(found[one.topic]) for one in refused if one.name in GUARANTEES])
        return [*_lines(wanted, described, changes, dry=dry), *(f"left {one}" for one in refused)]


async def verify(kafka: Kafka, max_frame: int = MAX_FRAME, sizes: Sizes | None = None) -> int:
    """The number of partitions of the reports; a TopicsError where a worker must not count."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        wanted = [topic.name for topic in layout(kafka.prefix, 1, 1, max_frame, sizes)]
        described = await _asked(lambda: describe(admin, wanted), lambda there: len(there) == len(wanted), HEARSAY)
        with suppress(GroupCoordinatorNotAvailableError):  # of a new cluster
            await admin.find_coordinator(kafka.topic(WORKER))  # where it may not join, Faust would wait for ever
    _refuse(refusals(described, kafka.prefix, max_frame, sizes, embedded=kafka.embedded))
    return described[kafka.topic(REPORTS)].partitions


async def _brokers(admin: AIOKafkaAdminClient, kafka: Kafka) -> int:
    """How many there are. Those that start, or were silent for long, are named a moment after they answer."""
    cluster = await _asked(admin.describe_cluster, lambda cluster: bool(cluster["brokers"]), SETTLE)
    if not cluster["brokers"]:
        raise KafkaUnreachable(f"Kafka at {kafka.servers} answers, but names no broker that serves: see its log")
    return len(cluster["brokers"])


async def _asked(ask: Callable[[], Awaitable[_Answer]], enough: Callable[[_Answer], bool], seconds: float) -> _Answer:
    """The answer to a question that is asked again until it is enough, or these seconds are over."""
    clock = asyncio.get_running_loop().time
    until = clock() + seconds
    while not enough(answer := await ask()):
        if clock() > until:
            break
        await asyncio.sleep(0.1)
    return answer


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
            made = ", ".join([partitions_text(topic.partitions), copies, *settings])
            yield f"{'would create' if dry else 'created'} {topic.name}: {made}"
        elif not changes[topic.name]:
            yield f"right {topic.name}: {partitions_text(there.partitions)}"
        else:
            for name, value in changes[topic.name].items():
                has = there.settings.get(name, "unknown")
                yield f"{'would set' if dry else 'set'} {topic.name}: {name} from {has} to {value}"


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


async def create(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> list[Denied]:
    """Create them; the settings that were refused are left out."""
    found = await _created(admin, {topic: topic.settings for topic in topics})
    bare = [topic for topic in topics if found.get(topic.name, (0, ""))[0] in _REFUSED]
    found |= await _created(admin, {topic: {} for topic in bare})
    # Where another run was quicker, what it made is looked at in the end.
    _refuse([f"{name}: {message}" for name, (code, message) in found.items() if code not in (0, _EXISTS)])
    there: dict[str, Described] = {}
    async with asyncio.timeout(SETTLE):
        while len(there) < len(bare):  # a broker hears of a new topic a moment later
            there = await describe(admin, [topic.name for topic in bare])
            await asyncio.sleep(0.1)
    return await alter(admin, there, {topic.name: topic.settings for topic in bare})


async def _created(admin: AIOKafkaAdminClient, topics: Mapping[Topic, Mapping[str, str]]) -> dict[str, tuple[int, str]]:
    """The outcome of each: Kafka's number, 0 where all is well, and its words."""
    if not topics:
        return {}
    new = [NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=of) for topic, of in topics.items()]
    response = await admin.create_topics(new)
    if forbidden := [name for name, code, _ in response.topic_errors if code == TopicAuthorizationFailedError.errno]:
        raise TopicAuthorizationFailedError(", ".join(forbidden))
    return {name: (code, message or for_code(code).__name__) for name, code, message in response.topic_errors}


async def alter(
    admin: AIOKafkaAdminClient, described: Mapping[str, Described], changes: Mapping[str, Mapping[str, str]]
) -> list[Denied]:
    """Change these settings; one that is refused does not keep the others from being set."""
    refused: list[Denied] = []
    for name, change in changes.items():
        own = {key: described[name].settings[key] for key in described[name].own}
        code, _ = await _altered(admin, name, {**own, **change})
        for key, value in change.items() if code else ():
            code, message = await _altered(admin, name, {**own, key: value})
            if code:
                refused.append(Denied(name, key, value, message))
            else:
                own[key] = value
    return refused


async def _altered(admin: AIOKafkaAdminClient, name: str, settings: Mapping[str, str]) -> tuple[int, str]:
    """Kafka's answers to these settings. They replace all that a topic has of its own."""
    resource = ConfigResource(ConfigResourceType.TOPIC, name, dict(settings))
    for response in await admin.alter_configs([resource]):
        for code, message, *_ in response.resources:
            said = message or for_code(code).__name__
            if code and code not in _REFUSED:
                _refuse([f"{name}: {said}"])
            if code:
                return code, said
    return 0, ""


async def _settled(admin: AIOKafkaAdminClient, wanted: Sequence[Topic]) -> list[str]:
    """The faults that remain once every broker had the time to hear of the changes."""
    names = [topic.name for topic in wanted]

    async def ask() -> list[str]:
        return faults(await describe(admin, names), wanted)

    return await _asked(ask, lambda found: not found, SETTLE)
