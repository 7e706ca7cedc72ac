"""An open page reads two equal groups at each of 300 finals, and the board proves a difference in at most 5%."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from benchmarks.accuracy.looks import (
    CASES,
    FAMILY_ERROR,
    HAAR,
    LOOKS,
    PEOPLE,
    POWER,
    QUANTILES,
    SCALE,
    SHAPES,
    every_look,
    experiments,
    look_p_values,
    number_tallies,
    smallest_quantile,
)
from benchmarks.accuracy.study import seeded
from oracles.estimate.looks import EVERY_LOOK
from oracles.numbers import Numbers
from oracles.numbers.number_differences import NumberDifferences
from oracles.query.settings import Window
from tests.boards import FRESH, START
from tests.queries import make_queries, make_table
from tests.results import build
from tests.unit.test_board_store import ask, store

FALSE_ALARM = 1e-6
"""The chance that a test of a correct comparison fails."""
PANE = 10
RUNS = pytest.param(60, id="60"), pytest.param(1_000, id="1000", marks=pytest.mark.long)
CHEAP = CASES[2], CASES[4]
EQUAL = replace(CASES[0], name="equal groups")


def board_of(trials, looks):
    """Return a board with one window since the start for each experiment, at its look."""
    domain = [f"v{number}" for number in range(trials.arms.values)]
    groups = {"arm": ["control", "blue"]}
    # The counts have no other values. With them each window would be impossible, and prove nothing.
    table = FRESH | {"domain": domain, "oracle": "oue", "epsilon": trials.arms.epsilon, "crowd": 1, "other": False}
    queries = make_queries({"button": make_table(table, groups=groups, windows=["all"], publish="all")})
    query = queries["button"]
    messages = []
    for run, look in enumerate(looks.tolist()):
        parts = [query.oracle.zeros()]
        for counts, reports in zip(trials.counts, trials.reports, strict=True):
            state = query.oracle.zeros()
            state[: trials.arms.values] = counts[run, look]
            parts += [state, [reports[look], 0, 0]]
        total = sum(int(reports[look]) for reports in trials.reports)
        end = START + PANE * (run + 1)
        snapshot = Snapshot(total, 0, 0, 0, np.concatenate(parts))
        window = build(query, Span(Window("all", 0, 0), START, end), snapshot)
        messages += [
            ("estimates", *record) for record in window.records if b"control" in record[0] or b"blue" in record[0]
        ]
    return store(messages, queries=queries)


def proofs(trials, choice):
    """Return whether the board proves a difference in each experiment, at the look at which it is the surest."""
    p_values = trials.smallest(every_look=choice == "always")
    looks = p_values.argmin(axis=1)
    board = board_of(trials, looks)
    proved = []
    for run in range(len(looks)):
        pair = {"group": "control", "with": "blue", "window": START + PANE * (run + 1)}
        answer = ask(board, "compare", "button", kind="all", looks=choice, **pair)
        assert min(row["p_value"] for row in answer["values"]) == pytest.approx(p_values[run].min(), rel=1e-6)
        proved.append(answer["proofs"] > 0)
    return np.array(proved)


@pytest.mark.parametrize("runs", RUNS)
def test_equal_groups_seldom_differ_at_any_look(runs):
    """No look is surer than the one that is asked, so the board proves nothing at the others either."""
    trials = experiments(EQUAL, runs)
    assert trials.counts[0].shape[1] == LOOKS
    assert proofs(trials, "always").sum() <= stats.binom.ppf(1.0 - FALSE_ALARM, runs, FAMILY_ERROR)
    assert proofs(trials, "one").mean() > 0.25, "one look is not meant to be read often"


@pytest.mark.parametrize("runs", RUNS)
def test_three_points_more_are_proved_by_the_last_look(runs):
    assert proofs(experiments(POWER, runs), "always").sum() >= stats.binom.ppf(FALSE_ALARM, runs, 0.95)


@pytest.mark.parametrize(
    "arms", [arms if arms in CHEAP else pytest.param(arms, marks=pytest.mark.long) for arms in CASES]
)
def test_no_kind_of_experiment_proves_false_differences_too_often(arms):
    """A group that grows, sparse counts and a panel keep the law too."""
    runs = 60
    trials = experiments(arms, runs)
    false = (trials.smallest(every_look=True).min(axis=1) <= FAMILY_ERROR / arms.values).sum()
    assert false <= stats.binom.ppf(1.0 - FALSE_ALARM, runs, FAMILY_ERROR)


@pytest.mark.parametrize("shape", [pytest.param(shape, marks=pytest.mark.long) for shape in SHAPES])
def test_equal_quantiles_seldom_differ_at_any_look(shape):
    runs = 1_000
    limit = FAMILY_ERROR / len(QUANTILES)
    false = (smallest_quantile(shape, runs, is_watched=True) <= limit).sum()
    assert false <= stats.binom.ppf(1.0 - FALSE_ALARM, runs, FAMILY_ERROR)
    assert (smallest_quantile(shape, runs, is_watched=False) <= limit).mean() > 0.25, "one look is not read often"


def test_the_study_tests_quantiles_as_the_library_and_the_board_do():
    """The study computes all looks at once, and takes the law of every look from the test of one look."""
    arms = [number_tallies("normal", seeded("arms", name)) for name in ("control", "blue")]
    p_values = look_p_values(*arms)
    assert p_values.min() < 0.2
    for look in (3, 40, 200):
        n = PEOPLE * look
        windows = [Numbers(HAAR.estimate(tallies[look - 1], n), SCALE) for tallies in arms]
        changes = NumberDifferences(*windows)
        one_look = [changes.quantile_test(share)[0] for share in QUANTILES]
        assert p_values[look - 1] == pytest.approx(one_look, rel=1e-6)

    changes = NumberDifferences(*windows, looks=EVERY_LOOK)
    expected = [changes.quantile_test(share)[0] for share in QUANTILES]
    assert every_look(p_values[look - 1], n) == pytest.approx(expected, rel=1e-6)
    board = number_board([tallies[look - 1] for tallies in arms], n)
    rows = ask(board, "compare", "loads", kind="all", group="control", **{"with": "blue"})["values"]
    shown = {row["value"]: row["p_value"] for row in rows}
    assert [shown[name] for name in ("p50", "p90", "p99")] == pytest.approx(expected, rel=1e-3)


def number_board(states, n):
    """Return a board with one window since the start of two groups of numbers."""
    domain = {"low": SCALE.low, "high": SCALE.high, "bins": SCALE.bins}
    table = FRESH | {"domain": domain, "epsilon": HAAR.epsilon, "crowd": 1, "quantiles": list(QUANTILES)}
    groups = {"arm": ["control", "blue"]}
    queries = make_queries({"loads": make_table(table, groups=groups, windows=["all"], oracle="haar")})
    query = queries["loads"]
    parts = [query.oracle.zeros()]
    for state in states:
        parts += [state, [n, 0, 0]]
    span = Span(Window("all", 0, 0), START, START + PANE)
    window = build(query, span, Snapshot(2 * n, 0, 0, 0, np.concatenate(parts)))
    return store([("estimates", *record) for record in window.records], queries=queries)
