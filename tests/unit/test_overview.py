"""The overview has a row for each query: its state, its newest window with values, and its alerts of the last hour."""

from itertools import chain

import pytest

from aggregator.board.store.states import States
from oracles.errors import ReportError
from tests import boards
from tests.boards import HOMEPAGE, PANE, PROFILE, START, Crowd, status_message, withheld
from tests.unit.test_board_store import ask, feed, problem, store

PANES = 12
NOW = START + PANES * PANE + 5


@pytest.fixture(scope="module")
def messages():
    crowd = Crowd(HOMEPAGE, clients=20_000, surge=8)
    return [*chain.from_iterable(crowd.next() for _ in range(PANES))]


def row_of(board, name="homepage"):
    (row,) = [query_row for query_row in ask(board, "overview")["queries"] if query_row["name"] == name]
    return row


def board_at(moment, messages):
    return store(messages, clock=lambda: moment)


def test_a_row_has_the_newest_window_and_its_largest_value(messages):
    board = board_at(NOW, messages)
    row = row_of(board)
    estimate = ask(board, "estimate", "homepage", top=1)
    (first,) = estimate["values"]
    assert row["value"] == first["value"]
    assert row["share"] == first["unbiased"]
    assert row["n"] == estimate["n"]
    assert row["end"] == estimate["window"]["end"]
    assert row["state"] == "live"
    assert row["age"] == 5.0
    assert row["low"] == first["low"]
    assert row["high"] == first["high"]
    assert row["level"] == estimate["level"]
    one = ask(board, "estimate", "homepage", value=row["value"])["values"][0]
    assert row["low"] < one["low"] < row["share"] < one["high"] < row["high"], "it is wider, for a value that leads"


def test_a_query_without_windows_has_a_row(messages):
    row = row_of(board_at(NOW, messages), "profile")
    assert row["state"] == "waiting"
    assert {row[key] for key in ("age", "end", "n", "value", "share", "low", "high", "level")} == {None}
    assert row["lacks"] == "worker"
    assert row["next_end"] > NOW - PROFILE.lateness
    assert row["next_due"] == row["next_end"] + PROFILE.lateness > NOW


def test_only_alerts_of_the_last_hour_count(messages):
    board = board_at(NOW, messages)
    alerts = [query_row for query_row in ask(board, "alerts")["alerts"] if not query_row["baseline"]]
    assert len(alerts) > 0
    assert row_of(board)["alerts"] == len(alerts)
    last_alert = max(alert["window"]["end"] for alert in alerts)
    assert row_of(board_at(last_alert + 3599, messages))["alerts"] > 0
    assert row_of(board_at(last_alert + 3600, messages))["alerts"] == 0


def test_a_status_tells_quiet_from_late(messages):
    end = START + PANES * PANE
    late = end + 60
    for newest, state in ((late // PANE * PANE - 2 * PANE, "late"), (end, "quiet")):
        board = board_at(late, [*messages, status_message(HOMEPAGE, late // PANE * PANE - 2 * PANE, newest)])
        assert row_of(board)["state"] == state
        assert row_of(board)["newest_report"] == newest
        (query,) = [query_row for query_row in ask(board, "queries")["queries"] if query_row["name"] == "homepage"]
        assert query["state"] == state
        assert query["newest_report"] == newest


def test_a_status_may_come_before_its_definition(messages):
    board = store([], queries={}, clock=lambda: NOW)
    feed(board, *status_message(HOMEPAGE, START, START))
    for message in [*boards.definition_messages(), *messages]:
        feed(board, *message)
    assert row_of(board)["newest_report"] == START


def test_a_false_status_is_refused(messages):
    board = board_at(NOW, messages)
    other = PROFILE.name, HOMEPAGE.digest
    for message in (
        status_message(HOMEPAGE, NOW + 10_000, None),
        status_message(type("", (), dict(zip(("name", "digest"), other, strict=True))), START, None),
    ):
        with pytest.raises(ReportError):
            feed(board, *message)
    assert row_of(board)["newest_report"] is None


def test_a_withheld_crowd_shows_its_newest_window_with_values(messages):
    crowd = Crowd(HOMEPAGE, start=START, clients=500)
    every = [*chain.from_iterable(crowd.next() for _ in range(4))]
    small = [withheld(message) if message[0] == "estimates" else message for message in every[-4:]]
    board = board_at(START + 4 * PANE, [*every[:-4], *small])
    row = row_of(board)
    assert row["state"] == "withheld"
    assert row["withheld_reason"] == "small"
    assert row["end"] == START + 3 * PANE
    assert row["n"] == 500


def test_a_change_of_state_is_announced_once(messages):
    moment = NOW
    board = store(messages, clock=lambda: moment)
    states = States()
    assert {(change.query, change.state) for change in states.changes(board)} == {
        ("homepage", "live"),
        ("profile", "waiting"),
    }
    assert states.changes(board) == []
    moment += 1_000
    (change,) = states.changes(board)
    assert change.query == "homepage"
    assert change.state == "late"
    assert change.latest == START + PANES * PANE


def test_an_overview_needs_no_parameters(messages):
    assert problem(board_at(NOW, messages), "overview", query="homepage") == 400


def test_an_overview_of_many_queries_asks_for_no_estimate(messages, monkeypatch):
    """Its work must not grow with the values of a query: it never spreads the shares over the domain."""
    from aggregator.board.answers.view import View

    monkeypatch.setattr(View, "_spread", lambda *_: pytest.fail("the whole domain was built"))
    assert row_of(board_at(NOW, messages))["value"] is not None
