"""A value that an answer lacks has its reason: not published, withheld, or no value of the query."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from aggregator.board.answers.absence import missing_reasons
from aggregator.records.decoder import decode
from hubbub.http.problem import Problem
from oracles.consistency import UNBIASED
from tests.boards import HOMEPAGE, PANE, START, Crowd, withheld
from tests.queries import make_query, make_table
from tests.unit.test_board_store import ask, store

COUNTRIES = ["Germany", "France", "Italy", "Spain", "Poland", "Austria"]
TABLE = make_table(domain=COUNTRIES, budget=1e9, pane=f"{PANE}s", windows=[f"{PANE}s"])
QUERY, WHOLE = (make_query({**TABLE, "publish": count}) for count in (3, len(COUNTRIES)))


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


def records_of(query, clients, seed):
    """Return the records of two windows of a crowd."""
    crowd = Crowd(query, clients=clients, seed=seed)
    return [decode(message[2]) for _ in range(2) for message in crowd.next() if message[0] == "estimates"]


@pytest.mark.parametrize("clients", [60, 300, 5000])
def test_the_interval_of_a_missing_value_never_reaches_beyond_the_bound(clients):
    """An interval has the truth below its upper end with a probability of 97.5%, so the bound has it too."""
    missing_count = 0
    for seed in range(20):
        records = records_of(QUERY, clients, seed)
        whole = records_of(WHOLE, clients, seed)
        assert [record.n for record in records] == [record.n for record in whole]
        for record, other in zip(records, whole, strict=True):
            highs = dict(zip(other.values, other.high, strict=True))
            missing = highs.keys() - {*record.values}
            missing_count += len(missing)
            reasons = missing_reasons(missing, record)
            assert all(highs[name] <= reasons[name].below for name in missing)
    assert missing_count, "values that are proved frequent are published beyond the three"


def test_the_bound_of_two_windows_holds_in_both():
    first, second = records_of(QUERY, 300, 1)
    bounds = [missing_reasons(["x"], record)["x"].below for record in (first, second)]
    assert bounds[0] != bounds[1]
    assert missing_reasons(["x"], first, second)["x"].below == max(bounds)


@pytest.mark.parametrize("shares", [[], [np.nan] * 3])
def test_a_record_without_a_share_gives_no_bound(shares):
    first, second = records_of(QUERY, 300, 1)
    unknown = replace(second, shares={UNBIASED: np.array(shares)})
    for records in ((unknown,), (first, unknown)):
        reason = missing_reasons(["x"], *records)["x"]
        assert (reason.reason, reason.below) == ("not_published", None)


def test_one_withheld_window_withholds_a_comparison(messages):
    first_message, second_message = (next(message for message in run if message[0] == "estimates") for run in messages)
    records = [decode(first_message[2]), decode(withheld(second_message)[2])]
    reason = missing_reasons(["x"], *records)["x"]
    assert (reason.reason, reason.below) == ("withheld", None)


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
