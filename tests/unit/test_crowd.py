"""Small crowds: no group smaller than `crowd` can be computed from all that is published of a query."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.merging.marks import QueryMarks
from aggregator.merging.merger import Merger
from aggregator.merging.place_counts import answer_counts
from aggregator.merging.query_state import QueryState
from aggregator.merging.snapshot_records import decode_state
from aggregator.records.decoder import decode as decode_record
from aggregator.records.span import Span
from aggregator.tallies.keys import StateKey, decode
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.versions import Version, Versions
from tests import fold, schemas
from tests.queries import make_query, make_table
from tests.results import build, window_result

PANE = 10
DEFAULT = 50
FIXED = settings(derandomize=True, deadline=None, max_examples=25)


def ask(**changes):
    table = make_table(domain=40, windows=["10s", "1m/10s", "all"], methods=["norm_sub"])
    return make_query(table, name="site", **changes)


PROFILE = {"domain": None, "attributes": {"age": 6, "sex": 2}, "solution": "smp", "oracle": "grr"}


def several(**changes):
    table = {key: value for key, value in {**PROFILE, **changes}.items() if value is not None}
    common_table = make_table(budget=1e9, windows=["10s", "30s/10s", "all"])
    return make_query({**common_table, "methods": ["norm_sub"], **table}, name="profile")


def tallied(query, reports):
    state = query.oracle.zeros()
    left_out = query.oracle.add(state, reports)
    return Snapshot(len(reports) - left_out, left_out, 0, 0, state)


def crowd_of(query, n, rng):
    """Return a pane of n honest reports."""
    sizes = [domain.size for domain in query.domains]
    values = np.column_stack([rng.integers(0, size, n) for size in sizes])
    return tallied(query, query.oracle.perturb(values if query.attributes else values[:, 0], rng))


def panes_of(query, sizes, seed=1):
    rng = np.random.default_rng(seed)
    return {PANE * position: crowd_of(query, int(n), rng) for position, n in enumerate(sizes) if n}


class Worker:
    """The merging and publishing of one query, with a dictionary as its topic. It can die between any two writes."""

    def __init__(self, versions, topic, through=0, panes=()):
        self.topic, self.positions = topic, {}
        states = {}
        for name, value in topic.items():
            key = decode(name)
            assert isinstance(key, StateKey)
            if key.window not in states or states[key.window].position.end < key.end:
                states[key.window] = decode_state(value, versions)
        marks = max((state.marks for state in states.values()), key=lambda marks: marks.counted_through, default=None)
        positions = {window: state.position for window, state in states.items()}
        self.state = QueryState(Merger(versions, 1, positions.items(), marks=marks), states)
        for pane, snapshot in panes:
            if pane < through:
                self.state.merger.take(pane, 0, snapshot)
        if through:
            self.state.merger.mark(0, through)

    def close(self, pane, snapshot):
        """Take one closed pane."""
        if snapshot is not None:
            self.state.merger.take(pane, 0, snapshot)
        self.state.merger.mark(0, pane + PANE)

    def publish(self, dies=None):
        """Yield the due records. The worker dies after so many writes, and `died` says so."""
        self.writes, self.dies, self.died, batch = 0, dies, False, {}
        for final in self.state.finals():
            if self.is_dead():
                return
            query = self.state.query_for(final.span)
            alerts_before = self.state.alerts.get(final.span.window, [])
            result = window_result(query, final.span, final.total, final.withheld, alerts_before)
            self.state.put_alerts(final.span.window, result.decision.states)
            batch[final.span.window] = final.position
            yield from result.window.records
        for window, position in batch.items():
            if self.is_dead():
                return
            self.topic |= dict(self.state.state_writes(window, position))
        for window, position in batch.items():
            for name in list(self.state.acknowledge(window, position)):
                if self.is_dead():
                    return
                self.topic.pop(name, None)
        for window in self.state.merger.provisional():
            if self.is_dead():
                return
            query = self.state.query_for(window.span)
            span, through, total, withheld, totals = window
            yield from build(query, span, total, withheld, through=through, totals=totals).records

    def is_dead(self):
        self.died = self.died or self.writes == self.dies
        self.writes += 1
        return self.died


def published(versions, panes, kills=None):
    """Return all records ever published, as (key, record). `kills` has the number of writes before a death, by pane."""
    topic, kills, records = {}, dict(kills or {}), []
    worker = Worker(versions, topic)
    history = []
    for pane in range(0, max(panes, default=0) + 4 * PANE, PANE):
        history.append((pane, panes.get(pane)))
        worker.close(*history[-1])
        records += worker.publish(kills.pop(pane, None))
        if worker.died:
            rest = [(start, snapshot) for start, snapshot in history if snapshot is not None]
            worker = Worker(versions, topic, pane + PANE, rest)
            records += worker.publish()
    return [(key, schemas.record(value)) for key, value in records]


def revealed(records, n, crowd):
    """Return the smallest group below the crowd that sums and differences of records are about, or None.

    `n` has the number of reports of each pane. A record with values is a row with 1 for each of its panes.
    """
    return smallest({row_of(record["window"], len(n)) for record in records if record["values"]}, n, crowd)


def row_of(window, count):
    """Return a row with 1 for each of the first panes that a window holds."""
    end = window.get("through", window["end"])
    return tuple(float(window["start"] <= PANE * number < end) for number in range(count))


def smallest(rows, n, crowd):
    """Return the smallest group below the crowd that sums and differences of rows are about, or None."""
    live = [position for position, size in enumerate(n) if size]
    small_live = [position for position in live if n[position] < crowd]
    matrix = np.array(sorted(rows)).reshape(-1, len(n))
    rank = np.linalg.matrix_rank(matrix[:, live]) if rows and live else 0
    best = None
    # Every group of small panes is tried, which is possible for nine panes and for no real query.
    for count in range(1, len(small_live) + 1):
        for group in combinations(small_live, count):
            size, rest = (
                sum(n[position] for position in group),
                [position for position in live if position not in group],
            )
            if size < min(crowd, best or crowd) and (np.linalg.matrix_rank(matrix[:, rest]) if rest else 0) < rank:
                best = size
    return best


KINDS = ["10s", "20s", "30s", "20s/10s", "40s/10s", "30s/20s", "all"]
kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True)
sizes = st.lists(st.sampled_from([0, 0, 1, 3, 6, 8, 9, 12, 15, 30]), min_size=2, max_size=9)


@FIXED
@given(sizes, kinds, st.dictionaries(st.integers(0, 8).map(lambda at: at * PANE), st.integers(0, 12), max_size=3))
def test_nothing_smaller_than_the_crowd_follows_from_all_records(numbers, names, kills):
    """The records of all kinds of windows, provisional ones too, also if workers die between any two writes."""
    query = ask(domain=3, oracle="grr", crowd=10, budget=1e9, windows=names)
    panes = panes_of(query, numbers)
    records = published(Versions.of(query), panes, kills)
    assert revealed([record for _, record in records], numbers, 10) is None
    finals = {}
    for key, record in records:
        assert finals.setdefault(key, record) == record or not record["final"], "each worker writes the same final"
    calm = {key: record for key, record in published(Versions.of(query), panes) if record["final"]}
    assert {key: record for key, record in finals.items() if record["final"]} == calm


@FIXED
@given(sizes.map(lambda numbers: [2 * n for n in numbers]), st.booleans(), st.integers(0, 100))
def test_each_attribute_has_marks_of_its_own(numbers, is_smp, seed):
    query = several(crowd=10, solution="smp" if is_smp else "spl")
    panes = panes_of(query, numbers, seed)
    records = published(Versions.of(query), panes)
    for place, name in enumerate(("age", "sex")):
        counts = [answer_counts(query, panes[PANE * position])[place] if n else 0 for position, n in enumerate(numbers)]
        assert revealed([record for _, record in records if record["attribute"] == name], counts, 10) is None


few = st.lists(st.sampled_from([0, 0, 1, 3, 6, 9, 12, 30]), min_size=1, max_size=5)


@FIXED
@given(few, few, kinds, st.dictionaries(st.integers(0, 4).map(lambda at: at * PANE), st.integers(0, 12), max_size=2))
def test_nothing_smaller_than_the_crowd_follows_from_records_of_groups(plain, ios, names, kills):
    """A total is the sum of the groups whose records of the same window have values."""
    query = ask(domain=3, oracle="grr", crowd=10, budget=1e9, windows=names, groups={"platform": ["ios"]})
    count = max(len(plain), len(ios))
    rng = np.random.default_rng(3)
    panes = {}
    numbers = [counts_of_group + [0] * (count - len(counts_of_group)) for counts_of_group in (plain, ios)]
    for position, (without, within) in enumerate(zip(*numbers, strict=True)):
        parts = [crowd_of(query, n, rng) for n in (without, within)]
        counts = np.concatenate([parts[0].counts, parts[1].counts, [within, 0, 0]])
        if without + within:
            panes[PANE * position] = Snapshot(without + within, 0, 0, 0, counts)
    labels = ["(none)", "ios"]
    nothing = (0.0,) * count
    by_window = {}
    rows = set()
    records = [record for _, record in published(Versions.of(query), panes, kills) if record["values"]]
    for record in (record for record in records if record["group"]):
        place = labels.index(record["group"]["platform"])
        row = row_of(record["window"], count)
        by_window.setdefault(str(record["window"]), {})[place] = row
        rows.add((*row, *nothing) if not place else (*nothing, *row))
    for record in (record for record in records if not record["group"]):
        parts = by_window[str(record["window"])]
        held = sum(
            sum(n for n, inside in zip(numbers[place], row, strict=True) if inside) for place, row in parts.items()
        )
        assert record["n"] == held
        rows.add((*parts.get(0, nothing), *parts.get(1, nothing)))
    # Reports of both groups are unknowns of one system, so sums over groups are covered too.
    assert smallest(rows, [*numbers[0], *numbers[1]], 10) is None


@FIXED
@given(sizes, kinds, kinds, st.sampled_from([1, 4, 10, 15]), st.integers(1, 7), st.integers(0, 12))
def test_versions_that_change_the_crowd_and_the_windows_reveal_nothing(numbers, names, later, crowd, first, dies):
    """A group of panes of the first version needs the first crowd, whatever the later one is."""
    common = {"domain": 3, "oracle": "grr", "budget": 1e9}
    versions = Versions.of(ask(**common, crowd=10, windows=names)).with_version(
        Version(PANE * first, ask(**common, crowd=crowd, windows=later))
    )
    records = [record for _, record in published(versions, panes_of(versions.query, numbers), {PANE * first: dies})]
    assert revealed(records, numbers, min(10, crowd)) is None
    assert revealed(records, [n if position < first else 1000 * n for position, n in enumerate(numbers)], 10) is None


@FIXED
@given(sizes, kinds, st.booleans())
def test_records_are_those_of_the_plain_rule(numbers, names, is_several):
    query = several(crowd=10) if is_several else ask(domain=3, crowd=10, windows=names)
    panes = panes_of(query, numbers)
    versions = Versions.of(query)
    last_end = max(panes, default=0) + 4 * PANE
    expected = {}
    for final, reasons in fold.with_reasons(fold.finals_of_panes(versions, panes, lambda end: end <= last_end)):
        span = Span(final.window, final.start, final.end)
        expected |= dict(build(query, span, final.whole, reasons).records)
    results = {key: record for key, record in published(versions, panes) if record["final"]}
    assert results == {key: orjson.loads(value) for key, value in expected.items()}


# --- the attack -----------------------------------------------------------------------------------------------------


def supports(query, record):
    """Return the exact support counts of all values, from a record."""
    n, oracle = record["n"], record["oracle"]
    counts = np.zeros(query.domain.size, np.int64)
    for value, share in zip(record["values"], record["shares"]["unbiased"], strict=True):
        counts[int(value)] = round(n * (share * (oracle["p"] - oracle["q"]) + oracle["q"]))
    return counts


def test_a_pane_of_one_report_is_in_no_sum_of_records():
    """A minute whose five other panes are shown gives the sixth to the last bit, unless the rule withholds some."""
    sizes = (60, 55, 70, 64, 52, 1)
    bare = ask(windows=["10s", "1m"], publish="all", crowd=1)
    records = [record for _, record in published(Versions.of(bare), panes_of(bare, sizes)) if record["final"]]
    (minute,) = [record for record in records if record["window"]["size"] == 60]
    parts = [record for record in records if record["window"]["size"] == 10][:5]
    difference = supports(bare, minute) - sum(supports(bare, record) for record in parts)
    panes = panes_of(bare, sizes)
    assert difference.tolist() == bare.oracle.support(panes[50].counts, 1).tolist()
    query = ask(windows=["10s", "1m"], publish="all")
    records = [record for _, record in published(Versions.of(query), panes_of(query, sizes))]
    assert revealed(records, sizes, DEFAULT) is None
    assert [record["window"]["size"] for record in records if record["values"] and record["final"]] == [10] * 5


# --- the records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sizes", "reason"), [((49,), "small"), ((30, 40, 30), "held")])
def test_a_withheld_record_says_that_there_was_a_window_and_no_more(sizes, reason):
    query = ask(sets={"few": ["1", "2"]}, methods=["norm_sub", "calibrate"], windows=["20s/10s", "1m"])
    records = published(Versions.of(query), panes_of(query, (0,) * 6 + sizes))
    record = next(record for _, record in records if record["quality"]["flags"] == [reason])
    assert record["n"] == 0
    for key in ("n_independent", "sigma", "significance", "detectable", "shift_per_fake"):
        assert record[key] is None
    for key in ("central", "numbers", "weighted", "discover"):
        assert record[key] is None
    for key in ("values", "stderr", "low", "high", "sets"):
        assert not record[key]
    methods = ["unbiased", "norm_sub", "calibrate"]
    assert record["shares"] == record["hitters"] == {method: [] for method in methods}
    assert record["refused"] == {"duplicate": 0, "implausible": 0}
    risk = dict.fromkeys(methods)
    assert record["quality"] == {"sum": None, "prior_rejected": False, "risk": risk, "flags": [reason]}
    read = decode_record(orjson.dumps(record))
    assert read.n == 0
    assert read.values == ()
    assert read.flags == (reason,)


def test_withheld_windows_bring_no_alerts_and_leave_their_state():
    query = ask(windows=["all"], oracle="grr", epsilon=8.0, budget=1e9, domain=4)
    rng = np.random.default_rng(2)
    states = []
    events = []
    merger = Merger(Versions.of(query), 1)
    for pane, answers in {0: [1] * 400, 10: [2] * 49, 20: [3] * 400}.items():
        merger.take(pane, 0, tallied(query, query.oracle.perturb(answers, rng)))
        merger.mark(0, pane + PANE)
        for final in merger.finals():
            decision = window_result(query, final.span, final.total, final.withheld, states).decision
            names = [orjson.loads(value)["value"] for _, value in decision.alerts]
            events.append((names, decision.states == states))
            states = decision.states
    assert events == [(["1"], False), ([], True), (["2", "3"], False)]


def test_a_provisional_record_holds_the_panes_up_to_the_newest_mark():
    query = ask(windows=["10s", "1m", "all"], crowd=20)
    records = published(Versions.of(query), panes_of(query, (25, 30, 7, 40, 22, 21)))
    early = [record for _, record in records if not record["final"]]
    assert {record["window"]["kind"] for record in early} == {"tumbling"}
    assert [(record["window"]["through"], record["n"]) for record in early if record["window"]["start"] == 0] == [
        (10, 25),
        (20, 55),
        (20, 55),
        (40, 102),
        (50, 124),
    ]


def test_windows_without_a_span_inside_have_no_provisional_record():
    query = ask(windows=["1m"], crowd=1)
    assert all(record["final"] for _, record in published(Versions.of(query), panes_of(query, (25, 30, 7, 40, 22, 21))))


def test_all_of_a_later_version_begins_at_a_mark():
    versions = Versions.of(ask(windows=["30s"], crowd=10)).with_version(
        Version(10, ask(windows=["30s", "all"], crowd=10))
    )
    records = published(versions, panes_of(versions.query, (4, 4, 4, 12, 5, 8)))
    starts = {record["window"]["start"] for _, record in records if record["window"]["kind"] == "all"}
    assert starts == {30}


def test_all_is_shown_again_after_a_crowd_if_the_marks_are_lost():
    query = ask(windows=["all"], crowd=10)
    versions = Versions.of(query)
    worker = Worker(versions, {})
    worker.close(0, crowd_of(query, 30, np.random.default_rng(1)))
    list(worker.publish())
    position = worker.state.positions[query.windows[0]]
    merger = Merger(versions, 1, [(query.windows[0], position)], marks=QueryMarks.lost(versions, position.end))
    finals = []
    for pane, snapshot in panes_of(query, (30, 4, 5, 3, 2, 20)).items():
        merger.take(pane, 0, snapshot)
        merger.mark(0, pane + PANE)
        finals += [(final.span.start, final.span.end, final.withheld) for final in merger.finals()]
    # Without the marks nothing is known of the panes before, so only ends with a whole crowd behind them are shown.
    assert finals[:5] == [(0, end, (None if end in (40, 60) else "held",)) for end in (20, 30, 40, 50, 60)]


def test_a_definition_that_says_nothing_of_a_crowd_is_older_than_it():
    table = make_table(domain=4)
    standing = make_query(table, name="site", standing=True)
    assert standing.crowd == 1
    assert make_query(table, name="site") == replace(standing, crowd=DEFAULT)
