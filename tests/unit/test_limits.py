"""The limits of a device over time. They bind, whatever the other side lists and however the clock moves."""

import sqlite3
import warnings

import pytest

from oracles.errors import ParameterError
from producers import BudgetSpent, Client, Ledger, NotYet, RenewalWarning
from producers.client import renewal
from producers.client.transaction import LOST_NAME, NEVER, NoiseId
from producers.entropy import Mode
from tests.queries import make_query

HOUR, DAY = 3600, 86_400
PAGES = [f"page-{i}" for i in range(8)]


@pytest.fixture(autouse=True)
def new_process():
    """Forget the queries of earlier tests, about which a process warns once."""
    renewal.warned_names.clear()


def query(name="q", **keys):
    table = {"domain": PAGES, "oracle": "hr", "budget": 1000.0, "period": "1d"}
    return make_query(table | keys, name=name)


def answer(q, ledger, seconds, value="page-1", **limits):
    """Return the report of an answer at a time, or the name of its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RenewalWarning)
        try:
            return Client(q, ledger, clock=lambda: float(seconds), **limits).answer(value).tobytes()
        except (BudgetSpent, NotYet) as error:
            return type(error).__name__


def status(q, ledger, seconds, **limits):
    return Client(q, ledger, clock=lambda: float(seconds), **limits).status()


@pytest.mark.parametrize(
    "listing", [{"renew": "3h", "answers": "fresh"}, {"renew": "3h"}, {"renew": "3h", "answers": "once"}]
)
@pytest.mark.parametrize("per", [None, "30d"])
def test_a_listing_that_renews_often_charges_no_more_than_the_limit(listing, per):
    """Without a rule of its own a device paid 168 epsilon in this week."""
    q, ledger = query(period="1h", epsilon=1.0, **listing), Ledger(":memory:")
    for hour in range(7 * 24):
        answer(q, ledger, hour * HOUR, max_epsilon=8.0, per=per)
    assert 7.0 <= status(q, ledger, 7 * DAY, max_epsilon=1000.0).life <= 8.0


def test_a_listing_that_turns_the_definition_over_charges_no_more_than_the_limit():
    ledger = Ledger(":memory:")
    for day in range(40):
        q = query(epsilon=1.0 + day / 1000, answers=("once", "fresh", "life")[day % 3], renew="1d")
        answer(q, ledger, day * DAY, max_epsilon=4.0)
    assert (
        status(query("other", oracle="grr", answers="once", epsilon=0.01), ledger, 40 * DAY, max_epsilon=99.0).life
        <= 4.0
    )


def test_charges_expire_from_the_last_use_of_their_noise():
    q, ledger, limits = query(renew="10d"), Ledger(":memory:"), {"max_epsilon": 4.5, "per": "30d"}
    for day in (0, 9, 10, 19, 20, 29):
        answer(q, ledger, day * DAY, **limits)
    assert status(q, ledger, 29 * DAY, **limits).counted == 4.0, "the third round does not fit"
    answer(q, ledger, 38 * DAY, **limits)
    assert status(q, ledger, 38.5 * DAY, **limits).lengthened
    answer(q, ledger, 39 * DAY, **limits)
    present = status(q, ledger, 39.5 * DAY, **limits)
    assert [present.counted, present.life, present.spent, present.lengthened] == [4.0, 6.0, 2.0, False]


def test_answers_for_life_stay_in_a_round_that_cannot_be_renewed_and_warn_once():
    q, ledger = query(renew="2d", oracle="hr", domain=1 << 20), Ledger(":memory:")
    reports = [answer(q, ledger, day * DAY, 7, max_epsilon=3.0) for day in range(2)]
    client = Client(q, ledger, max_epsilon=3.0, clock=lambda: 2.0 * DAY)
    with pytest.warns(RenewalWarning, match=r'stays in its last round; pass per="30d"'):
        reports.append(client.answer(7).tobytes())
    reports += [Client(q, ledger, max_epsilon=3.0, clock=lambda: 400.0 * DAY).answer(7).tobytes()]
    assert len(set(reports)) == 1
    present = client.status()
    assert [present.spent, present.remaining, present.counted, present.life] == [2.0, 1.0, 2.0, 2.0]
    assert present.lengthened


@pytest.mark.parametrize("answers", ["once", "fresh"])
def test_other_answers_fall_silent_and_warn(answers):
    q, ledger = query(f"{answers}-in-rounds", renew="2d", answers=answers), Ledger(":memory:")
    Client(q, ledger, max_epsilon=1.5, clock=lambda: 0.0).answer("page-1")
    with pytest.warns(RenewalWarning, match="sends nothing"), pytest.raises(BudgetSpent, match=r"is 1\.5: 1 is spent"):
        Client(q, ledger, max_epsilon=1.5, clock=lambda: 2.0 * DAY).answer("page-1")
    with ledger.transaction() as transaction:
        assert transaction.last_round(q.digest) == 0
        assert transaction.newest() == 0.0, "a refused answer stores no time"


def test_a_refusal_by_the_budget_is_not_lengthened():
    ledger = Ledger(":memory:")
    assert answer(query(renew="1d"), ledger, 0) != "BudgetSpent"
    keys = {"domain": PAGES, "oracle": "hr", "period": "1d", "renew": "1d", "budget": 1.5}
    smaller = make_query(keys, standing=True)
    assert answer(smaller, ledger, DAY) == "BudgetSpent"


def test_a_definition_that_turns_from_once_to_life_costs_the_difference():
    ledger, limits = Ledger(":memory:"), {"max_epsilon": 2.0, "per": "10d"}
    once = answer(query(answers="once"), ledger, 0, **limits)
    assert answer(query(), ledger, DAY, **limits) == once, "the same noise"
    present = status(query(), ledger, DAY, **limits)
    assert [present.counted, present.life, present.remaining] == [2.0, 2.0, 0.0]


def test_noise_that_expired_comes_back_with_all_that_it_has_booked():
    """Its reports are those of before. It is not booked again, but it needs room."""
    q, other, ledger, limits = (
        query(domain=1 << 20),
        query("other"),
        Ledger(":memory:"),
        {"max_epsilon": 3.0, "per": "10d"},
    )
    report = answer(q, ledger, 0, 7, **limits)
    assert answer(other, ledger, 9 * DAY, **limits) == "BudgetSpent"
    answer(other, ledger, 10 * DAY, **limits)
    assert answer(q, ledger, 12 * DAY, 7, **limits) == "BudgetSpent"
    # The report of once is of the same noise, which has booked a whole life.
    assert answer(query(domain=1 << 20, answers="once"), ledger, 12 * DAY, 7, **limits) == "BudgetSpent"
    assert answer(q, ledger, 20 * DAY, 7, **limits) == report
    assert status(q, ledger, 20 * DAY, **limits).life == 4.0


def test_a_clock_that_goes_back_or_ahead_brings_no_second_charge():
    q, ledger, limits = query(answers="fresh", renew="1d"), Ledger(":memory:"), {"max_epsilon": 2.0, "per": "10d"}
    days = [100, 101, 400, 102, 300, 401, 402, 110, 409, 410, 411]
    reports = [answer(q, ledger, day * DAY, **limits) for day in days]
    answer_days = [day for day, report in zip(days, reports, strict=True) if isinstance(report, bytes)]
    assert answer_days == [100, 101, 400, 401, 410, 411]


def test_an_answer_while_the_clock_is_far_ahead_keeps_the_device_time_there():
    q, ledger, limits = query(renew="1d"), Ledger(":memory:"), {"max_epsilon": 2.0, "per": "10d"}
    other = query("other", answers="fresh")
    assert answer(q, ledger, 500 * DAY, **limits) != "BudgetSpent"
    assert answer(other, ledger, 100 * DAY, **limits) == "BudgetSpent", "nothing expires until the clock has passed"
    assert answer(other, ledger, 511 * DAY, **limits) != "BudgetSpent"


def test_a_fresh_draw_that_was_charged_and_not_answered_needs_room_again_when_it_has_expired():
    q, other = query(answers="fresh", other=False), query("other", answers="fresh")
    ledger, limits = Ledger(":memory:"), {"max_epsilon": 1.0, "per": "10d"}
    with pytest.raises(Exception, match="elsewhere"):
        answer(q, ledger, 0, "elsewhere", **limits)
    answer(other, ledger, 10 * DAY, **limits)
    assert answer(q, ledger, 11 * DAY, **limits) == "BudgetSpent"
    answer(q, ledger, 20 * DAY, **limits)
    assert status(q, ledger, 20 * DAY, **limits).life == 2.0


def test_joined_charges_keep_their_sum_and_the_store_stays_small():
    ledger, limits = Ledger(":memory:"), {"max_epsilon": 4.0, "per": "2d"}
    for name, answers in (("f", "fresh"), ("o", "once")):
        q = query(name, answers=answers, renew="3d")
        for day in range(100):
            answer(q, ledger, (100 * (name == "o") + day) * DAY, **limits)
    with ledger.transaction() as transaction:
        rows = transaction._database.execute("SELECT COUNT(*) FROM charge").fetchone()
        assert rows[0] < 10
        assert transaction.total_charge() == 100 + 34


def test_the_status_has_the_charges_of_all_queries():
    ledger, limits = Ledger(":memory:"), {"max_epsilon": 9.0, "per": "10d"}
    answer(query("b"), ledger, 0, **limits)
    answer(query("a", answers="once"), ledger, 5 * DAY, **limits)
    present = status(query("a", answers="once"), ledger, 12 * DAY, **limits)
    assert [(each.name, each.counted, each.life) for each in present.queries] == [("a", 1.0, 1.0), ("b", 0.0, 2.0)]
    assert [present.max_epsilon, present.per, present.counted, present.life, present.spent] == [
        9.0,
        864_000,
        1.0,
        3.0,
        1.0,
    ]
    assert present.remaining == 8.0
    assert 12 * DAY <= present.due < 13 * DAY
    assert status(query("a"), ledger, 12 * DAY).per is None


@pytest.mark.parametrize("per", [59, 10**9 + 1, 60.0, True, "59s", "12000d", "1 day", "", b"1d"])
def test_per_is_a_time_from_a_minute_to_31_years(per):
    with pytest.raises(ParameterError, match="per must be a whole number of seconds from 60 to 1000000000"):
        Client(query(), ":memory:", per=per)


VERSION_3 = """
CREATE TABLE charge (name TEXT, digest BLOB, round INTEGER, mode INTEGER, epsilon REAL, times INTEGER NOT NULL,
    PRIMARY KEY (digest, name, round, mode, epsilon));
CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL);
CREATE TABLE round (digest BLOB PRIMARY KEY, began INTEGER NOT NULL);
CREATE TABLE given (digest BLOB PRIMARY KEY, answers INTEGER NOT NULL);
CREATE TABLE once (digest BLOB, round INTEGER, report BLOB NOT NULL, PRIMARY KEY (digest, round));
CREATE TABLE mark (of_key BLOB, of_installation BLOB, of_machine BLOB);
INSERT INTO mark VALUES (NULL, NULL, NULL);
INSERT INTO charge VALUES ('a', x'6161616161616161', 100, 0, 1.0, 2), ('a', x'6161616161616161', 200, 0, 1.0, 2),
    ('a', x'6161616161616161', 300, 0, 1.0, 2), ('f', x'6666666666666666', 0, 1, 1.0, 3),
    ('f', x'6666666666666666', 500, 1, 1.0, 2), ('g', x'6767676767676767', 0, 0, 1.0, 1), ('old', x'', 0, 0, 0.5, 3);
INSERT INTO last VALUES ('a', 250.0), ('f', 520.5), ('old', 7.0);
INSERT INTO round VALUES (x'6161616161616161', 300), (x'6666666666666666', 500);
INSERT INTO given VALUES (x'6666666666666666', 4);
PRAGMA user_version = 3;
"""


def test_a_store_of_version_3_is_upgraded_in_place(tmp_path, monkeypatch):
    with sqlite3.connect(tmp_path / "store") as database:
        database.executescript(VERSION_3)
    database.close()
    (tmp_path / "store.key").write_bytes(bytes(32))
    monkeypatch.setattr("producers.client.store_schema.time.time", lambda: 9999.0)
    for _ in range(2):
        with Ledger(tmp_path / "store").transaction() as transaction:
            uses = [transaction.last_use(NoiseId(b"a" * 8, start)) for start in (100, 200, 300, 400)]
            assert uses == [200.0, 250.0, 250.0, NEVER], "the start of the next round, or the last answer"
            draws = [transaction.last_use(NoiseId(b"f" * 8, 0, Mode.FRESH, number)) for number in range(6)]
            assert draws == [500.0] * 0 + [520.5] * 5 + [NEVER], "round 0 counts from the last answer"
            assert transaction.noise_charge(NoiseId(b"f" * 8, 0, Mode.FRESH, 4)) == 2
            assert transaction.last_use(NoiseId(b"g" * 8, 0)) == 9999.0, "of the upgrade, without an answer"
            assert transaction.active_charge(NEVER) == 6 + 5 + 1 + 1.5
            assert transaction.active_charge(250.0) == 5 + 1
            assert LOST_NAME not in transaction.names()
