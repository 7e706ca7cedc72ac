"""Numbers by HAAR: exact privacy, unbiased shares, errors as stated, quantiles that cover, edges, marks and tallies.

Statistical tests have fixed seeds. All of them together fail by chance with a probability below 1e-6.
"""

import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from oracles import oracle
from oracles.conformance import check
from oracles.errors import ParameterError, ReportError
from oracles.multi.forgery import p_value
from oracles.numbers import Numbers, Scale
from oracles.types import MARKS
from tests.unit.test_privacy import distribution, within, worst_ratio

SPREAD = 5.5
"""Standard errors that none of the figures here exceeds by chance, all together, with a probability above 1e-6."""
SHAPES = {
    "log-normal": (lambda rng, n: rng.lognormal(6.0, 0.8, n), Scale(1.0, 60_000.0, 256, "log")),
    "smooth": (lambda rng, n: 100.0 * rng.beta(2.0, 3.0, n), Scale(0.0, 100.0, 256)),
    "lumps": (lambda rng, n: rng.choice([2.0, 4.0, 8.0, 8.0, 16.0], n), Scale(0.0, 20.0, 1024)),
    "ends": (
        lambda rng, n: rng.choice([-5.0, 0.0, 50.0, 100.0, 1e9], n, p=[0.3, 0.3, 0.1, 0.1, 0.2]),
        Scale(0, 100, 256),
    ),
}


def estimate(o, positions, rng):
    tally = o.zeros()
    o.add(tally, o.perturb(positions, rng))
    return o.estimate(tally, len(positions))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("table", [None, 2])
def test_no_report_distinguishes_two_numbers_by_more_than_exp_epsilon(epsilon, table):
    o = oracle("haar", epsilon=epsilon, size=16, table=table)
    ratio = worst_ratio([distribution(o.perturb, value) for value in range(16)])
    assert within(ratio, epsilon)
    assert float(ratio) > math.exp(epsilon) * (1 - 1e-9)


def test_levels_and_rows_are_uniform_and_do_not_depend_on_the_number():
    o = oracle("haar", epsilon=1.0, size=16)
    for value in (0, 7, 15):
        rows = defaultdict(Fraction)
        for report, chance in distribution(o.perturb, value).items():
            rows[int.from_bytes(report, "little") >> 1] += chance
        assert sorted(rows) == list(range(1, 16))
        assert all(chance == Fraction((row & -row) * 2, 16 * 4) for row, chance in rows.items())


@pytest.mark.parametrize("table", [None, 2])
def test_shares_are_unbiased_by_enumeration(table):
    """The mean of the decoded tally over all reports, by their exact chances, is the number's own bin."""
    o = oracle("haar", epsilon=1.0, size=16, table=table)
    for value in (0, 5, 15):
        means = [np.zeros(1 << (3 - j)) for j in range(4)]
        for report, chance in distribution(o.perturb, value).items():
            tally = o.zeros()
            o.add(tally, np.frombuffer(report, np.uint8).reshape(1, -1))
            for j, signs in enumerate(o.signs(tally)):
                means[j] += 4 * float(chance) * signs / o.tree.gap
        for j, mean in enumerate(means):
            true_counts = np.zeros(1 << (3 - j))
            true_counts[value >> (j + 1)] = 1 - 2 * (value >> j & 1)
            assert np.allclose(mean, true_counts)


@pytest.mark.parametrize(("name", "table"), [*((name, None) for name in SHAPES), ("log-normal", 2), ("lumps", 2)])
def test_errors_are_as_stated_and_intervals_cover(name, table):
    """The table of edition 2 has the same law for one report."""
    draw, scale = SHAPES[name]
    rng = np.random.default_rng(17)
    o, n, rounds = oracle("haar", epsilon=1.0, size=scale.bins, table=table), 5_000, 60
    numbers = draw(rng, n)
    positions = scale.positions(numbers)
    errors, covered = [], []
    for _ in range(rounds):
        distribution_of = Numbers(estimate(o, positions, rng), scale)
        for low, high in ((20, 90), (0, 130), (201, 256)):
            start = scale.edges[low]
            end = scale.edges[high]
            row = distribution_of.range(start, end)
            truth = np.mean((positions >= low) & (positions < high))
            errors.append((row.share - truth) / row.stderr)
        for share in (0.5, 0.9, 0.95, 0.99):
            truth = int(np.sort(positions)[math.ceil(share * n) - 1])
            quantity = distribution_of.quantile(share)
            covered.append(quantity.low <= scale.edges[truth] and scale.edges[truth + 1] <= quantity.high)
        mean = distribution_of.mean()
        errors.append((mean.value - scale.middles[positions].mean()) / ((mean.high - mean.low) / 3.92))
    assert abs(np.mean(errors)) < SPREAD / np.sqrt(len(errors))
    assert np.mean(np.square(errors)) < 1 + SPREAD * np.sqrt(2 / len(errors))
    assert stats.binom.cdf(sum(covered), len(covered), 0.95) > 1e-7


def test_a_quantile_of_known_shares_is_linear_within_its_bin():
    o = oracle("haar", epsilon=16.0, size=16)
    scale = Scale(0.0, 16.0, 16)
    rng = np.random.default_rng(3)
    distribution = Numbers(estimate(o, np.repeat([2, 3, 9, 9], 100_000), rng), scale)
    assert distribution.quantile(0.375).value == pytest.approx(3.5, abs=0.1)
    assert distribution.quantile(0.75).value == pytest.approx(9.5, abs=0.1)
    assert distribution.range(2.0, 4.0).share == pytest.approx(0.5, abs=0.02)
    assert distribution.histogram().edges.tolist() == list(range(17))
    with pytest.raises(ParameterError, match="start of a range must be below its end"):
        distribution.range(4.0, 2.0)


def test_the_mean_of_few_people_is_unbiased_though_it_can_lie_outside_the_scale():
    """A mean that is cut to the scale would be too large here."""
    o, scale, rng = oracle("haar", epsilon=1.0, size=16), Scale(0.0, 16.0, 16), np.random.default_rng(5)
    means = np.array([Numbers(estimate(o, np.zeros(200, int), rng), scale).mean().value for _ in range(1_000)])
    stderr = means.std() / np.sqrt(len(means))
    assert (means < scale.low).mean() > 0.2
    assert abs(means.mean() - 0.5) < SPREAD * stderr < np.maximum(means, scale.low).mean() - 0.5


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**-600, 2.0**600, 2.0**900])
def test_the_mean_of_very_large_or_small_numbers_has_its_interval(factor):
    """Their squares have no float. A power of two changes no other bit."""
    o = oracle("haar", epsilon=2.0, size=256)
    rng = np.random.default_rng(5)
    tally = estimate(o, rng.integers(0, 256, 5_000), rng)
    usual = Numbers(tally, Scale(0.0, 256.0, 256)).mean()
    assert Numbers(tally, Scale(0.0, 256.0 * factor, 256)).mean() == tuple(factor * number for number in usual)


def test_the_mean_of_a_log_scale_of_600_decades_has_an_interval():
    o = oracle("haar", epsilon=2.0, size=256)
    scale = Scale(1e-300, 1e300, 256, "log")
    mean = Numbers(estimate(o, np.full(5_000, 100), np.random.default_rng(5)), scale).mean()
    assert np.isfinite(mean).all()
    assert mean.low < mean.high


def test_the_geometric_mean_of_few_people_is_finite_on_a_log_scale_of_600_decades():
    o, scale, rng = oracle("haar", epsilon=1.0, size=256), Scale(1e-300, 1e300, 256, "log"), np.random.default_rng(5)
    means = [Numbers(estimate(o, np.full(60, 250), rng), scale).geometric_mean() for _ in range(20)]
    answers = [mean for mean in means if not np.isnan(mean.value)]
    assert np.isfinite(answers).all()
    assert max(mean.high for mean in answers) > 1e308


def test_a_tree_that_a_level_does_not_answer_knows_nothing():
    o = oracle("haar", epsilon=1.0, size=256)
    scale = Scale(1.0, 9.0, 256, "log")
    distribution = Numbers(o.estimate(o.zeros(), 0), scale)
    quantities = (
        *distribution.quantile(0.5),
        *distribution.mean(),
        *distribution.geometric_mean(),
        *distribution.range(2.0, 3.0)[2:],
    )
    assert np.isnan(quantities).all()
    assert np.isnan(distribution.histogram().consistent).all()
    assert math.isnan(distribution.resolution)


@pytest.mark.parametrize("scale", [Scale(1.0, 60_000.0, 1024, "log"), Scale(-0.1, 0.3, 256)])
def test_edges_are_rounded_once(scale):
    with localcontext(prec=60):
        low = Decimal(scale.low)
        high = Decimal(scale.high)
        for i in (1, 37, 200, scale.bins - 1):
            part = Decimal(i) / scale.bins
            edge = low * (high / low) ** part if scale.kind == "log" else low + (high - low) * part
            assert scale.edges[i] == float(edge)
    assert scale.edges[0] == scale.low
    assert scale.edges[-1] == scale.high


def test_numbers_beyond_the_ends_count_there_and_an_edge_opens_its_bin():
    scale = Scale(0.0, 16.0, 16)
    assert scale.positions([-math.inf, -1.0, 0.0, 0.99, 1.0, 15.0, 16.0, math.inf]).tolist() == [
        0,
        0,
        0,
        0,
        1,
        15,
        15,
        15,
    ]
    with pytest.raises(ReportError, match="NaN"):
        scale.positions([math.nan])
    assert scale.bounds(3.5, 20.0) == (3, 16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0, 1.0, 16, "log"), "above 0"), ((1.0, 1.0, 16), "below high"), ((0.0, 1.0, 16, "cubic"), "linear")],
)
def test_a_scale_without_sense_is_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Scale(*arguments)


@pytest.mark.parametrize("size", [8, 100, 1 << 17])
def test_bins_are_a_power_of_two_from_16_to_65536(size):
    with pytest.raises(ParameterError, match="power of two from 16 to 65536"):
        oracle("haar", epsilon=1.0, size=size)


@pytest.mark.parametrize("size", [16, 1024, 65_536])
def test_the_oracle_conforms(size):
    check(oracle("haar", epsilon=1.0, size=size))
    check(oracle("haar", epsilon=1.0, size=size, table=2))


def test_row_0_and_rows_beyond_the_bins_are_malformed():
    o = oracle("haar", epsilon=1.0, size=16)
    for integer, bad in ((0, 0), (1, 0), (2, None), (31, None), (32, 0)):
        assert o.check(np.frombuffer(integer.to_bytes(4, "little"), np.uint8).reshape(1, 4)) == bad


def test_marks_show_an_attacker_who_chooses_a_level():
    o = oracle("haar", epsilon=1.0, size=256)
    rng = np.random.default_rng(1)
    reports = o.perturb(rng.integers(0, 256, 20_000), rng)
    forged = o.forge(np.array([200]), 40_000, rng)
    one_level = forged[(forged.view("<u4")[:, 0] >> 1) % 256 == 128][:600]
    for some, honest in ((reports, True), (np.vstack([reports, one_level]), False)):
        tally = o.zeros()
        o.add(tally, some)
        assert (p_value(o, tally[-MARKS:], len(some), len(some)) > 1e-6) == honest


def test_a_life_has_two_classes_and_a_table_halves_its_charge():
    plain = oracle("haar", epsilon=1.5, size=256)
    table = oracle("haar", epsilon=1.5, size=256, table=2)
    assert plain.classes == 2
    assert float(plain.life.amount) == 3.0
    assert float(table.life.amount) == 1.5
