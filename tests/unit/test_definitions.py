"""The topic of definitions, the first panes of its versions, and the records that a file appends."""

import json
import tomllib
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from aggregator.merging.merger import Merger
from aggregator.tallies.snapshot import PARTIAL, Snapshot, encode_snapshot
from hubbub.definitions.catalog import TopicRecord, changes, read
from hubbub.definitions.versions import Version, Versions
from oracles.multi import _encoder as encoder_of
from oracles.query import File
from oracles.query.settings import Window
from tests.logs import START, VERSIONS
from tests.queries import make_queries, make_table

SECOND = 1000
NOW = 1_000_000 * SECOND
PAGE = make_table(domain=["a", "b"], oracle="grr", lateness="5s", skew="30s")


def file(revision=0, **tables):
    return File(make_queries(tables), revision)


def append(records, file, moment, retire=(), token=None):
    """Return the topic after a worker with this file has read it."""
    update = changes(file, read(records), retire, token or f"{len(records):016x}")
    assert not update.missing
    return records + [TopicRecord(key, value, moment) for key, value in update.writes]


def versions_of(records, name="page"):
    """Return (first pane, lateness, retired) for each version of a query."""
    versions = read(records).versions.values()
    return [(v.first, v.query.lateness, v.retired) for one in versions if one.query.name == name for v in one.versions]


FIRST = append([], file(page=PAGE), NOW)


def test_the_first_file_applies_to_all_panes():
    assert versions_of(FIRST) == [(0, 5, False)]
    assert read(FIRST).active == file(page=PAGE).queries


def test_an_unchanged_file_appends_nothing():
    assert append(FIRST, file(page=PAGE), NOW + 5) == FIRST


@pytest.mark.parametrize(("skew", "larger"), [("30s", 30), ("20s", 30), ("50s", 50)])
def test_a_change_applies_from_the_first_pane_after_its_time_the_larger_skew_and_the_margin(skew, larger):
    later_records = append(FIRST, file(page=PAGE | {"lateness": "7s", "skew": skew}), NOW + 7 * SECOND)
    # The margin is 2 s, and the pane must start later than the sum, so the next one begins.
    first = (1_000_000 + 7 + larger + 2) // 10 * 10 + 10
    assert versions_of(later_records) == [(0, 5, False), (first, 7, False)]


def test_a_pane_that_starts_at_exactly_that_time_is_before_the_change():
    later_records = append(FIRST, file(page=PAGE | {"lateness": "7s"}), NOW + 8 * SECOND)
    assert versions_of(later_records)[-1][0] == 1_000_050


def test_a_new_query_applies_from_its_own_first_pane_beside_older_queries():
    later_records = append(FIRST, file(page=PAGE, site=PAGE), NOW)
    assert versions_of(later_records, "site") == [(1_000_040, 5, False)]


def test_the_first_of_two_workers_on_an_empty_topic_applies_to_all_panes():
    slow_writes = changes(file(page=PAGE | {"lateness": "9s"}, site=PAGE), read([]), (), "b" * 16).writes
    both = FIRST + [TopicRecord(key, value, NOW + SECOND) for key, value in slow_writes]
    assert versions_of(both) == [(0, 5, False), (1_000_040, 9, False)]
    assert versions_of(both, "site") == [(1_000_040, 5, False)]


def test_a_repeated_record_changes_nothing():
    new_file = file(page=PAGE | {"lateness": "9s"})
    twice = [changes(new_file, read(FIRST), (), token * 16).writes for token in "bc"]
    # The second copy comes 90 s later, so without the rule it would apply from a later pane.
    records = FIRST + [TopicRecord(*write, NOW + i * 90 * SECOND) for i, writes in enumerate(twice) for write in writes]
    assert versions_of(records) == [(0, 5, False), (1_000_040, 9, False)]


def test_a_version_never_applies_before_an_older_one():
    wide_records = append(FIRST, file(page=PAGE | {"skew": "10m"}), NOW)
    back = append(wide_records, file(page=PAGE | {"skew": "1m"}), NOW + SECOND)
    firsts = [first for first, *_ in versions_of(back)]
    assert firsts == sorted(firsts)


def test_a_new_digest_of_a_name_retires_the_old_one_from_its_own_first_pane():
    longer = append(FIRST, file(page=PAGE | {"pane": "60s"}), NOW)
    assert versions_of(longer) == [(0, 5, False), (1_000_080, 5, True), (1_000_080, 5, False)]
    assert [query.pane for query in read(longer).active.values()] == [60]
    back = append(longer, file(page=PAGE), NOW + 600 * SECOND)
    assert [query.pane for query in read(back).active.values()] == [10]


def test_a_file_that_lacks_a_query_names_it_and_retires_nothing():
    both_records = append([], file(page=PAGE, site=PAGE), NOW)
    update = changes(file(page=PAGE | {"lateness": "9s"}), read(both_records), (), "b" * 16)
    assert update.missing == ("site",)
    assert update.writes == []


def test_auto_keeps_the_oracle_of_the_topic():
    records = append([], file(page=PAGE | {"oracle": "oue"}), NOW)
    open_ = PAGE | {"oracle": "auto"}
    assert file(page=open_).queries["page"].oracle_names != ("oue",)
    assert not changes(file(page=open_), read(records), (), "b" * 16).writes
    [later_values] = read(append(records, file(page=open_ | {"lateness": "9s"}), NOW)).active.values()
    assert later_values.oracle_names == ("oue",)
    assert later_values.lateness == 9
    [other_values] = read(append(records, file(page=open_ | {"epsilon": 2.0}), NOW)).active.values()
    assert other_values.oracle_names != ("oue",)


def test_a_query_is_retired_on_request_only():
    both_records = append([], file(page=PAGE, site=PAGE), NOW)
    records = append(both_records, file(page=PAGE), NOW, retire=["site"])
    assert versions_of(records, "site") == [(0, 5, False), (1_000_040, 5, True)]
    again = changes(file(page=PAGE), read(records), ["site", "page", "nobody"], "c" * 16)
    assert again.writes == []
    assert again.missing == ()
    assert again.ignored == ("nobody", "page", "site")


def test_an_older_revision_of_the_file_changes_nothing():
    seven = append([], file(7, page=PAGE, site=PAGE), NOW)
    update = changes(file(6, page=PAGE | {"lateness": "9s"}), read(seven), (), "b" * 16)
    assert update.behind is True
    assert update.writes == []
    assert update.missing == ()
    assert changes(file(7, page=PAGE, site=PAGE | {"lateness": "9s"}), read(seven), (), "b" * 16).writes


def invalid(name):
    """Return a record with a definition that no worker can count."""
    (record,) = append([], file(page=PAGE), NOW, token="d" * 16)
    content = json.loads(record.value)
    definition = content["definition"]
    value = {
        "no JSON": b"{",
        "a list": b"[]",
        "another digest": json.dumps(content | {"query": "other"}).encode(),
        "no definition": json.dumps({"query": "page", "retired": False}).encode(),
        "a file": json.dumps(content | {"definition": definition | {"domain": {"file": "/etc/passwd"}}}).encode(),
        "a deep one": b"[" * 100_000,
        "no flag": json.dumps(content | {"retired": "no"}).encode(),
        "one too large": json.dumps(content | {"definition": definition | {"domain": 1 << 23}}).encode(),
    }.get(name, record.value)
    key = {"a foreign key": b"\xff|v1", "no digest": b"page|v1"}.get(name, record.key)
    return TopicRecord(key, value, NOW)


@pytest.mark.parametrize(
    "name",
    [
        "no JSON",
        "a list",
        "another digest",
        "no definition",
        "a file",
        "a deep one",
        "no flag",
        "a foreign key",
        "no digest",
        "one too large",
    ],
)
def test_an_unreadable_record_is_skipped_and_a_tombstone_removes_it(name):
    bad = invalid(name)
    # One bad record must not hide the others, or a stranger could stop all queries.
    definitions = read([*FIRST, bad])
    assert definitions.active == file(page=PAGE).queries
    assert [unread.key for unread in definitions.unreadable] == [bad.key]
    assert not read([*FIRST, bad, TopicRecord(bad.key, None, NOW)]).unreadable


def test_a_definition_may_not_name_a_file():
    [unread] = read([invalid("a file")]).unreadable
    assert "a file is not allowed here" in unread.fault


def test_a_definition_with_a_tally_too_large_for_a_record_is_skipped():
    [unread] = read([invalid("one too large")]).unreadable
    assert "more than 60 MiB" in unread.fault


def finals_of(versions, times):
    """Return the finals of a merger. `times` are the numbers of closed panes after which it learns of each version."""
    random = Random(5)
    cells = versions.query.oracle.state_size
    pane = versions.query.pane
    present_versions = Versions(versions.versions[: times(START)])
    merger = Merger(present_versions, 1)
    finals = []
    for start in range(START, START + 200, pane):
        merger.define(Versions(versions.versions[: times(start)]))
        # Empty panes are the usual case of rare queries, and windows without reports are not emitted.
        n = random.choice([0, 0, 1, 5])
        merger.take(start, 0, Snapshot(n, 0, 0, 0, np.full(cells, n)))
        merger.mark(0, start + pane)
        finals += [(final.span, encode_snapshot(final.total)) for final in merger.finals()]
    return finals


@pytest.mark.parametrize("versions", VERSIONS.values(), ids=lambda versions: versions.query.name)
def test_a_merger_may_learn_of_a_version_at_any_time_before_its_first_pane(versions):
    late_finals = finals_of(versions, lambda pane: sum(version.first <= pane for version in versions.versions))
    early_finals = finals_of(versions, lambda _: len(versions.versions))
    assert set(late_finals) == set(early_finals)


SIZES = {"short": Window("tumbling", 10, 10), "hops": Window("hopping", 30, 20), "all": Window("all", 0, 0)}


def windows_of(*changes):
    """Return (n, start, end) of the finals of reports in every pane from 100 on, while windows change."""
    query = next(iter(file(page=PAGE).queries.values()))
    versions = [
        Version(
            first, replace(query, windows=tuple(SIZES[name] for name in names.split()), **{"crowd": 1, **dict(more)})
        )
        for first, names, *more in changes
    ]
    merger = Merger(Versions(tuple(versions)), 1)
    cells = query.oracle.state_size
    for start in range(100, 300, 10):
        merger.take(start, 0, Snapshot(1, 0, 0, 0, np.zeros(cells, int)))
    merger.mark(0, 300)
    return [(f.span.window.kind, f.span.start, f.span.end, f.total.n, f.total.flags) for f in merger.finals()]


def test_a_new_window_starts_with_its_first_complete_one():
    hops = [window for window in windows_of((0, "short"), (150, "short hops")) if window[0] == "hopping"]
    assert hops[0] == ("hopping", 160, 190, 3, 0)


def test_a_removed_window_ends_with_its_last_complete_one():
    hops = [window for window in windows_of((0, "short hops"), (150, "short")) if window[0] == "hopping"]
    assert hops[-1] == ("hopping", 120, 150, 3, 0)


def test_the_window_all_restarts_after_it_was_removed():
    totals = [window for window in windows_of((0, "all"), (150, "short"), (200, "all")) if window[0] == "all"]
    assert totals[4:6] == [("all", 100, 150, 5, 0), ("all", 200, 210, 1, 0)]
    assert totals[-1] == ("all", 200, 300, 10, 0)


def test_windows_with_a_change_of_counting_are_partial_and_so_is_all_from_then_on():
    windows = windows_of(
        (0, "hops all"), (150, "hops all", ("lateness", 9)), (200, "hops all", ("lateness", 9), ("publish", 7))
    )
    assert {(start, end) for kind, start, end, _, flags in windows if kind == "hopping" and flags} == {(140, 170)}
    assert {end for kind, _, end, _, flags in windows if kind == "all" and flags == PARTIAL} == {*range(160, 301, 10)}


def test_a_definition_names_the_oracles_of_adaptive(monkeypatch):
    """So every reader counts by the oracles of the clients, even a later version of hubbub with another rule."""
    several = make_table(attributes={"a": 3, "b": 70}, budget=1e9)
    (record,) = append([], file(profile=several), NOW)
    earlier_query = read([record]).active["profile"]
    assert earlier_query.oracle_names == ("grr", "oue")
    assert json.loads(record.value)["definition"]["oracle"] == ["grr", "oue"]

    def other_rule(name, *arguments, **settings):
        return encoder_of("hr" if name == "adaptive" else name, *arguments, **settings)

    # A later release with another rule would choose other oracles, of which the reports are none.
    monkeypatch.setattr("oracles.multi._encoder", other_rule)
    later_version = read([record])
    assert not later_version.unreadable
    assert later_version.active["profile"].digest == earlier_query.digest
    assert later_version.active["profile"].oracle_names == ("grr", "oue")


SCREENS = make_table(domain=64)


def edited(edition, **tables):
    return File(make_queries(tables, edition=edition), edition=edition)


@pytest.mark.parametrize(("before", "later_version"), [(1, 2), (2, 1)])
def test_a_file_that_differs_by_its_edition_alone_ends_no_query(before, later_version):
    records = append([], edited(before, screens=SCREENS, once=SCREENS | {"oracle": "grr", "answers": "once"}), NOW)
    file = edited(later_version, screens=SCREENS, once=SCREENS | {"oracle": "grr", "answers": "once"})
    update = changes(file, read(records), (), "b" * 16)
    assert list(update.edition_lines) == ["screens"]
    assert update.writes == []
    # The text joins the lines of a file by commas.
    lines = tomllib.loads(update.edition_lines["screens"].replace(", ", "\n"))
    kept = edited(later_version, screens=SCREENS | lines).queries["screens"]
    assert kept.digest == edited(before, screens=SCREENS).queries["screens"].digest


def test_another_change_together_with_the_edition_ends_no_query():
    records = append([], edited(1, screens=SCREENS), NOW)
    update = changes(edited(2, screens=SCREENS | {"lateness": "9s"}), read(records), (), "b" * 16)
    assert list(update.edition_lines) == ["screens"]
    assert update.writes == []


def test_a_query_goes_on_with_a_new_edition_on_request():
    records = append([], edited(1, screens=SCREENS), NOW)
    new = edited(2, screens=SCREENS)
    later_records = append(records, new, NOW + SECOND, retire=["screens"])
    assert read(later_records).active == new.queries
    repeated_changes = changes(new, read(later_records), ["screens"], "c" * 16)
    assert repeated_changes.writes == []
    assert repeated_changes.edition_lines == {}
    assert repeated_changes.ignored == ("screens",)


@pytest.mark.parametrize("change", [{"budget": 100.0}, {"answers": "once"}, {"answers": "once", "budget": 1.0}])
@pytest.mark.parametrize("edition", [1, 2])
def test_a_change_of_answers_or_budget_keeps_what_the_file_leaves_open(edition, change):
    records = append([], edited(1, screens=SCREENS), NOW)
    digest = edited(1, screens=SCREENS).queries["screens"].digest
    file = edited(edition, screens=SCREENS | change)
    later_records = append(records, file, NOW + SECOND)
    [query] = read(later_records).active.values()
    assert query.digest == digest
    assert {key: getattr(query, key) for key in change} == change
    assert append(later_records, file, NOW + 2 * SECOND) == later_records, "the same file changes nothing again"
    update = changes(edited(2, screens=SCREENS | change), read(later_records), (), "c" * 16)
    assert bool(update.edition_lines) == (edition == 1)


def test_a_new_epsilon_makes_a_new_query_in_any_edition():
    records = append([], edited(1, screens=SCREENS), NOW)
    new = edited(2, screens=SCREENS | {"epsilon": 2.0})
    assert read(append(records, new, NOW + SECOND)).active == new.queries


def test_a_definition_holds_its_noise_and_its_table():
    several = make_table(attributes={"a": 3, "b": 100}, budget=200.0)
    file = edited(2, screens=SCREENS, several=several)
    assert file.queries["screens"].table == 2
    assert file.queries["several"].table == {"a": 3}
    records = append([], file, NOW)
    assert read(records).active == file.queries
    content = json.loads(records[0].value)
    assert content["edition"] == 2
    assert content["definition"]["noise"] == "table"
    assert content["definition"]["table"] == 2
    assert json.loads(records[1].value)["definition"]["table"] == {"a": 3}


def test_a_definition_without_a_noise_is_of_the_first_edition():
    [old_record] = append([], edited(1, screens=SCREENS), NOW)
    content = json.loads(old_record.value)
    del content["edition"], content["definition"]["noise"]
    older = TopicRecord(old_record.key, json.dumps(content).encode(), NOW)
    assert read([older]).active == edited(1, screens=SCREENS).queries
    assert changes(edited(2, screens=SCREENS), read([older]), (), "b" * 16).edition_lines
