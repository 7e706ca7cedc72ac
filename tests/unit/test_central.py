"""Crowd privacy: the guarantee of a person towards somebody who sees one record."""

import itertools
import math
from collections import Counter

import pytest

from aggregator.merging.windows import Span
from aggregator.publishing.records.crowd_privacy import CrowdPrivacy, crowd_privacy
from oracles import oracle
from oracles.central import crowd_epsilon, failure, honest
from oracles.query import parse


def exact(goal, n, size, epsilon):
    """Return the worst delta of grr over all answers of the others, by the law of the counts of all reports."""
    e = math.exp(epsilon)
    own, other = e / (e + size - 1), 1 / (e + size - 1)

    def law(values):
        chances = Counter({(0,) * size: 1.0})
        for value in values:
            following = Counter()
            for counts, chance in chances.items():
                for report in range(size):
                    after = tuple(count + (place == report) for place, count in enumerate(counts))
                    following[after] += chance * (own if report == value else other)
            chances = following
        return chances

    worst = 0.0
    for others in itertools.combinations_with_replacement(range(size), n - 1):
        one, two = law((0, *others)), law((1, *others))
        worst = max(worst, sum(max(one[c] - math.exp(goal) * two[c], 0.0) for c in one))
    return worst


@pytest.mark.parametrize(
    ("goal", "chance", "bound"), [(0.1, 0.1456, 0.1538), (0.3, 0.0819, 0.1029), (0.6, 0.0244, 0.0578)]
)
def test_the_bound_is_above_the_exact_worst_case(goal, chance, bound):
    delta = exact(goal, 6, 3, 1.0)
    assert delta == pytest.approx(chance, abs=5e-5)
    assert failure(goal, 1.0, 6, oracle("grr", epsilon=1.0, size=3).overlap) == pytest.approx(bound, abs=5e-5)


@pytest.mark.parametrize(("n", "size", "epsilon"), [(4, 2, 0.5), (5, 2, 2.0), (4, 3, 2.0), (3, 4, 1.0), (2, 2, 1.0)])
def test_no_enumerated_case_exceeds_the_bound(n, size, epsilon):
    overlap = oracle("grr", epsilon=epsilon, size=size).overlap
    for part in (0.0, 0.1, 0.5, 0.9):
        assert exact(part * epsilon, n, size, epsilon) <= failure(part * epsilon, epsilon, n, overlap) + 1e-12
        assert failure(part * epsilon, epsilon, n, overlap) <= failure(part * epsilon, epsilon, n)


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
    base = {"domain": 64, "epsilon": 1.0, "pane": "10s", "period": "10s"}
    query = parse({"edition": 2, "queries": {"q": base | table}}, "f", ".")["q"]
    guarantee = crowd_privacy(query, None, span_of(query, 1_700_000_040, 1_700_000_040 + seconds), 20_000)
    assert (guarantee is not None) == is_known
    if is_known:
        assert guarantee == CrowdPrivacy(epsilon=0.0531, delta=1e-6, honest=10_000)
