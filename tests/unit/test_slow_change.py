"""Slow changes are found at seven scales, with few false alerts, and the same after a restart."""

from copy import deepcopy
from dataclasses import replace
from itertools import product
from statistics import median

import numpy as np
import pytest
from scipy import stats

from aggregator.merging import block_records, blocks
from aggregator.merging.blocks import Block, BlockSpan, Part
from aggregator.merging.kinds import has_blocks
from aggregator.merging.merger import Merger
from aggregator.merging.place_counts import answer_counts
from aggregator.publishing.alerts.state import State, dump, load
from aggregator.publishing.alerts.watch import looks_a_day
from aggregator.publishing.finals.final import ResultSequence
from aggregator.records.alert import encode
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot
from benchmarks import slow_change
from benchmarks.slow_change import CLIENTS, REST, delays, false_alerts, follow, jump, rise
from hubbub.definitions.versions import Versions
from oracles.errors import QueryError, ReportError
from tests import schemas
from tests.fold import finals_of_panes, with_reasons
from tests.queries import make_query, make_table

# A multiple of the longest block of 64 windows of 10 s, so that blocks of all scales begin here.
START = 1_700_000_000 // 640 * 640
FRESH = slow_change.query()
SIGMA = float(np.sqrt(FRESH.oracle.variance(CLIENTS)))


@pytest.mark.parametrize(("height", "maximum"), [(2, 16), (3, 8), (4, 4)])
def test_a_jump_that_stays_is_found(height, maximum):
    """One window alone would find none of them."""
    hits = delays(FRESH, jump(height * SIGMA), 100, runs=4)
    assert len(hits) == 4
    assert median(hits) <= maximum


@pytest.mark.long
@pytest.mark.parametrize(("height", "maximum"), [(2, 16), (3, 4), (4, 4), (7, 2), (10, 1)])
def test_a_jump_that_stays_is_found_in_all_runs(height, maximum):
    hits = delays(FRESH, jump(height * SIGMA), 100)
    assert len(hits) == 12
    assert median(hits) <= maximum


@pytest.mark.long
@pytest.mark.parametrize(("height", "maximum"), [(5, 32), (10, 20), (20, 16)])
def test_a_rise_within_an_hour_is_found(height, maximum):
    hits = delays(FRESH, rise(height * SIGMA), 100)
    assert len(hits) == 12
    assert median(hits) <= maximum


@pytest.mark.long
def test_a_steep_rise_is_found_within_the_hour_wherever_in_a_block_it_begins(monkeypatch):
    """The median is 13 windows. Whether it is 11 or 16 depends on the window of a block in which the rise begins."""
    hits = []
    for place in range(16):
        monkeypatch.setattr(slow_change, "REST", REST + place)
        hits += delays(FRESH, rise(20 * SIGMA), 100, runs=4)
    assert len(hits) == 64
    assert median(hits) <= 14
    assert max(hits) <= 24


def step(gap):
    """Return a course with two jumps of 4 sigma, so many windows apart."""
    return lambda number: 4 * SIGMA * (1 + (number >= gap))


@pytest.mark.parametrize("height", [20, 40])
def test_a_slow_change_brings_few_alerts(height):
    """Each scale would say again what an earlier one has said: a rise of 20 sigma brought 2.8 surges in the mean."""
    assert slow_change.alert_count(FRESH, rise(height * SIGMA), 100, runs=3) <= 2.0


@pytest.mark.long
@pytest.mark.parametrize("height", [5, 10, 20, 40, 80])
def test_a_slow_change_brings_at_most_two_alerts_in_the_mean(height):
    assert slow_change.alert_count(FRESH, rise(height * SIGMA), 100) <= 2.0


def test_a_second_jump_is_another_change():
    assert slow_change.alert_count(FRESH, step(60), 100, runs=3) == 2.0


def test_a_fade_is_found_like_a_surge():
    hits = delays(FRESH, jump(-4 * SIGMA), 2, runs=3, kind="fade")
    assert len(hits) == 3
    assert max(hits) <= 8


def test_clients_that_answer_for_life_show_a_slow_rise():
    life = slow_change.query(answers="life", oracle="hr")
    hits = delays(life, rise(0.02), 100, runs=2, clients=20_000)
    assert len(hits) == 2
    assert max(hits) <= 64


def test_a_population_at_rest_brings_few_alerts():
    """A quarter a day of each kind. By chance a run fails with a probability below 1e-6."""
    counts = false_alerts(FRESH, 1.5)
    assert max(counts.values()) <= stats.poisson.ppf(1 - 1e-6, 1.5 / 4)


@pytest.mark.long
def test_a_population_at_rest_brings_few_alerts_for_months():
    counts = false_alerts(FRESH, 60)
    assert max(counts.values()) <= stats.poisson.ppf(1 - 1e-6, 60 / 4)


def alerts_of(course, value=100, windows=slow_change.REST + 200, seed=3):
    estimates = slow_change.sampled(FRESH, windows, course, value, np.random.default_rng(seed))
    return [alert for _, alert in follow(FRESH, estimates) if alert.value == str(value)]


def test_a_change_is_said_once_and_its_end_too():
    (surge,) = [alert for alert in alerts_of(jump(4 * SIGMA)) if alert.kind != "enter"]
    assert surge.kind == "surge"
    assert surge.scale in (2, 4)
    assert surge.to.end - surge.to.start == 60 * surge.scale
    assert surge.from_.end == surge.to.start
    assert surge.from_.end - surge.from_.start == 240 * surge.scale
    assert surge.before < surge.share
    schemas.alert(encode(surge))
    assert surge.key.endswith(f"|surge|100|{surge.scale}".encode())
    kinds = [alert.kind for alert in alerts_of(lambda number: 6 * SIGMA * (number < 80))]
    assert [kind for kind in kinds if kind in ("surge", "fade")] == ["surge", "fade"]


def test_the_budget_is_shared_by_all_comparisons():
    assert looks_a_day(FRESH) == 1440 * (1 + 63 / 64)
    hopping = slow_change.query(windows=["10m/1m", "all"])
    assert looks_a_day(hopping) == 1440 + 144 * 63 / 64
    assert looks_a_day(slow_change.query(1 << 17, oracle="olh")) == 1440


PLAIN = make_table(epsilon=2.0, budget=1e9, windows=["10s", "1m/10s"], domain=5, answers="fresh")


def query_of(**settings):
    table = PLAIN | {"oracle": "grr", "crowd": 5} | settings
    keys = {key: value for key, value in table.items() if value is not None}
    return make_query(keys)


def panes_of(query, count, seed=1, quiet=(), size=400):
    """Return panes with honest reports, some of them with none or few. A value rises in the middle."""
    rng, panes = np.random.default_rng(seed), {}
    for number in range(count):
        if number in quiet:
            continue

        # Every seventh pane has fewer reports than the crowd, so its edges are no marks.
        n = int(rng.integers(1, 2 * size)) if number % 7 else 3
        shares = np.array([5, 4, 3, 2, 1 + 6 * (number > count // 2)], float)
        state = query.oracle.zeros()
        query.oracle.add(state, query.oracle.perturb(rng.choice(5, n, p=shares / shares.sum()), rng))
        panes[START + 10 * number] = Snapshot(n, 0, 0, INCOMPLETE if number == 40 else 0, state)
    return panes


def merged(query, panes, through, positions=(), marks=None):
    merger = Merger(Versions.of(query), 1, positions, marks=marks)
    for pane, snapshot in panes.items():
        merger.take(pane, 0, snapshot)
    merger.mark(0, through)
    return merger


WAITS = {"domain": {"low": 0, "high": 16, "bins": 16}, "oracle": None, "ranges": {"four": [4, 5]}}
SETTINGS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"answers": "life"},
        {"season": "3m"},
        {"season": "3m", "answers": "life"},
        {**WAITS, "threshold": {"p50": 3}},
        {**WAITS, "answers": "life"},
    ],
)


@SETTINGS
def test_a_restart_gives_the_same_alerts_and_blocks(settings):
    check_restarts(query_of(**settings), 151)


@pytest.mark.long
@SETTINGS
def test_a_restart_anywhere_gives_the_same_alerts_and_blocks(settings):
    check_restarts(query_of(**settings), 17)


def test_a_worker_that_dies_between_a_block_and_its_state_changes_no_alert():
    """Blocks are written before the state that passes them. So the next worker may find later blocks than its state."""
    check_restarts(query_of(), 151, ahead=3)


@pytest.mark.long
@SETTINGS
@pytest.mark.parametrize("ahead", [1, 3])
def test_a_worker_that_dies_anywhere_between_a_block_and_its_state_changes_no_alert(settings, ahead):
    check_restarts(query_of(**settings), 17, ahead)


def check_restarts(query, every_so_many, ahead=0):
    """Start again after some of the finals, from the states at that time. All later output is the same.

    The blocks are those of the same time, or of some finals ahead.
    """
    panes = panes_of(query, 300, quiet={*range(50, 57), *range(100, 171)})
    every = list(merged(query, panes, START + 3_100).finals())
    results, output, positions, starts = ResultSequence(), [], {}, {}
    for number, final in enumerate(every):
        result = results.next(query, final)
        output.append((result.window.records, result.decision))
        positions[final.span.window] = final.position
        if number % every_so_many == 5:
            starts[number + 1] = dict(positions), deepcopy(results)
    # Without an alert a restart would have nothing to repeat.
    assert any(decision.alerts for _, decision in output)
    for at, (states_before, states_again) in starts.items():
        # A worker that starts here reads the states, the panes that windows need, and the marks of the panes.
        merger = merged(query, panes, START + 3_100, list(states_before.items()))
        for pane, snapshot in panes.items():
            merger.marks.count(pane, answer_counts(query, snapshot))
        for number in range(at, min(at + ahead, len(every))):
            states_again._blocks.setdefault(every[number].span.window, {}).update(output[number][1].blocks)
        rest = list(merger.finals())
        assert [(final.span, final.blocks) for final in rest] == [(final.span, final.blocks) for final in every[at:]]
        for final, before_it in zip(rest, output[at:], strict=True):
            result = states_again.next(query, final)
            assert (result.window.records, result.decision) == before_it


def test_blocks_are_sums_between_marks_by_a_simple_fold():
    """Each block is the sum of its panes. It is visible only if the marks of tests/fold.py allow it."""
    query = query_of()
    panes = panes_of(query, 260, quiet={*range(30, 34), *range(90, 140)}, size=12)
    fold = list(with_reasons(finals_of_panes(Versions.of(query), panes, lambda end: end <= START + 2_700)))
    stretches = fold[0][0].stretches[0]
    results, hits = ResultSequence(), {}
    for final in merged(query, panes, START + 2_700).finals():
        result = results.next(query, final)
        hits |= {(final.span.window, *place): value for place, value in result.decision.blocks.items()}
    visible = 0
    for (window, scale, end), value in hits.items():
        block = block_records.decode(value, query)
        (part,) = block.parts
        start = end - scale * window.size
        inside = [snapshot for pane, snapshot in panes.items() if start <= pane < end]
        support = query.oracle.support(sum(snapshot.counts for snapshot in inside), 0)
        np.testing.assert_array_equal(part.counts, support)
        assert part.n == sum(snapshot.n for snapshot in inside)
        assert part.is_complete == (not any(snapshot.flags & INCOMPLETE for snapshot in inside))
        marks = not any(
            first < edge < end_of_stretch for (first, end_of_stretch), edge in product(stretches, (start, end))
        )
        assert part.is_visible == (marks and part.n >= query.crowd and block.known_from <= start)
        visible += part.is_visible
    assert {scale for _, scale, _ in hits} == set(blocks.SCALES)
    # Both kinds must occur, or the rule of marks would not be tested.
    assert 10 < visible < len(hits)


def test_a_block_whose_first_windows_are_unknown_is_not_visible():
    """A half without a record has no reports, or its record is lost. Only the final before tells which."""
    query = query_of(windows=["10s"])
    end = START + 640
    part = Part(100, 100, np.full(5, 20, np.uint8), is_visible=True, is_complete=True)
    half = Block(end - 20, (part,))

    def visible(quiet_from, store):
        spans = [BlockSpan(scale, end - 10 * scale, end, quiet_from, (True,)) for scale in (1, 2)]
        return blocks.extended(query, spans, [part], end, store)[2, end].parts[0].is_visible

    assert visible(end - 20, {}), "the final before ended before the block"
    assert not visible(end - 10, {}), "the window before had reports, which are lost"
    assert visible(end - 10, {(1, end - 10): half})
    late_spans = [BlockSpan(2, end - 20, end, quiet_from, (True,)) for quiet_from in (end - 10, end)]
    (gap,), (loss,) = (
        blocks.extended(query, [span], [part], end + 30, {(1, end - 10): half}).values() for span in late_spans
    )
    assert gap.parts[0].is_visible, "its second window has no reports"
    assert not loss.parts[0].is_visible


def test_a_block_needs_a_crowd():
    query = query_of(windows=["10s"], crowd=50)
    end = START + 640
    windows = [Part(n, n, np.array([n, 0, 0, 0, 0]), is_visible=True, is_complete=True) for n in (24, 25)]

    def visible(first_part, second_part):
        store = {(1, end - 10): Block(end - 20, (first_part,))}
        block = blocks.extended(
            query,
            [BlockSpan(2, end - 20, end, 0, (True,))],
            [],
            end,
            store | {(1, end): Block(end - 10, (second_part,))},
        )
        return block[2, end].parts[0].is_visible

    assert visible(windows[1], windows[1])
    assert not visible(windows[0], windows[1])


def test_few_blocks_of_each_scale_are_kept():
    query = query_of(windows=["10s"])
    window = query.windows[0]
    store = [(scale, START + 10 * scale * number) for scale in blocks.SCALES for number in range(64 // scale + 7)]
    end = max(end for _, end in store)
    limit = set(store) - set(blocks.obsolete(query, window, store, end))
    counts = {scale: sum(entry == scale for entry, _ in limit) for scale in blocks.SCALES}
    assert counts == {scale: 1 if scale == 1 else 5 for scale in blocks.SCALES}
    life = query_of(windows=["10s"], answers="life")
    assert len(set(store) - set(blocks.obsolete(life, window, store, end))) == len(blocks.SCALES)
    assert not blocks.obsolete(query, window, store, START - 1), "later blocks are not settled"


def test_a_season_compares_with_the_same_time_of_earlier_seasons():
    query = query_of(windows=["10s"], season="1d")
    window, day, end = query.windows[0], 86_400, 86_400 * 20_000
    yesterday = [(16, end - day * number) for number in (1, 2, 5)]
    neighbours = [(16, end - 160 * number) for number in range(1, 6)]
    assert blocks.before(query, window, (16, end), [*yesterday, *neighbours]) == [(16, end - 2 * day), (16, end - day)]
    assert blocks.before(query, window, (16, end), neighbours) == neighbours[3::-1]
    assert blocks.before(query, window, (8, end), [(8, end - 80), (8, end - day)]) == [(8, end - 80)]
    with pytest.raises(QueryError, match="season"):
        query_of(season="7s")


def test_a_block_reads_back_and_damage_is_refused():
    query = query_of()
    part = Part(300, 300, np.array([300, 0, 1, 2, 3], np.uint16), is_visible=True, is_complete=False)
    data = block_records.encode(Block(START, (part,)))
    read = block_records.decode(data, query)
    (states_again,) = read.parts
    assert read.known_from == START
    assert states_again.n == 300
    assert states_again.is_visible is True
    assert states_again.is_complete is False
    np.testing.assert_array_equal(states_again.counts, part.counts)
    for wrong_value in (data[:-1], data + b"x", b"", b"{}\n", data.replace(b'"version":1', b'"version":9')):
        with pytest.raises(ReportError, match="block"):
            block_records.decode(wrong_value, query)
    with pytest.raises(ReportError, match="does not fit"):
        block_records.decode(block_records.encode(Block(START, (replace(part, n=200, n_independent=200),))), query)


def test_an_older_state_is_read_and_its_surges_stay_silent():
    older = b'{"version":2,"end":50,"shown":true,"entered":[[1,0.5]],"surged":[[2,50]],"kept":[]}\n'
    state = load(older)
    assert [(one.value, one.kind, one.end, one.before) for one in state.silences] == [(2, "surge", 50, None)]
    assert load(dump(state)).silences == state.silences
    assert load(dump(State(7))).silences == ()


def test_numbers_have_blocks_and_alerts():
    """An attribute of numbers has them like one of values."""
    wait = {"low": 1.0, "high": 60_000.0, "scale": "log"}
    several = query_of(attributes={"kind": ["a", "b"], "wait": wait}, domain=None, oracle=None, windows=["10s"])
    alone = query_of(domain=wait, oracle=None, windows=["10s"])
    assert [has_blocks(entry) for entry in (several, alone)] == [[True, True], [True]]
    assert looks_a_day(several) == 8640 * (2 + 2 * 63 / 64)
    rng = np.random.default_rng(5)
    for query in (several, alone):
        panes, results, scales, keys = {}, ResultSequence(), set(), set()
        for number in range(140):
            tally = query.tally()
            answers = np.stack([np.full(300, int(number > 70)), np.full(300, 20 + 100 * (number > 70))], axis=1)
            tally.add(query.oracle.perturb(answers if query is several else answers[:, 1], rng))
            panes[START + 10 * number] = Snapshot(tally.n, 0, 0, 0, tally.state)
        for final in merged(query, panes, START + 1_400).finals():
            result = results.next(query, final)
            stored_blocks = result.decision.blocks
            scales |= {scale for scale, _ in stored_blocks}
            sizes = [len(block_records.decode(value, query).parts[-1].counts) for value in stored_blocks.values()]
            assert set(sizes) <= {255 + 8}
            keys |= {tuple(key.split(b"|")) for key, _ in result.decision.alerts}
        assert scales == set(blocks.SCALES)
        attribute = b"wait" if query is several else b""
        assert any((key[2], key[7], key[8]) == (attribute, b"surge", b"p50") for key in keys)
