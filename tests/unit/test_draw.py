"""The shortcut of the accuracy studies draws support counts with the same distribution as real reports.

Each figure is a two-sample test of Kolmogorov and Smirnov over ROUNDS tallies. It is conservative if values repeat. All
of them together fail by chance with a probability below 1e-6.
"""

import zlib
from itertools import product

import numpy as np
import pytest
from scipy import stats

from benchmarks.accuracy import draw
from oracles import ORACLES, oracle
from oracles.estimate.pure import Pure
from oracles.multi import multi
from oracles.multi.rsfd import FAKES

ROUNDS = 400
COUNTS = np.array([80, 0, 40, 5, 30, 1, 44])
RECORDS = np.array([[0, 2, 1]] * 60 + [[3, 0, 0]] * 70 + [[1, 2, 2]] * 50 + [[1, 1, 2]] * 20)
SIZES = [4, 3, 5]
MULTI = [*product(("spl", "smp"), (*ORACLES, "adaptive"))]
MULTI += [("rsfd", name) for name in (*FAKES, "adaptive")]
APART = {"ss", "oue_r"}
"""Oracles whose shortcut is right only for single values."""
FIGURES = 4 * (len(ORACLES) + len(SIZES) * len(MULTI))
LEVEL = 1e-6 / FIGURES


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def figures(shares, name):
    """Return the shares of two values, and their sum if the shortcut is right for pairs."""
    single = [shares[:, 0], shares[:, 1]]
    return single if name in APART else [*single, shares[:, 0] + shares[:, 2], shares[:, 0] - shares[:, 2]]


def apart(real, simulated, name):
    """Return the least p-value of all figures."""
    pairs = zip(figures(real, name), figures(simulated, name), strict=True)
    return min(stats.ks_2samp(ours, theirs, method="asymp").pvalue for ours, theirs in pairs)


def real_shares(o, rng):
    n = int(COUNTS.sum())
    reports = o.perturb(np.tile(np.repeat(np.arange(len(COUNTS)), COUNTS), ROUNDS), rng)
    shares = []
    for part in reports.reshape(ROUNDS, n, o.width):
        state = o.zeros()
        o.add(state, np.ascontiguousarray(part))
        shares.append(o.shares(o.support(state, n), n))
    return np.array(shares)


def drawn_shares(view, rng):
    return np.array([draw.estimate(view, COUNTS, rng).shares for _ in range(ROUNDS)])


@pytest.mark.parametrize("name", ORACLES)
def test_drawn_shares_have_the_distribution_of_reports(name):
    o = oracle(name, epsilon=1.5, size=len(COUNTS))
    assert apart(real_shares(o, seeded(name)), drawn_shares(o, seeded(name, "drawn")), name) > LEVEL


def usual(solution, name):
    """All solutions except spl, which is three times an oracle."""
    return solution != "spl" or name == "adaptive"


CASES = [pytest.param(*case, marks=() if usual(*case) else pytest.mark.long) for case in MULTI]


@pytest.mark.parametrize(("solution", "name"), CASES)
def test_drawn_shares_of_attributes_have_the_distribution_of_reports(solution, name):
    m = multi(solution, sizes=SIZES, epsilon=2.5, oracle=name)
    n = len(RECORDS)
    rng = seeded(solution, name)
    chance = seeded(solution, name, "drawn")
    reports = m.perturb(np.tile(RECORDS, (ROUNDS, 1)), rng).reshape(ROUNDS, n, m.width)
    columns = [np.bincount(RECORDS[:, j], minlength=size) for j, size in enumerate(SIZES)]
    real = [[] for _ in SIZES]
    simulated = [[] for _ in SIZES]
    for report in reports:
        state = m.zeros()
        m.add(state, np.ascontiguousarray(report))
        for j, e in enumerate(m.estimate(state, n)):
            real[j].append(e.shares)
        for j, e in enumerate(draw.estimates(m, columns, chance)):
            simulated[j].append(e.shares)
    for j, encoder_name in enumerate(m.names):
        assert apart(np.array(real[j]), np.array(simulated[j]), encoder_name) > LEVEL


def test_a_wrong_law_is_noticed():
    """A tenth more of q moves a share by one standard error or more."""
    o = oracle("oue", epsilon=1.5, size=len(COUNTS))
    p, q = o.exact
    wrong = Pure("wrong", o.size, p, q + q / 10)
    shares = [o.shares(draw.support(wrong, COUNTS, seeded("wrong", i)), int(COUNTS.sum())) for i in range(ROUNDS)]
    assert apart(real_shares(o, seeded("right")), np.array(shares), "oue") < LEVEL
