"""The flag of counts that no crowd has: its chance, its finds, and the silence of such a record."""

import re
from pathlib import Path

import numpy as np
import orjson
import pytest
from scipy import stats

from aggregator.reading.audit.comparison import Comparison
from aggregator.records.decoder import decode
from aggregator.records.differences import value_differences
from aggregator.records.span import Span
from aggregator.records.subject import IMPOSSIBLE
from aggregator.tallies.snapshot import Snapshot
from oracles import oracle
from oracles.estimate import Estimate
from oracles.estimate.impossible import CHANCE, impossible
from oracles.multi import multi
from oracles.types import MARKS
from tests.queries import make_query
from tests.results import window_result

NAMES = ["grr", "sue", "oue", "blh", "olh", "hr", "ss", "full", "short"]


def estimate(name, counts, n):
    """Return the estimate of a tally with these supports."""
    o = oracle(name, epsilon=1.0, size=len(counts))
    return Estimate((np.array(counts) / n - o.q) / o.gap, n, o)


@pytest.mark.parametrize("name", ["grr", "oue", "olh", "hr"])
@pytest.mark.parametrize("n", [50, 2_000, 100_000])
def test_the_exact_tail_of_one_value_is_below_the_chance(name, n):
    """All people answer one value. Its count is a binomial number, whose tail is known exactly."""
    size = 8
    o = oracle(name, epsilon=1.0, size=size)
    spread = np.full(size - 1, round(n * o.q))
    if o.supports_one:
        spread = np.full(size - 1, 0)

    def is_flagged(count):
        others = spread.copy()
        if o.supports_one:
            others += (n - count) // (size - 1)
            others[0] += n - count - others.sum()
        return impossible(estimate(name, [count, *others], n))

    expected = round(n * o.p)
    assert not is_flagged(expected)
    low, high = expected, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_flagged(middle) else (middle, high)
    if is_flagged(high):
        assert stats.binom.sf(high - 1, n, o.p) < CHANCE / size


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("windows", [60, pytest.param(11_200, marks=pytest.mark.long)])
def test_an_honest_window_is_not_impossible(name, windows):
    """9 oracles with 11,200 windows each are 10^5. One of them is flagged in fewer than 1 of 10^4 seeds."""
    rng = np.random.default_rng([7, NAMES.index(name)])
    o = oracle(name, epsilon=float(rng.choice([0.5, 1.0, 3.0])), size=12)
    for window in range(windows):
        n = int(rng.choice([1, 7, 60, 300]))
        people = [np.zeros(n, int), rng.integers(0, 12, n), rng.integers(0, 2, n)][window % 3]
        state = o.zeros()
        left_out = o.add(state, o.perturb(people, rng))
        assert not impossible(o.estimate(state, n - left_out))


@pytest.mark.parametrize("name", NAMES)
def test_repeats_of_one_noise_are_no_forgery(name):
    """Each report comes ten times, so the counts move ten times as far, and only a tenth is independent."""
    rng = np.random.default_rng(3)
    o = oracle(name, epsilon=1.0, size=12)
    for _ in range(40):
        state = o.zeros()
        left_out = o.add(state, o.perturb(np.zeros(40, int), rng))
        n = 10 * (40 - left_out)
        assert not impossible(o.estimate(10 * state, n, n // 10))


def test_a_thousand_forgers_of_ten_targets_are_found():
    rng = np.random.default_rng(1)
    o = oracle("grr", epsilon=1.0, size=1024)
    state = o.zeros()
    o.add(state, o.perturb(rng.integers(0, 100, 99_000), rng))
    honest = o.estimate(state.copy(), 99_000)
    o.add(state, o.forge(np.arange(500, 510), 1_000, rng))
    forged = o.estimate(state, 100_000)
    assert forged.shares[500:510].sum() > 5
    assert (impossible(honest), impossible(forged)) == (False, True)


def test_counts_that_are_too_small_are_found():
    """Forgers who support nothing take away the noise of each value."""
    o = oracle("oue", epsilon=1.0, size=16)
    counts = np.full(16, round(0.5 * o.q * 10_000))
    assert impossible(estimate("oue", counts, 10_000))


def test_attributes_are_tested_by_their_own_reports():
    m = multi("smp", sizes=[4, 4], epsilon=1.0, oracle="grr")
    rng = np.random.default_rng(5)
    state = m.zeros()
    m.add(state, m.perturb(np.zeros((3_000, 2), int), rng))
    first, second = m.estimate(state, 3_000)
    assert (impossible(first), impossible(second)) == (False, False)
    answers = first.n
    state[:4] = [answers, 0, 0, 0]
    assert [impossible(each) for each in m.estimate(state, 3_000)] == [True, False]


def test_hidden_attributes_are_tested_by_the_law_of_their_estimates():
    m = multi("rsfd", sizes=[4, 4], epsilon=1.0, oracle="grr")
    rng = np.random.default_rng(5)
    state = m.zeros()
    m.add(state, m.perturb(np.zeros((3_000, 2), int), rng))
    assert [impossible(each) for each in m.estimate(state, 3_000)] == [False, False]
    state[:4] = [3_000, 0, 0, 0]
    assert [impossible(each) for each in m.estimate(state, 3_000)] == [True, False]


ROWS = {
    name: float(points.replace(",", ""))
    for name, points in re.findall(
        r"^\| `(\w+)` \|(?: [\d.,]+ \|){3} ([\d.,]+) \|$",
        (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
"""The rows of docs/privacy.md about attacks on a single target, with the largest share that has no flag."""


def largest_silent_share(name, n=20_000, size=1024):
    """Return the largest share of a single target without the flag, in points, if all counts are as expected."""
    o = oracle(name, epsilon=1.0, size=size)
    low, high = 0.0, 1.0
    for _ in range(40):
        forgers = (low + high) / 2
        counts = np.full(size, (1 - forgers) * n * o.q)
        counts[:100] += (1 - forgers) * n * o.gap / 100
        counts[700] += forgers * n
        counts[:700] += 0 if o.supports_one else forgers * n * o.q
        counts[701:] += 0 if o.supports_one else forgers * n * o.q
        # Whole numbers with the same sum. If each report supports one value, the supports of all are the reports.
        counts = np.diff(np.rint(np.cumsum(counts)), prepend=0)
        low, high = (low, forgers) if impossible(estimate(name, counts, n)) else (forgers, high)
    return 100 * low * (1 - o.q) / o.gap


@pytest.mark.parametrize("name", NAMES)
def test_the_page_states_the_largest_silent_share_of_a_target(name):
    assert ROWS[name] == pytest.approx(largest_silent_share(name), abs=0.06)


TABLE = {"domain": ["a", "b", "c", "d"], "oracle": "grr", "epsilon": 1.0, "other": False, "crowd": 1, "budget": 1e9}
FORGED = [900, 30, 40, 30]
HONEST = [470, 180, 170, 180]


def tally(query, *counts):
    """Return the snapshot of a window whose groups have these supports."""
    cells = [[*group, *[0] * MARKS] for group in counts]
    # Each further group also has its reports, and the implausible and repeated ones.
    further = [[*row, sum(group), 0, 0] for row, group in zip(cells[1:], counts[1:], strict=True)]
    state = np.concatenate([cells[0], *further]).astype(np.int64)
    return Snapshot(int(sum(map(sum, counts))), 0, 0, 0, state)


def result(counts, states=()):
    query = make_query(TABLE)
    window = query.windows[0]
    return window_result(query, Span(window, 0, window.size), tally(query, counts), (), states)


def records_of(window):
    return [orjson.loads(value) for _, value in window.window.records]


def test_an_impossible_record_proves_and_promises_nothing_and_makes_no_alert():
    honest, forged = result(HONEST), result(FORGED)
    [honest_findings], [findings] = honest.findings.of_totals, forged.findings.of_totals
    assert IMPOSSIBLE in findings.flags
    assert IMPOSSIBLE not in honest_findings.flags
    assert len(honest_findings.by_method["unbiased"].hitters) == 1
    assert all(len(method.hitters) == 0 for method in findings.by_method.values())
    [row], [honest_row] = records_of(forged), records_of(honest)
    assert (row["quality"]["flags"], row["central"]) == (["impossible"], None)
    assert honest_row["central"] is not None
    assert not any(row["hitters"].values())
    assert (len(honest.decision.alerts), len(forged.decision.alerts)) == (1, 0)


@pytest.mark.parametrize("counts", [(HONEST, FORGED), (FORGED, HONEST)], ids=["later", "earlier"])
def test_a_comparison_with_an_impossible_record_proves_nothing(counts):
    before, after = (decode(result(row).window.records[0][1]) for row in counts)
    comparison = value_differences(before, after, size=4, family_error=0.05)
    assert min(row.p_value for row in comparison.rows) < 1e-9, "the numbers stay"
    assert [row.proved for row in comparison.rows] == [None] * 4
    assert comparison.proofs == 0


def test_an_impossible_record_leaves_the_state_of_alerts_as_it_is():
    states = result(HONEST).decision.states
    assert result(FORGED, states).decision.states == states


def test_a_weighted_total_is_impossible_if_one_of_its_groups_is():
    table = TABLE | {"groups": {"platform": ["ios", "web"]}, "weights": {"ios": 0.5, "web": 0.5}}
    query = make_query(table)
    window = query.windows[0]
    total = tally(query, [0, 0, 0, 0], HONEST, FORGED)
    rows = records_of(window_result(query, Span(window, 0, window.size), total))
    assert [(row["group"], row["quality"]["flags"]) for row in rows] == [
        (None, ["impossible"]),
        ({"platform": "ios"}, []),
        ({"platform": "web"}, ["impossible"]),
    ]


def test_an_audit_tells_the_record_of_an_older_release_from_a_wrong_one():
    [(key, value)] = result(FORGED).window.records
    older = orjson.loads(value)
    older["quality"]["flags"] = []
    comparison = Comparison(expected={key: value})
    assert comparison.older_difference(key, orjson.dumps(older)) == "without the flag impossible"
    assert not any(comparison.older_difference(key, published) for published in (None, b"x", b"[]", value))


def test_an_audit_knows_the_errors_of_weighted_totals_of_an_older_release():
    query = make_query(TABLE | {"groups": {"platform": ["ios", "web"]}, "weights": {"ios": 0.5, "web": 0.5}})
    window = query.windows[0]
    snapshot = tally(query, [0, 0, 0, 0], HONEST, HONEST)
    total, ios, _ = window_result(query, Span(window, 0, window.size), snapshot).window.records
    comparison = Comparison(expected=dict([total, ios]), raised_at=1000 * window.size)

    def changed(name, value, text=total[1]):
        record = orjson.loads(text)
        record["weighted"][name] = value
        return orjson.dumps(record)

    older = changed("stderr", [0.001, 0.02, 0.02, 0.02])
    assert comparison.older_difference(total[0], older) == "with another error of its weighted total"
    wrong = [changed("low", [0.1] * 4), changed("stderr", [0.1]), changed("stderr", [-0.1] * 4), ios[1]]
    assert not any(comparison.older_difference(total[0], published) for published in wrong)
    assert comparison.older_difference(ios[0], older) is None
    comparison.raised_at -= 1
    assert comparison.older_difference(total[0], older) is None, "this release has made it"
