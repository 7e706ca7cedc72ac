"""The topics hubbub needs and the settings its guarantees rest on: what is wanted, what is wrong, what mends it."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregator.topics.sizes import Sizes
from hubbub.errors import TopicMissing
from hubbub.names import ALERTS, CHANGELOG, ESTIMATES, QUERIES, REJECTS, REPORTS, SNAPSHOTS, TRUTH

KIB, MIB = 1 << 10, 1 << 20
ENVELOPE = 64 * KIB
"""Bytes that a batch adds to a frame; a frame a little too large still arrives, to be refused and counted."""
MONTH, WEEK = 30 * 86_400 * 1000, 7 * 86_400 * 1000

MAX_BYTES = "max.message.bytes"
INSYNC = "min.insync.replicas"
CLEANUP = "cleanup.policy"
LAG = "min.compaction.lag.ms"
TOMBSTONES = "delete.retention.ms"
SHORT = 600_000
"""How long deletions stay: each key may come back from the dead (docs/reliability.md), and with Kafka's own day a
restart reads every checkpoint of it."""
UNDISTURBED = 120_000
"""Whoever reads a compacted topic up to where it ended when he began finds the newest of each key only if
nothing newer, written meanwhile, has had it removed: so compaction leaves alone what is younger than this."""
TIMESTAMP = "message.timestamp.type"
_KEEP = "frames are bound to their partitions; run `hubbub topics --partitions {has}`"
ANEW = (
    f"stop the workers, delete every topic of the prefix but {REPORTS} and {QUERIES}, run `hubbub topics` and start "
    "the workers: all is counted again"
)
_RECOUNT = f"tallies are bound to the partitions of the reports; {ANEW}"
_RAISED = (
    "ids of frames are bound to the number of partitions; if that of the reports was raised, start anew with another "
    "--prefix; else " + ANEW
)
_REMEDIES = {REPORTS: _KEEP, SNAPSHOTS: _RAISED, QUERIES: _RECOUNT, CHANGELOG: _RAISED}
# With Kafka's own defaults compaction in practice never runs, and a restart reads every old version of every tally.
_COMPACTED = {
    "segment.bytes": str(64 * MIB),
    "segment.ms": str(600_000),
    "min.cleanable.dirty.ratio": "0.1",
}

GUARANTEES = {
    TIMESTAMP: "clients choose the time that closes panes, so finals are no function of the log",
    CLEANUP: "what is counted, or how far, is lost or grows for ever",
    MAX_BYTES: "what is larger cannot be written: a query of that size has no finals, or a frame is not taken",
    INSYNC: "what was acknowledged is lost with one broker",
    "unclean.leader.election.enable": "a leader that lags behind takes back what was acknowledged",
    LAG: "a worker that recovers may miss what was compacted meanwhile, and lose or repeat reports",
    TOMBSTONES: "a restart reads the deletions of a day, and takes as long",
}
"""By setting, the loss where a service refuses it."""


@dataclass(frozen=True, eq=False)
class Topic:
    """One topic as it is wanted."""

    name: str
    partitions: int
    replication: int
    exact: Mapping[str, str] = field(default_factory=dict)
    """Settings that guarantees rest on."""
    least: Mapping[str, int] = field(default_factory=dict)
    """The same, where more is fine too."""
    advised: Mapping[str, str] = field(default_factory=dict)
    """Settings given where a topic has none of its own; whoever set another one meant it."""
    remedy: str = ""
    """Advice about another number of partitions; empty where that does not matter."""

    @property
    def settings(self) -> dict[str, str]:
        """All that it is created with."""
        return {**self.advised, **self.exact, **{name: str(least) for name, least in self.least.items()}}

    def without(self, names: Collection[str]) -> "Topic":
        """The same, but for settings that cannot be had."""
        exact = {name: value for name, value in self.exact.items() if name not in names}
        return replace(self, exact=exact, least={name: n for name, n in self.least.items() if name not in names})


@dataclass(frozen=True)
class Described:
    """One topic as the broker describes it."""

    name: str
    partitions: int
    replication: int
    settings: Mapping[str, str]
    own: frozenset[str] = frozenset()
    """The settings made on the topic itself, not taken from the broker's defaults."""


class Denied(NamedTuple):
    """A setting that a broker did not take."""

    topic: str
    name: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.name}={self.value} is refused by Kafka: {self.why}"

    def sentence(self, there: Described) -> str:
        """With what does not hold."""
        has = there.settings.get(self.name, "unknown")
        return f"{self}; it is {has}, and so {GUARANTEES[self.name]}"


def layout(
    prefix: str,
    partitions: int,
    replication: int,
    max_frame: int,
    sizes: Sizes | None = None,
    *,
    embedded: bool = False,
) -> list[Topic]:
    """Every topic of hubbub. The embedded broker has no replicas, and only repeats settings that it does not heed."""
    sizes = Sizes() if sizes is None else sizes

    def topic(name: str, exact: dict[str, str], largest: int | None, advised: dict[str, str] | None = None) -> Topic:
        count, remedy = (1 if name == QUERIES else partitions), _REMEDIES.get(name, "")
        if embedded:
            return Topic(prefix + name, count, 1, remedy=remedy)
        # A leader that has not all records would take back what was acknowledged.
        exact = {**exact, "unclean.leader.election.enable": "false"}
        least = {INSYNC: min(2, replication), **({MAX_BYTES: largest} if largest else {})}
        if name in (SNAPSHOTS, CHANGELOG):
            least[LAG] = UNDISTURBED
        return Topic(prefix + name, count, replication, exact, least, advised or {}, remedy)

    month = {"retention.ms": str(MONTH)}
    # Clients must not choose the time that closes panes; a version speaks from its own time on.
    reports = {CLEANUP: "delete", TIMESTAMP: "LogAppendTime"}
    # The lag of compaction is measured by the records' own time, which must be the brokers'.
    ours = {CLEANUP: "compact", TIMESTAMP: "LogAppendTime", TOMBSTONES: str(SHORT)}
    return [
        topic(REPORTS, reports, max_frame + ENVELOPE),
        topic(REJECTS, {CLEANUP: "delete"}, None, {"retention.ms": str(WEEK)}),
        topic(SNAPSHOTS, ours, sizes.tallies, _COMPACTED),
        topic(QUERIES, {CLEANUP: "compact", TIMESTAMP: "LogAppendTime"}, sizes.definitions),
        topic(ESTIMATES, {CLEANUP: "compact,delete"}, sizes.estimates, month),
        topic(ALERTS, {CLEANUP: "delete"}, None, month),
        topic(TRUTH, {CLEANUP: "delete"}, sizes.truth),
        topic(CHANGELOG, ours, sizes.tallies, _COMPACTED),
    ]


def faults(described: Mapping[str, Described], wanted: Sequence[Topic]) -> list[str]:
    """Why the guarantees would not hold on these topics, and what to do."""
    found = []
    for topic in wanted:
        there = described.get(topic.name)
        if there is None:
            found.append(str(TopicMissing(topic.name)))
            continue
        found += lasting(there, topic)
        for name, value in mends(there, topic).items():
            has = there.settings.get(name, "unknown")
            found.append(f"{topic.name}: {name} is {has}, but must be {value}; run `hubbub topics`")
    return found


def refusals(
    described: Mapping[str, Described],
    prefix: str,
    max_frame: int,
    sizes: Sizes | None = None,
    *,
    embedded: bool = False,
) -> list[str]:
    """Why a worker must not count on these topics: the faults where partitions and replicas are as the reports'."""
    reports = described.get(prefix + REPORTS)
    if reports is None:
        return [str(TopicMissing(prefix + REPORTS))]
    wanted = layout(prefix, reports.partitions, reports.replication, max_frame, sizes, embedded=embedded)
    return faults(described, wanted)


def lasting(there: Described, topic: Topic) -> list[str]:
    """The faults that no setting mends."""
    found = []
    if topic.remedy and there.partitions != topic.partitions:
        remedy = topic.remedy.format(has=there.partitions)
        found.append(f"{topic.name}: has {partitions_text(there.partitions)}, not {topic.partitions}; {remedy}")
    if there.replication < topic.replication:
        found.append(
            f"{topic.name}: has {there.replication} of {topic.replication} replicas; add some with "
            f"kafka-reassign-partitions, or run `hubbub topics --replication {there.replication}` if fewer will do"
        )
    return found


def mends(there: Described, topic: Topic) -> dict[str, str]:
    """The settings to change for the guarantees to hold."""
    changes = {name: value for name, value in topic.exact.items() if not _same(there.settings.get(name), value)}
    for name, least in topic.least.items():
        # Where more replicas must be in sync than there are, nothing can be written at all.
        most = there.replication if name == INSYNC else math.inf
        value = there.settings.get(name, "")
        if not value.isdecimal() or not min(least, most) <= int(value) <= most:
            changes[name] = str(min(least, most))
    return changes


def improvements(there: Described, topic: Topic) -> dict[str, str]:
    """The settings to change for speed and comfort: those that nobody has chosen."""
    return {
        name: value
        for name, value in topic.advised.items()
        if name not in there.own and there.settings.get(name) != value
    }


def impossible(wanted: Sequence[Topic], brokers: int) -> Iterator[str]:
    """Why the topics cannot be created on so few brokers."""
    most = max((topic.replication for topic in wanted), default=0)
    if most > brokers:
        have = f"{brokers} broker{'s' * (brokers != 1)}"
        yield f"{have} cannot hold {most} replicas; start more brokers, or say --replication {brokers}"


def partitions_text(count: int) -> str:
    return f"{count} partition{'s' * (count != 1)}"


def _same(has: str | None, value: str) -> bool:
    """Kafka keeps lists as they were written: "delete,compact" is "compact,delete"."""
    return has is not None and sorted(has.replace(" ", "").split(",")) == sorted(value.split(","))
