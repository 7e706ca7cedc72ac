"""The choice of "auto" in edition 2: how far its oracles are from the smallest possible error."""

import pytest

from benchmarks.choice import EPSILONS, SIZES
from oracles import oracle
from oracles.errors import ParameterError
from oracles.mechanisms import ORACLES, automatic
from oracles.mechanisms.choice import optimum, total


def choice(epsilon, size, budget=None):
    o = automatic(epsilon, size, edition=2, budget=budget)
    return o, total(o) / optimum(epsilon, size)


def test_the_choice_is_near_the_optimum_in_every_cell():
    distances = {}
    for size in SIZES:
        for epsilon in EPSILONS:
            o, distance = choice(epsilon, size)
            assert o.width <= 8
            distances[epsilon, size] = distance
    assert len(distances) == 170
    assert min(distances.values()) >= 1 - 1e-9
    assert max(distances, key=distances.get) == (6.0, 1000)
    assert max(distances.values()) < 1.24
    assert sum(distance > 1.02 for distance in distances.values()) == 45
    assert sum(distance > 1.09 for distance in distances.values()) == 3


@pytest.mark.parametrize("size", [2, 5, 20, 64])
def test_a_set_of_values_is_the_optimum(size):
    """With the best number of values: the oracle takes the number with the smallest error of rare values."""
    for epsilon in (1.0, 2.0, 4.0):
        assert total(oracle("ss", epsilon=epsilon, size=size)) == pytest.approx(optimum(epsilon, size), rel=0.003)


@pytest.mark.parametrize(
    ("epsilon", "size", "name"),
    [
        (2.0, 64, "full"),
        (4.0, 1024, "short"),
        (1.0, 1024, "olh"),
        (0.25, 1024, "hr"),
        (4.0, 5, "grr"),
        (2.5, 48, "ss"),
    ],
)
def test_each_kind_of_oracle_has_its_place(epsilon, size, name):
    assert choice(epsilon, size)[0].name == name


def test_of_equal_oracles_the_first_of_the_table_is_chosen():
    """At epsilon 1, `olh`, `full` and `short` have about the same error and the same number of bytes."""
    order = list(ORACLES)
    assert order.index("olh") < order.index("full") < order.index("short")
    assert choice(1.0, 1024)[0].name == "olh"


@pytest.mark.parametrize(("epsilon", "maximum"), [(1.0, 1.04), (2.0, 1.08), (3.0, 1.58), (4.0, 4.65)])
@pytest.mark.parametrize("size", [8, 64, 1024])
def test_answers_for_life_fit_the_budget_and_are_near_the_optimum(epsilon, maximum, size):
    o, distance = choice(epsilon, size, 4 * epsilon)
    assert o.life.amount <= 4 * epsilon
    assert o.table is not None
    assert distance <= maximum


def test_a_small_budget_leaves_two_buckets():
    o, _ = choice(1.0, 64, 1.0)
    assert o.name == "hr"
    assert o.table == 2
    assert o.life.amount == 1


def test_a_budget_below_one_answer_allows_nothing():
    with pytest.raises(ParameterError, match=r"within a budget of 0.9; the least is 1"):
        choice(1.0, 64, 0.9)
