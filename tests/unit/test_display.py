"""Numbers that say too little are shown in words: crowds of every size and kind, by the API and the terminal."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from aggregator.reading.tail.overview import Overview
from aggregator.records.display import is_weak_number, is_weak_share, may_be_zero, proves_nothing
from aggregator.records.needed_people import needed_people, people
from oracles.numbers import Scale
from tests import boards
from tests.boards import START, Crowd, GroupCrowd, NumberCrowd
from tests.queries import make_queries, make_table
from tests.string_crowds import CRASHES, HOUR, STRINGS, StringCrowd
from tests.unit.test_board_store import ask, store

TABLE = make_table(crowd=1, budget=1e9, windows=["10s"])
SMP = {"attributes": {"app": 4, "os": 3}, "pairs": [["app", "os"]], "solution": "smp"}
TABLES = {
    "values": make_table(TABLE, domain=["a", "b", "c", "d", "e"]),
    "numbers": make_table(TABLE, domain={"low": 10, "high": 60_000, "bins": 64, "scale": "log", "unit": "ms"}),
    "groups": make_table(TABLE, domain=["a", "b", "c"], groups={"platform": ["ios", "android", "web"]}),
    "pairs": make_table(TABLE | SMP),
}
QUERIES = {**make_queries(TABLES, edition=2), "names": CRASHES}
SIZES = (1, 20, 55, 500, 50_000)


class PairCrowd(Crowd):
    """People with two answers each. A pair has no answer of its own."""

    def answers(self, pane):
        return np.column_stack([self.rng.integers(0, size, self.clients) ** 2 // size for size in (4, 3)])

    def _truth(self, pane, values):
        return b"", b""


class FewGroups(GroupCrowd):
    def __init__(self, query, clients):
        super().__init__(query)
        self.clients_by_group = (0, clients - clients // 2, clients // 2, 0)


def messages_of(kind, clients):
    if kind == "names":
        return StringCrowd(START // HOUR * HOUR, clients).next()
    crowds = {"values": Crowd, "numbers": NumberCrowd, "groups": FewGroups, "pairs": PairCrowd}
    return [message for message in crowds[kind](QUERIES[kind], clients=clients).next() if message[0] == "estimates"]


CASES = [*product(TABLES, SIZES), *product(["names"], SIZES)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def crowd(request):
    """Return the kind and size of a crowd, its messages, and a board that has them."""
    kind, clients = request.param
    messages = messages_of(kind, clients)
    name = QUERIES[kind].name
    return kind, name, messages, store(messages, queries={**boards.QUERIES, **STRINGS, name: QUERIES[kind]})


def test_the_overview_names_only_what_is_proved(crowd):
    kind, name, _, board = crowd
    (row,) = [row for row in ask(board, "overview")["queries"] if row["name"] == name]
    if row["nothing_proved"]:
        assert {row[key] for key in ("value", "share", "low", "high", "level")} == {None}
        assert row["people_for_10_percent"] == needed_people(QUERIES[kind], 0)
        assert row["nothing_text"].startswith(f"{row['n']:,} report{'' if row['n'] == 1 else 's'}: nothing can be told")
    elif kind == "numbers":
        assert not is_weak_number(row["value"], row["low"], row["high"], QUERIES[kind].domain.scale)
    elif row["n"] is None:
        assert row["nothing_proved"] is None, "the only person has answered about another attribute"
    else:
        assert row["low"] > 0.0
    estimate = ask(board, "estimate", name)
    assert [estimate[key] for key in NOTHING] == [row[key] for key in NOTHING]


NOTHING = ("nothing_proved", "people_for_10_percent", "nothing_text")


def test_a_row_says_whether_it_is_weak(crowd):
    kind, name, _, board = crowd
    estimate = ask(board, "estimate", name, top=20)
    for row in estimate["values"]:
        low, high = row["low"], row["high"]
        assert row["may_be_zero"] == (low is not None and low <= 0.0 <= high)
        assert row["weak"] == (row["may_be_zero"] and high > 0.5)
    if kind == "numbers":
        scale = QUERIES[kind].domain.scale
        for answer in ask(board, "quantiles", name)["quantiles"]:
            width = 0.0 if answer["low"] is None else math.log(answer["high"] / answer["low"])
            assert answer["weak"] == (width > math.log(scale.high / scale.low) / 2.0)


def test_the_terminal_shows_words_in_place_of_weak_numbers(crowd):
    _, name, messages, board = crowd
    estimate = ask(board, "estimate", name, top=5)
    overview = Overview()
    for key, value, time in definitions(name):
        overview.define(key, value, time)
    lines = [
        summary.line(5)
        for topic, _, value in messages
        if topic == "estimates"
        for summary in overview.add_record(value)
        if summary.heading.attribute == estimate["attribute"] and summary.n == estimate["n"]
    ]
    line = lines[-1]
    assert (estimate["nothing_text"] or "NONE") in line or not estimate["nothing_proved"]
    for amount in percentages(line):
        assert 0.0 <= amount <= 100.0


def definitions(name):
    query = next(query for query in QUERIES.values() if query.name == name)
    return [(key, value, 0) for topic, key, value in boards.definition_messages({name: query}) if topic == "queries"]


def percentages(line):
    """Return the shares that a line shows, without the levels of intervals and the errors."""
    rows = line.rpartition(": ")[2].partition(";")[0]
    return [float(word.strip("(),%")) for word in rows.split() if word.strip("(),").endswith("%")]


@pytest.mark.parametrize("name", ["values", "pairs"])
def test_so_many_people_show_a_share_of_a_tenth(name):
    query = QUERIES[name]
    need = needed_people(query, 0)
    view = query.attribute_oracles[0]
    sampled = query.solution == "smp"
    part = len(query.attributes) if sampled else 1
    assert need == people(view, 0.1, query.family_error, sampled=sampled) * part
    assert view.detectable(need // part, query.family_error, sampled=sampled) <= 0.101
    assert view.detectable(need // part * 9 // 10, query.family_error, sampled=sampled) > 0.1


def test_a_mean_that_leaves_its_scale_is_weak():
    scale = Scale(0.0, 100.0, 64)
    assert not is_weak_number("mean", 40.0, 60.0, scale)
    assert is_weak_number("mean", -1.0, 20.0, scale)
    assert is_weak_number("mean", 10.0, 61.0, scale)
    assert is_weak_number("p50", 10.0, 61.0, scale)
    assert not is_weak_number("p50", 0.0, 50.0, scale)
    log = replace(scale, low=1.0, kind="log")
    assert not is_weak_number("p50", 1.0, 9.0, log)
    assert is_weak_number("p50", 1.0, 11.0, log)
    assert not is_weak_number("mean", 1.0, 11.0, log)


def test_a_share_is_weak_if_its_interval_holds_zero_and_most_of_the_rest():
    assert may_be_zero(0.0, 0.4)
    assert not is_weak_share(0.0, 0.5)
    assert is_weak_share(0.0, 0.51)
    assert not is_weak_share(0.01, 0.9)
    assert not may_be_zero(None, None)


def test_a_wide_interval_outside_of_all_shares_is_weak():
    # Cut to 0 and 1, it would be a point, and read as a share of exactly 100% or 0%.
    assert is_weak_share(1.5, 9.0)
    assert is_weak_share(-9.0, -1.5)
    assert proves_nothing("(other)", 1.5, 9.0, None)
    # A value that all people have may lie narrowly above 1 by chance.
    assert not is_weak_share(1.01, 1.05)
    assert not proves_nothing("(other)", 1.01, 1.05, None)
    assert may_be_zero(-0.05, -0.01)
    assert not may_be_zero(-5.0, -1.0, "number")
