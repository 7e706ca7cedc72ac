"""A value that an answer lacks has its reason: not published, withheld, or no value of the query."""

from itertools import chain

import numpy as np
import pytest

from hubbub.http.problem import Problem
from tests.boards import HOMEPAGE, PANE, START, Crowd, withheld
from tests.queries import make_query, make_table
from tests.unit.test_board_store import ask, store

COUNTRIES = ["Germany", "France", "Italy", "Spain", "Poland", "Austria"]
QUERY = make_query(make_table(domain=COUNTRIES, publish=3, budget=1e9, pane=f"{PANE}s", windows=[f"{PANE}s"]))


@pytest.fixture(scope="module")
def crowd():
    return Crowd(QUERY, clients=300)


@pytest.fixture(scope="module")
def messages(crowd):
    return [[*crowd.next()] for _ in range(2)]


def board_of(messages):
    return store(messages, queries={"homepage": HOMEPAGE, QUERY.name: QUERY})


def test_a_value_that_is_not_published_has_a_bound_that_holds(crowd, messages):
    answer = ask(board_of(chain(*messages)), "estimate", QUERY.name, values=",".join(COUNTRIES))
    assert len(answer["missing"]) == len(COUNTRIES) - 3
    reasons = answer["missing_reasons"]
    assert [*reasons] == answer["missing"]
    smallest = min(answer["values"], key=lambda row: row["unbiased"])
    assert {(reason["reason"], reason["below"]) for reason in reasons.values()} == {("not_published", smallest["high"])}
    # The crowd of `Crowd` is skewed, so the largest share that is missing is known here.
    answers = Crowd(QUERY, clients=300).answers(0)
    shares = np.bincount(answers, minlength=len(COUNTRIES)) / len(answers)
    assert all(shares[COUNTRIES.index(name)] < reasons[name]["below"] for name in answer["missing"])


def test_a_withheld_window_is_a_reason_of_its_own(messages):
    records = [withheld(message) for message in messages[0] if message[0] == "estimates"]
    answer = ask(board_of(records), "estimate", QUERY.name, values="Germany,Spain")
    expected = {"reason": "withheld", "below": None}
    assert answer["missing_reasons"] == {"Germany": expected, "Spain": expected}


def test_a_comparison_names_the_reasons_too(messages):
    ends = {"from": START + PANE, "to": START + 2 * PANE}
    answer = ask(board_of(chain(*messages)), "compare", QUERY.name, values=",".join(COUNTRIES), **ends)
    assert answer["missing"]
    assert {reason["reason"] for reason in answer["missing_reasons"].values()} == {"not_published"}


def test_a_name_outside_of_the_list_has_near_names(messages):
    with pytest.raises(Problem, match="'Germny' is not in the domain; near names are 'Germany'"):
        ask(board_of(messages[0]), "estimate", QUERY.name, values="Germny")
