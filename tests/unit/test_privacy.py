"""The output distribution of every oracle, by enumeration of its integers. No ratio exceeds exp(epsilon).

The real `perturb` runs on a source that gives every outcome of every draw with its exact probability. So the
enumeration covers the code that clients run.
"""

import itertools
import math
from collections import defaultdict
from decimal import Context, localcontext
from fractions import Fraction
from itertools import chain, product

import numpy as np
import pytest

from oracles import ORACLES, oracle
from oracles.errors import ParameterError
from oracles.kernels.parity import dependent
from oracles.mechanisms.chance import ONE, exp, largest
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.hashing import Hashing
from oracles.multi import multi

EPSILONS = (0.01, 0.1, 0.3, math.log(2), 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 16.0)
FINE = Context(prec=120)


class Walk(Source):
    """A source that takes one path through the tree of all draws. `after` moves to the next path."""

    def __init__(self, rows=None):
        self.path, self.widths, self.rows = [], [], rows

    def choose(self, weights):
        """Return an outcome 0..len-1. Its weight multiplies the probability of the path."""
        if self.depth == len(self.path):
            self.path.append(0)
            self.widths.append(len(weights))
        outcome = self.path[self.depth]
        self.depth += 1
        self.chance *= weights[outcome]
        return outcome

    def start(self):
        self.depth, self.chance = 0, Fraction(1)

    def after(self):
        while self.path and self.path[-1] + 1 == self.widths[-1]:
            self.path.pop()
            self.widths.pop()
        if self.path:
            self.path[-1] += 1
        return bool(self.path)

    def raw(self, count):
        raise AssertionError("every draw is one of events, below, subsets and independent")

    def events(self, threshold, *shape):
        p = Fraction(threshold, ONE)
        cells = [self.choose((p, 1 - p)) == 0 for _ in range(math.prod(shape))]
        return np.array(cells, np.bool_).reshape(shape)

    def below(self, bound, count):
        if self.rows is not None and count and self.depth < len(self.rows):
            self.choose((Fraction(1),))
            return np.array([self.rows[self.depth - 1] % bound])
        return np.array([self.choose([Fraction(1, bound)] * bound) for _ in range(count)], np.int64)

    def subsets(self, count, among, members):
        sets = list(itertools.combinations(range(among), members))
        subset = np.zeros((count, among), np.bool_)
        for row in subset:
            row[list(sets[self.choose([Fraction(1, len(sets))] * len(sets))])] = True
        return subset

    def independent(self, count, bits, words):
        if self.rows is not None and self.depth == 0:
            for _ in self.rows:
                self.choose((Fraction(1),))
            return np.array([self.rows] * count)
        rows = [row for row in itertools.product(range(1 << bits), repeat=words) if not dependent(np.array([row]).T)[0]]
        return np.array([rows[self.choose([Fraction(1, len(rows))] * len(rows))] for _ in range(count)])

    def tables(self, law, count):
        orders = list(itertools.permutations(range(law.buckets)))
        weights = [law.hi if sum(a == b for a, b in enumerate(o)) >= law.fixed_points else law.lo for o in orders]
        chances = [Fraction(weight, sum(weights)) for weight in weights]
        return np.array([orders[self.choose(chances)] for _ in range(count)])


def distribution(perturb, value, rows=None):
    """Return every report that `value` can give, with its exact probability."""
    walk, law = Walk(rows), defaultdict(Fraction)
    while True:
        walk.start()
        report = perturb([value], walk).tobytes()
        law[report] += walk.chance
        if not walk.after():
            break
    assert sum(law.values()) == 1
    return law


def worst_ratio(laws):
    """Return the largest ratio of an output's probabilities under two inputs, infinite if one is impossible."""
    outputs = set(chain.from_iterable(laws))
    maxima = [max(law[output] for law in laws) for output in outputs]
    minima = [min(law[output] for law in laws) for output in outputs]
    assert min(minima) > 0, "an output that only some inputs can give tells them apart for certain"
    return max(top / bottom for top, bottom in zip(maxima, minima, strict=True))


def within(ratio, epsilon):
    return ratio.numerator <= FINE.multiply(exp(epsilon), ratio.denominator)


def tight(ratio, epsilon):
    return float(ratio) > math.exp(epsilon) * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("name", ORACLES)
def test_no_output_distinguishes_two_inputs_by_more_than_exp_epsilon(name, size, epsilon):
    o = oracle(name, epsilon=epsilon, size=size)
    choices = [None]
    if isinstance(o, Hashing) and o.cells**o.words * o.buckets > 512:
        # Rows do not depend on the value, so inputs are compared for the same rows.
        choices = [tuple(row) for row in o.rows(3, np.random.default_rng(7)).tolist()]
        choices.append(tuple(1 << j % o.bits for j in range(o.words)))
    ratios = [worst_ratio([distribution(o.perturb, v, rows) for v in range(size)]) for rows in choices]
    assert all(within(ratio, epsilon) for ratio in ratios)
    assert tight(max(ratios), epsilon), "privacy is kept, but accuracy was given away"


@pytest.mark.parametrize(("name", "buckets"), [("olh", 2), ("olh", 4), ("full", 4)])
def test_fewer_buckets_keep_epsilon_too(name, buckets):
    o = oracle(name, epsilon=2.0, size=5, buckets=buckets)
    choices = [tuple(row) for row in o.rows(3, np.random.default_rng(7)).tolist()]
    choices.append(tuple(1 << j % o.bits for j in range(o.words)))
    ratios = [worst_ratio([distribution(o.perturb, v, rows) for v in range(5)]) for rows in choices]
    assert all(within(ratio, 2.0) for ratio in ratios)
    assert tight(max(ratios), 2.0)


@pytest.mark.parametrize(("name", "table"), [("grr", 3), ("olh", 2), ("full", 2), ("hr", 2)])
def test_one_answer_by_a_table_keeps_epsilon_and_its_p_and_q(name, table):
    o = oracle(name, epsilon=1.0, size=3, table=table)
    laws = [distribution(o.perturb, value) for value in range(3)]
    assert within(worst_ratio(laws), 1.0)
    assert tight(worst_ratio(laws), 1.0)
    for value, law in enumerate(laws):
        support = sum(chance for report, chance in law.items() if counted(o, report)[value])
        assert support == o.exact[0]


def counted(o, report):
    """Return the support of a report. Enumerated reports may be implausible, as only a large domain shows."""
    state = o.zeros()
    o._count(state, np.frombuffer(report, np.uint8).reshape(1, -1))
    return o.support(state, 1)


@pytest.mark.parametrize("name", ["grr", "oue", "ss"])
def test_two_alternating_classes_reach_a_ratio_of_exp_2_epsilon(name):
    """By the theorem of lifetimes, a life is one independent answer for each class. Swapped classes reach the bound."""
    o = oracle(name, epsilon=1.0, size=3)
    laws = [distribution(o.perturb, value, None) for value in range(3)]
    outcomes = laws[0].keys() | laws[1].keys() | laws[2].keys()
    pairs = [(0, 1), (1, 0), (0, 2), (1, 2)]
    ratios = [
        laws[a][x] * laws[b][y] / (laws[c][x] * laws[d][y])
        for (a, b), (c, d) in ((pair, other_pair) for pair, other_pair in product(pairs, pairs))
        for x in outcomes
        for y in outcomes
    ]
    assert all(within(ratio, 2.0) for ratio in ratios)
    assert tight(max(ratios), 2.0), "reached where the classes change places"


@pytest.mark.parametrize("name", ORACLES)
def test_support_follows_the_exact_p_and_q(name):
    o = oracle(name, epsilon=1.0, size=3)
    for value in range(3):
        chances = [Fraction(0)] * 3
        for report, chance in distribution(o.perturb, value).items():
            for v, count in enumerate(counted(o, report)):
                chances[v] += chance * int(count)
        p, q = o.exact
        assert chances == [p if v == value else q for v in range(3)]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("solution", "names"),
    [("spl", ["grr", "oue"]), ("spl", ["hr", "ss"]), ("smp", ["grr", "oue"]), ("smp", ["blh", "sue"])]
    + [("rsfd", [name] * 2) for name in ("grr", "oue_z", "oue_r", "sue_z")]
    + [("rsfd", ["grr", "oue_z"]), ("rsfd", ["oue_r", "grr"])],
)
def test_a_whole_record_is_protected_as_stated(solution, names, epsilon):
    m = multi(solution, sizes=[2, 3], epsilon=epsilon, oracle=names)
    records = list(itertools.product(range(2), range(3)))
    ratio = worst_ratio([distribution(m.perturb, record) for record in records])
    assert within(ratio, m.record_epsilon)
    assert tight(ratio, m.record_epsilon), "the stated guarantee is not the exact one"


@pytest.mark.parametrize(
    ("names", "sizes"), [(["grr", "grr"], [2, 3]), (["oue_r", "oue_r"], [3, 3]), (["grr", "oue_z"], [2, 2])]
)
def test_rsfd_exceeds_its_epsilon_even_for_neighbours_in_one_attribute(names, sizes):
    m = multi("rsfd", sizes=sizes, epsilon=1.0, oracle=names)
    laws = {r: distribution(m.perturb, r) for r in itertools.product(*map(range, sizes))}
    neighbours = [
        (a, b) for a, b in itertools.combinations(laws, 2) if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    ]
    worst = max(worst_ratio([laws[a], laws[b]]) for a, b in neighbours)
    assert not within(worst, 1.0), "if this ever passes, the docs may promise more"
    assert within(worst, m.record_epsilon)


@pytest.mark.parametrize("losing", [1, 2, 7, 1023, 2**31 - 1])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_threshold_is_the_largest_that_keeps_its_promise(losing, epsilon):
    limit = exp(epsilon)
    threshold = largest(losing, 1, limit)
    assert Fraction(threshold * losing, ONE - threshold) <= Fraction(limit)
    assert Fraction((threshold + 1) * losing, ONE - threshold - 1) > Fraction(limit)


def test_the_callers_decimal_context_changes_nothing():
    attributes = {name: repr(vars(oracle(name, epsilon=1.1234579, size=100_003))) for name in ORACLES}
    with localcontext(Context(prec=4)):
        assert attributes == {name: repr(vars(oracle(name, epsilon=1.1234579, size=100_003))) for name in ORACLES}


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-30])
def test_an_epsilon_that_64_bits_cannot_tell_from_zero_is_refused(epsilon):
    for name in ORACLES:
        with pytest.raises(ParameterError, match="too small"):
            oracle(name, epsilon=epsilon, size=3)
    with pytest.raises(ParameterError, match="too small"):
        multi("rsfd", sizes=[3, 3], epsilon=epsilon)
