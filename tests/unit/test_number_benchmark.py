"""The benchmark of numbers in a small seeded form, and the plan of numbers, which promises what is measured.

Statistical tests have fixed seeds. Each fails by chance with a probability below 1e-6.
"""

import re

import numpy as np
import pytest
from scipy import stats

from aggregator.plan.check_text import lines as check_lines
from aggregator.plan.command import main as plan
from aggregator.plan.kinds import numbers
from benchmarks import number_study
from benchmarks.number_alerts import query
from benchmarks.number_methods import METHODS
from oracles import oracle

SMALL = {20_000: 2}


def test_intervals_of_quantiles_and_ranges_cover():
    """Panels that answer for life are among the windows."""
    *_, total = number_study.coverage(1, seed=9, crowds=SMALL)
    windows = int(total[-1])
    for cell, names in zip(total[2:4], (number_study.QUANTILES, number_study.RANGES), strict=True):
        count = windows * len(names)
        assert stats.binom.cdf(round(float(cell.rstrip("%")) / 100 * count), count, 0.95) > 1e-7


def test_haar_has_half_the_rank_errors_of_flat_shares_and_no_more_than_a_tree_of_four():
    rows = number_study.rank_errors(2, crowds=(100_000,))
    errors = {name: [float(f"0{word}") for word in cell.split()] for name, cell in rows}
    assert errors.keys() == METHODS.keys()
    assert max(errors["haar"]) < 0.04
    assert np.mean(errors["haar"]) < np.mean(errors["flat hr, norm_sub"]) / 2
    assert np.mean(errors["haar"]) < 1.3 * np.mean(errors["tree of four, least squares"])


def test_no_forger_moves_a_cumulative_share_beyond_the_bound():
    """The noise of the honest reports is in both estimates, so that the rest is the forgers' effect."""
    rows = list(number_study.poisoning(20_000, seed=2))
    assert len(rows) == 9
    for part, name, *cells, bound in rows:
        shifts = [float(shift) for cell in cells for shift in re.findall(r"rank (-?[0-9.]+)", cell)]
        assert len(shifts) == (0 if name == "mean" else 2)
        assert all(shift <= float(bound) * 1.02 + 0.002 for shift in shifts), (part, name)


def test_isotonic_regression_does_not_amplify_forged_ranges():
    for name, _, _, ratio in number_study.amplification(20_000, rounds=3):
        assert float(ratio) < 1.3, name


def test_a_plan_says_what_a_width_needs(capsys):
    assert plan(["--number", "--bins", "256", "--clients", "1e5"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "p50: the interval goes from about the true p46.8 to the true p53.2" in text
    assert "p99: the interval goes from about the true p95.8 to the upper end of the scale" in text
    assert "2% with 260,832" in text
    assert plan(["--number", "--clients", "1e5", "--width", "0.01", "--answers", "fresh"]) == 0
    assert "1% with 1,043,3" in " ".join(capsys.readouterr().out.split())
    for wrong_value in (
        ["--number"],
        ["--number", "--clients", "9", "--size", "4"],
        ["--number", "--clients", "9", "--bins", "100"],
    ):
        with pytest.raises(SystemExit):
            plan(wrong_value)


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_the_planned_width_is_that_of_the_intervals(epsilon):
    o = oracle("haar", epsilon=epsilon, size=256)
    rng, n = np.random.default_rng(3), 20_000
    distribution = number_study.numbers_of(o, o.perturb(rng.integers(0, 256, n), rng), number_study.SHAPES["smooth"][1])
    reach = numbers.tree_of(256, epsilon, "fresh").resolution(n)
    assert np.sqrt(np.mean((1.96 * distribution.cumulative[1]) ** 2)) == pytest.approx(reach, rel=0.05)
    assert distribution.resolution == pytest.approx(reach)
    assert o.tree.reports(reach) == pytest.approx(n, abs=1)


def test_a_check_speaks_of_ranks_and_not_of_detectable_shares():
    text = " ".join(" ".join(check_lines(query(), 12, 100_000)).split())
    assert "you will know the median to within" in text
    assert "detectable" not in text
    assert "Zipf" not in text
