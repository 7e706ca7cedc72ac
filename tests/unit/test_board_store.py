"""The store of a board: it keeps and drops records, and answers requests."""

import gc
import random
import subprocess
import sys
import time
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.board.answers import lookup
from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import Reply
from aggregator.board.answers.window_answers import WindowEstimate
from aggregator.board.server.events import Events
from aggregator.board.server.follower import BoardFollower
from aggregator.board.server.metrics import BoardMetrics, ShareMetrics
from aggregator.board.server.route import ROUTES, SCHEMAS, describe
from aggregator.board.store.notes import Note
from aggregator.board.store.store import MOST_ALERTS, Store
from aggregator.records.kinds import first
from aggregator.records.kinds import values as value_records
from aggregator.records.span import PUBLISH_SECONDS
from hubbub.definitions import catalog
from hubbub.http.problem import Problem
from hubbub.kafka.settings import Kafka
from oracles.consistency import answer, apply
from oracles.errors import ReportError
from oracles.heavy import heavy_hitters
from oracles.query import File
from oracles.query.settings import Threshold
from oracles.readable import readable_below
from tests import boards
from tests.boards import GROUPS, HOMEPAGE, PANE, PROFILE, SCREENS, START, Crowd, GroupCrowd
from tests.queries import make_queries, make_query, make_table

DAY = 86_400
BY_NAME = {route.name: route for route in ROUTES}


def store(messages=(), retention=DAY, memory=1 << 30, queries=boards.QUERIES, **settings):
    board = Store(retention, memory, **settings)
    for message in [*boards.definition_messages(queries), *messages]:
        feed(board, *message)
    return board


def feed(board, topic, key, value):
    match topic:
        case "queries":
            board.define(key, value, 0)
        case "maps":
            board.take_maps(key, value)
        case "estimates":
            board.take_record(value)
        case "alerts":
            board.take_alert(value)
        case "truth":
            board.take_truth(value)
        case "status":
            board.take_status(value)


def ask(board, question, *names, **parameters):
    """Return the answer to a question, after a check against its schema."""
    route = BY_NAME[question]
    pairs = [(name, str(value)) for name, value in parameters.items()]
    reply = orjson.loads(
        Reply.json(route.answer.of(board, Parameters(pairs, route.all_parameters), *(names or [""]))).body
    )
    # The schemas refer to one another by their place in the API's description.
    schema = {"$ref": f"#/components/schemas/{question}", "components": {"schemas": SCHEMAS}}
    Draft202012Validator(schema).validate(reply)
    return reply


def problem(board, question, *names, **parameters):
    with pytest.raises(Problem) as error_info:
        ask(board, question, *names, **parameters)
    assert error_info.value.detail
    return error_info.value.status


@pytest.fixture(scope="module")
def crowd():
    """Return a crowd with the messages of twelve panes."""
    board = Crowd(HOMEPAGE, clients=4_000, surge=8)
    board.messages = [*chain.from_iterable(board.next() for _ in range(12))]
    board.messages.append(board.provisional())
    return board


@pytest.fixture(scope="module")
def full_board(crowd):
    return store(crowd.messages)


def test_the_order_of_partitions_does_not_matter(crowd, full_board):
    messages = list(crowd.messages)
    # Topics have no common order, so a board may read an alert before the record that it is about.
    random.Random(1).shuffle(messages)
    other_board = store(messages)
    for question, names, parameters in (
        ("queries", [], {}),
        ("estimate", ["homepage"], {}),
        ("estimate", ["homepage"], {"provisional": "true"}),
        ("windows", ["homepage"], {"kind": "all"}),
        ("history", ["homepage"], {"value": "a,b", "kind": "hopping"}),
    ):
        assert ask(other_board, question, *names, **parameters) == ask(full_board, question, *names, **parameters)
    assert other_board.size == full_board.size


def test_a_list_of_the_largest_has_wider_intervals_than_a_value_by_name(full_board):
    reply = ask(full_board, "estimate", "homepage", top="3")
    assert reply["level"] == 1 - 0.05 * 3 / 22
    row = reply["values"][0]
    answer = ask(full_board, "estimate", "homepage", values=row["value"])
    assert answer["level"] == 0.95
    (own_values,) = answer["values"]
    assert row["low"] < own_values["low"] < own_values["high"] < row["high"]
    hitters = ask(full_board, "heavy-hitters", "homepage", top="3")
    assert hitters["level"] == reply["level"]
    ends = {row["value"]: (row["low"], row["high"]) for row in reply["values"]}
    assert all((hitter["low"], hitter["high"]) == ends[hitter["value"]] for hitter in hitters["hitters"])


def test_repeated_messages_change_nothing(crowd, full_board):
    twice = store([*crowd.messages, *crowd.messages])
    assert twice.size == full_board.size
    assert twice.windows == full_board.windows
    assert ask(twice, "alerts") == ask(full_board, "alerts")


def test_an_estimate_has_the_numbers_of_its_record(crowd, full_board):
    record = orjson.loads([value for topic, _, value in crowd.messages if topic == "estimates"][-2])
    assert record["window"]["kind"] == "all"
    for method in record["shares"]:
        reply = ask(full_board, "estimate", "homepage", kind="all", method=method)
        rows = {row["value"]: row for row in reply["values"]}
        for at, value in enumerate(record["values"]):
            row = rows[value]
            assert row["share"] == record["shares"][method][at]
            assert [row["unbiased"], row["stderr"]] == [record["shares"]["unbiased"][at], record["stderr"][at]]
            assert [row["low"], row["high"]] == [record["low"][at], record["high"][at]]
        hitters = {hitter["value"] for hitter in record["hitters"][method]}
        either = [*record["hitters"]["unbiased"], *record["hitters"][method]]
        proved_values = {hitter["value"] for hitter in either if hitter["decided"]}
        assert {row["value"] for row in reply["values"] if row["listed"]} == hitters | proved_values, (
            "proved values are listed"
        )
        assert {row["value"] for row in reply["values"] if row["decided"]} == proved_values
        shares = [row["share"] for row in reply["values"]]
        assert shares == sorted(shares, reverse=True)
        for key in ("n", "n_independent", "sigma", "detectable", "sets", "quality", "refused", "digest", "window"):
            assert reply[key] == record[key]
        assert reply["central"] == record["central"]


def test_the_bound_of_all_windows_stands_beside_that_of_one(full_board):
    reply = ask(full_board, "estimate", "homepage")
    query = HOMEPAGE
    assert reply["central"]["together"] == {"epsilon": query.record_charge * query.charges, "windows": "many"}
    assert reply["central"]["epsilon"] < reply["central"]["together"]["epsilon"]
    assert reply["readable_below"] == readable_below(query.only_oracle.row_draws)


def test_the_threshold_decides_what_is_listed(full_board):
    reply = ask(full_board, "estimate", "homepage", method="unbiased")
    assert 0 < reply["threshold"] < 1
    for row in reply["values"]:
        assert row["listed"] == (row["share"] > reply["threshold"])


def test_values_keep_the_order_of_the_request(full_board):
    every = {row["value"]: row for row in ask(full_board, "estimate", "homepage")["values"]}
    reply = ask(full_board, "estimate", "homepage", values="wiki.example,mail.example", value="a,b")
    assert reply["values"] == [every["wiki.example"], every["mail.example"], every["a,b"]]
    assert problem(full_board, "estimate", "homepage", values="nobody") == 404
    assert problem(full_board, "estimate", "homepage", values="wiki.example,wiki.example") == 400


def test_a_window_is_selected_by_kind_and_end(full_board):
    end = START + 12 * PANE
    assert ask(full_board, "estimate", "homepage")["window"]["end"] == end
    assert ask(full_board, "estimate", "homepage", window="latest") == ask(
        full_board, "estimate", "homepage", window=end
    )
    assert ask(full_board, "estimate", "homepage", window=end - PANE)["window"]["end"] == end - PANE
    assert ask(full_board, "estimate", "homepage", kind="hopping", size=60, step=10)["window"]["size"] == 60
    assert problem(full_board, "estimate", "homepage", window=end + PANE) == 404
    assert problem(full_board, "estimate", "homepage", kind="hopping", size=61) == 404
    assert problem(full_board, "estimate", "homepage", kind="sliding") == 400
    assert problem(full_board, "estimate", "homepage", window="now") == 400


def test_a_provisional_record_stays_until_its_window_is_final(crowd):
    board = store(crowd.messages)
    end = START + 13 * PANE
    assert ask(board, "estimate", "homepage", provisional="true")["window"]["end"] == end
    assert not ask(board, "estimate", "homepage", provisional="true")["final"]
    assert ask(board, "estimate", "homepage")["final"]
    assert [row["final"] for row in ask(board, "windows", "homepage", provisional="true")["windows"]][-2:] == [
        True,
        False,
    ]
    early_crowd = Crowd(HOMEPAGE, clients=4_000)
    for _ in range(13):
        final = [message for message in early_crowd.next() if message[0] == "estimates"]
    feed(board, *final[0])
    assert ask(board, "estimate", "homepage", provisional="true")["final"]
    # Topics keep provisional records until their deletion, which a reader may see later.
    feed(board, *crowd.messages[-1])
    assert ask(board, "estimate", "homepage", provisional="true")["final"], "a provisional record came late"


def test_an_answer_has_the_age_and_the_expected_age(crowd):
    moment = START + 12 * PANE + 100.00012
    board = Store(DAY, 1 << 30, lambda: moment)
    for message in boards.definition_messages():
        feed(board, *message)
    assert [(row["age"], row["expected"]) for row in ask(board, "queries")["queries"]] == [(None, None)] * 2
    for message in crowd.messages:
        feed(board, *message)
    homepage, profile = ask(board, "queries")["queries"]
    limit = PANE + HOMEPAGE.lateness + PUBLISH_SECONDS
    assert homepage["age"] == 100
    assert homepage["expected"] == limit
    assert [(row["age"], row["expected"]) for row in homepage["windows"]] == [(100, limit)] * 3
    assert profile["age"] is None
    assert profile["expected"] is None


def test_only_provisional_windows_exist_before_the_first_final(crowd):
    board = store([crowd.messages[-1]])
    assert problem(board, "estimate", "homepage") == 404
    assert ask(board, "estimate", "homepage", provisional="true")["n"] > 0
    assert ask(board, "history", "homepage", value="a,b")["points"] == []


def memory_use(board):
    """Return the memory of all windows and true counts of a query."""
    series = board.series("homepage")
    windows = [*chain.from_iterable((*kind.finals.values(), kind.provisional) for kind in series.kinds.values())]
    records = [record.size for record in windows if record]
    return sum(records) + series.truth.size


FIRST = HOMEPAGE.windows[0]


def finals_of_first_window(crowd):
    """Return the messages of the finals of the shortest window."""
    messages = [message for message in crowd.messages if message[0] == "estimates"]
    return [message for message in messages if f"|tumbling|{FIRST.size}|".encode() in message[1]][:12]


@pytest.fixture(scope="module")
def quiet(crowd):
    """Return a board whose last four finals are withheld."""
    finals = finals_of_first_window(crowd)
    rest = [boards.withheld(final, reason) for final, reason in zip(finals[8:], ("held", *["small"] * 3), strict=True)]
    return store([*finals[:8], *rest])


def test_the_latest_window_is_the_newest_with_values(quiet):
    last_end = START + 8 * PANE
    for question, parameters in (
        ("estimate", {}),
        ("heavy-hitters", {}),
        ("set", {"name": "fun"}),
        ("set", {"value": "a,b"}),
    ):
        reply = ask(quiet, question, "homepage", **parameters)
        assert reply["window"]["end"] == last_end
        assert reply["withheld_since"] == last_end + PANE
        assert reply["withheld_reason"] == "small"
        assert reply["n"] > 0
    (query, _) = ask(quiet, "queries")["queries"]
    assert query["windows"][0]["latest"] == last_end + 4 * PANE, "a withheld window is published"
    assert query["crowd"] == HOMEPAGE.crowd


def test_a_withheld_window_has_no_values(quiet):
    end = START + 9 * PANE
    reply = ask(quiet, "estimate", "homepage", window=end)
    assert reply["window"]["end"] == end
    assert reply["withheld_since"] == end
    assert reply["withheld_reason"] == "held"
    assert reply["values"] == []
    assert reply["n"] == 0
    assert reply["sigma"] is None
    assert reply["threshold"] is None
    assert ask(quiet, "estimate", "homepage", window=end, value="a,b")["missing"] == ["a,b"]
    for threshold in ("0.5", "significance"):
        reply = ask(quiet, "heavy-hitters", "homepage", window=end, threshold=threshold)
        assert reply["hitters"] == []
        assert reply["threshold"]["share"] is None
    for parameters in ({"name": "fun"}, {"value": "a,b"}):
        ((row),) = ask(quiet, "set", "homepage", window=end, **parameters)["sets"]
        assert row["share"] is None
        assert row["stderr"] is None
    assert problem(quiet, "set", "homepage", window=end, name="nosuch") == 404
    earlier_answer = ask(quiet, "estimate", "homepage", window=START + 7 * PANE)
    assert earlier_answer["withheld_since"] is None
    assert earlier_answer["withheld_reason"] is None


def test_a_history_says_which_windows_are_withheld(quiet):
    points = ask(quiet, "history", "homepage", value="a,b")["points"]
    assert [point["withheld"] for point in points] == [None] * 8 + ["held"] + ["small"] * 3
    assert [point["share"] is None for point in points] == [False] * 8 + [True] * 4
    assert {point["truth"] for point in points[8:]} == {None}
    rows = ask(quiet, "windows", "homepage")["windows"]
    assert [row["flags"] for row in rows[8:]] == [["held"]] + [["small"]] * 3


def test_a_query_that_shows_nothing_yet_says_why(crowd):
    board = store([boards.withheld(final) for final in finals_of_first_window(crowd)[:3]])
    reply = ask(board, "estimate", "homepage")
    assert reply["window"]["end"] == START + 3 * PANE
    assert reply["withheld_since"] == START + PANE
    assert reply["withheld_reason"] == "small"
    assert reply["values"] == []
    assert reply["error"] is None


def test_a_window_that_repeats_earlier_values_is_withheld(crowd):
    first_final, second = finals_of_first_window(crowd)[:2]
    # Records of version 2 repeated the values of the window before.
    record = orjson.loads(second[2]) | {"version": 2, "held_since": START + PANE}
    record["quality"]["flags"] = ["held"]
    board = store([first_final, ("estimates", second[1], orjson.dumps(record))])
    reply = ask(board, "estimate", "homepage")
    assert reply["window"]["end"] == START + PANE
    assert reply["withheld_since"] == START + 2 * PANE
    assert ask(board, "windows", "homepage")["windows"][1]["n"] == 0


def test_each_attribute_has_its_own_latest_window():
    crowd = Crowd(PROFILE, clients=2_000)
    panes = [[message for message in crowd.next() if message[0] == "estimates"] for _ in range(3)]
    age, sex = panes[1]
    board = store([*panes[0], age, boards.withheld(sex), *map(boards.withheld, panes[2])])
    assert ask(board, "estimate", "profile", attribute="age")["window"]["end"] == START + 2 * PANE
    reply = ask(board, "estimate", "profile", attribute="sex")
    assert reply["window"]["end"] == START + PANE
    assert reply["withheld_since"] == START + 2 * PANE
    assert [row["n"] > 0 for row in ask(board, "windows", "profile")["windows"]] == [True, True, False]
    alone, both = (ask(board, "estimate", "profile", attribute="age", window=START + at * PANE) for at in (2, 1))
    assert alone["n"] > 0
    assert alone["threshold"] == pytest.approx(both["threshold"], rel=0.1), "the other attribute may have any number"


def test_a_provisional_window_says_up_to_when_it_counts(crowd):
    topic, key, value = crowd.messages[-1]
    record = orjson.loads(value) | {"version": 3}
    record["window"]["through"] = START + 13 * PANE - 5
    board = store([*crowd.messages[:-1], (topic, key, orjson.dumps(record))])
    reply = ask(board, "estimate", "homepage", provisional="true")
    assert reply["final"] is False
    assert reply["through"] == START + 13 * PANE - 5
    assert ask(board, "estimate", "homepage")["through"] is None
    rows = ask(board, "windows", "homepage", provisional="true")["windows"]
    assert [row["through"] for row in rows][-2:] == [None, START + 13 * PANE - 5]


def test_a_provisional_window_may_lack_attributes():
    crowd = Crowd(PROFILE, clients=2_000)
    finals = [message for message in crowd.next() if message[0] == "estimates"]
    end = START + 2 * PANE
    changes = {"final": False, "window": {"kind": "tumbling", "start": end - PANE, "end": end, "size": 10, "step": 10}}
    age, sex = ((topic, key + b"|p", orjson.dumps(orjson.loads(value) | changes)) for topic, key, value in finals)
    board = store([*finals, age])
    assert not ask(board, "estimate", "profile", attribute="age", provisional="true")["final"]
    assert ask(board, "estimate", "profile", attribute="sex", provisional="true")["final"]
    assert len(ask(board, "history", "profile", attribute="sex", value="f", provisional="true")["points"]) == 1
    alone = ask(board, "windows", "profile", provisional="true")["windows"][-1]["n"]
    feed(board, *sex)
    assert not ask(board, "estimate", "profile", attribute="age", provisional="true")["final"]
    assert not ask(board, "estimate", "profile", attribute="sex", provisional="true")["final"]
    assert ask(board, "windows", "profile", provisional="true")["windows"][-1]["n"] == 2_000 > alone


def test_windows_older_than_the_retention_are_dropped(crowd):
    board = store(crowd.messages, retention=5 * PANE)
    ends = [row["end"] for row in ask(board, "windows", "homepage")["windows"]]
    assert ends == [START + PANE * pane for pane in range(8, 13)]
    assert board.series("homepage").truth.oldest == START + 6 * PANE
    assert board.size == memory_use(board)


def test_memory_is_bounded_and_the_newest_windows_stay(crowd, full_board):
    memory = full_board.size // 3
    board = store(crowd.messages, memory=memory)
    assert board.size <= memory
    assert board.size == memory_use(board)
    series = board.series("homepage")
    for window in HOMEPAGE.windows:
        assert series.kinds[window].ends[-1] == START + 12 * PANE
    tiny = store(crowd.messages, memory=1)
    assert [len(windows.ends) for windows in tiny.series("homepage").kinds.values()] == [1, 1, 1]


def test_the_computed_memory_is_about_the_real_one():
    query = make_query(domain=5_000, oracle="olh", epsilon=4.0, budget=1e9, publish=2_000, name="wide")
    crowd = Crowd(query, clients=2_000)
    values = [value for _ in range(40) for topic, _, value in crowd.next() if topic == "estimates"]
    first_board = store(queries={"wide": query})
    board = store(queries={"wide": query})
    for value in values:
        first_board.take_record(value)  # allocate the parts that all stores share, as Python's table of interned texts
    gc.collect()
    tracemalloc.start()
    for value in values:
        board.take_record(value)
    measurement = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert first_board.size == board.size
    assert measurement / 2 < board.size < measurement * 2


def test_true_counts_are_added_over_sources_and_replaced_by_source(crowd, full_board):
    reply = ask(full_board, "estimate", "homepage")
    true = {row["value"]: row["truth"] for row in reply["values"]}
    assert sum(true.values()) == pytest.approx(1.0)
    shares = np.array([row["share"] for row in reply["values"]])
    off = shares - np.array([row["truth"] for row in reply["values"]])
    assert reply["error"]["rms"] == pytest.approx(np.sqrt(np.mean(off**2)))
    assert reply["error"]["covered"] == sum(row["low"] <= row["truth"] <= row["high"] for row in reply["values"])

    board = store(crowd.messages)
    pane = START + 11 * PANE
    counts = [0] * HOMEPAGE.domain.size
    counts[1] = 4_000
    more = {"query": "homepage", "digest": HOMEPAGE.digest.hex(), "pane": pane, "source": "other", "counts": counts}
    board.take_truth(orjson.dumps(more))
    both = {row["value"]: row["truth"] for row in ask(board, "estimate", "homepage")["values"]}
    assert both["mail.example"] == pytest.approx((true["mail.example"] + 1) / 2)
    board.take_truth(orjson.dumps(more | {"counts": [0] * HOMEPAGE.domain.size}))
    repeated = {row["value"]: row["truth"] for row in ask(board, "estimate", "homepage")["values"]}
    assert repeated == pytest.approx(true)
    with pytest.raises(ValueError, match="values"):
        board.take_truth(orjson.dumps(more | {"counts": [1, 2]}))


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "all"])
def test_a_history_has_the_numbers_of_each_window(crowd, full_board, kind):
    points = ask(full_board, "history", "homepage", value="books.example", kind=kind)["points"]
    assert len(points) == (7 if kind == "hopping" else 12)
    for point in points:
        row = ask(full_board, "estimate", "homepage", kind=kind, window=point["end"], values="books.example")["values"][
            0
        ]
        assert {key: point[key] for key in ("share", "unbiased", "low", "high")} == {
            key: row[key] for key in ("share", "unbiased", "low", "high")
        }
        assert point["truth"] == pytest.approx(row["truth"])
    assert points[-1]["truth"] > points[0]["truth"]
    later_answer = ask(
        full_board, "history", "homepage", value="books.example", kind=kind, **{"from": START + 100, "to": START + 120}
    )
    assert [point["end"] for point in later_answer["points"]] == [START + 100, START + 110]
    assert len(ask(full_board, "history", "homepage", value="books.example", kind=kind, limit=3)["points"]) == 3


def test_incomplete_true_counts_are_not_returned(crowd):
    board = store(crowd.messages, retention=5 * PANE)
    assert ask(board, "estimate", "homepage", kind="all")["error"] is None
    assert ask(board, "estimate", "homepage", kind="hopping")["error"] is not None
    assert {point["truth"] for point in ask(board, "history", "homepage", value="a,b", kind="all")["points"]} == {None}


def test_the_answer_about_a_set_equals_the_estimate(crowd, full_board):
    total = crowd.snapshots[-1]
    estimate = HOMEPAGE.oracle.estimate(total.counts, total.n)
    positions = [4, 19]
    share, stderr = estimate.answer(positions)
    reply = ask(full_board, "set", "homepage", values="video.example", value="a,b", method="unbiased")["sets"][0]
    assert [reply["share"], reply["stderr"]] == [pytest.approx(share, abs=1e-15), stderr]
    by_method = answer("norm_sub", estimate, positions)[0]
    assert ask(full_board, "set", "homepage", values="video.example", value="a,b")["sets"][0]["share"] == pytest.approx(
        by_method
    )
    by_name = ask(full_board, "set", "homepage", name="fun", method="unbiased")["sets"][0]
    by_values = ask(
        full_board, "set", "homepage", values="video.example,music.example,games.example", method="unbiased"
    )["sets"][0]
    assert [by_name["share"], by_name["stderr"]] == pytest.approx([by_values["share"], by_values["stderr"]])
    assert by_name["truth"] == by_values["truth"] > 0
    assert problem(full_board, "set", "homepage") == 400
    assert problem(full_board, "set", "homepage", name="nothing") == 404


@pytest.mark.parametrize("threshold", ["significance", "0.05", "300"])
def test_another_threshold_gives_the_answer_of_the_whole_tally(crowd, full_board, threshold):
    total = crowd.snapshots[-1]
    estimate = HOMEPAGE.oracle.estimate(total.counts, total.n)
    request = threshold if threshold == "significance" else float(threshold)
    hitters = heavy_hitters(estimate, apply("norm_sub", estimate), threshold=request, family_error=0.1)
    reply = ask(full_board, "heavy-hitters", "homepage", threshold=threshold, family_error=0.1, method="norm_sub")
    assert reply["threshold"]["share"] == pytest.approx(hitters.threshold, rel=1e-12)
    result = [(h["value"], h["decided"], h["p_value"], tuple(h["ranks"])) for h in reply["hitters"]]
    names = [(HOMEPAGE.domain.name(h.position), h.decided, pytest.approx(h.p_value), tuple(h.ranks)) for h in hitters]
    assert result == names
    assert result


def test_a_record_with_some_values_refuses_questions_about_others(crowd):
    brief = replace(HOMEPAGE, publish=3)
    part = Crowd(brief, clients=4_000)
    board = store(part.next(), queries={"homepage": brief})
    reply = ask(board, "estimate", "homepage", values="news.example,books.example")
    assert reply["published"] == 3
    assert reply["size"] == 22
    assert reply["missing"] == ["books.example"]
    assert [row["value"] for row in reply["values"]] == ["news.example"]
    assert problem(board, "set", "homepage", values="books.example") == 400
    assert problem(board, "heavy-hitters", "homepage", threshold="0.1") == 400
    assert ask(board, "heavy-hitters", "homepage")["hitters"]
    assert ask(board, "history", "homepage", value="books.example")["points"][0]["share"] is None
    assert reply["error"]["values"] == 3


def test_attributes_are_requested_by_name():
    crowd = Crowd(PROFILE, clients=4_000)
    board = store(message for message in chain.from_iterable(crowd.next() for _ in range(2)))
    age, sex = (ask(board, "estimate", "profile", attribute=name) for name in ("age", "sex"))
    assert age["attribute"] == "age"
    assert sex["attribute"] == "sex"
    assert age["size"] == 8
    assert sex["size"] == 3
    assert ask(board, "estimate", "profile") == age
    assert age["n"] + sex["n"] == 4_000
    assert sum(row["truth"] for row in sex["values"]) == pytest.approx(1.0)
    # With smp a part of the error comes from the sample. A set of one value has the error of the value.
    row = next(row for row in sex["values"] if row["value"] == "f")
    alone = ask(board, "set", "profile", attribute="sex", values="f", method="unbiased")["sets"][0]
    assert alone["stderr"] == pytest.approx(row["stderr"])
    assert ask(board, "history", "profile", attribute="sex", value="m")["points"][1]["truth"] > 0
    assert problem(board, "estimate", "profile", attribute="shoe") == 404
    assert problem(store(), "estimate", "homepage", attribute="sex") == 404


def test_a_new_definition_replaces_the_old_one(crowd):
    other_queries = make_queries({"homepage": make_table(domain=5, epsilon=2.0, budget=1e9)})
    board = store(crowd.messages)
    earlier_definitions = board.definitions
    for write in catalog.changes(File(other_queries), earlier_definitions, ["profile"], "1" * 16).writes:
        board.define(*write, 0)
    reply = {query["name"]: query for query in ask(board, "queries")["queries"]}
    assert reply["homepage"]["digest"] == other_queries["homepage"].digest.hex()
    assert reply["profile"]["retired"]
    assert problem(board, "estimate", "homepage") == 404
    fresh_crowd = Crowd(other_queries["homepage"], clients=1_000, start=START + 200)
    for message in fresh_crowd.next():
        feed(board, *message)
    assert ask(board, "estimate", "homepage")["size"] == 5
    for write in catalog.changes(File({}), board.definitions, ["homepage"], "2" * 16).writes:
        board.define(*write, 0)
    assert ask(board, "estimate", "homepage")["size"] == 5, "the last estimates stay"


def test_alerts_are_unique_bounded_and_the_newest_come_first(crowd):
    board = Store(DAY, 1 << 30)
    value = next(value for topic, _, value in crowd.messages if topic == "alerts")
    assert board.take_alert(value).id
    assert board.take_alert(value) is None
    alert = orjson.loads(value)
    for number in range(MOST_ALERTS + 5):
        window = alert["window"] | {"end": START + number}
        board.take_alert(orjson.dumps(alert | {"id": f"{number:032x}", "window": window}))
    table = board.alerts()
    assert len(table) == MOST_ALERTS
    assert [row.window.end for row in table[:2]] == [START + MOST_ALERTS + 4, START + MOST_ALERTS + 3]


def test_alerts_are_filtered(full_board):
    all_alerts = ask(full_board, "alerts")["alerts"]
    entries = ask(full_board, "alerts", query="homepage", kind="enter", limit=2)["alerts"]
    assert [alert["kind"] for alert in entries] == ["enter", "enter"]
    assert entries == [alert for alert in all_alerts if alert["kind"] == "enter"][:2]
    assert problem(full_board, "alerts", query="nobody") == 404
    assert problem(full_board, "alerts", kind="exit") == 400


@pytest.mark.parametrize(
    ("status", "question", "names", "parameters"),
    [
        (404, "estimate", ["nobody"], {}),
        (400, "estimate", ["homepage"], {"methd": "norm"}),
        (400, "estimate", ["homepage"], {"method": "norm_hyb"}),
        (400, "estimate", ["homepage"], {"top": "0"}),
        (400, "estimate", ["homepage"], {"top": "1e3"}),
        (400, "estimate", ["homepage"], {"top": "٣"}),
        (400, "estimate", ["homepage"], {"size": "9" * 5_000}),
        (400, "estimate", ["homepage"], {"provisional": "yes"}),
        (400, "estimate", ["homepage"], {"values": ",".join(map(str, range(10_001)))}),
        (400, "heavy-hitters", ["homepage"], {"threshold": "nan"}),
        (400, "heavy-hitters", ["homepage"], {"threshold": "-1"}),
        (400, "heavy-hitters", ["homepage"], {"family_error": "0"}),
        (400, "history", ["homepage"], {}),
        (404, "history", ["homepage"], {"value": "nobody"}),
        (400, "windows", ["homepage"], {"limit": "10001"}),
    ],
)
def test_a_refusal_names_its_reason(full_board, status, question, names, parameters):
    assert problem(full_board, question, *names, **parameters) == status


def test_a_table_has_the_rows_of_the_answer(full_board):
    request = Parameters([("top", "3")], BY_NAME["estimate"].all_parameters)
    table = WindowEstimate.of(full_board, request, "homepage")
    row = table.rows[0]
    empty = replace(row, **dict.fromkeys(table.columns))
    answer = Reply.csv(table.columns, [*table.rows, replace(empty, value='a "b",\nc', share=float("nan"), listed=True)])
    head, first, *_, last_end, end = answer.body.decode().split("\r\n")
    own_text = "value,share,unbiased,stderr,low,high,listed,decided,present,truth"
    assert head == f"{own_text},by_weight,by_weight_low,by_weight_high"
    cells = [row.value, *(repr(getattr(row, key)) for key in ("share", "unbiased", "stderr", "low", "high"))]
    assert first == ",".join([*cells, "true", "true", "true", repr(row.truth), "", "", ""])
    assert last_end == '"a ""b"",\nc",,,,,,true,,,,,,'
    assert end == ""
    assert answer.tag != Reply.json(table).tag


OF_VALUES = [route for route in ROUTES if route.name not in ("given", "quantiles", "range", "cdf")]
"""The routes of queries of values without pairs. test_pairs.py and test_board_numbers.py ask the other ones."""


@pytest.mark.parametrize("route", OF_VALUES, ids=lambda route: route.name)
def test_every_answer_has_a_table(crowd, full_board, route):
    pairs = [("value", "a,b")] if route.name in ("set", "history") else []
    if route.name == "compare":
        pairs += [("from", str(START + PANE)), ("to", str(START + 2 * PANE))]
    request = Parameters(pairs, route.all_parameters)
    board, name = full_board, "homepage"
    if route.name == "annotations":
        board = store(crowd.messages)
        board.notes = lambda: [Note(START, 'version 3.2, for "all"')]
    if route.name == "groups":
        board = store(GroupCrowd(SCREENS).next(), queries=GROUPS)
        name = "screens"
    table = route.answer.of(board, request, name if route.of_query else "")
    rows = Reply.csv(table.columns, table.rows).body.decode().splitlines()
    assert rows[0] == ",".join(table.columns)
    assert len(rows) == len(table.rows) + 1 > 1


def member_names(schema):
    """Return the names of all members in a schema."""
    if isinstance(schema, list):
        return set().union(*map(member_names, schema))
    if not isinstance(schema, dict):
        return set()
    members = schema.get("properties", {})
    return (
        set(members)
        | member_names(list(members.values()))
        | member_names([v for k, v in schema.items() if k != "properties"])
    )


def test_the_page_about_the_api_is_complete():
    page = (Path(__file__).parents[2] / "docs" / "board-api.md").read_text()
    for route in ROUTES:
        assert f"`GET {route.path}`" in page
        for parameter in route.all_parameters:
            assert f"`{parameter.name}`" in page
    for member in member_names(list(SCHEMAS.values())):
        assert f"`{member}`" in page, member


def test_the_description_names_every_question_and_parameter():
    description = describe("1", protected=True)
    assert set(description["paths"]) == {route.path for route in ROUTES} | {"/api/v1/events"}
    for route in ROUTES:
        operation = description["paths"][route.path]["get"]
        names = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
        assert names == [parameter.name for parameter in route.all_parameters]
    assert description["security"] == [{"token": []}]
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_a_board_needs_no_faust():
    code = "import sys, aggregator.board.command; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_thresholds_keep_their_kind():
    request = [
        Parameters([("threshold", text)], BY_NAME["heavy-hitters"].all_parameters)
        for text in ("significance", "0.5", "20")
    ]
    kinds = [lookup.threshold(row, HOMEPAGE) for row in request]
    assert kinds == [Threshold("significance"), Threshold("share", 0.5), Threshold("count", 20.0)]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_number_outside_its_limits_is_refused(crowd, route):
    board = store(crowd.messages)
    names = ["homepage"] if route.of_query else [""]
    for parameter in route.all_parameters:
        maximum = parameter.schema.get("maximum")
        for text in [] if maximum is None else [str(maximum + 1), "-1"]:
            request = [(parameter.name, text)] + [("value", "maps.example")] * (route.name in ("set", "history"))
            with pytest.raises(Problem, match=f"{parameter.name} must be"):
                route.answer.of(board, Parameters(request, route.all_parameters), *names)


def test_metrics_have_the_shares_of_the_newest_final_of_the_shortest_window(crowd):
    board = store(crowd.messages)
    families = text_string_to_metric_families(generate_latest(BoardMetrics(board).whole).decode())
    result = {
        family.name: {sample.labels["value"]: sample.value for sample in family.samples}
        for family in families
        if family.name.startswith(("hubbub_top", "hubbub_hitter"))
    }
    newest_latest = board.series("homepage").kinds[HOMEPAGE.windows[0]].latest
    assert newest_latest.span.end == START + 12 * PANE
    [part] = newest_latest.parts
    shares = dict(zip(part.values, part.shares["unbiased"], strict=True))
    top = sorted(shares, key=lambda value: -shares[value])[:10]
    _, low, high = first(part, 10)
    for name, numbers in ("share", part.shares["unbiased"]), ("share_low", low), ("share_high", high):
        assert result[f"hubbub_top_{name}"] == {value: numbers[part.values.index(value)] for value in top}
    assert (low <= part.low[:10]).all()
    proved_values = {hitter.value: shares[hitter.value] for hitter in part.hitters("unbiased") if hitter.decided}
    assert proved_values
    assert result["hubbub_hitter_share"] == proved_values


def test_metrics_compute_the_shares_of_a_final_once(crowd, monkeypatch):
    calls = []

    def count(part, top, before=value_records.intervals):
        calls.append(part)
        return before(part, top)

    monkeypatch.setattr(value_records, "intervals", count)
    board = store(crowd.messages)
    metrics = ShareMetrics(board)
    texts = [[family.samples for family in metrics.collect()] for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
    assert len(calls) == 1
    later_board = store([message for message in crowd.messages if f"|{START + 12 * PANE}" not in message[1].decode()])
    metrics._store = later_board
    assert [family.samples for family in metrics.collect()] != texts[0]
    assert len(calls) == 2


def test_metrics_have_the_age_of_the_newest_finals(crowd):
    board = store(crowd.messages)
    families = text_string_to_metric_families(generate_latest(BoardMetrics(board).registry).decode())
    result = {
        family.name: {s.labels["query"]: s.value for s in family.samples if "query" in s.labels} for family in families
    }
    assert result["hubbub_newest_final_age_seconds"] == {
        "homepage": pytest.approx(time.time() - START - 12 * PANE, abs=60),
        "profile": 0.0,  # before the first final
    }
    ages = {
        name: min(w.step or q.pane for w in q.windows) + q.lateness + PUBLISH_SECONDS
        for name, q in boards.QUERIES.items()
    }
    assert result["hubbub_expected_final_age_seconds"] == ages
    assert not [name for name in result if name.startswith(("hubbub_top", "hubbub_hitter"))]


@pytest.mark.parametrize(
    ("embedded", "seconds_ahead", "says"), [(True, 11, True), (True, 10, False), (False, 11, False)]
)
def test_a_clock_of_an_embedded_broker_that_is_ahead_is_told(embedded, seconds_ahead, says):
    """The status tells it, also if it is so far ahead that the board refuses it."""
    now = START + 60
    for further in (0, 10_000) if says else (0,):
        board = store(clock=lambda: now)
        closed_through = now + seconds_ahead + further - HOMEPAGE.lateness
        message = boards.status_message(HOMEPAGE, closed_through, None)
        with suppress(ReportError):
            feed(board, *message)
        follower = BoardFollower(Kafka("nowhere:1", "p.", embedded=embedded), board, Events(), BoardMetrics(board))
        notice = follower.state()["notice"]
        assert (notice is not None) == says
        assert not says or f"{seconds_ahead + further} s ahead" in notice
