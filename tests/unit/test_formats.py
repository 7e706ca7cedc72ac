"""The formats version, as its record has it, and what releases say about it."""

import json

import pytest

from aggregator.plan import check
from aggregator.reading.doctor import state_lines, topic_lines
from hubbub.definitions import catalog, formats
from hubbub.definitions.catalog import DefinitionLog, TopicRecord
from hubbub.definitions.formats import NEWEST, Formats, FormatsError, lower_text, raise_refusal, refuse_higher, release
from hubbub.definitions.key_formats import FIRST_FORMATS, early_keys, refuse_early_keys
from hubbub.kafka.group import Member
from oracles.query import File
from tests.queries import make_queries, make_table
from tests.upgrade.releases import PRESENT, RELEASES

LENGTHENED = make_table(domain=["a", "b"], renew="1d", budget=16.0, lengthened=True)
"""A query with a key that workers of release 0.2.0 cannot read."""
QUERIES = make_queries({"page": make_table(domain=["a", "b"], epsilon=2.0, windows=["10s"])})


def record(version, name="0.9.0", **more):
    return TopicRecord(formats.KEY, json.dumps({"version": version, "release": name, **more}).encode(), 0)


def definitions(*records):
    return catalog.read(records)


def test_the_newest_version_is_3_and_its_record_has_the_release():
    assert NEWEST == 3
    assert json.loads(formats.newest_value()) == {"version": 3, "release": release()}
    assert formats.read(formats.newest_value()) == Formats(3, release())


def test_a_missing_record_means_version_1():
    assert definitions().formats == Formats(1, None)
    assert definitions(record(2), TopicRecord(formats.KEY, None, 0)).formats == Formats(1, None)


def test_the_newest_record_counts_and_later_keys_are_ignored():
    assert definitions(record(2), record(3, "1.0.0", why="later")).formats == Formats(3, "1.0.0")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"null",
        b'{"version":0,"release":"1"}',
        b'{"version":true,"release":"1"}',
        b'{"version":2.0,"release":"1"}',
        b'{"version":1e99,"release":"1"}',
        b'{"version":2}',
        b'{"version":2,"release":"\\u001b[2J"}',
        b'{"version":2,"release":"' + b"9" * 65 + b'"}',
        b"[" * 100_000,
    ],
)
def test_an_unreadable_record_is_reported_and_means_version_1(value):
    result = definitions(record(2), TopicRecord(formats.KEY, value, 0))
    assert result.formats == Formats()
    assert [record.key for record in result.unreadable] == [formats.KEY]
    assert not definitions(TopicRecord(formats.KEY, value, 0), record(2)).unreadable


def test_the_record_does_not_make_the_topic_count_as_non_empty():
    file = File(QUERIES)
    empty_writes = catalog.changes(file, definitions(), (), "t").writes
    assert catalog.changes(file, definitions(record(2)), (), "t").writes == empty_writes
    (write,) = empty_writes
    (versions,) = definitions(record(2), TopicRecord(*write, 10**12)).versions.values()
    assert versions.first == 0, "the first definitions apply to all panes"


def test_the_version_survives_forgotten_definitions():
    log = DefinitionLog()
    log.take(record(2))
    for key, value in catalog.changes(File(QUERIES), log.definitions, (), "a").writes:
        log.take(TopicRecord(key, value, 0))
    for key, value in catalog.changes(File({}), log.definitions, ["page"], "b").writes:
        log.take(TopicRecord(key, value, 1))
    log.forget(dict.fromkeys(log.definitions.versions, "page"))
    assert log.definitions.formats.version == 2


def test_releases_refuse_a_higher_version_and_name_the_release_that_raised_it():
    refuse_higher(Formats())
    refuse_higher(Formats(NEWEST, "0.9.0"))
    with pytest.raises(FormatsError, match=r"version 4, raised by release 1\.4\.0.*install release 1\.4\.0") as error:
        refuse_higher(Formats(4, "1.4.0"))
    assert error.value.exit_code == 4


def test_a_lower_version_names_both_versions_and_the_steps():
    text = lower_text(Formats())
    assert f"version 1, and this is release {release()}, which writes version {NEWEST}" in text
    assert "Stop all workers, run `hubbub topics --raise-formats`, and start them again" in text


def test_the_version_rises_only_if_asked_and_only_without_members():
    assert raise_refusal(Formats(), [], may_rise=True) is None
    for members, may_rise in (([], False), (["faust-1 at 10.0.0.7"], False), (["faust-1 at 10.0.0.7"], True)):
        text = raise_refusal(Formats(), members, may_rise=may_rise)
        assert "version 1" in text
        assert f"version {NEWEST}" in text
        assert "Stop all workers first" in text
        assert "Nothing was changed" in text
        assert ("1 in the group: faust-1 at 10.0.0.7" in text) == bool(members)


def test_a_newer_key_is_refused_below_its_formats_version_with_code_4():
    queries = make_queries({"page": LENGTHENED, "site": LENGTHENED, "plain": LENGTHENED | {"lengthened": False}})
    (text,) = early_keys(queries.values(), Formats(2, "0.2.0"))
    assert "the query key `lengthened` needs formats version 3, and the topics have formats version 2" in text
    assert "(queries: page, site)" in text
    assert "Remove the key, or stop all workers and run `hubbub topics --raise-formats`" in text
    with pytest.raises(FormatsError, match="needs formats version 3") as error:
        refuse_early_keys(queries.values(), Formats(2, "0.2.0"))
    assert error.value.exit_code == 4
    refuse_early_keys(queries.values(), Formats(3, "0.3.0"))
    assert max(FIRST_FORMATS.values()) <= NEWEST


def test_a_check_names_a_key_that_needs_a_higher_formats_version():
    file = File(make_queries({"page": LENGTHENED}))
    (reason,) = check.start_refusals(file, definitions(record(2)))
    assert "`lengthened` needs formats version 3" in reason
    assert check.start_refusals(file, definitions(record(3))) == []


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (None, ["the prefix is new", "gives it version 3"]),
        (Formats(), ["version 1; this release", "stop all workers", "way back: ", "only by a count from nothing"]),
        (
            Formats(2, "0.2.0"),
            [
                "version 2, raised by release 0.2.0",
                "stop all workers",
                "way back: ",
                "by `hubbub topics --lower-formats`",
            ],
        ),
        (Formats(3, "0.3.0"), ["raised by release 0.3.0", "does not rise", "may replace this one, in any order"]),
        (Formats(4, "0.4.0"), ["this release cannot work here", "install release 0.4.0"]),
    ],
)
def test_the_doctor_says_whether_the_version_rises_and_whether_there_is_a_way_back(version, words):
    text = "\n".join(state_lines(version, ["hubbub-worker/0.1.0 at 10.0.0.7"]))
    assert [word for word in words if word not in text] == []
    assert "workers: 1 in the group: hubbub-worker/0.1.0 at 10.0.0.7" in text


def test_the_doctor_says_whether_older_workers_are_shut_out():
    texts = {has: "\n".join(state_lines(Formats(3, "0.3.0"), [], has_fence=has)) for has in (True, False, None)}
    assert "fence: set, so workers of releases before 0.3 exit at their start" in texts[True]
    assert (
        "fence: none, so workers of releases before 0.3 are not shut out; run `hubbub topics --fence`" in texts[False]
    )
    assert "fence" not in texts[None]
    assert "fence:" not in "\n".join(state_lines(Formats(2, "0.2.0"), [], has_fence=False))


@pytest.mark.parametrize(
    ("client_id", "release"),
    [
        ("faust-1.0", (0, 0)),
        ("hubbub-worker/0.2.0", (0, 2)),
        ("hubbub-worker/0.3.0+other", (0, 3)),
        ("hubbub-worker/10.11", (10, 11)),
        ("hubbub-worker/", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_a_member_of_the_group_has_the_release_of_its_client_id(client_id, release):
    assert Member(client_id, "").release == release


def test_the_doctor_prints_only_the_steps_of_topics_that_change_something():
    assert [*topic_lines(["right a: 1 partition"])] == ["topics: all are right"]
    assert [*topic_lines(["right a: 1 partition", "would create b: x"])] == ["topics: would create b: x"]


def test_the_upgrade_tests_know_the_present_release():
    assert RELEASES[PRESENT]["formats"] == NEWEST
    assert [*RELEASES][-1] == PRESENT
