"""The layout of the topics, with their settings, their faults, and the corrections."""

from dataclasses import replace
from pathlib import Path

import faust
import pytest

from aggregator.topics.layout import (
    CLEANUP,
    FENCED,
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
    other_number,
    present_number,
    refusals,
)
from hubbub.kafka.settings import CHANGELOG, LARGEST, REPORTS, SNAPSHOTS, TALLIES, WORKER

DOCUMENT = Path(__file__).parents[2] / "docs" / "topics.md"
PREFIX = "p."
UNCLEAN = "unclean.leader.election.enable"


def layout_for(partitions=6, replication=3, **options):
    return {topic.name: topic for topic in layout(PREFIX, partitions, replication, MIB, **options)}


def right_topics(topics):
    return {
        name: TopicDescription(name, topic.partitions, topic.replication, topic.settings, frozenset(topic.settings))
        for name, topic in topics.items()
    }


def with_settings(topics, name, **settings):
    """Return the right topics, except for some settings of one topic."""
    existing = right_topics(topics)
    existing[name] = replace(existing[name], settings={**existing[name].settings, **settings})
    return existing


def test_every_kind_of_record_has_a_topic():
    names = ("reports", "rejects", "snapshots", "clocks", "queries", "estimates", "maps", "alerts", "status", "truth")
    assert [topic.removeprefix(PREFIX) for topic in layout_for()] == [*names, "worker-tallies-changelog"]
    sizes = {name: topic.partitions for name, topic in layout_for(6).items()}
    assert {name: size for name, size in sizes.items() if size != 6} == {"p.clocks": 1, "p.queries": FENCED}


@pytest.mark.parametrize(("partitions", "is_right"), [(1, True), (2, True), (3, False)])
def test_queries_has_one_partition_or_a_fence(partitions, is_right):
    topics = layout_for(6)
    descriptions = right_topics(topics)
    descriptions["p.queries"] = replace(descriptions["p.queries"], partitions=partitions)
    assert (faults(descriptions, [*topics.values()]) == []) == is_right


def test_the_changelog_has_the_name_of_faust():
    table = faust.App(PREFIX + WORKER).Table(TALLIES, partitions=6)
    assert table.changelog_topic_name == PREFIX + CHANGELOG


def test_the_reports_topic_has_the_broker_s_time_and_the_largest_frame():
    reports = layout_for()[PREFIX + REPORTS]
    assert reports.exact[TIMESTAMP] == "LogAppendTime"
    assert reports.exact[CLEANUP] == "delete"
    assert reports.least[MAX_BYTES] > MIB  # one a little too large arrives, to be refused and counted


def test_topics_with_keys_are_compacted():
    policies = {name.removeprefix(PREFIX): topic.exact[CLEANUP] for name, topic in layout_for().items()}
    assert policies == {
        **dict.fromkeys(("reports", "rejects", "alerts", "truth"), "delete"),
        **dict.fromkeys(("snapshots", "clocks", "queries", "status", CHANGELOG), "compact"),
        **dict.fromkeys(("estimates", "maps"), "compact,delete"),
    }
    assert layout_for()["p.estimates"].defaults == {"retention.ms": str(MONTH)}
    assert layout_for()["p.rejects"].defaults == {"retention.ms": str(WEEK)}


@pytest.mark.parametrize(("replication", "insync"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_acknowledged_records_survive_the_loss_of_a_broker(replication, insync):
    for topic in layout_for(replication=replication).values():
        assert topic.replication == replication
        assert topic.least[INSYNC] == insync
        assert topic.exact[UNCLEAN] == "false"


def test_the_embedded_broker_gets_only_settings_that_it_supports():
    topics = layout_for(replication=3, embedded=True)
    assert all((topic.replication, topic.settings) == (1, {}) for topic in topics.values())
    assert topics.keys() == layout_for().keys()


def test_right_topics_have_no_faults():
    topics = layout_for()
    existing = right_topics(topics)
    assert faults(existing, list(topics.values())) == []
    assert refusals(existing, PREFIX, MIB) == []
    for name, topic in topics.items():
        assert lasting(existing[name], topic) == []
        assert fixes(existing[name], topic) == improvements(existing[name], topic) == {}


@pytest.mark.parametrize(
    ("name", "setting", "wrong_setting", "right"),
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
def test_a_wrong_setting_is_a_fault_and_only_it_is_corrected(name, setting, wrong_setting, right):
    topics = layout_for()
    existing = with_settings(topics, PREFIX + name, **{setting: wrong_setting})
    assert fixes(existing[PREFIX + name], topics[PREFIX + name]) == {setting: right}
    [fault] = faults(existing, list(topics.values()))
    assert fault == f"{PREFIX}{name}: {setting} is {wrong_setting}, but must be {right}; run `hubbub topics`"
    assert refusals(existing, PREFIX, MIB) == [fault]


@pytest.mark.parametrize(
    ("name", "setting", "other"),
    [(REPORTS, MAX_BYTES, str(32 * MIB)), (SNAPSHOTS, INSYNC, "3"), ("estimates", CLEANUP, "delete, compact")],
)
def test_larger_values_and_other_spellings_are_right(name, setting, other):
    topics = layout_for()
    assert faults(with_settings(topics, PREFIX + name, **{setting: other}), list(topics.values())) == []


def test_a_choice_of_the_operator_overrides_advice():
    topic = layout_for()[PREFIX + SNAPSHOTS]
    settings = {**topic.settings, "segment.ms": "604800000"}
    default = TopicDescription(topic.name, 6, 3, settings)
    choice = replace(default, own=frozenset({"segment.ms"}))
    assert improvements(default, topic) == {"segment.ms": "600000"}
    assert improvements(choice, topic) == {}
    assert fixes(default, topic) == {}


def test_another_number_of_partitions_is_a_fault_if_it_matters():
    topics = layout_for(6)
    for name, topic in topics.items():
        existing = {**right_topics(topics), name: replace(right_topics(topics)[name], partitions=4)}
        findings = faults(existing, list(topics.values()))
        matters = name.removeprefix(PREFIX) in (REPORTS, SNAPSHOTS, "queries", CHANGELOG)
        assert [fault.split(";")[0] for fault in findings] == [
            f"{name}: has 4 partitions, not {topic.partitions}"
        ] * matters
    assert "--partitions 4" in lasting(TopicDescription(PREFIX + REPORTS, 4, 3, {}), topics[PREFIX + REPORTS])[0]
    assert (
        "count again what the log still holds"
        in lasting(TopicDescription(PREFIX + SNAPSHOTS, 4, 3, {}), topics[PREFIX + SNAPSHOTS])[0]
    )


@pytest.mark.parametrize("lost", [(), (REPORTS,), (REPORTS, CHANGELOG), (SNAPSHOTS, CHANGELOG)])
def test_the_number_of_partitions_is_that_of_the_topics_that_are_left(lost):
    """Somebody who has lost a topic gets no advice to delete the others."""
    existing = right_topics(layout_for(5))
    for name in lost:
        del existing[PREFIX + name]
    assert present_number(existing, PREFIX) == 5
    assert other_number(existing, PREFIX, 5) is None
    line = other_number(existing, PREFIX, 6)
    assert line.endswith("run `hubbub topics --partitions 5`")
    assert "delete" not in line


def test_topics_that_differ_have_no_number_without_reports():
    existing = right_topics(layout_for(5)) | {PREFIX + SNAPSHOTS: TopicDescription(PREFIX + SNAPSHOTS, 4, 3, {})}
    assert present_number(existing, PREFIX) == 5
    del existing[PREFIX + REPORTS]
    assert present_number(existing, PREFIX) is None
    assert other_number(existing, PREFIX, 12) is None


def test_a_worker_takes_partitions_and_replicas_from_the_reports():
    for partitions, replication in ((1, 1), (6, 2), (12, 3)):
        assert refusals(right_topics(layout_for(partitions, replication)), PREFIX, MIB) == []
    topics = {**right_topics(layout_for(6)), PREFIX + CHANGELOG: right_topics(layout_for(8))[PREFIX + CHANGELOG]}
    [fault] = refusals(topics, PREFIX, MIB)
    assert fault.startswith("p.worker-tallies-changelog: has 8 partitions, not 6")


def test_missing_topics_are_faults_and_without_reports_there_is_no_other_message():
    existing = right_topics(layout_for())
    del existing[PREFIX + SNAPSHOTS]
    assert refusals(existing, PREFIX, MIB) == ["p.snapshots: there is no such topic; run `hubbub topics`"]
    assert refusals({}, PREFIX, MIB) == ["p.reports: there is no such topic; run `hubbub topics`"]


def test_a_worker_with_larger_frames_refuses_reports_that_cannot_hold_them():
    [fault] = refusals(right_topics(layout_for()), PREFIX, 2 * MIB)
    assert fault.startswith("p.reports: max.message.bytes is ")


def test_too_few_replicas_are_a_fault_that_no_setting_corrects():
    topic = layout_for()[PREFIX + CHANGELOG]
    description = TopicDescription(topic.name, 6, 1, {**topic.settings, INSYNC: "1"})
    [fault] = lasting(description, topic)
    assert "1 of 3 replicas" in fault
    assert fixes(description, topic) == {}  # two in sync of one would stop all writes


def test_more_replicas_than_brokers_are_impossible():
    topics = list(layout_for().values())
    assert list(obstacles(topics, 3)) == list(obstacles([], 1)) == []
    [fault] = obstacles(topics, 1)
    assert fault == "1 broker cannot hold 3 replicas; start more brokers, or use --replication 1"


def test_the_document_names_every_topic_with_its_policy_and_every_setting():
    text = DOCUMENT.read_text()
    for topic in layout("hubbub.", 12, 3, MIB):
        [row] = [line for line in text.splitlines() if line.startswith(f"| `{topic.name}` |")]
        assert row.endswith(f"| {topic.exact[CLEANUP]} |")
        assert all(f"`{setting}" in text for setting in topic.settings)
