"""The command `hubbub doctor`, which says what an upgrade to this release would change, and changes nothing."""

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import TopicPartition

from aggregator.errors import TopicsError
from aggregator.sink import target_report
from aggregator.sink.target_reader import read_state
from aggregator.topics import older_states
from aggregator.topics.broker_topics import describe
from aggregator.topics.command import PARTITIONS, ensure, steps
from aggregator.topics.formats_return import LOWER, TARGET
from aggregator.topics.formats_version import FormatsRise
from aggregator.topics.layout import FENCED, present_number
from aggregator.topics.older_states import OlderStates
from aggregator.topics.sizes import sizes
from hubbub.command.options import add_kafka, add_max_frame, add_option, parser_of
from hubbub.command.report import Report, add_format
from hubbub.definitions import formats_record
from hubbub.definitions.formats import FIRST_RELEASE, NEWEST, RAISE, Formats, release
from hubbub.kafka.clients import admin as admin_client
from hubbub.kafka.clients import consumer, partitions, started
from hubbub.kafka.group import member_names
from hubbub.kafka.settings import CHANGELOG, ESTIMATES, QUERIES, REPORTS, SNAPSHOTS, Kafka
from hubbub.texts import few
from oracles.query import load

HELP = """\
Say what an upgrade to this release would change here, and change nothing: what `hubbub topics` would
do, whether the formats version would rise, which workers run, and whether there is a way back. With
--sink it says how far the files of a sink go.

example:
  $ hubbub doctor --kafka 127.0.0.1:9092
  topics: all are right
  formats: version 3, raised by release 0.3.0; this release is 0.3.0 and writes version 3
  ...

Exit code: 0 this release can work here, at once or after the steps that it names; 2 wrong options;
3 Kafka or the target of --sink cannot be reached; 4 it cannot: the formats version is higher, a topic
cannot be made right, an older worker wrote states after the rise of the formats version, or the target
of --sink belongs to another release.
With --strict it is 0 only if no step is left, so a pipeline can ask whether all is well now."""


OLDEST = ".".join(map(str, FIRST_RELEASE))
NO_FENCE = (
    f"fence: none, so workers of releases before {OLDEST} are not shut out; run `hubbub topics --fence` when you will "
    "not go back to such a release"
)


class NoRise(FormatsRise):
    """A run that leaves the formats version alone, and looks at the topics only."""

    async def prepare(self, admin: Any, *, is_new: bool, dry: bool) -> None:
        """Do nothing."""


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    report = Report("doctor", options)

    def work() -> int:
        examination = asyncio.run(_examine(Kafka.read(options), options))
        report.say("".join(f"{line}\n" for line in examination.lines))
        formats = examination.formats
        report.members |= {
            "topics": examination.steps,
            "formats": formats and {"version": formats.version, "release": formats.release, "needed": NEWEST},
            "workers": examination.workers,
            "fence": examination.has_fence,
            "lines": examination.lines,
        }
        if options.strict:
            report.fault(*examination.needs)
        return 4 if options.strict and examination.needs else examination.code

    return report.run(work)


class Examination(NamedTuple):
    """The state of the topics, as this release sees it."""

    lines: list[str]
    """The text for people."""
    code: int
    """The exit code without `--strict`."""
    steps: list[str]
    """The changes that `hubbub topics` would make, or why it cannot."""
    formats: Formats | None
    """The formats version, or None if the prefix is new."""
    workers: list[str]
    """The members of the group."""
    has_fence: bool | None
    """Whether workers of older releases are shut out, or None if there is nothing to say."""
    older_states: list[str]
    """The states that an older worker wrote after the rise."""
    sink_needs: list[str]
    """All that a person must do for the sink."""

    @property
    def needs(self) -> list[str]:
        """All that a person must do before everything is right."""
        needs = [*(f"topics: {step}" for step in self.steps), *self.older_states, *self.sink_needs]
        if self.formats is not None and self.formats.version != NEWEST:
            needs.append(f"formats: the topics have {self.formats}, and this release writes version {NEWEST}")
        return needs


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = parser_of("doctor", HELP)
    add_kafka(parser, embedded=True)
    add_max_frame(parser)
    file = os.environ.get("HUBBUB_QUERIES") or ("hubbub.toml" if Path("hubbub.toml").exists() else None)
    queries_help = "query file, as for `hubbub topics` (HUBBUB_QUERIES; default: hubbub.toml if it exists)"
    parser.add_argument("--queries", default=file, metavar="FILE", help=queries_help)
    strict = "exit with 0 only if topics and formats need nothing, else with 4"
    parser.add_argument("--strict", action="store_true", help=strict)
    place = "target of a sink, as for `hubbub sink --to`; its state is read"
    add_option(parser, "HUBBUB_SINK_TO", "--sink", place, metavar="PLACE")
    add_format(parser)
    return parser.parse_args(arguments)


async def _examine(kafka: Kafka, options: argparse.Namespace) -> Examination:
    """Ask the brokers."""
    needs = sizes(load(options.queries).values()) if options.queries else None
    async with started(admin_client(kafka), kafka) as admin:
        descriptions = await describe(admin, [kafka.topic(name) for name in (REPORTS, QUERIES, SNAPSHOTS, CHANGELOG)])
        running = await member_names(admin, kafka) if descriptions else []

    reports = descriptions.get(kafka.topic(REPORTS))
    count = present_number(descriptions, kafka.prefix) or PARTITIONS
    copies = reports.replication if reports else None
    definitions = await formats_record.read(kafka) if kafka.topic(QUERIES) in descriptions else None
    formats = None if definitions is None else definitions.formats
    states: list[OlderStates] = []
    if definitions is not None and kafka.topic(SNAPSHOTS) in descriptions:
        states = await older_states.find(kafka, definitions, descriptions[kafka.topic(SNAPSHOTS)].partitions)
    code = 4 if states or (formats is not None and formats.is_higher) else 0
    step = ""
    present = f" --partitions {count} --replication {copies}" if reports else ""

    try:
        changes = await ensure(kafka, count, copies, options.max_frame, sizes=needs, dry=True, rise=NoRise(kafka))
        # A rise changes the topics too, in the step that stops the workers.
        if steps(changes) and not (formats is not None and formats.is_lower):
            step = f"run `hubbub topics{present}`, then "
    except TopicsError as error:
        changes = [f"cannot be made right: {line}" for line in str(error).splitlines()]
        code = 4
        step = "make the topics right, then "

    # An embedded broker ends with its topics, so no older release comes back to it.
    queries = None if kafka.embedded else descriptions.get(kafka.topic(QUERIES))
    has_fence = None if queries is None else queries.partitions >= FENCED
    lines = [*topic_lines(changes), *state_lines(formats, running, step, present, has_fence=has_fence)]
    found = [*older_states.lines(states)]
    sink_lines, sink_needs = await _examine_sink(kafka, options.sink)
    return Examination(
        lines=[*lines, *found, *sink_lines, *sink_needs],
        code=code,
        steps=steps(changes),
        formats=formats,
        workers=running,
        has_fence=has_fence,
        older_states=found,
        sink_needs=sink_needs,
    )


async def _examine_sink(kafka: Kafka, place: str | None) -> tuple[list[str], list[str]]:
    """Return the lines about the target of a sink, if one is named, and all that must be done for it."""
    if place is None:
        return [], []
    begins, ends = await _ranges(kafka)
    state = await asyncio.to_thread(read_state, place)
    return [*target_report.lines(place, state, begins, ends)], [
        *target_report.needs(place, state, kafka.prefix, begins)
    ]


async def _ranges(kafka: Kafka) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first and the next offset of each partition of the topic of estimates."""
    counts = await partitions(kafka, optional=[ESTIMATES])
    topic = kafka.topic(ESTIMATES)
    tps = [TopicPartition(topic, number) for number in range(counts.get(ESTIMATES, 0))]
    async with started(consumer(kafka), kafka) as reader:
        begins = await reader.beginning_offsets(tps)
        ends = await reader.end_offsets(tps)
    return {tp.partition: begins[tp] for tp in tps}, {tp.partition: ends[tp] for tp in tps}


def way_back(version: int) -> str:
    """Return how an older release of this formats version can count again."""
    if version == TARGET:
        return f"by `{LOWER}`, until the fence is set (docs/life.md)"
    return "only by a count from nothing (docs/life.md)"


def topic_lines(changes: Sequence[str]) -> Iterator[str]:
    """Yield what `hubbub topics` would change."""
    yield from (f"topics: {line}" for line in steps(changes) or ["all are right"])


def state_lines(
    formats: Formats | None,
    running: Sequence[str],
    step: str = "",
    options: str = "",
    *,
    has_fence: bool | None = None,
) -> Iterator[str]:
    """Yield the formats version, the running workers, the steps of an upgrade, and the way back.

    `step` is one before all others. `options` are those that `hubbub topics` needs for the present topics.
    """
    workers = f"{len(running)} in the group: {few(running)}" if running else "none in the group"
    if formats is None:
        yield f"formats: the prefix is new, so `hubbub topics` gives it version {NEWEST}"
        yield f"workers: {workers}"
        return

    yield f"formats: {formats}; this release is {release()} and writes version {NEWEST}"
    yield f"workers: {workers}"
    if formats.is_higher:
        yield f"upgrade: this release cannot work here: {formats.excess}"
        return
    if formats.is_lower:
        yield f"upgrade: {step}stop all workers, run `{RAISE}{options}`, start workers of this release; the log waits"
        yield (f"way back: to releases of formats version {formats.version} after the rise {way_back(formats.version)}")
        return
    if has_fence is not None:
        yield f"fence: set, so workers of releases before {OLDEST} exit at their start" if has_fence else NO_FENCE
    yield f"upgrade: {step}replace one worker after the other; the formats version does not rise"
    yield f"way back: every release that writes formats version {NEWEST} may replace this one, in any order"
