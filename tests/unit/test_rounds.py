"""The rounds that `hubbub check` predicts are those of real clients."""

import warnings

import pytest

from aggregator.plan import rounds
from producers import BudgetSpent, Client, Ledger, RenewalWarning
from tests.queries import make_query

DAY = 86_400
MONTH = {"domain": 8, "oracle": "hr", "period": "5d", "renew": "30d"}


def lived(query, max_epsilon, per):
    """Return the shares of a real device."""
    ledger, answers, starts = Ledger(":memory:"), 0, set()
    periods = range(0, rounds.ROUNDS * query.renew, query.period)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RenewalWarning)
        for time_s in periods:
            try:
                Client(query, ledger, max_epsilon=max_epsilon, per=per, clock=lambda now=time_s: float(now)).answer(1)
            except BudgetSpent:
                continue
            answers += 1
            with ledger.transaction() as transaction:
                starts.add(transaction.last_round(query.digest))
    return rounds.Renewals(answers / len(periods), len(starts) / rounds.ROUNDS)


@pytest.mark.parametrize(
    ("answers", "charges"), [("life", 2.0), ("life", 1.9), ("once", 2.0), ("once", 1.9), ("fresh", 3.0), ("fresh", 8.0)]
)
def test_a_real_device_renews_as_often_as_predicted(answers, charges):
    query = make_query(MONTH, answers=answers, budget=4.0)
    per = 30 * DAY
    most = charges * query.record_charge
    assert lived(query, most, per) == rounds.renewals(query, most, per)


def test_two_charges_renew_each_round_and_less_is_a_cliff():
    for answers in ("life", "once"):
        query = make_query(MONTH, answers=answers, period="1d")
        assert rounds.renewals(query, rounds.needed_epsilon(query), query.renew) == (1.0, 1.0)
    once = rounds.renewals(query, 1.9 * query.record_charge, query.renew)
    assert 0.03 < once.answers < 0.05


def test_the_text_names_rounds_and_the_needed_limit():
    query = make_query(MONTH, budget=4.0)
    first_line, second_line, third_line = rounds.texts(query, 8.0)
    assert first_line == (
        "Rounds: with max_epsilon = 8 and no `per`, a device has 4 rounds and then stays in the last one."
    )
    assert "max_epsilon must be at least 4: a device with 8 answers 100% of its periods" in second_line
    assert "lengthened = true" in third_line
    assert len([*rounds.texts(make_query(MONTH, edition=3), 8.0)]) == 2
    assert [*rounds.texts(make_query(domain=8), 8.0)] == []
