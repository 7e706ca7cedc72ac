"""Crowd privacy: the guarantee of a person towards somebody who sees one record."""

import itertools
import math
from collections import Counter
from functools import partial
from itertools import product

import pytest

from aggregator.records.crowd_privacy import CrowdPrivacy, crowd_privacy
from aggregator.records.span import Span
from oracles import oracle
from oracles.central import crowd_epsilon, failure, honest
from tests.queries import make_query, make_table


def grr_laws(size, epsilon):
    """Return for each value the chance of each report."""
    e = math.exp(epsilon)
    return [[(e if report == value else 1) / (e + size - 1) for report in range(size)] for value in range(size)]


def parity_laws(values, rows, epsilon):
    """Return the laws of oracles that send a row, each with its chance, and a parity with noise: hr and haar."""
    true = 1 / (1 + math.exp(-epsilon))
    return [
        [
            chance * (true if bit == (row & value).bit_count() % 2 else 1 - true)
            for (row, chance), bit in product(rows, (0, 1))
        ]
        for value in values
    ]


def unary_laws(size, own, other):
    """Return the laws of unary reports: the chances that the own bit is 1, and any other bit."""
    return [
        [
            math.prod((chance if bit else 1 - chance) for bit, chance in zip(bits, chances, strict=True))
            for bits in itertools.product((0, 1), repeat=size)
        ]
        for value in range(size)
        for chances in [[own if number == value else other for number in range(size)]]
    ]


def oue_laws(size, epsilon):
    return unary_laws(size, 0.5, 1 / (math.exp(epsilon) + 1))


def sue_laws(size, epsilon):
    noise = 1 / (math.exp(epsilon / 2) + 1)
    return unary_laws(size, 1 - noise, noise)


def exact(goal, n, laws):
    """Return the worst delta of the first two values over all answers of the others, by the law of all reports."""

    def law(values):
        chances = Counter({(): 1.0})
        for value in values:
            following = Counter()
            for reports, chance in chances.items():
                for report, own in enumerate(laws[value]):
                    following[tuple(sorted((*reports, report)))] += chance * own
            chances = following
        return chances

    worst = 0.0
    for other_values in itertools.combinations_with_replacement(range(len(laws)), n - 1):
        first_law, second_law = (law((value, *other_values)) for value in (0, 1))
        worst = max(worst, sum(max(first_law[c] - math.exp(goal) * second_law[c], 0.0) for c in first_law))
    return worst


@pytest.mark.parametrize(
    ("goal", "chance", "bound"), [(0.1, 0.1456, 0.1538), (0.3, 0.0819, 0.1029), (0.6, 0.0244, 0.0578)]
)
def test_the_bound_is_above_the_exact_worst_case(goal, chance, bound):
    delta = exact(goal, 6, grr_laws(3, 1.0))
    assert delta == pytest.approx(chance, abs=5e-5)
    assert failure(goal, 1.0, 6, oracle("grr", epsilon=1.0, size=3).overlap) == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize(("n", "size", "epsilon"), [(4, 2, 0.5), (5, 2, 2.0), (4, 3, 2.0), (3, 4, 1.0), (2, 2, 1.0)])
def test_no_enumerated_case_exceeds_the_bound(n, size, epsilon):
    overlap = oracle("grr", epsilon=epsilon, size=size).overlap
    for part in (0.0, 0.1, 0.5, 0.9):
        delta = exact(part * epsilon, n, grr_laws(size, epsilon))
        assert delta <= failure(part * epsilon, epsilon, n, overlap) + 1e-12
        assert failure(part * epsilon, epsilon, n, overlap) <= failure(part * epsilon, epsilon, n)


HAAR_ROWS = [(row, (row & -row) / 32) for row in range(1, 16)]
"""Row and chance of haar with 16 bins. Each of the four levels has a chance of 1/4, and its rows share it."""


def hr_laws(epsilon):
    return parity_laws((1, 2, 3), [(row, 0.25) for row in range(4)], epsilon)


def haar_laws(values, epsilon):
    return parity_laws(values, HAAR_ROWS, epsilon)


def ss_laws(size, members, epsilon):
    """Return the laws of sets of values."""
    e = math.exp(epsilon)
    inside = members * e / (members * e + size - members)
    with_own = inside / math.comb(size - 1, members - 1)
    without = (1 - inside) / math.comb(size - 1, members)
    sets = list(itertools.combinations(range(size), members))
    return [[with_own if value in set_ else without for set_ in sets] for value in range(size)]


@pytest.mark.parametrize(
    ("name", "size", "n", "laws"),
    [
        ("hr", 3, 4, hr_laws),
        # Two numbers differ at some levels only: with a chance of 1/4, 1/2 and 5/8 the row tells them apart.
        ("haar", 16, 3, partial(haar_laws, (0, 1))),
        ("haar", 16, 3, partial(haar_laws, (0, 5))),
        ("haar", 16, 3, partial(haar_laws, (0, 15))),
        ("oue", 2, 5, partial(oue_laws, 2)),
        ("oue", 3, 4, partial(oue_laws, 3)),
        ("sue", 3, 4, partial(sue_laws, 3)),
        ("ss", 5, 4, partial(ss_laws, 5, 1)),
    ],
)
@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_no_enumerated_case_of_other_oracles_exceeds_the_bound(name, size, n, laws, epsilon):
    overlap = oracle(name, epsilon=epsilon, size=size).overlap
    for part in (0.0, 0.3, 0.7):
        delta = exact(part * epsilon, n, laws(epsilon))
        assert delta <= failure(part * epsilon, epsilon, n, overlap) + 1e-12


def test_numbers_have_no_common_part_like_that_of_hadamard_response():
    """With that of hr the bound would be too small for two numbers that differ at many levels."""
    epsilon = 1.0
    haar = oracle("haar", epsilon=1.0, size=16)
    delta = exact(0.0, 3, haar_laws((0, 15), epsilon))
    assert failure(0.0, epsilon, 3, oracle("hr", epsilon=epsilon, size=64).overlap) < delta
    assert delta <= failure(0.0, epsilon, 3, haar.overlap)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_overlap_is_half_of_the_rarer_part_in_which_two_laws_differ(epsilon):
    ss = oracle("ss", epsilon=epsilon, size=7)
    for method, laws in (
        (oracle("grr", epsilon=epsilon, size=4), grr_laws(4, epsilon)),
        (oracle("hr", epsilon=epsilon, size=3), hr_laws(epsilon)),
        (oracle("oue", epsilon=epsilon, size=4), oue_laws(4, epsilon)),
        (oracle("sue", epsilon=epsilon, size=4), sue_laws(4, epsilon)),
        (ss, ss_laws(7, ss.members, epsilon)),
    ):
        rarer = sum(min(pair) for pair in zip(*laws[:2], strict=True) if not math.isclose(*pair))
        assert method.overlap == pytest.approx(rarer / 2), method.name


@pytest.mark.parametrize(
    ("name", "epsilon", "size", "people", "goal"),
    [
        ("hr", 1.0, 64, 1000, 0.182),
        ("hr", 1.0, 64, 10_000, 0.053),
        ("hr", 2.0, 64, 100_000, 0.045),
        ("grr", 2.0, 8, 10_000, 0.147),
        ("hr", 4.0, 64, 10_000, 0.582),
        ("olh", 4.0, 64, 10_000, 0.601),
        ("grr", 4.0, 8, 1000, 2.05),
    ],
)
def test_the_guarantee_of_a_crowd(name, epsilon, size, people, goal):
    epsilon_of_crowd, delta = crowd_epsilon(epsilon, people, oracle(name, epsilon=epsilon, size=size).overlap)
    assert epsilon_of_crowd == pytest.approx(goal, rel=0.01)
    assert delta == 1e-6


def test_a_larger_crowd_hides_better_and_none_is_worse_than_the_report():
    goals = [crowd_epsilon(2.0, people)[0] for people in (1, 10, 100, 1000, 10_000)]
    assert goals == sorted(goals, reverse=True)
    assert goals[0] == 2.0


def test_half_of_the_reports_are_assumed_honest():
    assert [honest(n) for n in (0, 1, 2, 99, 20_000, 24_690, 1_999_999)] == [0, 0, 1, 49, 10_000, 12_000, 990_000]


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_guarantee_of_a_million_holds_for_more_and_costs_no_more(epsilon):
    query = make_query(domain=["a", "b"], epsilon=epsilon, oracle="grr", windows=["10s"], budget=1e9)
    span = span_of(query, 1_700_000_040, 1_700_000_050)
    largest = crowd_privacy(query, None, span, 2_000_000)
    assert largest.honest == 1_000_000
    for n in (2_000_001, 10**9, 1 << 31, 1 << 53):
        assert crowd_privacy(query, None, span, n) == largest
    overlap = oracle("grr", epsilon=epsilon, size=2).overlap
    assert failure(largest.epsilon, query.record_epsilon, 4_000_000, overlap) <= largest.delta


def span_of(query, start, end):
    return Span(query.windows[0], start, end)


@pytest.mark.parametrize(
    ("table", "seconds", "is_known"),
    [
        ({}, 10, True),
        ({"answers": "fresh"}, 10, True),
        ({}, 20, False),
        ({"answers": "fresh"}, 20, False),
        ({"period": "1m"}, 10, True),
    ],
)
def test_a_window_in_which_a_person_may_stand_twice_has_no_guarantee(table, seconds, is_known):
    base = make_table(domain=64, period="10s")
    query = make_query(base, **table, edition=2)
    guarantee = crowd_privacy(query, None, span_of(query, 1_700_000_040, 1_700_000_040 + seconds), 20_000)
    assert (guarantee is not None) == is_known
    if is_known:
        assert guarantee == CrowdPrivacy(epsilon=0.0531, delta=1e-6, honest=10_000)
