"""The shares of a device's budget: a part of max_epsilon that belongs to the queries of one name."""

import random
from fractions import Fraction

import pytest

from oracles.errors import ParameterError
from producers import BudgetSpent, Client, Ledger
from tests.queries import make_query

SLACK = 1e-9


def question(name, epsilon=1.0):
    return make_query(name=name, domain=4, epsilon=epsilon, answers="once", budget=epsilon)


def try_answer(query, ledger, **limits):
    """Return whether a device answers a query."""
    try:
        Client(query, ledger, **limits).answer(0)
    except BudgetSpent:
        return False
    return True


def test_a_named_query_gets_its_share_though_others_came_first():
    ledger = Ledger(":memory:")
    limits = {"max_epsilon": 4.0, "shares": {"crashes": 2.0}}

    assert [try_answer(question(name), ledger, **limits) for name in ("a", "b", "c")] == [True, True, False]
    assert try_answer(question("crashes", 2.0), ledger, **limits)


def test_a_named_query_gets_no_more_than_its_share():
    ledger = Ledger(":memory:")
    client = Client(question("other"), ledger, max_epsilon=8.0, shares={"crashes": 1.5})
    client.answer(0)

    with pytest.raises(
        BudgetSpent, match=r"the share of query 'crashes' is 1\.5: 0 is spent, and the next answer costs 2"
    ):
        Client(question("crashes", 2.0), ledger, max_epsilon=8.0, shares={"crashes": 1.5})


def test_a_refusal_names_the_room_of_all_others():
    ledger = Ledger(":memory:")
    limits = {"max_epsilon": 3.0, "shares": {"crashes": 2.0}}
    assert try_answer(question("a"), ledger, **limits)
    with pytest.raises(BudgetSpent, match="the share of all queries without one of their own is 1: 1 is spent"):
        Client(question("b"), ledger, **limits)


def test_charges_from_before_there_were_shares_count_against_max_epsilon():
    ledger = Ledger(":memory:")
    assert try_answer(question("crashes", 3.0), ledger, max_epsilon=4.0)

    limits = {"max_epsilon": 4.0, "shares": {"crashes": 1.0}}
    assert not try_answer(question("a", 2.0), ledger, **limits)
    assert try_answer(question("b"), ledger, **limits)


def test_the_rest_of_a_query_is_that_of_its_room():
    ledger = Ledger(":memory:")
    limits = {"max_epsilon": 4.0, "shares": {"crashes": 1.0}}
    Client(question("a"), ledger, **limits).answer(0)

    fresh_query = make_query(name="b", domain=4, epsilon=1.0, answers="fresh", budget=16.0)
    assert Client(fresh_query, ledger, **limits).status().remaining == pytest.approx(2.0)
    crashes = make_query(name="crashes", domain=4, epsilon=1.0, answers="fresh", budget=16.0)
    assert Client(crashes, ledger, **limits).status().remaining == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_in_random_order_keep_the_limits(seed):
    rng = random.Random(seed)
    max_epsilon = rng.choice([1.0, 2.5, 8.0])
    names = ["crashes", "screens"][: rng.randint(1, 2)]
    shares = {name: rng.choice([0.1, 0.25, 0.3]) * max_epsilon for name in names}
    limits = {"max_epsilon": max_epsilon, "shares": shares}

    ledger = Ledger(":memory:")
    spent: dict[str, Fraction] = {}
    for number in range(30):
        name = rng.choice([*shares, "a", "b", "c"])
        # Each definition has another digest, so it has a charge of its own.
        epsilon = round(rng.uniform(0.05, 0.9), 2)
        query = make_query(name=name, domain=4 + number, epsilon=epsilon, answers="once", budget=epsilon)
        room = [
            name_in_room
            for name_in_room in spent
            if name_in_room == name or (name not in shares and name_in_room not in shares)
        ]
        limit = shares.get(name, max_epsilon - sum(shares.values()))
        fits = sum(spent[name_in_room] for name_in_room in room) + Fraction(epsilon) <= Fraction(limit)

        if abs(float(sum(spent[name_in_room] for name_in_room in room)) + epsilon - limit) > SLACK:
            assert try_answer(query, ledger, clock=lambda time_s=100.0 * number: time_s, **limits) == fits
            spent[name] = spent.get(name, Fraction()) + (Fraction(epsilon) if fits else 0)
    assert sum(spent.values()) <= max_epsilon + SLACK
    assert (
        sum(charge["epsilon"] for charge in Client(question("z", 1e-3), ledger, **limits).charges())
        <= max_epsilon + SLACK
    )


def test_charges_say_which_query_used_what():
    ledger = Ledger(":memory:")
    query = question("a", 0.5)
    client = Client(query, ledger)
    assert client.charges() == []
    client.answer(0)

    assert client.charges() == [{"name": "a", "digest": query.digest.hex(), "round": 0, "epsilon": 0.5}]
    assert client.status().charges == tuple(client.charges())


@pytest.mark.parametrize(
    "shares", [{"a": 0.0}, {"a": -1.0}, {"a": True}, {"a": "1"}, {"a": float("nan")}, {1: 1.0}, {"a": 5.0, "b": 4.0}]
)
def test_shares_that_cannot_be_kept_are_an_error(shares):
    with pytest.raises(ParameterError, match="shares"):
        Client(question("a"), ":memory:", shares=shares)
