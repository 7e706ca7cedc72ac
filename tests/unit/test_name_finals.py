"""The finals of unknown strings: searches, names that stay known, small crowds, alerts, and restarts at every write.

The strings are so frequent that a false or missing name has a probability below 1e-6, with fixed seeds.
"""

import base64
import zlib
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from scipy import stats

from aggregator.merging import name_history
from aggregator.merging.marks import QueryMarks, decode
from aggregator.merging.merger import Merger
from aggregator.merging.name_history import NameHistory, NameSearch, surplus
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question, answers
from aggregator.publishing.finals.final import ResultSequence
from aggregator.publishing.kinds.names import enter_error, name_result
from aggregator.reading.audit.comparison import compare
from aggregator.reading.audit.fold import Fold
from aggregator.records.decoder import decode as decode_record
from aggregator.records.findings import Proof, Sighting
from aggregator.records.flat_rows import rows
from aggregator.records.maps_record import MapsKey, decode_maps, maps_name, maps_of, record_of
from aggregator.records.row_columns import COLUMNS
from aggregator.records.span import Span
from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey, PartitionKey
from aggregator.tallies.progress import Progress, encode_ends
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.versions import Version, Versions
from oracles.discover import Maps, ask
from oracles.discover.cell_hash import MAPS
from oracles.errors import ReportError
from oracles.frame import MAX_FRAME
from oracles.frame import encode as frame
from oracles.query.settings import Window
from tests import schemas
from tests.queries import make_query

PANE, TIMES = 300, 8
ALL, SHORT, LONG = Window("all", 0, 0), Window("tumbling", 300, 300), Window("tumbling", 600, 600)


def asked(**settings):
    domain = {"discover": "text", "length": 6, "alphabet": "abcdefghijklmnopqrstuvwxyz ", "cells": 12}
    times = {"pane": "5m", "windows": ["5m", "10m", "all"], "crowd": 20, "answers": "fresh", "budget": 1e9}
    return make_query({"domain": domain, "epsilon": 5.0} | times, edition=2, **settings)


@cache
def panes(crowd=20, *names):
    """Return the snapshots of some panes. "segv" appears in the fifth."""
    query = asked(crowd=crowd, known=list(names))
    rng = np.random.default_rng(3)
    texts = ["crash", "oom", "segv", *("".join(rng.choice(list("abcdef"), 5)) for _ in range(200))]
    rows = np.array([query.strings.cells_of(text) for text in texts])
    result = {}
    for place in range(TIMES):
        shares = [0.4, 0.3, 0.2 if place >= 4 else 0.0]
        weights = np.array([*shares, *[(1.0 - sum(shares)) / 200] * 200])
        counts = query.oracle.zeros()
        query.oracle.add(counts, query.oracle.perturb(rows[rng.choice(len(rows), 6_000, p=weights)], rng))
        result[place * PANE] = Snapshot(6_000, 0, 0, 0, counts)
    return query, result


@cache
def whole(crowd=20, *names):
    """Return the results of all finals by window and end, from one process without restarts."""
    query, snapshots = panes(crowd, *names)
    return finals(query, snapshots)


def finals(query, snapshots):
    """Return the results of all finals of a query by window and end."""
    merger = Merger(Versions.of(query), 1)
    for pane, snapshot in snapshots.items():
        merger.take(pane, 0, snapshot)
    merger.mark(0, TIMES * PANE)
    results = ResultSequence()
    return {(final.span.window, final.span.end): results.next(query, final) for final in merger.finals()}


def record(result):
    return orjson.loads(result.window.records[0][1])


def test_names_are_searched_in_long_windows_and_known_in_short_ones_from_then_on():
    results = {place: record(result) for place, result in whole().items()}
    assert [end for window, end in results if window == ALL] == [600, 1_200, 1_800, 2_400], "at each search"
    assert results[SHORT, 300]["values"] == [], "no search has ended"
    assert results[SHORT, 600]["values"] == results[LONG, 600]["values"] == ["crash", "oom"]
    assert results[SHORT, 600]["level"] == [0.95, 0.95], "known before"
    first_level = results[ALL, 600]["level"]
    assert min(first_level) > 0.99, "found by this window"
    assert results[LONG, 600]["level"] == [0.95, 0.95], "`all` has found them at the same time, and comes first"
    assert results[LONG, 1_800]["discover"]["first_seen"] == {"crash": 600, "oom": 600, "segv": 1_800}
    assert results[SHORT, 1_500]["values"] == ["crash", "oom"]
    assert results[SHORT, 2_100]["values"] == ["crash", "oom", "segv"]
    last_result = results[ALL, 2_400]
    assert last_result["n"] == 8 * 6_000
    assert len(last_result["discover"]["levels"]) == asked().strings.parts
    assert sum(last_result["discover"]["levels"]) == last_result["n"]
    assert last_result["shares"]["unbiased"] == pytest.approx([0.4, 0.3, 0.1], abs=0.06)
    assert 0 < last_result["discover"]["smallest"] < 0.2


def test_an_alert_tells_of_a_name_once():
    news = [orjson.loads(value) for result in whole().values() for _, value in result.decision.alerts]
    assert [(entry["kind"], entry["value"], entry["window"]["end"], entry["baseline"]) for entry in news] == [
        ("enter", "crash", 600, True),
        ("enter", "oom", 600, True),
        ("enter", "segv", 1_800, False),
    ]
    assert enter_error(asked()) == 1.0 / (4 * 2 * 144), "two searches every ten minutes share the alert of a day"


def test_the_record_of_maps_answers_for_any_string():
    query, snapshots = panes()
    result = whole()[LONG, 600]
    ((name, value),) = result.window.maps
    assert name == result.window.records[0][0]
    counts, answering = decode_maps(value, query.strings.cells)
    total = sum(snapshots[pane].counts for pane in (0, 300))
    for count, other in zip(counts, query.oracle.support(total, 12_000)[-4:], strict=True):
        assert np.array_equal(count, other)
    assert answering == query.oracle.answering(total, 12_000)[-4:]
    fields = record(result)
    count = ask(query.oracle, total, 12_000, 12_000, "CRASH", fields["values"])
    assert count.share == fields["shares"]["unbiased"][0]
    for bad_value in (b"", b"{}", b'{"maps":["","","",""],"n":[1,1,1,1]}', value.replace(b'"n":[', b'"n":[-')):
        with pytest.raises(ReportError):
            decode_maps(bad_value, query.strings.cells)


def test_an_export_has_names_and_any_strings():
    query, snapshots = panes()
    result = whole()[LONG, 1_800]
    final = decode_record(result.window.records[0][1])
    assert [(row["value"], row["level"], row["first_seen"], row["proved"]) for row in rows(final)] == [
        ("crash", 0.95, 600, True),
        ("oom", 0.95, 600, True),
        ("segv", final.rest()["level"][2], 1_800, True),
    ]
    maps = maps_of(final, result.window.maps[0][1], query)
    answers_of = record_of(final, maps, ["OOM", "never", "segv", ""])
    table = rows(answers_of)
    assert [row["value"] for row in table] == ["oom", "never", "segv", ""]
    assert table[0] == rows(final)[1]
    assert table[1]["level"] == 0.95
    assert table[1]["proved"] is False
    assert table[1]["first_seen"] is None
    total = sum(snapshots[pane].counts for pane in (1_200, 1_500))
    own_answer = ask(query.oracle, total, 12_000, 12_000, "never", final.values)
    numbers = (own_answer.share, own_answer.low, own_answer.high)
    assert [table[1][key] for key in ("unbiased", "low", "high")] == [float(f"{number:.3g}") for number in numbers]
    assert COLUMNS.keys() >= table[0].keys()


def test_a_name_needs_a_crowd_and_so_does_every_level():
    few = [schemas.record(result.window.records[0][1]) for result in whole(crowd=6_000).values()]
    assert all(not fields["values"] and fields["n"] == 0 for fields in few), "the most reports of a map are 5,333"
    some = {place: record(result) for place, result in whole(crowd=500).items()}
    assert some[SHORT, 300]["n"] == 6_000
    assert some[LONG, 1_800]["values"] == ["crash", "oom", "segv"]
    query, _ = panes(500)
    assert all(
        round(share * fields["n"]) >= query.crowd for fields in some.values() for share in fields["shares"]["unbiased"]
    )


def test_known_names_are_candidates_from_the_start():
    early = {place: record(result) for place, result in whole(20, "oom", "never").items()}
    assert early[ALL, 600]["values"] == ["crash", "oom"]
    assert [level == 0.95 for level in early[ALL, 600]["level"]] == [False, True], "known before"
    assert early[SHORT, 600]["values"] == ["crash", "oom"]


def test_known_names_that_nobody_has_are_not_shown_before_a_search():
    """The noise lifts about half of them above a small crowd, and one in forty above zero at 95%."""
    query, snapshots = panes(20, *(f"{first}{second}" for first, second in product("ghijklmnop", "ghijklmnop")))
    result = name_result(query, query.oracle, Span(SHORT, 0, 300), snapshots[0], NameHistory())
    assert result.is_searched is False
    assert result.names == ()
    assert result.ambiguous == ()


def test_an_audit_compares_names_from_the_start_and_maps_from_any_time():
    query, rng = asked(), np.random.default_rng(4)
    catalog = SimpleNamespace(versions={query.digest: Versions.of(query)}, raised_at=0)
    fold = Fold(catalog, 1, log_has_time=True, limit=MAX_FRAME)
    rows_of = np.array([query.strings.cells_of(text) for text in ("crash", "oom", "segv")])
    for place, count in enumerate([6_000] * 6 + [1]):
        reports = query.oracle.perturb(rows_of[rng.integers(0, 3, count)], rng)
        late = 600 if count == 1 else 0
        fold.read(0, [(place, 1_000 * (place * PANE + 10 + late), frame(query.digest, place * PANE, reports))])
    comparison = compare(fold, catalog, {}, None, None)
    records = comparison.expected
    check_maps(comparison)
    assert len([key for key in records if key.endswith(b"|m")]) == 6 + 3 + 3
    assert len([key for key in records if b"|enter|" in key]) == 3
    catalog.raised_at = 1_200_000
    later = compare(fold, catalog, {}, None, None)
    assert later.older_maps == 4 + 2 + 2, "older releases wrote those that end up to then to another topic"
    assert later.older_names == {query.name}, "older releases kept names after one search"
    assert later.expected.keys() == {key for key in records if key.endswith(b"|m") and MapsKey.of(key).end > 1_200}
    catalog.raised_at = 0
    part = compare(fold, catalog, records, 600, None)
    assert part.expected.keys() == part.compared
    assert part.compared
    assert all(key.endswith(b"|m") and records[key] == value for key, value in part.expected.items())


def check_maps(comparison):
    """Check that maps are compared by their counts, whichever zlib has compressed them."""
    key = min(comparison.cells)
    fields = orjson.loads(comparison.expected[key])
    data = [zlib.decompress(base64.b64decode(field)) for field in fields["maps"]]

    def packed(maps, level=0, n=fields["n"]):
        return orjson.dumps({"maps": [base64.b64encode(zlib.compress(map_, level)).decode() for map_ in maps], "n": n})

    assert packed(data) != comparison.expected[key]
    assert comparison.is_right(key, packed(data))
    assert comparison.is_right(key, packed(data, 9))
    other = bytes([data[0][0] ^ 1]) + data[0][1:]
    for wrong in (None, b"", packed(data)[:-1], packed([other, *data[1:]]), packed(data, n=[*fields["n"][:3], 10**6])):
        assert not comparison.is_right(key, wrong)
    record = key.removesuffix(b"|m")
    assert comparison.is_right(record, comparison.expected[record])
    assert not comparison.is_right(record, comparison.expected[record] + b" ")


class Death(Exception):
    """The end of a worker in the middle of its writes."""


class Owner:
    """A worker with its partition of the topic `snapshots`. It dies before the write with the number `last`."""

    def __init__(self, query, standing, published, last_seen):
        self.query, self.standing, self.published, self.left = query, standing, published, last_seen
        self.snapshots = SnapshotPartition(keys.home(query.digest, 1), 1, {query.digest: Versions.of(query)})
        for name, value in standing.items():
            self.snapshots.put(name, value)
        self.snapshots.load()
        self.state = self.snapshots.queries[query.digest]

    def write(self, name, value):
        if self.left == 0:
            raise Death
        self.left -= 1
        self.standing.pop(name, None)
        if value is not None:
            self.standing[name] = value
        self.snapshots.put(name, value)

    def publish(self, finals):
        """Publish due finals, `finals` at a time, and write their states."""
        state = self.state
        state.collect()
        while state.owes(1):
            state.owes(finals)
            batch = list(state.backlog)[:finals]
            questions = [Question(entry.final.span, entry.final.total, entry.final.withheld) for entry in batch]
            positions = {}
            for question, answer in zip(
                questions, answers(self.query, questions, state.alerts, {}, state.names), strict=True
            ):
                maps = [(maps_name(name), value) for name, value in answer.maps]
                for name, value in (*answer.records, *maps, *answer.alerts):
                    assert self.published.setdefault(name, value) == value, name
                due = state.answer(answer.states, answer.blocks, answer.search)
                positions[question.span.window] = due.final.position
            for write in state.totals():
                self.write(*write)
            for window, position in positions.items():
                for write in state.state_writes(window, position):
                    self.write(*write)
            for window, position in positions.items():
                for name in [*state.acknowledge(window, position)]:
                    self.write(name, None)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_death_at_any_write_changes_no_byte(batch):
    query, snapshots = panes()
    expected = {}
    for result in whole().values():
        expected |= dict([*result.window.records, *result.decision.alerts])
        expected |= {maps_name(key): value for key, value in result.window.maps}
    standing, published, lives = {}, {}, [3, 1, 2, 5, 1, 4, 2, 7] * 4
    for place, (pane, snapshot) in enumerate(snapshots.items()):
        standing[PaneKey("closed", query.digest, pane, 0).encode()] = encode_snapshot(snapshot)
        mark = encode_ends(Progress(closed={query.digest: pane + PANE}))
        standing[PartitionKey("watermark", 0).encode()] = mark
        if place % 3 == 0:
            continue  # several panes wait for the next worker
        for life in [*lives[place:], -1 - place]:
            try:
                Owner(query, standing, published, life + place).publish(batch)
                break
            except Death:
                continue
    assert published == expected


def test_histories_forget_the_oldest_names_and_never_the_known_ones(monkeypatch):
    monkeypatch.setattr(name_history, "MOST_NAMES", 3)
    sightings = {name: Sighting(1, last_seen, False) for name, last_seen in (("a", 1), ("b", 2), ("c", 3))}
    assert surplus(sightings, ["d"], []) == ("a",)
    assert surplus(sightings, ["d", "a"], ["b"]) == ("c",)
    assert surplus(sightings, ["a"], []) == ()


def test_a_final_that_is_repeated_sees_the_names_before_it():
    searches = [
        NameSearch(ALL, 0, 600, ("a", "b"), ("a",), ()),
        NameSearch(LONG, 0, 600, ("b",), ("b",), ()),
        NameSearch(ALL, 0, 1_200, ("c",), (), ("a",)),
    ]
    history = NameHistory()
    for search in reversed(searches):
        history = history.with_search(search).with_search(search)
    assert history.before(Span(ALL, 0, 600)) == ({}, {})
    assert history.is_first(Span(ALL, 0, 600))
    assert not history.is_first(Span(LONG, 0, 600))
    assert set(history.before(Span(SHORT, 300, 600)).names) == {"a", "b"}
    later_sightings = {"b": Sighting(600, 600, True), "c": Sighting(1_200, 1_200, False)}
    assert history.before(Span(SHORT, 900, 1_200)).names == later_sightings
    rest = history.settled(1_200)
    assert len(rest.searches) == 1
    assert rest.before(Span(SHORT, 900, 1_200)).names == later_sightings
    assert name_history.decode(rest.encode()) == rest
    for bad_value in (b"", b"{}", b"[]", rest.encode().replace(b'"version":1', b'"version":9')):
        with pytest.raises(ReportError):
            name_history.decode(bad_value)


def weak_finals():
    """Return the results of small windows, in which one search proves "oom" and "segv" less surely than two."""
    query = asked(windows=["5m", "10m"], crowd=5, family_error=1e-16)
    rng = np.random.default_rng(3)
    cells = np.array([query.strings.cells_of(text) for text in ("crash", "oom", "segv")])
    snapshots = {}
    for place in range(TIMES):
        shares = [0.3, 0.3, 0.4] if place >= 4 else [0.7, 0.3, 0.0]
        counts = query.oracle.zeros()
        query.oracle.add(counts, query.oracle.perturb(cells[rng.choice(3, 200, p=shares)], rng))
        snapshots[place * PANE] = Snapshot(200, 0, 0, 0, counts)
    return finals(query, snapshots)


def test_a_name_of_two_searches_over_other_reports_is_kept():
    """One search proves a false name in `family_error`. Its list shows it. Alerts and shorter windows do not."""
    results = weak_finals()
    lists = {place: record(result) for place, result in results.items()}
    assert lists[LONG, 600]["values"] == ["crash", "oom"], "the list of a search shows them at once"
    assert lists[LONG, 600]["discover"]["first_seen"] == {"crash": 600, "oom": 600}
    assert lists[SHORT, 900]["values"] == ["crash"], "as sure as two searches"
    assert lists[LONG, 1_200]["level"][0] == 0.95
    assert lists[LONG, 1_200]["level"][1] > 0.99, "found by this window"
    assert lists[SHORT, 1_200]["values"] == ["crash", "oom"], "the longer window comes first"
    assert lists[LONG, 1_800]["discover"]["first_seen"] == {"crash": 600, "oom": 600, "segv": 1_800}
    assert "segv" not in lists[SHORT, 2_100]["values"]
    assert lists[LONG, 2_400]["discover"]["first_seen"]["segv"] == 1_800
    news = [orjson.loads(value) for result in results.values() for _, value in result.decision.alerts]
    assert [(entry["value"], entry["window"]["end"], entry["baseline"]) for entry in news] == [
        ("crash", 600, True),
        ("oom", 1_200, True),
        ("segv", 2_400, False),
    ], "names of the very first search are no news"


def long_search(start, names=(), proofs=()):
    return NameSearch(LONG, start, start + 600, tuple(names), (), (), tuple(proofs))


def test_a_proof_waits_for_other_reports_and_not_for_ever():
    history = NameHistory().with_search(long_search(0, proofs=["a"])).with_search(long_search(300, proofs=["a", "b"]))
    memory = history.before(Span(LONG, 600, 1_200))
    assert memory == ({}, {"a": Proof(0, 600, True), "b": Proof(300, 900, False)}), "the first proof counts"
    assert not memory.proofs["a"].is_confirmed(300), "it shares reports"
    assert memory.proofs["a"].is_confirmed(600)
    assert memory.proofs["a"].is_confirmed(600 * 25)
    assert not memory.proofs["a"].is_confirmed(600 * 25 + 1)
    late = history.with_search(long_search(600 * 26, proofs=["a"])).before(Span(LONG, 600 * 27, 600 * 28))
    assert late.proofs == {"a": Proof(600 * 26, 600 * 27, False)}, "a forgotten proof begins again"
    confirmed = history.with_search(long_search(600, names=["a"])).before(Span(LONG, 1_200, 1_800))
    assert confirmed == ({"a": Sighting(600, 1_200, False)}, {"b": Proof(300, 900, False)})


def test_proofs_survive_a_restart_and_cost_no_byte_without_any(monkeypatch):
    history = NameHistory().with_search(long_search(0, proofs=["a"])).with_search(long_search(600, ["a"], ["b"]))
    for settled in (history, history.settled(1_200), history.settled(1_800)):
        assert name_history.decode(settled.encode()) == settled
        assert settled.before(Span(LONG, 1_200, 1_800)) == history.before(Span(LONG, 1_200, 1_800))
    plain = NameHistory().with_search(long_search(0, names=["a"])).encode()
    assert b"proofs" not in plain
    for bad_value in (b'"proofs":[["a"]]', b'"proofs":{}', b'"base_proofs":[["a"]]', b'"proofs":[1,2]'):
        with pytest.raises(ReportError):
            name_history.decode(plain.removesuffix(b"}") + b"," + bad_value.replace(b'[["a"]]', b'[["a"],[]]') + b"}")
    monkeypatch.setattr(name_history, "MOST_NAMES", 2)
    full = NameHistory().with_search(long_search(0, proofs=["c"])).with_search(long_search(300, proofs=["b", "a"]))
    assert set(full.before(Span(LONG, 600, 1_200)).proofs) == {"a", "b"}, "the oldest proof leaves"


def test_no_false_name_is_kept_since_the_start_however_often_it_is_searched():
    """Names that nobody has, in searches of a window that grows. 60 runs fail with a chance of 1e-6."""
    query, rng = asked(), np.random.default_rng(5)
    candidates, runs = 512, 60
    looks = np.unique(np.geomspace(1, 300, 30).astype(int))
    cells = [0] * MAPS
    q = Maps(query.strings, query.oracle.cell_oracle, (), (), 1, 1).pure.q
    kept, listed = np.zeros(runs, bool), np.zeros(runs, bool)
    for run in range(runs):
        counts = np.zeros(candidates, np.int64)
        for before, look in zip([0, *looks.tolist()], looks.tolist(), strict=False):
            counts += rng.binomial(2_000 * (look - before), q, candidates)
            n = 2_000 * look
            # One map has all reports, and the name with the largest count is the surest.
            maps = Maps(query.strings, query.oracle.cell_oracle, [np.array([counts.max()])] * MAPS, [n, 0, 0, 0], n, n)
            p_value = maps.p_value(cells, [0])
            listed[run] |= p_value * candidates <= query.family_error
            kept[run] |= maps.watched_p_value(p_value, [0]) * candidates <= query.family_error
    assert kept.sum() <= stats.binom.ppf(1.0 - 1e-6, runs, query.family_error)
    assert listed.mean() > 0.1, "the lists are for one look"


def test_marks_of_unknown_strings_survive_a_restart():
    query, snapshots = panes()
    versions = Versions.of(query)
    marks = QueryMarks(versions)
    marks.count(0, [(3,) * query.strings.parts])
    other_query = make_query(domain=3, pane="5m")
    with pytest.raises(ReportError):
        decode(marks.encode(), Versions.of(other_query))
    for pane in (PANE, 2 * PANE):
        assert decode(marks.encode(), versions).places == marks.places
        marks.count(pane, [tuple(query.oracle.answering(snapshots[0].counts, 6_000))])
    assert 2 * PANE in marks.places[0]


def test_all_ends_at_each_search_also_if_a_version_changes_it():
    versions = Versions.of(asked(search="20m")).with_version(Version(1_500, asked(search="10m")))
    assert [versions.all_end(pane) for pane in (0, 900, 1_200, 1_500, 1_800, 2_100)] == [
        1_200,
        1_200,
        1_800,
        1_800,
        2_400,
        2_400,
    ]
    assert versions.first_window_end(0) == 300


def test_searches_delay_no_other_query():
    assert EstimatorPool.is_large(asked())
