"""Poisoned crowds show, honest ones do not, and undetectable attacks are not claimed.

Every statistical check has a fixed seed. An honest crowd is flagged with a probability of about 2e-6, so less than one
seed in a hundred fails.
"""

import re
import zlib
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from aggregator.publishing.findings import find_all
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles import ORACLES, oracle
from oracles.errors import ReportError
from oracles.mechanisms.unary import Unary
from oracles.multi import multi
from oracles.multi.forgery import LEVEL, p_value, skewed, skewed_attributes
from oracles.types import MARKS
from tests.queries import make_query, make_table

WITH_MARKS = [name for name in ORACLES if oracle(name, epsilon=1.0, size=20).honest_marks is not None]
WITHOUT_MARKS = [name for name in ORACLES if name not in WITH_MARKS]


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def marks_of(o, *crowds):
    state = o.zeros()
    for reports in crowds:
        o.add(state, reports)
    return state[-MARKS:]


def attributes_of(m, *crowds):
    state = m.zeros()
    left_out = sum(m.add(state, reports) for reports in crowds)
    return state, sum(len(reports) for reports in crowds) - left_out


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("size", [2, 20, 300])
@pytest.mark.parametrize("name", WITH_MARKS)
def test_p_values_of_honest_crowds_are_uniform(name, size, epsilon):
    rng = seeded(name, size, epsilon)
    o = oracle(name, epsilon=epsilon, size=size)
    if np.count_nonzero(o.honest_marks) == 1:  # the one map of sub that parts two values tells nothing
        return
    runs, n = 60, 1_000
    reports = o.perturb(rng.zipf(1.5, runs * n) % size, rng)
    p_values = [p_value(o, marks_of(o, reports[k * n : (k + 1) * n]), n, n) for k in range(runs)]
    assert min(p_values) > LEVEL
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", WITH_MARKS)
def test_a_large_honest_crowd_is_not_flagged(name):
    """At 200,000 reports a wrong law of honest clients would show."""
    rng = seeded("large", name)
    o = oracle(name, epsilon=1.0, size=60)
    n = 200_000
    assert p_value(o, marks_of(o, o.perturb(rng.integers(0, 5, n), rng)), n, n) > LEVEL


@pytest.mark.parametrize(
    ("solution", "name"),
    [*product(("spl", "smp"), (*WITH_MARKS, *WITHOUT_MARKS, "adaptive"))]
    + [("rsfd", name) for name in ("grr", "oue_z", "oue_r", "sue_z", "adaptive")],
)
def test_honest_records_are_not_flagged(solution, name):
    """Check the marks of rsfd, whose honest clients follow a mixture with fakes."""
    rng = seeded(solution, name)
    m = multi(solution, sizes=[60, 7, 130], epsilon=2.0, oracle=name)
    n = 60_000
    records = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 7, n), np.zeros(n, int)])
    state, n = attributes_of(m, m.perturb(records, rng))
    assert skewed_attributes(m, state, n, n) == [False] * 3


def all_targets(o, fakes):
    """Each forged report sets as many plausible bits as possible, always the same ones."""
    bits = np.arange(o.size) < o.plausible[1]
    return np.tile(np.packbits(bits, bitorder="little"), (fakes, 1))


def chosen_row(o, fakes, rng):
    """Each forged report takes the best row and bucket for its targets."""
    return np.tile(o.perturb([1], rng), (fakes, 1))


def forged(o, fakes, rng):
    return all_targets(o, fakes) if isinstance(o, Unary) else chosen_row(o, fakes, rng)


@pytest.mark.parametrize("size", [100, 1024])
@pytest.mark.parametrize("name", WITH_MARKS)
def test_three_in_a_hundred_fakes_of_the_greatest_gain_are_seen(name, size):
    rng = seeded("fakes", name, size)
    o = oracle(name, epsilon=1.0, size=size)
    honest = o.perturb(rng.integers(0, size, 9_700), rng)
    fake = forged(o, 300, rng)
    assert o.implausible(fake) is None or not o.implausible(fake).any(), "these are for the crowd's test"
    assert skewed(o, marks_of(o, honest, fake), 10_000, 10_000)
    assert not skewed(o, marks_of(o, honest), 9_700, 9_700)


@pytest.mark.parametrize(
    ("solution", "name"),
    [*product(("spl", "smp"), WITH_MARKS)] + [("rsfd", name) for name in ("oue_z", "oue_r", "sue_z")],
)
def test_the_attribute_that_is_attacked_is_named(solution, name):
    rng = seeded("attacked", solution, name)
    m = multi(solution, sizes=[40, 150, 30], epsilon=3.0, oracle=name)
    n, fakes = 30_000, 3_000
    honest = m.perturb(np.column_stack([rng.integers(0, size, n) for size in m.sizes]), rng)
    fake = m.perturb(np.column_stack([rng.integers(0, size, fakes) for size in m.sizes]), rng)
    bad_forged = forged(m.encoders[1], fakes, rng)
    if solution == "smp":
        fake[:] = 0
        fake[:, 0] = 1
        fake[:, 2 : 2 + bad_forged.shape[1]] = bad_forged
    else:
        start = m.encoders[0].width
        fake[:, start : start + bad_forged.shape[1]] = bad_forged
    state, counts = attributes_of(m, honest, fake)
    assert skewed_attributes(m, state, counts, counts) == [False, True, False]


@pytest.mark.parametrize("name", WITH_MARKS)
def test_repeated_answers_are_no_attack(name):
    """Ten panes of the same reports repeat their marks. As independent reports they would look forged."""
    rng = seeded("repeated", name)
    o = oracle(name, epsilon=1.0, size=100)
    marks = 10 * marks_of(o, o.perturb(rng.integers(0, 100, 2_000), rng))
    assert not skewed(o, marks, 20_000, 2_000)
    assert skewed(o, marks, 20_000, 20_000)


@pytest.mark.parametrize("name", ["oue", "olh"])
def test_repeated_answers_of_records_are_no_attack(name):
    rng = seeded("repeated records", name)
    for solution in ("spl", "smp"):
        m = multi(solution, sizes=[50, 60], epsilon=2.0, oracle=name)
        state, n = attributes_of(m, m.perturb(rng.integers(0, 50, (4_000, 2)), rng))
        assert skewed_attributes(m, 10 * state, 10 * n, n) == [False, False]
        assert skewed_attributes(m, 10 * state, 10 * n, 10 * n) == [True, True]


def test_an_attacker_who_draws_like_honest_clients_is_not_detected():
    """With a single target the rest of each forged report is honest noise."""
    rng = seeded("careful")
    o = oracle("oue", epsilon=1.0, size=200)
    fake = o.perturb(rng.integers(0, 200, 1_000), rng)
    fake[:, 0] |= 1
    assert not skewed(o, marks_of(o, o.perturb(rng.integers(0, 200, 9_000), rng), fake), 10_000, 10_000)


def test_all_but_grr_and_subsets_carry_marks():
    assert set(WITH_MARKS) >= {"sue", "oue", "blh", "olh", "hr"}


@pytest.mark.parametrize("name", WITHOUT_MARKS)
def test_grr_and_subsets_carry_no_marks(name):
    o = oracle(name, epsilon=1.0, size=50)
    marks = marks_of(o, o.perturb(np.zeros(5_000, int), seeded(name)))
    assert p_value(o, marks, 5_000, 5_000) is None
    assert not skewed(o, marks, 5_000, 5_000)


def test_too_few_marks_are_not_judged():
    o = oracle("hr", epsilon=1.0, size=100)
    marks = np.zeros(MARKS, np.int64)
    marks[7] = 319
    assert p_value(o, marks, 319, 319) is None
    marks[7] = 320
    assert p_value(o, marks, 320, 320) == 0
    assert p_value(o, marks, 320, 0) == 1
    state = multi("smp", sizes=[20, 30], epsilon=1.0, oracle="hr").zeros()
    assert skewed_attributes(multi("smp", sizes=[20, 30], epsilon=1.0, oracle="hr"), state, 0, 0) == [False, False]


def test_the_whole_tally_is_not_taken_for_its_marks():
    o = oracle("olh", epsilon=1.0, size=100)
    with pytest.raises(ReportError, match="last 64"):
        p_value(o, o.zeros(), 0, 0)


@pytest.mark.parametrize("name", ["olh", *[pytest.param(name, marks=pytest.mark.long) for name in ("hr", "oue")]])
def test_an_honest_day_is_not_flagged(name):
    """A day of windows of 10 s. Each has the flag with probability 2e-6 at most, three of them in 1 of 10^6 days."""
    table = make_table(domain=16, oracle=name, budget=1e9)
    query = replace(make_query(table, name="day"), methods=())  # they change no flag
    rng, alarms = np.random.default_rng(3), 0
    for start in range(0, 86_400, 10):
        state = query.oracle.zeros()
        left_out = query.oracle.add(state, query.oracle.perturb(rng.integers(0, 16, 1_000), rng))
        total = Snapshot(1_000 - left_out, left_out, 0, 0, state)
        [findings] = find_all(query, Span(query.windows[0], start, start + 10), total)
        alarms += "skewed" in findings.flags
    assert alarms <= 2


SINGLE_TARGET = {
    name: cells
    for name, *cells in re.findall(
        r"^\| `(\w+)` \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \| [\d.,]+ \|$",
        (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
"""The rows of docs/privacy.md about attacks on a single target."""


def test_every_basic_oracle_has_a_row_about_a_single_target():
    assert {"grr", "sue", "oue", "blh", "olh", "hr", "ss"} <= SINGLE_TARGET.keys() <= set(ORACLES)


@pytest.mark.parametrize("name", SINGLE_TARGET)
def test_an_attack_on_a_single_target_has_the_documented_effect_and_no_flag(name):
    """Each of the two shifts is within five standard errors, so an exact row fails in one of 10^6 seeds."""
    rng = seeded("single target", name)
    o = oracle(name, epsilon=1.0, size=1024)
    weight = (1 - o.q) / (o.p - o.q)
    assert SINGLE_TARGET[name] == [f"{weight:.2f}", f"{weight:,.1f}", f"{5 * weight:,.1f}"]
    assert o.shift_per_fake(1) == pytest.approx(weight)
    n, target = 20_000, 700
    for percent in (1, 5):
        fakes = percent * n // 100
        honest = o.perturb(rng.integers(0, 100, n - fakes), rng)
        if isinstance(o, Unary):  # honest noise, and the bit of the target
            forged_reports = o.perturb(np.full(fakes, target), rng)
            forged_reports[:, target // 8] |= 1 << target % 8
        else:
            forged_reports = o.forge(np.array([target]), fakes, rng)
        state = o.zeros()
        assert o.add(state, honest) + o.add(state, forged_reports) == 0
        estimate = o.estimate(state, n)
        shift = weight * percent / 100
        assert abs(estimate.shares[target] - shift) < 5 * estimate.stderr[target]
        assert not skewed(o, state[-MARKS:], n, n)
