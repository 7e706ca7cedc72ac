"""The topic of definitions: what its records say, from which pane on, and what a file asks of it."""

import json
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from aggregator.merging.merger import Merger
from aggregator.tallies.snapshot import PARTIAL, Snapshot, encode_snapshot
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.definitions.versions import Version, Versions
from oracles.multi import _encoder as encoder_of
from oracles.query import File, parse
from oracles.query.settings import Window
from tests.logs import START, VERSIONS

SECOND = 1000
NOW = 1_000_000 * SECOND
PAGE = {"domain": ["a", "b"], "oracle": "grr", "epsilon": 1.0, "pane": "10s", "lateness": "5s", "skew": "30s"}


def file(revision=0, **tables):
    return File(parse({"queries": tables}, "test", "."), revision)


def appended(records, file, at, retire=(), token=None):
    """The topic after a worker with this file has looked at it."""
    said = changes(file, read(records), retire, token or f"{len(records):016x}")
    assert not said.missing
    return records + [TopicRecord(key, value, at) for key, value in said.writes]


def spoken(records, name="page"):
    """First pane and lateness of each version of a name, and whether it is retired."""
    found = read(records).versions.values()
    return [(v.first, v.query.lateness, v.retired) for one in found if one.query.name == name for v in one.versions]


FIRST = appended([], file(page=PAGE), NOW)


def test_the_first_file_speaks_for_all_panes():
    assert spoken(FIRST) == [(0, 5, False)]
    assert read(FIRST).active == file(page=PAGE).queries


def test_what_is_there_is_not_appended_again():
    assert appended(FIRST, file(page=PAGE), NOW + 5) == FIRST


@pytest.mark.parametrize(("skew", "larger"), [("30s", 30), ("20s", 30), ("50s", 50)])
def test_a_change_speaks_from_the_first_pane_after_its_own_time_the_larger_skew_and_the_margin(skew, larger):
    later = appended(FIRST, file(page=PAGE | {"lateness": "7s", "skew": skew}), NOW + 7 * SECOND)
    first = (1_000_000 + 7 + larger + 2) // 10 * 10 + 10
    assert spoken(later) == [(0, 5, False), (first, 7, False)]


def test_a_pane_that_begins_at_that_very_moment_is_not_after_it():
    later = appended(FIRST, file(page=PAGE | {"lateness": "7s"}), NOW + 8 * SECOND)
    assert spoken(later)[-1][0] == 1_000_050


def test_a_new_query_speaks_from_its_own_first_pane_also_where_others_were_first():
    later = appended(FIRST, file(page=PAGE, site=PAGE), NOW)
    assert spoken(later, "site") == [(1_000_040, 5, False)]


def test_of_two_workers_that_find_the_topic_empty_the_first_to_write_speaks_for_all_panes():
    slow = changes(file(page=PAGE | {"lateness": "9s"}, site=PAGE), read([]), (), "b" * 16).writes
    both = FIRST + [TopicRecord(key, value, NOW + SECOND) for key, value in slow]
    assert spoken(both) == [(0, 5, False), (1_000_040, 9, False)]
    assert spoken(both, "site") == [(1_000_040, 5, False)]


def test_the_same_said_twice_changes_nothing():
    new = file(page=PAGE | {"lateness": "9s"})
    twice = [changes(new, read(FIRST), (), token * 16).writes for token in "bc"]
    records = FIRST + [TopicRecord(*write, NOW + i * 90 * SECOND) for i, writes in enumerate(twice) for write in writes]
    assert spoken(records) == [(0, 5, False), (1_000_040, 9, False)]


def test_a_version_never_speaks_before_the_one_before_it():
    wide = appended(FIRST, file(page=PAGE | {"skew": "10m"}), NOW)
    back = appended(wide, file(page=PAGE | {"skew": "1m"}), NOW + SECOND)
    firsts = [first for first, *_ in spoken(back)]
    assert firsts == sorted(firsts)


def test_a_new_digest_of_a_name_retires_the_old_one_from_its_own_first_pane():
    longer = appended(FIRST, file(page=PAGE | {"pane": "60s"}), NOW)
    assert spoken(longer) == [(0, 5, False), (1_000_080, 5, True), (1_000_080, 5, False)]
    assert [query.pane for query in read(longer).active.values()] == [60]
    back = appended(longer, file(page=PAGE), NOW + 600 * SECOND)
    assert [query.pane for query in read(back).active.values()] == [10]


def test_a_file_that_lacks_a_query_names_it_and_retires_nothing():
    both = appended([], file(page=PAGE, site=PAGE), NOW)
    said = changes(file(page=PAGE | {"lateness": "9s"}), read(both), (), "b" * 16)
    assert (said.missing, said.writes) == (("site",), [])


def test_an_oracle_that_the_file_leaves_open_stays_the_one_that_stands():
    stood = appended([], file(page=PAGE | {"oracle": "oue"}), NOW)
    open_ = PAGE | {"oracle": "auto"}
    assert file(page=open_).queries["page"].oracle_names != ("oue",)
    assert not changes(file(page=open_), read(stood), (), "b" * 16).writes
    [later] = read(appended(stood, file(page=open_ | {"lateness": "9s"}), NOW)).active.values()
    assert (later.oracle_names, later.lateness) == (("oue",), 9)
    [other] = read(appended(stood, file(page=open_ | {"epsilon": 2.0}), NOW)).active.values()
    assert other.oracle_names != ("oue",)


def test_a_query_is_retired_where_that_was_said():
    both = appended([], file(page=PAGE, site=PAGE), NOW)
    records = appended(both, file(page=PAGE), NOW, retire=["site"])
    assert spoken(records, "site") == [(0, 5, False), (1_000_040, 5, True)]
    again = changes(file(page=PAGE), read(records), ["site", "page", "nobody"], "c" * 16)
    assert (again.writes, again.missing, again.ignored) == ([], (), ("nobody", "page", "site"))


def test_an_older_revision_of_the_file_changes_nothing():
    seven = appended([], file(7, page=PAGE, site=PAGE), NOW)
    said = changes(file(6, page=PAGE | {"lateness": "9s"}), read(seven), (), "b" * 16)
    assert (said.behind, said.writes, said.missing) == (True, [], ())
    assert changes(file(7, page=PAGE, site=PAGE | {"lateness": "9s"}), read(seven), (), "b" * 16).writes


def spoiled(name):
    """A record that says what nobody can count."""
    (record,) = appended([], file(page=PAGE), NOW, token="d" * 16)
    said = json.loads(record.value)
    value = {
        "no JSON": b"{",
        "a list": b"[]",
        "another digest": json.dumps(said | {"query": "other"}).encode(),
        "no definition": json.dumps({"query": "page", "retired": False}).encode(),
        "a file": json.dumps(said | {"definition": said["definition"] | {"domain": {"file": "/etc/passwd"}}}).encode(),
        "a deep one": b"[" * 100_000,
        "no flag": json.dumps(said | {"retired": "no"}).encode(),
        "one too large": json.dumps(said | {"definition": said["definition"] | {"domain": 1 << 23}}).encode(),
    }.get(name, record.value)
    key = {"a foreign key": b"\xff|v1", "no digest": b"page|v1"}.get(name, record.key)
    return TopicRecord(key, value, NOW)


@pytest.mark.parametrize(
    "name",
    [
        *("no JSON", "a list", "another digest", "no definition", "a file", "a deep one", "no flag"),
        *("a foreign key", "no digest", "one too large"),
    ],
)
def test_what_cannot_be_read_is_passed_over_and_a_tombstone_takes_it_away(name):
    bad = spoiled(name)
    found = read([*FIRST, bad])
    assert found.active == file(page=PAGE).queries
    assert [unread.key for unread in found.unreadable] == [bad.key]
    assert not read([*FIRST, bad, TopicRecord(bad.key, None, NOW)]).unreadable


def test_a_definition_may_not_name_a_file():
    [unread] = read([spoiled("a file")]).unreadable
    assert "a file is not allowed here" in unread.fault


def test_a_definition_whose_tally_no_record_could_hold_is_passed_over():
    [unread] = read([spoiled("one too large")]).unreadable
    assert "more than 60 MiB" in unread.fault


def merged(versions, defined):
    """The finals of a merger that knows of each version when `defined` says so: by the number of closed panes."""
    random = Random(5)
    cells, pane = versions.query.oracle.state_size, versions.query.pane
    now = Versions(versions.versions[: defined(START)])
    merger, found = Merger(now, 1), []
    for start in range(START, START + 200, pane):
        merger.define(Versions(versions.versions[: defined(start)]))
        n = random.choice([0, 0, 1, 5])
        merger.take(start, 0, Snapshot(n, 0, 0, 0, np.full(cells, n)), None)
        merger.mark(0, start + pane)
        found += [(final.span, encode_snapshot(final.total)) for final in merger.finals()]
    return found


@pytest.mark.parametrize("versions", VERSIONS.values(), ids=lambda versions: versions.query.name)
def test_a_merger_may_learn_of_a_version_at_any_time_before_its_first_pane(versions):
    late = merged(versions, lambda pane: sum(version.first <= pane for version in versions.versions))
    early = merged(versions, lambda _: len(versions.versions))
    assert set(late) == set(early)


SIZES = {"short": Window("tumbling", 10, 10), "hops": Window("hopping", 30, 20), "all": Window("all", 0, 0)}


def windows_of(*at):
    """The finals of reports in every pane from 100 on, where windows change: n, start and end of each."""
    query = next(iter(file(page=PAGE).queries.values()))
    versions = [
        Version(first, replace(query, windows=tuple(SIZES[name] for name in names.split()), **dict(more)))
        for first, names, *more in at
    ]
    merger, cells = Merger(Versions(tuple(versions)), 1), query.oracle.state_size
    for start in range(100, 300, 10):
        merger.take(start, 0, Snapshot(1, 0, 0, 0, np.zeros(cells, int)), None)
    merger.mark(0, 300)
    return [(f.span.window.kind, f.span.start, f.span.end, f.total.n, f.total.flags) for f in merger.finals()]


def test_the_first_record_of_a_new_window_is_its_first_whole_one():
    found = [window for window in windows_of((0, "short"), (150, "short hops")) if window[0] == "hopping"]
    assert found[0] == ("hopping", 160, 190, 3, 0)


def test_a_window_that_is_taken_out_ends_with_its_last_whole_one():
    found = [window for window in windows_of((0, "short hops"), (150, "short")) if window[0] == "hopping"]
    assert found[-1] == ("hopping", 120, 150, 3, 0)


def test_all_that_is_put_back_starts_anew():
    found = [window for window in windows_of((0, "all"), (150, "short"), (200, "all")) if window[0] == "all"]
    assert found[4:6] == [("all", 100, 150, 5, 0), ("all", 200, 210, 1, 0)]
    assert found[-1] == ("all", 200, 300, 10, 0)


def test_windows_within_which_the_counting_changed_are_partial_and_all_from_then_on():
    found = windows_of(
        (0, "hops all"), (150, "hops all", ("lateness", 9)), (200, "hops all", ("lateness", 9), ("publish", 7))
    )
    assert {(start, end) for kind, start, end, _, flags in found if kind == "hopping" and flags} == {(140, 170)}
    assert {end for kind, _, end, _, flags in found if kind == "all" and flags == PARTIAL} == {*range(160, 301, 10)}


def test_a_definition_says_what_adaptive_came_to(monkeypatch):
    """Whoever reads it, a later version with another rule too, counts by the oracles that clients were told."""
    several = {"attributes": {"a": 3, "b": 70}, "epsilon": 1.0, "budget": 1e9, "pane": "10s"}
    (record,) = appended([], file(profile=several), NOW)
    before = read([record]).active["profile"]
    assert before.oracle_names == ("grr", "oue")
    assert json.loads(record.value)["definition"]["oracle"] == ["grr", "oue"]
    monkeypatch.setattr(
        "oracles.multi._encoder", lambda name, *more: encoder_of("hr" if name == "adaptive" else name, *more)
    )
    after = read([record])
    assert not after.unreadable
    assert after.active["profile"].digest == before.digest
    assert after.active["profile"].oracle_names == ("grr", "oue")
