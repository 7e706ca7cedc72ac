"""Intervals of sets and differences cover the truth as often as they state, by the exact law of every outcome.

The worst sets have values that one report supports together. For local hashing these are consecutive values.
"""

import itertools
from itertools import product

import numpy as np
import pytest

from oracles import ORACLES, Estimate, oracle
from oracles.estimate import intervals
from oracles.estimate.pure import dense
from oracles.multi import multi
from tests import laws

SCORE, EXACT = 0.944, 0.95 - 1e-7


def some(n):
    """Return the numbers of holders none, few, many and all."""
    return sorted({0, 1, 3, n // 20, n // 5, n // 2, n - 1, n} & set(range(n + 1)))


def least_coverage(view, values, n, inside, outside, population=None):
    """Return the least coverage of a set's interval over numbers of holders, or over shares of a sample."""
    values = np.asarray(values)
    numbers = some(n)
    if population is None:
        chances = np.array([laws.crowd(inside, k, outside, n - k) for k in numbers])
    else:
        laws_of_sum = ((k / n) * inside + (1 - k / n) * outside for k in numbers)
        chances = np.array([laws.crowd(law, n, law, 0) for law in laws_of_sum])
    counts = np.flatnonzero(chances.max(axis=0) > 1e-11)
    blank = Estimate(np.zeros(view.size), n, view, n, population)
    low, high = intervals.of_set(blank, values, counts)
    return min(
        law[counts] @ ((low <= k / n + 1e-9) & (k / n - 1e-9 <= high)) for k, law in zip(numbers, chances, strict=True)
    )


def promise(view, values, n):
    normal = intervals.varied(view, len(values), n) and not view.clumped(np.asarray(values), n)
    return SCORE if normal else EXACT


def of_one(o, n):
    """Return the least coverage of one value's interval minus the promise."""
    return least_coverage(o, [0], n, laws.bernoulli(o.p), laws.bernoulli(o.q)) - promise(o, [0], n)


def test_counts_with_few_steps_use_the_exact_test():
    """With 108 expected counts and a variance of 79, the score interval covered the truth in 94.38%."""
    assert of_one(oracle("ss", epsilon=1.0, size=250), 400) >= 0.0


def apart(o, n, pairs):
    """Return the least coverage of a difference over numbers of holders of both values, minus the promise."""
    counts = np.arange(n + 1)
    estimate_of_all = Estimate(np.tile(o.shares(counts, n), 2), n, o)  # the first value, then the last one
    coverages = []
    for first, last in pairs:
        groups = [(first, laws.of_pair(o, 0)), (last, laws.of_pair(o, 1)), (n - first - last, laws.of_pair(o, None))]
        law = laws.joint(groups)
        u, v = (counts[side > 1e-10] for side in (law.sum(axis=1), law.sum(axis=0)))
        grid = np.repeat(u, len(v)), np.tile(v, len(u))
        _, _, low, high = intervals.of_difference(estimate_of_all, grid[0], grid[1] + n + 1)
        truth = (first - last) / n
        coverages.append(law[grid] @ ((low <= truth + 1e-9) & (truth - 1e-9 <= high)))
    return min(coverages) - (SCORE if dense(n, o.p, o.q) else EXACT)


def holders(n):
    several = ((0, 0), (1, 0), (3, 1), (n // 10, 0), (n // 10, n // 10), (n // 2, n // 3), (n // 2, n // 2), (n, 0))
    return [(first, last) for first, last in several if first + last <= n]


@pytest.mark.parametrize(
    ("name", "epsilon", "size", "n"),
    [("oue", 16.0, 9, 20), ("grr", 6.0, 9, 60), ("ss", 1.0, 9, 90), ("sue", 1.0, 9, 90), ("hr", 1.0, 9, 410)],
)
def test_differences_are_covered(name, epsilon, size, n):
    """For sparse counts, normal intervals covered the truth in only half of the windows at worst."""
    assert apart(oracle(name, epsilon=epsilon, size=size), n, holders(n)) >= 0.0


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 12, 60, 200, 450])
@pytest.mark.parametrize("name", ["grr", "ss", "sue", "oue", "olh", "hr"])
def test_differences_are_covered_everywhere(name, n):
    for epsilon, size in itertools.product((0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0), (3, 8, 60)):
        assert apart(oracle(name, epsilon=epsilon, size=size), n, holders(n)) >= 0.0, (epsilon, size)


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0, 4.0, 8.0, 16.0])
@pytest.mark.parametrize("name", ORACLES)
def test_single_values_are_covered_everywhere(name, epsilon):
    for size, n in itertools.product((2, 5, 250), (1, 10, 50, 200, 300, 400, 600, 1000, 2000, 5000)):
        o = oracle(name, epsilon=epsilon, size=size)
        assert of_one(o, n) >= 0.0, (size, n)


IN_A_ROW = [
    ("blh", 1.0, 64, range(16)),
    ("hr", 2.0, 127, range(63)),
    ("olh", 1.5, 16, range(4)),
    ("blh", 4.0, 32, [0, 5]),
]
WORST_SETS = [
    *[
        ("blh", e, 1 << k, range(1 << j))
        for e, (k, j) in product((0.25, 1.0, 4.0), ((4, 2), (6, 4), (8, 7), (10, 6), (10, 8)))
    ],
    *[
        ("hr", e, (1 << k) - 1, range((1 << j) - 1))
        for e, (k, j) in product((0.5, 2.0, 8.0), ((4, 2), (6, 5), (8, 4), (10, 8)))
    ],
    *[("olh", e, 1 << k, range(m)) for (e, k), m in product(((1.5, 4), (1.5, 5), (2.0, 4)), (2, 3, 4, 7, 8))],
    *[("blh", 1.0, 256, values) for values in ((3, 5, 6), (0, 1, 2), tuple(range(0, 200, 7)), tuple(range(100, 131)))],
]


def of_set(name, epsilon, size, values, n):
    """Return the least coverage of one set, over all holders and all numbers of other values."""
    o = oracle(name, epsilon=epsilon, size=size)
    values = list(values)
    xor = int(np.bitwise_xor.reduce([v + getattr(o, "offset", 0) for v in values[:3]])) - getattr(o, "offset", 0)
    others = {v for v in (size - 1, xor) if 0 <= v < size and v not in values}
    inside = laws.client(o, values, values[0])
    coverages = [least_coverage(o, values, n, inside, laws.client(o, values, other_value)) for other_value in others]
    return min(coverages) - promise(o, values, n)


@pytest.mark.parametrize("n", [7, 70, 300])
@pytest.mark.parametrize(("name", "epsilon", "size", "values"), IN_A_ROW)
def test_sets_of_values_that_fall_together_are_covered(name, epsilon, size, values, n):
    """Their sum is far from normal. Score intervals covered the truth in only 89% to 92% of windows."""
    assert of_set(name, epsilon, size, values, n) >= 0.0


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 5, 20, 60, 150, 400, 1000])
@pytest.mark.parametrize(("name", "epsilon", "size", "values"), WORST_SETS)
def test_sets_of_hashed_values_are_covered_everywhere(name, epsilon, size, values, n):
    assert of_set(name, epsilon, size, values, n) >= 0.0


PLAIN = [
    (name, epsilon, size, values)
    for name in ("grr", "sue", "oue", "ss")
    for epsilon in (0.25, 1.0, 2.0, 4.0, 6.0, 8.0, 16.0)
    for size in (3, 9, 60, 250)
    for values in sorted({1, 2, 3, size // 4, size // 2} & set(range(1, size)))
]


@pytest.mark.parametrize("n", [4, 60, 250])
@pytest.mark.parametrize(("name", "epsilon", "size", "values"), PLAIN[7::23])
def test_sets_are_covered(name, epsilon, size, values, n):
    assert of_set(name, epsilon, size, range(values), n) >= 0.0


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 10, 30, 100, 400])
@pytest.mark.parametrize(("name", "epsilon", "size", "values"), PLAIN)
def test_sets_are_covered_everywhere(name, epsilon, size, values, n):
    assert of_set(name, epsilon, size, range(values), n) >= 0.0


FAKES = ("grr", "oue_z", "oue_r", "sue_z")


def of_rsfd(name, epsilon, sizes, values, n):
    view = multi("rsfd", sizes=sizes, epsilon=epsilon, oracle=name).attributes[0]
    inside, outside = (laws.hidden(view, len(sizes), values, inside=yes) for yes in (True, False))
    positions = list(range(values))
    return least_coverage(view, positions, n, inside, outside) - promise(view, positions, n)


@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize(("epsilon", "n", "values"), [(1.0, 200, 2), (6.0, 100, 4), (3.0, 30, 10)])
def test_sets_of_an_attribute_behind_fakes_are_covered(name, epsilon, n, values):
    assert of_rsfd(name, epsilon, [20, 5, 2], values, n) >= 0.0


@pytest.mark.long
@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize("sizes", [[4, 3], [60, 3, 2], [200, 4, 4, 4, 4]])
def test_sets_of_an_attribute_behind_fakes_are_covered_everywhere(name, sizes):
    for epsilon, n in itertools.product((0.25, 1.0, 2.0, 4.0, 8.0, 12.0), (1, 10, 40, 100, 400)):
        for values in sorted({1, 2, 3, sizes[0] // 4, sizes[0] // 2} & set(range(1, sizes[0]))):
            assert of_rsfd(name, epsilon, sizes, values, n) >= 0.0, (epsilon, n, values)


def of_sample(name, epsilon, size, values, n):
    """Return the least coverage of a set for a sample from a large population, minus the promise."""
    o = oracle(name, epsilon=epsilon, size=size)
    positions = list(range(values))
    inside = laws.client(o, positions, 0)
    outside = laws.client(o, positions, size - 1)
    return least_coverage(o, positions, n, inside, outside, population=10**9) - promise(o, positions, n)


@pytest.mark.parametrize(
    ("name", "epsilon", "size"),
    [("oue", 4.0, 30), ("grr", 4.0, 60), ("ss", 3.0, 40), ("blh", 1.0, 32), ("sue", 8.0, 9)],
)
@pytest.mark.parametrize(("n", "values"), [(30, 4), (150, 2), (150, 4)])
def test_sets_of_a_sample_are_covered(name, epsilon, size, n, values):
    assert of_sample(name, epsilon, size, values, n) >= 0.0


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 10, 40, 100, 400])
@pytest.mark.parametrize("name", ["grr", "sue", "oue", "ss", "blh", "hr"])
def test_sets_of_a_sample_are_covered_everywhere(name, n):
    for epsilon, size in itertools.product((0.25, 1.0, 2.0, 4.0, 8.0), (4, 30, 120)):
        for values in sorted({1, 2, 3, size // 4, size // 2}):
            assert of_sample(name, epsilon, size, values, n) >= 0.0, (epsilon, size, values)
