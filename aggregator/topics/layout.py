"""The layout: the topics that hubbub needs, the settings that its guarantees need, and the faults of real topics."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregator.topics.sizes import Sizes
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.settings import (
    ALERTS,
    CHANGELOG,
    CLOCKS,
    ESTIMATES,
    MAPS,
    QUERIES,
    REJECTS,
    REPORTS,
    SNAPSHOTS,
    STATUS,
    TRUTH,
)

OPEN = 1
"""The partitions of `queries` without a fence, as releases before formats version 3 demand."""
FENCED = 2
"""The partitions of `queries` behind the fence. The second one stays empty, and shuts out older workers."""
KIB = 1 << 10
MIB = 1 << 20
ENVELOPE = 64 * KIB
"""The bytes that a batch adds to a frame. A frame that is a little too large still arrives, and is refused."""
WEEK = 7 * 86_400 * 1000
MONTH = 30 * 86_400 * 1000

MAX_BYTES = "max.message.bytes"
INSYNC = "min.insync.replicas"
CLEANUP = "cleanup.policy"
LAG = "min.compaction.lag.ms"
TOMBSTONES = "delete.retention.ms"
TOMBSTONE_LIFE = 600_000
"""Milliseconds for which deletions stay. With Kafka's default of a day a restart would read the checkpoints of a day.

Readers do not rely on deletions: an old value that comes back does no harm (docs/reliability.md).
"""
UNDISTURBED = 120_000
"""Milliseconds for which compaction keeps every record.

A reader stops at the end that the topic had when it started. Without this lag compaction could remove
the value of a key before that end, because a newer value after the end replaces it.
"""
TIMESTAMP = "message.timestamp.type"
_KEEP = "each frame belongs to its partition; run `hubbub topics --partitions {has}`"
ANEW = (
    "estimates and alerts are lost by this, and reports are not: run `hubbub doctor` first, stop the workers, delete "
    f"every topic of the prefix except {REPORTS} and {QUERIES}, run `hubbub topics` and start the workers, which count "
    "again what the log still holds"
)
"""The advice to count from nothing. It says first what is lost, because people follow it at night."""
_RECOUNT = f"tallies belong to the partitions of the reports; {ANEW}"
_RAISE = (
    "ids of frames depend on the number of partitions; if that of the reports was raised, start again with another "
    "--prefix; otherwise " + ANEW
)
_REMEDIES = {REPORTS: _KEEP, SNAPSHOTS: _RAISE, QUERIES: _RECOUNT, CHANGELOG: _RAISE}
# With Kafka's defaults compaction hardly ever runs, and a restart reads every old version of every tally.
_COMPACTION = {
    "segment.bytes": str(64 * MIB),
    "segment.ms": str(600_000),
    "min.cleanable.dirty.ratio": "0.1",
}

GUARANTEES = {
    TIMESTAMP: "clients choose the time that closes panes, and a second count of the log gives other finals",
    CLEANUP: "counts or progress are lost, or the topic grows for ever",
    MAX_BYTES: "larger records cannot be written: large queries have no finals, or large frames are refused",
    INSYNC: "the loss of one broker loses acknowledged records",
    "unclean.leader.election.enable": "a new leader that lags behind loses acknowledged records",
    LAG: "a worker that recovers may miss records that compaction removes meanwhile, and lose or repeat reports",
    TOMBSTONES: "a restart reads the deletions of a day, and takes long",
}
"""The loss for each setting, if the Kafka service refuses it."""


@dataclass(frozen=True, eq=False)
class Topic:
    """One topic as hubbub needs it."""

    name: str
    partitions: int
    replication: int
    exact: Mapping[str, str] = field(default_factory=dict)
    """Settings that guarantees need, with their exact values."""
    least: Mapping[str, int] = field(default_factory=dict)
    """Settings that guarantees need, with their least values."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Settings for a topic that has no value of its own. An operator's value stays."""
    remedy: str = ""
    """The advice about a wrong number of partitions, or nothing if any number will do."""
    other_number: int | None = None
    """Another right number of partitions."""

    @property
    def settings(self) -> dict[str, str]:
        """All settings of a new topic."""
        return {**self.defaults, **self.exact, **{name: str(least) for name, least in self.least.items()}}

    def without(self, names: Collection[str]) -> "Topic":
        """Return a copy without these settings."""
        exact = {name: value for name, value in self.exact.items() if name not in names}
        return replace(self, exact=exact, least={name: n for name, n in self.least.items() if name not in names})


@dataclass(frozen=True)
class TopicDescription:
    """One topic as the broker describes it."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]
    own: frozenset[str] = frozenset()
    """The names of the settings on the topic itself, not from the broker's defaults."""


class SettingRefusal(NamedTuple):
    """A setting that a broker refused."""

    topic: str
    name: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}: Kafka refuses {self.name}={self.value}: {self.reason}"

    def sentence(self, description: TopicDescription) -> str:
        """Return the sentence about the present value and its danger."""
        has = description.settings.get(self.name, "unknown")
        return f"{self}; it is {has}: {GUARANTEES[self.name]}"


def layout(
    prefix: str,
    partitions: int,
    replication: int,
    max_frame: int,
    sizes: Sizes | None = None,
    *,
    embedded: bool = False,
) -> list[Topic]:
    """Return all topics. The embedded broker has no replicas, and ignores settings."""
    sizes = Sizes() if sizes is None else sizes

    def topic(name: str, exact: dict[str, str], max_bytes: int | None, defaults: dict[str, str] | None = None) -> Topic:
        count = partitions
        other_number = None
        if name == QUERIES:
            # Nobody runs an older release on an embedded broker, whose topics end with its process.
            count = OPEN if embedded else FENCED
            other_number = OPEN
        if name == CLOCKS:
            count = 1
        remedy = _REMEDIES.get(name, "")
        if embedded:
            return Topic(prefix + name, count, 1, remedy=remedy)

        # A leader without all records would lose acknowledged ones.
        exact = {**exact, "unclean.leader.election.enable": "false"}
        bounds = {INSYNC: min(2, replication)}
        if max_bytes is not None:
            bounds[MAX_BYTES] = max_bytes

        if name in (SNAPSHOTS, CLOCKS, CHANGELOG):
            bounds[LAG] = UNDISTURBED
        return Topic(prefix + name, count, replication, exact, bounds, defaults or {}, remedy, other_number)

    month = {"retention.ms": str(MONTH)}
    # Clients must not choose the time that closes panes. A definition applies from its log time on.
    reports = {CLEANUP: "delete", TIMESTAMP: "LogAppendTime"}
    # The lag of compaction counts from the times of the records, which must come from the brokers.
    ours = {CLEANUP: "compact", TIMESTAMP: "LogAppendTime", TOMBSTONES: str(TOMBSTONE_LIFE)}

    return [
        topic(REPORTS, reports, max_frame + ENVELOPE),
        topic(REJECTS, {CLEANUP: "delete"}, None, {"retention.ms": str(WEEK)}),
        topic(SNAPSHOTS, ours, sizes.tallies, _COMPACTION),
        topic(CLOCKS, ours, MIB + ENVELOPE, _COMPACTION),
        topic(QUERIES, {CLEANUP: "compact", TIMESTAMP: "LogAppendTime"}, sizes.definitions),
        topic(ESTIMATES, {CLEANUP: "compact,delete"}, sizes.estimates, month),
        topic(MAPS, {CLEANUP: "compact,delete"}, sizes.maps, month),
        topic(ALERTS, {CLEANUP: "delete"}, None, month),
        topic(STATUS, {CLEANUP: "compact"}, None, _COMPACTION),
        topic(TRUTH, {CLEANUP: "delete"}, sizes.truth),
        topic(CHANGELOG, ours, sizes.tallies, _COMPACTION),
    ]


def faults(descriptions: Mapping[str, TopicDescription], topics: Sequence[Topic]) -> list[str]:
    """Return why the guarantees would not hold on these topics, and what to do."""
    result = []
    for topic in topics:
        description = descriptions.get(topic.name)
        if description is None:
            result.append(str(TopicMissing(topic.name)))
            continue

        result += lasting(description, topic)
        for name, value in fixes(description, topic).items():
            has = description.settings.get(name, "unknown")
            result.append(f"{topic.name}: {name} is {has}, but must be {value}; run `hubbub topics`")
    return result


def refusals(
    descriptions: Mapping[str, TopicDescription],
    prefix: str,
    max_frame: int,
    sizes: Sizes | None = None,
    *,
    embedded: bool = False,
) -> list[str]:
    """Return why a worker must not count on these topics, which need the partitions and replicas of the reports."""
    reports = descriptions.get(prefix + REPORTS)
    if reports is None:
        return [str(TopicMissing(prefix + REPORTS))]
    topics = layout(prefix, reports.partitions, reports.replication, max_frame, sizes, embedded=embedded)
    return faults(descriptions, topics)


def present_number(descriptions: Mapping[str, TopicDescription], prefix: str) -> int | None:
    """Return the number of partitions in use: that of the reports, or without them the one that all counts agree on."""
    reports = descriptions.get(prefix + REPORTS)
    if reports is not None:
        return reports.partitions
    numbers = _numbers(descriptions, prefix)
    return next(iter(numbers.values())) if len({*numbers.values()}) == 1 else None


def other_number(descriptions: Mapping[str, TopicDescription], prefix: str, partitions: int) -> str | None:
    """Return that another number of partitions is in use, if reports and counts agree on it. Then no topic is wrong."""
    numbers = _numbers(descriptions, prefix)
    if len({*numbers.values()}) != 1 or partitions in numbers.values():
        return None
    name, present = next(iter(numbers.items()))
    return f"{name}: has {partitions_text(present)}, not {partitions}; {_KEEP.format(has=present)}"


def _numbers(descriptions: Mapping[str, TopicDescription], prefix: str) -> dict[str, int]:
    """Return the numbers of partitions of the reports and counts that exist."""
    names = [prefix + name for name in (REPORTS, SNAPSHOTS, CHANGELOG)]
    return {name: descriptions[name].partitions for name in names if name in descriptions}


def lasting(description: TopicDescription, topic: Topic) -> list[str]:
    """Return the faults that no change of a setting can fix."""
    result = []
    if topic.remedy and description.partitions not in (topic.partitions, topic.other_number):
        remedy = topic.remedy.format(has=description.partitions)
        result.append(f"{topic.name}: has {partitions_text(description.partitions)}, not {topic.partitions}; {remedy}")
    if description.replication < topic.replication:
        result.append(
            f"{topic.name}: has {description.replication} of {topic.replication} replicas; add some with "
            "kafka-reassign-partitions, or run `hubbub topics --replication "
            f"{description.replication}` if fewer are enough"
        )
    return result


def fixes(description: TopicDescription, topic: Topic) -> dict[str, str]:
    """Return the settings to change so that the guarantees hold."""
    changes = {name: value for name, value in topic.exact.items() if not _same(description.settings.get(name), value)}
    for name, bound in topic.least.items():
        # If more replicas must be in sync than exist, nobody can write at all.
        limit = description.replication if name == INSYNC else math.inf
        value = description.settings.get(name, "")
        if not value.isdecimal() or not min(bound, limit) <= int(value) <= limit:
            changes[name] = str(min(bound, limit))
    return changes


def improvements(description: TopicDescription, topic: Topic) -> dict[str, str]:
    """Return the settings to change for speed and comfort, if nobody has set them on the topic."""
    return {
        name: value
        for name, value in topic.defaults.items()
        if name not in description.own and description.settings.get(name) != value
    }


def obstacles(topics: Sequence[Topic], brokers: int) -> Iterator[str]:
    """Yield why the topics cannot be created on so few brokers."""
    replication = max((topic.replication for topic in topics), default=0)
    if replication > brokers:
        count = "1 broker" if brokers == 1 else f"{brokers} brokers"
        yield f"{count} cannot hold {replication} replicas; start more brokers, or use --replication {brokers}"


def partitions_text(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _same(has: str | None, value: str) -> bool:
    """Whether two lists are equal in any order. Kafka keeps "delete,compact" in the order in which it was set."""
    return has is not None and sorted(has.replace(" ", "").split(",")) == sorted(value.split(","))
