"""Tables: integers, bounds and draws of the permutation by which a client answers for life."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from oracles import oracle
from oracles.conformance import check
from oracles.errors import ParameterError
from oracles.mechanisms.entropy import source
from oracles.mechanisms.table import Table, best
from producers.entropy import Keyed

KEYS = bytes(range(32)), b"\2" * 32
LAWS = [(g, t) for g in (2, 3, 4, 5) for t in range(1, g + 1)]


def law_of(buckets, points, hi, lo):
    """Return a law with these integers."""
    table = Table(buckets, buckets, 1.0)
    table.fixed_points, table.hi, table.lo = points, hi, lo
    return table


def permutations(table):
    """Return every permutation with its weight."""
    for order in itertools.permutations(range(table.buckets)):
        points = sum(bucket == place for place, bucket in enumerate(order))
        yield order, table.hi if points >= table.fixed_points else table.lo


@pytest.mark.parametrize(
    ("buckets", "points", "epsilon", "hi", "lo", "bound"),
    [
        (2, 2, 1.0, 13485650502877570762, 4961093570831980854, 1.0),
        (4, 2, 1.0, 2077389330843788651, 229706985753119474, 2.202062733218),
        (8, 5, 2.0, 96482392836356961, 120528800711397, 6.685227078600),
        (8, 8, 4.0, 16051050494567880858, 59418477123482, 12.506679616090),
    ],
)
def test_the_integers_of_a_law_never_change(buckets, points, epsilon, hi, lo, bound):
    table = Table(buckets, points, epsilon)
    assert table.hi == hi
    assert table.lo == lo
    assert table.bound == bound
    assert best(buckets, epsilon).fixed_points == points


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize(("buckets", "points"), LAWS)
def test_hi_is_the_largest_integer_that_keeps_epsilon(buckets, points, epsilon):
    table = Table(buckets, points, epsilon)
    total = sum(weight for _, weight in permutations(table))
    assert total <= 1 << 64
    if not table.allowed:
        return
    own = [Fraction(sum(w for order, w in permutations(table) if order[0] == b), total) for b in range(buckets)]
    assert own[0] == table.p
    assert own[1:] == [(1 - table.p) / (buckets - 1)] * (buckets - 1)
    assert math.exp(epsilon) * (1 - 2**-10) < own[0] / own[1] <= math.exp(epsilon) * (1 + 1e-15)


@pytest.mark.parametrize(("buckets", "points"), LAWS)
def test_no_two_histories_of_one_pattern_differ_by_more_than_the_bound(buckets, points):
    """Every history of m classes, and every sequence of buckets, by the sum over all permutations."""
    table = law_of(buckets, points, 10, 1)
    for classes in range(2, buckets + 1):
        chances = {}
        for order, weight in permutations(table):
            for history in itertools.permutations(range(buckets), classes):
                key = history, tuple(order[position] for position in history)
                chances[key] = chances.get(key, 0) + weight
        worst = 1.0
        for answers in itertools.permutations(range(buckets), classes):
            column = [chances[history, answers] for history in itertools.permutations(range(buckets), classes)]
            worst = max(worst, max(column) / min(column))
        bound = table.bound_of(classes) if buckets > 2 else math.log(10)
        assert math.log(worst) <= bound <= math.log(worst) + 2e-12


@pytest.mark.parametrize(
    ("buckets", "points", "p", "ratios"),
    [
        (3, 3, 0.733333, [10, 10]),
        (4, 4, 0.454545, [5.5, 10, 10]),
        (4, 2, 0.482759, [10, 10, 10]),
        (5, 3, 0.3973, [7, 10, 10, 10]),
    ],
)
def test_bounds_of_few_classes(buckets, points, p, ratios):
    table = law_of(buckets, points, 10, 1)
    assert float(table.p) == pytest.approx(p, abs=5e-5)
    assert [math.exp(table.bound_of(m)) for m in range(2, buckets + 1)] == pytest.approx(ratios)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0])
@pytest.mark.parametrize("buckets", [2, 4, 8])
def test_the_best_table_gives_away_less_than_noise_for_each_class(buckets, epsilon):
    table = best(buckets, epsilon)
    assert epsilon <= table.bound < buckets * epsilon
    bounds = [table.bound_of(m) for m in range(1, buckets + 1)]
    assert bounds == sorted(bounds)
    assert bounds[0] == epsilon
    assert bounds[-1] == table.bound


@pytest.mark.parametrize(
    ("digest", "name", "epsilon", "size", "points", "tables"),
    [
        ("a3dc4497a4d3d094", "olh", 1.0, 64, 2, [[1, 3, 2, 0], [0, 2, 1, 3]]),
        ("9107183a397126bb", "olh", 2.0, 1024, 5, [[0, 1, 5, 3, 4, 7, 6, 2], [0, 6, 2, 3, 4, 5, 1, 7]]),
        ("cb48a772cabf4f9d", "grr", 4.0, 5, 5, [[4, 1, 0, 2, 3], [0, 1, 2, 3, 4]]),
    ],
)
def test_a_device_key_always_gives_the_same_table(digest, name, epsilon, size, points, tables):
    law = oracle(name, epsilon=epsilon, size=size, table=points).tables
    streams = [Keyed(key, bytes.fromhex(digest), classes=(-1,)) for key in KEYS]
    assert [law.draw(1, stream)[0].tolist() for stream in streams] == tables


@pytest.mark.parametrize(("buckets", "points"), [(2, 2), (3, 1), (4, 2), (4, 4), (5, 2)])
def test_tables_are_drawn_by_their_law(buckets, points):
    """A chi-square test over all permutations: it fails by chance once in a million runs."""
    table = law_of(buckets, points, 10, 1)
    scale = (1 << 64) // sum(weight for _, weight in permutations(table))
    table.hi, table.lo = 10 * scale, scale
    draws = table.draw(40_000, source(np.random.default_rng([buckets, points])))
    codes, counts = np.unique(draws @ buckets ** np.arange(buckets), return_counts=True)
    laws = {int(np.array(order) @ buckets ** np.arange(buckets)): weight for order, weight in permutations(table)}
    total = sum(laws.values())
    assert set(codes.tolist()) == laws.keys()
    expectation = [len(draws) * laws[code] / total for code in codes.tolist()]
    assert stats.chisquare(counts, expectation).pvalue > 1e-6


@pytest.mark.parametrize(
    ("name", "epsilon", "size", "options"),
    [
        ("olh", 2.0, 64, {"table": 5}),
        ("olh", 4.0, 64, {"table": 4, "buckets": 4}),
        ("grr", 4.0, 5, {"table": 5}),
        ("hr", 1.0, 20, {"table": 2}),
        ("blh", 1.0, 20, {"table": 2}),
        ("short", 2.0, 64, {"table": 5}),
        ("full", 1.0, 5, {"table": 2, "buckets": 4}),
    ],
)
def test_an_oracle_with_a_table_keeps_every_promise(name, epsilon, size, options):
    o = oracle(name, epsilon=epsilon, size=size, **options)
    assert o.table == options["table"]
    assert o.bound(1) == epsilon
    assert o.bound(8) == o.life.amount == o.tables.bound
    check(o)


def test_two_buckets_flip_once_by_the_threshold_of_hr():
    position = oracle("hr", epsilon=1.0, size=9)
    table = oracle("hr", epsilon=1.0, size=9, table=2)
    assert table.exact == position.exact
    assert position.bound(2) == 2.0
    assert table.bound(2) == 1.0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("oue", {"table": 2}, "oracle 'oue' takes no table"),
        ("olh", {"table": 9}, "table must be one of"),
        ("grr", {"table": 2, "size": 9}, "at most 8 buckets or values, got 9"),
        ("olh", {"table": 8, "epsilon": 4.0}, "at most 8 buckets or values, got 64; lower `buckets`"),
    ],
)
def test_an_impossible_table_is_refused(name, options, message):
    with pytest.raises(ParameterError, match=message):
        oracle(name, **{"epsilon": 2.0, "size": 64, **options})
