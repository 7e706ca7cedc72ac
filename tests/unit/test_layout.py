"""The layout of the topics: their settings, their faults, and the fixes."""

from dataclasses import replace
from pathlib import Path

import faust
import pytest

from aggregator.topics.layout import (
    CLEANUP,
    INSYNC,
    MAX_BYTES,
    MIB,
    MONTH,
    TIMESTAMP,
    WEEK,
    TopicDescription,
    faults,
    fixes,
    improvements,
    lasting,
    layout,
    obstacles,
    refusals,
)
from hubbub.kafka.settings import CHANGELOG, LARGEST, REPORTS, SNAPSHOTS, TALLIES, WORKER

DOCUMENT = Path(__file__).parents[2] / "docs" / "topics.md"
PREFIX = "p."
UNCLEAN = "unclean.leader.election.enable"


def wanted(partitions=6, replication=3, **options):
    return {topic.name: topic for topic in layout(PREFIX, partitions, replication, MIB, **options)}


def as_wanted(topics):
    return {
        name: TopicDescription(name, topic.partitions, topic.replication, topic.settings, frozenset(topic.settings))
        for name, topic in topics.items()
    }


def changed(topics, name, **settings):
    """All as wanted, but for some settings of one topic."""
    there = as_wanted(topics)
    there[name] = replace(there[name], settings={**there[name].settings, **settings})
    return there


def test_there_is_a_topic_for_all_that_is_written():
    names = ("reports", "rejects", "snapshots", "queries", "estimates", "alerts", "truth", "worker-tallies-changelog")
    assert [topic.removeprefix(PREFIX) for topic in wanted()] == list(names)
    assert {name: topic.partitions for name, topic in wanted(6).items() if topic.partitions != 6} == {"p.queries": 1}


def test_the_changelog_is_named_as_faust_names_it():
    table = faust.App(PREFIX + WORKER).Table(TALLIES, partitions=6)
    assert table.changelog_topic_name == PREFIX + CHANGELOG


def test_the_broker_s_time_and_the_largest_frame_stand_on_reports():
    reports = wanted()[PREFIX + REPORTS]
    assert reports.exact[TIMESTAMP] == "LogAppendTime"
    assert reports.exact[CLEANUP] == "delete"
    assert reports.least[MAX_BYTES] > MIB  # one a little too large arrives, to be refused and counted


def test_what_is_kept_by_key_is_compacted():
    policies = {name.removeprefix(PREFIX): topic.exact[CLEANUP] for name, topic in wanted().items()}
    assert policies == {
        **dict.fromkeys(("reports", "rejects", "alerts", "truth"), "delete"),
        **dict.fromkeys(("snapshots", "queries", CHANGELOG), "compact"),
        "estimates": "compact,delete",
    }
    assert wanted()["p.estimates"].defaults == {"retention.ms": str(MONTH)}
    assert wanted()["p.rejects"].defaults == {"retention.ms": str(WEEK)}


@pytest.mark.parametrize(("replication", "insync"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_what_is_acknowledged_survives_the_loss_of_a_broker(replication, insync):
    for topic in wanted(replication=replication).values():
        assert topic.replication == replication
        assert topic.least[INSYNC] == insync
        assert topic.exact[UNCLEAN] == "false"


def test_the_embedded_broker_is_asked_for_nothing_that_it_does_not_heed():
    topics = wanted(replication=3, embedded=True)
    assert all((topic.replication, topic.settings) == (1, {}) for topic in topics.values())
    assert topics.keys() == wanted().keys()


def test_topics_as_they_are_wanted_have_no_faults():
    topics = wanted()
    there = as_wanted(topics)
    assert faults(there, list(topics.values())) == []
    assert refusals(there, PREFIX, MIB) == []
    for name, topic in topics.items():
        assert lasting(there[name], topic) == []
        assert fixes(there[name], topic) == improvements(there[name], topic) == {}


@pytest.mark.parametrize(
    ("name", "setting", "wrong", "right"),
    [
        (REPORTS, TIMESTAMP, "CreateTime", "LogAppendTime"),
        (REPORTS, CLEANUP, "compact", "delete"),
        (REPORTS, MAX_BYTES, str(MIB), str(MIB + (64 << 10))),
        (SNAPSHOTS, CLEANUP, "compact,delete", "compact"),
        (CHANGELOG, MAX_BYTES, "1048588", str(LARGEST)),
        (CHANGELOG, INSYNC, "1", "2"),
        (CHANGELOG, INSYNC, "4", "2"),
        (CHANGELOG, UNCLEAN, "true", "false"),
    ],
)
def test_a_wrong_setting_is_a_fault_and_is_mended_alone(name, setting, wrong, right):
    topics = wanted()
    there = changed(topics, PREFIX + name, **{setting: wrong})
    assert fixes(there[PREFIX + name], topics[PREFIX + name]) == {setting: right}
    [fault] = faults(there, list(topics.values()))
    assert fault == f"{PREFIX}{name}: {setting} is {wrong}, but must be {right}; run `hubbub topics`"
    assert refusals(there, PREFIX, MIB) == [fault]


@pytest.mark.parametrize(
    ("name", "setting", "other"),
    [(REPORTS, MAX_BYTES, str(32 * MIB)), (SNAPSHOTS, INSYNC, "3"), ("estimates", CLEANUP, "delete, compact")],
)
def test_more_than_enough_and_the_same_in_other_words_are_right(name, setting, other):
    topics = wanted()
    assert faults(changed(topics, PREFIX + name, **{setting: other}), list(topics.values())) == []


def test_advice_yields_to_a_choice():
    topic = wanted()[PREFIX + SNAPSHOTS]
    settings = {**topic.settings, "segment.ms": "604800000"}
    default = TopicDescription(topic.name, 6, 3, settings)
    choice = replace(default, own=frozenset({"segment.ms"}))
    assert improvements(default, topic) == {"segment.ms": "600000"}
    assert improvements(choice, topic) == {}
    assert fixes(default, topic) == {}


def test_another_number_of_partitions_is_a_fault_where_it_matters():
    topics = wanted(6)
    for name, topic in topics.items():
        there = {**as_wanted(topics), name: replace(as_wanted(topics)[name], partitions=4)}
        findings = faults(there, list(topics.values()))
        matters = name.removeprefix(PREFIX) in (REPORTS, SNAPSHOTS, "queries", CHANGELOG)
        assert [fault.split(";")[0] for fault in findings] == [
            f"{name}: has 4 partitions, not {topic.partitions}"
        ] * matters
    assert "--partitions 4" in lasting(TopicDescription(PREFIX + REPORTS, 4, 3, {}), topics[PREFIX + REPORTS])[0]
    assert (
        "count all reports again"
        in lasting(TopicDescription(PREFIX + SNAPSHOTS, 4, 3, {}), topics[PREFIX + SNAPSHOTS])[0]
    )


def test_a_worker_takes_partitions_and_replicas_from_the_reports():
    for partitions, replication in ((1, 1), (6, 2), (12, 3)):
        assert refusals(as_wanted(wanted(partitions, replication)), PREFIX, MIB) == []
    mixed = {**as_wanted(wanted(6)), PREFIX + CHANGELOG: as_wanted(wanted(8))[PREFIX + CHANGELOG]}
    [fault] = refusals(mixed, PREFIX, MIB)
    assert fault.startswith("p.worker-tallies-changelog: has 8 partitions, not 6")


def test_missing_topics_are_faults_and_without_reports_nothing_else_is_said():
    there = as_wanted(wanted())
    del there[PREFIX + SNAPSHOTS]
    assert refusals(there, PREFIX, MIB) == ["p.snapshots: there is no such topic; run `hubbub topics`"]
    assert refusals({}, PREFIX, MIB) == ["p.reports: there is no such topic; run `hubbub topics`"]


def test_a_worker_with_larger_frames_refuses_reports_that_cannot_hold_them():
    [fault] = refusals(as_wanted(wanted()), PREFIX, 2 * MIB)
    assert fault.startswith("p.reports: max.message.bytes is ")


def test_too_few_replicas_are_a_fault_that_no_setting_mends():
    topic = wanted()[PREFIX + CHANGELOG]
    one = TopicDescription(topic.name, 6, 1, {**topic.settings, INSYNC: "1"})
    [fault] = lasting(one, topic)
    assert "1 of 3 replicas" in fault
    assert fixes(one, topic) == {}  # two in sync of one would stop all writes


def test_more_replicas_than_brokers_are_impossible():
    topics = list(wanted().values())
    assert list(obstacles(topics, 3)) == list(obstacles([], 1)) == []
    [fault] = obstacles(topics, 1)
    assert fault == "1 broker cannot hold 3 replicas; start more brokers, or use --replication 1"


def test_the_document_names_every_topic_with_its_policy_and_every_setting():
    text = DOCUMENT.read_text()
    for topic in layout("hubbub.", 12, 3, MIB):
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{topic.name}` |")]
        assert row.endswith(f"| {topic.exact[CLEANUP]} |")
        assert all(f"`{setting}" in text for setting in topic.settings)
