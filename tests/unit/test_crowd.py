"""Small crowds. A reader of estimates cannot isolate a group smaller than `crowd` with records of one kind."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.merging.merger import Merger
from aggregator.merging.small_groups import LastVisible, ProvisionalGuard, decode, encode, visible_windows
from aggregator.merging.snapshot_records import decode_state, encode_state
from aggregator.merging.windows import Span
from aggregator.publishing.alerts.state import alerts
from aggregator.publishing.finals.final import publish
from aggregator.publishing.records.decoder import decode as decode_record
from aggregator.publishing.records.encoder import build
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query import parse
from oracles.query.settings import Window
from tests import fold, schemas

PANE = 10
DEFAULT = 50


def ask(**settings):
    table = {"domain": 40, "epsilon": 1.0, "pane": "10s", "windows": ["10s", "1m/10s", "all"], "methods": ["norm_sub"]}
    return parse({"queries": {"site": {**table, **settings}}}, "test", ".")["site"]


PROFILE = {"domain": None, "attributes": {"age": 6, "sex": 2}, "solution": "smp", "oracle": "grr"}


def several(**settings):
    table = {key: value for key, value in {**PROFILE, **settings}.items() if value is not None}
    common = {
        "epsilon": 1.0,
        "budget": 1e9,
        "pane": "10s",
        "windows": ["10s", "30s/10s", "all"],
        "methods": ["norm_sub"],
    }
    return parse({"queries": {"profile": {**common, **table}}}, "test", ".")["profile"]


def tallied(query, reports):
    state = query.oracle.zeros()
    left_out = query.oracle.add(state, reports)
    return Snapshot(len(reports) - left_out, left_out, 0, 0, state)


def crowd_of(query, n, rng):
    """Return a pane of n honest reports."""
    sizes = [domain.size for domain in query.domains]
    values = np.column_stack([rng.integers(0, size, n) for size in sizes])
    return tallied(query, query.oracle.perturb(values if query.attributes else values[:, 0], rng))


def published(query, panes, restarts=()):
    """Yield each final of these panes, its visible windows and its records, from the code that publishes."""
    versions, states, visible, alert_states = Versions.of(query), {}, {}, {}
    merger = Merger(versions, 1)
    for i, (pane, snapshot) in enumerate(sorted(panes.items())):
        if i in restarts:
            read = {window: decode_state(state, merger.cells) for window, state in states.items()}
            merger = Merger(versions, 1, [(window, position) for window, (position, *_) in read.items()])
            visible = {window: last for window, (_, _, last) in read.items()}
            alert_states = {window: before for window, (_, before, _) in read.items()}
            for again in range(pane - 60, pane, PANE):
                if again in panes:
                    merger.take(again, 0, panes[again], None)
        merger.take(pane, 0, snapshot, None)
        merger.mark(0, pane + PANE)
        for final in merger.finals():
            window = final.span.window
            faces, _ = visible_windows(query, final, visible.get(window, []))
            result, _, *now = publish(query, final, alert_states.get(window, []), visible.get(window, []))
            alert_states[window], visible[window] = now
            states[window] = encode_state(final.position, *now)
            yield final, faces, [value for _, value in result.records]


def wholes(query, panes):
    """Yield the windows as `fold` has them."""
    versions = Versions.of(query)
    active = [pane for pane in panes if panes[pane].n]
    last = max(panes) + PANE
    for window in query.windows:
        for start, end in sorted(fold.spans(window, PANE, active)):
            inside = {pane: panes[pane] for pane in panes if start <= pane < end}
            if end <= last and inside:
                yield fold.Whole(versions, window, start, end, fold.total(inside.values()), inside)


# --- the attack -----------------------------------------------------------------------------------------------------


def memoised(query, clients, times, rng):
    """Return the clients of each pane, and the panes. A client always sends the same report."""
    values = rng.integers(0, query.domain.size, clients)
    reports = query.oracle.perturb(values, rng)
    order = np.concatenate([rng.permutation(clients) for _ in range(times)])
    panes, who, at = {}, {}, 0
    while at < len(order):
        pane, n = PANE * len(panes), int(rng.integers(1, 3))
        here = order[at : at + n]
        panes[pane], who[pane] = tallied(query, reports[here]), here.tolist()
        at += n
    return panes, who


def supports(query, record):
    """Return the exact support counts of all values, from a record."""
    n, oracle = record["n"], record["oracle"]
    counts = np.zeros(query.domain.size, np.int64)
    for value, share in zip(record["values"], record["shares"]["unbiased"], strict=True):
        counts[int(value)] = round(n * (share * (oracle["p"] - oracle["q"]) + oracle["q"]))
    return counts


def singled_out(query, records):
    """Yield single reports that a reader isolates with one kind of windows, as (pane, supported values)."""
    by_kind = defaultdict(list)
    for record in records:
        if record["values"]:
            by_kind[record["window"]["kind"]].append((record["window"], record["n"], supports(query, record)))
    for kind, windows in by_kind.items():
        for window, n, counts in windows:
            if n == 1 and kind == "tumbling":
                yield window["start"], tuple(counts)
        if kind == "all":
            for (_, before, one), (window, now, other) in pairwise(windows):
                if now - before == 1:
                    yield window["end"] - PANE, tuple(other - one)


def linked(query, panes, who):
    """Return the number of panes that a reader links rightly by equal support, and the records."""
    records = [orjson.loads(value) for _, _, values in published(query, panes) for value in values]
    by_support = defaultdict(set)
    for pane, support in singled_out(query, records):
        by_support[support].add(pane)
    pairs = [pair for same in by_support.values() for pair in combinations(sorted(same), 2)]
    return sum(who[a] == who[b] for a, b in pairs), records


def test_a_reader_of_estimates_links_clients_only_without_a_crowd():
    rng = np.random.default_rng(14)
    panes, who = memoised(ask(), 150, 4, rng)
    bare, _ = linked(ask(crowd=1), panes, who)
    assert bare > 50
    assert ask().crowd == DEFAULT
    pairs, records = linked(ask(), panes, who)
    assert pairs == 0
    assert sum(bool(record["values"]) for record in records) > 5


def test_no_two_records_of_a_kind_differ_by_less_than_the_crowd():
    """A reader may compare any two successive windows, by the reports that arrive and by those that leave."""
    query, rng = ask(crowd=20, windows=["10s", "1m/10s", "all"]), np.random.default_rng(3)
    panes = {PANE * i: crowd_of(query, int(n), rng) for i, n in enumerate(rng.integers(0, 25, 60))}
    last = {}
    counts = Counter()
    for final, faces, values in published(query, panes):
        (face,), record = faces, schemas.record(values[0])
        counts[final.span.window.kind, face.kind] += 1
        if face.kind != "own":
            continue
        here = {pane for pane in panes if final.span.start <= pane < final.span.end and panes[pane].n}
        before = last.get(final.span.window, set()) if final.span.window.kind != "tumbling" else set()
        for change in (here - before, before - here):
            assert sum(panes[pane].n for pane in change) == 0 or sum(panes[pane].n for pane in change) >= 20
        assert record["n"] == sum(panes[pane].n for pane in here) >= 20
        last[final.span.window] = here
    assert {("hopping", "own"), ("hopping", "held"), ("all", "held"), ("tumbling", "small"), ("tumbling", "own")} <= {
        *counts
    }


def test_other_kinds_of_windows_reveal_a_withheld_group():
    """This is the sum of docs/privacy.md."""
    query, rng = ask(windows=["10s", "1m"], publish="all"), np.random.default_rng(8)
    panes = {600 + PANE * i: crowd_of(query, n, rng) for i, n in enumerate((60, 55, 70, 64, 52, 1))}
    records = [orjson.loads(value) for _, _, values in published(query, panes) for value in values]
    by_size = {size: [r for r in records if r["window"]["size"] == size and r["values"]] for size in (10, 60)}
    (minute,) = by_size[60]
    assert minute["n"] - sum(record["n"] for record in by_size[10]) == 1
    rest = supports(query, minute) - sum(supports(query, record) for record in by_size[10])
    assert rest.tolist() == query.oracle.support(panes[650].counts, 1).tolist()


# --- the rule -------------------------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(0, 14), min_size=1, max_size=14)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 12), st.sets(st.integers(0, 13)), st.booleans())
def test_visible_windows_equal_those_of_the_fold_despite_restarts(sizes, crowd, restarts, is_several):
    query = several(crowd=crowd) if is_several else ask(domain=3, windows=["10s", "30s/10s", "all"], crowd=crowd)
    rng = np.random.default_rng(len(sizes))
    panes = {PANE * i: crowd_of(query, n, rng) for i, n in enumerate(sizes)}
    expected = {}
    for final, views in fold.attribute_views(wholes(query, panes)):
        faces = fold.visible_windows(final, views)
        span = Span(final.window, final.start, final.end)
        expected |= dict(build(query, span, final.whole, final=True, visible=faces).records)
    records = {}
    for final, faces, values in published(query, panes, restarts):
        keys = [key for key, _ in build(query, final.span, final.total, final=True, visible=faces).records]
        records |= dict(zip(keys, values, strict=True))
    assert records == expected


def test_a_small_window_shows_only_that_it_exists():
    query = ask(sets={"few": ["1", "2"]}, methods=["norm_sub", "calibrate"])
    panes = {60: crowd_of(query, DEFAULT - 1, np.random.default_rng(1))}
    for _, faces, values in published(query, panes):
        record = schemas.record(values[0])
        assert [face.kind for face in faces] == ["small"]
        assert record["n"] == 0
        for key in ("n_independent", "sigma", "significance", "detectable", "shift_per_fake"):
            assert record[key] is None
        for key in ("values", "stderr", "low", "high", "sets"):
            assert not record[key]
        assert not any([*record["shares"].values(), *record["hitters"].values()])
        assert record["refused"] == {"duplicate": 0, "implausible": 0}
        assert record["quality"]["flags"] == ["small"]
        assert record["quality"]["sum"] is None
        assert set(record["quality"]["risk"].values()) == {None}
        read = decode_record(values[0])
        assert (read.n, read.values, read.flags) == (0, (), ("small",))


def test_a_held_window_shows_the_last_one_again():
    query = ask(windows=["all"])
    rng = np.random.default_rng(2)
    panes = {0: crowd_of(query, 80, rng), 10: crowd_of(query, 3, rng), 20: crowd_of(query, 60, rng)}
    first, second, third = (schemas.record(values[0]) for _, _, values in published(query, panes))
    assert not {"held_since"} & {*first, *third}
    assert second["held_since"] == 10
    assert second["quality"]["flags"] == ["held"]
    assert second["window"]["end"] == 20
    differing = {key for key in first if first[key] != second[key]}
    assert differing == {"window", "quality"}
    assert (first["n"], second["n"], third["n"]) == (80, 80, 143)
    read = decode_record(orjson.dumps(second))
    assert read.flags == ("held",)


def test_small_and_held_windows_cause_no_alerts_and_keep_the_state():
    query = ask(windows=["all"], oracle="grr", epsilon=8.0, budget=1e9, domain=4)
    rng = np.random.default_rng(2)
    states, before = [], []
    answers = {0: [1] * 400, 10: [2] * 49, 20: [3] * 400}
    panes = {pane: tallied(query, query.oracle.perturb(values, rng)) for pane, values in answers.items()}
    for final, faces, _ in published(query, panes):
        result = build(query, final.span, final.total, final=True, visible=faces)
        after, events = alerts(query, final.span, result, states)
        before.append(([orjson.loads(value)["value"] for _, value in events], after == states))
        states = after
    assert before == [(["1"], False), ([], True), (["2", "3"], False)]


# --- provisional records --------------------------------------------------------------------------------------------


def test_a_provisional_record_shows_a_state_with_enough_reports_after_it():
    query, rng = ask(crowd=20), np.random.default_rng(4)
    foretelling, window = ProvisionalGuard(), query.windows[0]

    def visible_sizes(start, sizes):
        visible = []
        for n in sizes:
            record = foretelling.next(query, Span(window, start, start + 10), crowd_of(query, n, rng), [])
            visible.append(record[1].n if record else None)
        return visible

    assert visible_sizes(0, range(0, 200, 10)) == [None] * 20  # another worker may have shown some of it
    assert visible_sizes(10, [5, 19, 25, 30, 44, 45, 50, 66, 90]) == [None, None, None, None, None, 25, None, 45, 66]
    assert visible_sizes(20, [30, 49, 50]) == [None, None, 30]
    assert ProvisionalGuard().next(ask(crowd=1), Span(window, 0, 10), crowd_of(query, 1, rng), []) is not None


def test_a_provisional_record_differs_enough_from_the_last_visible_window():
    query, rng = ask(crowd=20), np.random.default_rng(5)
    since = Window("all", 0, 0)
    visible = [LastVisible(0, 20, crowd_of(query, 100, rng))]
    foretelling = ProvisionalGuard()
    foretelling.next(query, Span(since, 0, 20), crowd_of(query, 90, rng), [])
    sizes = (110, 119, 140, 165)
    records = [foretelling.next(query, Span(since, 0, 30), crowd_of(query, n, rng), visible) for n in sizes]
    assert [record[1].n if record else None for record in records] == [None, None, None, 140]


# --- its bytes ------------------------------------------------------------------------------------------------------


def test_visible_windows_decode_to_the_same_values_and_other_data_is_refused():
    query, rng = several(), np.random.default_rng(6)
    one, other = (crowd_of(query, n, rng) for n in (60, 70))
    visible = [LastVisible(0, 30, one, np.array([[0, 20], [10, 40]])), LastVisible(10, 40, other)]
    cells = query.oracle.state_size
    for last in (None, other):
        data = encode(visible, last)
        again = decode(data, last, cells)
        assert [(s.start, s.end, s.panes.tolist(), s.total.n, s.total.counts.tolist()) for s in again] == [
            (s.start, s.end, s.panes.tolist(), s.total.n, s.total.counts.tolist()) for s in visible
        ]
    assert len(encode(visible, other)) < len(encode(visible, None))
    assert decode(encode([None], None), None, cells) == [None]
    whole = encode(visible, None)
    strange = [b"", b"[]\n", b"{}\n", whole[:-1], whole + b"x", whole.replace(b'"total":0', b'"total":7')]
    strange += [whole.replace(b'"end":30', b'"end":"x"'), whole.replace(b"[0,20]", b"[0,[]]"), encode(visible, other)]
    for data in strange:
        with pytest.raises(ReportError):
            decode(data, None, cells)


def test_a_definition_without_a_crowd_is_from_an_older_version():
    table = {"domain": 4, "epsilon": 1.0, "pane": "10s"}
    standing = parse({"queries": {"site": table}}, "test", ".", standing=True)["site"]
    assert standing.crowd == 1
    assert parse({"queries": {"site": table}}, "test", ".")["site"] == replace(standing, crowd=DEFAULT)
