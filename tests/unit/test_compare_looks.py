"""The API says how often a comparison may be read, and compares two groups since the start for every look."""

from itertools import chain

import pytest

from aggregator.reading.export.reader import difference_table, pair_filter
from aggregator.records.decoder import decode
from oracles.errors import ParameterError
from oracles.estimate.looks import EVERY_LOOK
from tests.boards import FRESH, GROUPED, LOADS, PANE, PLATFORMS, START, GroupCrowd
from tests.queries import make_queries
from tests.unit.test_board_store import ask, problem, store

WINDOWS = ["10s", "all"]
QUERIES = make_queries(
    {"screens": GROUPED | FRESH | {"windows": WINDOWS}, "load": LOADS | {"groups": PLATFORMS, "windows": WINDOWS}}
)
PAIR = {"group": "ios", "with": "android"}
PANES = 3


@pytest.fixture(scope="module")
def messages():
    crowds = [GroupCrowd(query) for query in QUERIES.values()]
    return [*chain.from_iterable(crowd.next() for _ in range(PANES) for crowd in crowds)]


@pytest.fixture(scope="module")
def board(messages):
    return store(messages, queries=QUERIES)


@pytest.mark.parametrize("query", QUERIES)
def test_groups_since_the_start_are_compared_for_every_look(board, query):
    always = ask(board, "compare", query, kind="all", **PAIR)
    one = ask(board, "compare", query, kind="all", looks="one", **PAIR)
    assert (always["looks"], one["looks"]) == ("always", "one")
    law = EVERY_LOOK.law(9_000 * PANES, 4_000 * PANES)
    assert always["width"] == pytest.approx(law.width(always["level"]))
    assert one["width"] == 1.0
    assert 0 < always["proofs"] <= one["proofs"]
    for wide, narrow in zip(always["values"], one["values"], strict=True):
        assert wide["p_value"] >= narrow["p_value"]
        assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]
    assert ask(board, "compare", query, kind="all", looks="always", **PAIR) == always
    assert always["family_error"] == one["family_error"]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(
    "pair",
    [
        {"kind": "tumbling", **PAIR},
        {"kind": "tumbling", "from": START + PANE, "to": START + 2 * PANE},
        {"kind": "all", "from": START + PANE, "to": START + 3 * PANE},
    ],
    ids=["groups", "windows", "windows since the start"],
)
def test_other_comparisons_hold_for_a_day_and_keep_their_intervals(board, query, pair):
    day = ask(board, "compare", query, **pair)
    one = ask(board, "compare", query, looks="one", **pair)
    assert (day["looks"], day["width"]) == ("day", 1.0)
    # A day has 8,640 windows of ten seconds, or finals of windows since the start.
    strict = ask(board, "compare", query, looks="one", family_error=day["family_error"] / 8_640, **pair)
    assert [row["proved"] for row in day["values"]] == [row["proved"] for row in strict["values"]]
    for row, other in zip(day["values"], one["values"], strict=True):
        ends = ("low", "high")
        assert row["p_value"] == other["p_value"]
        # An end of a proved change is cut at 0.
        assert all(row[end] == other[end] or (other["proved"] and other[end] == 0.0) for end in ends)
    assert problem(board, "compare", query, looks="always", **pair) == 400
    assert problem(board, "compare", query, looks="twice", **pair) == 400


@pytest.mark.parametrize("query", QUERIES)
def test_reading_in_python_chooses_the_same_looks(messages, board, query):
    records = [decode(value) for topic, _, value in messages if topic == "estimates"]
    pair = ("ios", "android")
    groups = [record for record in filter(pair_filter(pair), records) if record.query == query]
    table = difference_table(groups, pair, QUERIES[query].family_error).to_dicts()
    assert {(row["kind"], row["looks"]) for row in table} == {("tumbling", "day"), ("all", "always")}
    answer = ask(board, "compare", query, kind="all", **PAIR)
    last = [row for row in table if (row["kind"], row["to"]) == ("all", START + PANES * PANE)]
    assert [{name: row[name] for name in answer["values"][0]} for row in last] == answer["values"]
    assert {row["width"] for row in last} == {answer["width"]}
    with pytest.raises(ParameterError, match="windows of kind all"):
        difference_table(groups, pair, 0.05, looks="always")


def test_two_windows_since_the_start_have_a_look_each_pane(messages, board):
    records = [decode(value) for topic, _, value in messages if topic == "estimates"]
    pair = START + PANE, START + 3 * PANE
    windows = [row for row in filter(pair_filter(pair, kind="all"), records) if row.query == "screens"]
    digest = QUERIES["screens"].digest.hex()
    table = difference_table(windows, pair, QUERIES["screens"].family_error, pane_of={digest: PANE}).to_dicts()
    answer = ask(board, "compare", "screens", kind="all", **dict(zip(("from", "to"), pair, strict=True)))
    by_value = {row["value"]: row["proved"] for row in answer["values"]}
    assert {row["value"]: row["proved"] for row in table} == by_value


@pytest.mark.parametrize("pair", [(1,), (1, 2, 3), ("ios", 3), (3, "ios")])
def test_a_comparison_needs_two_ends_or_two_groups(pair):
    with pytest.raises(ParameterError, match="the ends of two windows, or the names of two groups"):
        pair_filter(pair)
