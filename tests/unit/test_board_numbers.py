"""The API answers questions about numbers from the records: quantiles, ranges, the distribution, histories, changes."""

import asyncio
import math
from itertools import chain
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from aiohttp.test_utils import make_mocked_request

from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import Reply
from aggregator.board.server import server
from aggregator.board.server.guard import AccessRule
from aggregator.records.decoder import decode
from hubbub.definitions import catalog
from hubbub.http.problem import Problem
from oracles.numbers import Numbers, Scale
from oracles.query import File
from oracles.readable import readable_below
from tests.boards import FRESH, HOMEPAGE, LOAD_TIME, NUMBERS, PANE, START, VISIT, Crowd, NumberCrowd, withheld
from tests.queries import make_queries, make_table
from tests.unit.test_board_store import BY_NAME, ask, problem, store

PANES, SLOW_FROM = 8, 5
FIRST, LAST = START + PANE, START + PANE * PANES
ALL = ("mean", "geometric_mean", "p50", "p95", "slow")


@pytest.fixture(scope="module")
def crowd():
    crowd = NumberCrowd(LOAD_TIME, clients=50_000, surge=SLOW_FROM)
    crowd.messages = [*chain.from_iterable(crowd.next() for _ in range(PANES))]
    return crowd


@pytest.fixture(scope="module")
def board(crowd):
    return store(crowd.messages, queries=NUMBERS)


def numbers_of(crowd, pane):
    """Return the distribution that the tally of a pane shows."""
    snapshot = crowd.snapshots[pane]
    return Numbers(LOAD_TIME.oracle.estimate(snapshot.counts, snapshot.n), LOAD_TIME.domain.scale)


def near(quantity):
    return [pytest.approx(number, rel=1e-5) for number in quantity]


def test_any_quantile_is_that_of_the_tally(crowd, board):
    numbers = numbers_of(crowd, PANES - 1)
    answer = ask(board, "quantiles", "load_time")
    assert [row["name"] for row in answer["quantiles"]] == ["p50", "p90", "p95", "p99"]
    least = readable_below(LOAD_TIME.only_oracle.row_draws)
    assert answer["readable_below"] == ask(board, "cdf", "load_time")["readable_below"] == least
    (row,) = ask(board, "quantiles", "load_time", p="0.123")["quantiles"]
    for each in [row, *answer["quantiles"]]:
        assert [each["value"], each["low"], each["high"]] == near(numbers.quantile(each["p"]))
        assert each["low"] <= each["truth"] <= each["high"]
    assert answer["unit"] == "ms"
    assert answer["n"] == 50_000
    pairs = [("p", "0.75"), ("p", "0.25"), ("window", str(FIRST))]
    request = Parameters(pairs, BY_NAME["quantiles"].all_parameters)
    rows = BY_NAME["quantiles"].answer.of(board, request, "load_time").rows
    assert [row.name for row in rows] == ["p75", "p25"]
    assert [rows[0].value, rows[0].low, rows[0].high] == near(numbers_of(crowd, 0).quantile(0.75))


def test_any_range_is_that_of_the_tally(crowd, board):
    numbers = numbers_of(crowd, PANES - 1)
    for start, end in [(100, 500.5), (-5, 10**9), (1000, 60_000)]:
        (row,) = ask(board, "range", "load_time", **{"from": start, "to": end})["ranges"]
        expected = numbers.range(start, end)
        keys = ("from", "to", "share", "stderr", "low", "high")
        assert [row[key] for key in keys] == [pytest.approx(number, rel=1e-5, abs=1e-7) for number in expected]
        assert row["low"] - 1e-12 <= row["truth"] <= row["high"] + 1e-12
    assert ask(board, "range", "load_time", **{"from": 1000})["ranges"][0]["share"] == row["share"]
    (slow_range,) = ask(board, "range", "load_time")["ranges"]
    assert {**slow_range, "name": None} == row
    assert ask(board, "range", "load_time", name="slow")["ranges"] == [slow_range]
    table = BY_NAME["range"].answer.of(board, Parameters([], BY_NAME["range"].all_parameters), "load_time")
    head = Reply.csv(table.columns, table.rows).body.decode().splitlines()[0]
    assert head == "name,from,to,share,stderr,low,high,truth,may_be_zero,weak"


def test_the_distribution_is_that_of_the_tally(crowd, board):
    numbers = numbers_of(crowd, PANES - 1)
    answer = ask(board, "cdf", "load_time")
    low, high = numbers.band()
    columns = {key: [step[key] for step in answer["steps"]] for key in answer["steps"][0]}
    assert columns["number"] == LOAD_TIME.domain.scale.edges[1:].tolist()
    for key, expected in (("share", numbers.cdf), ("low", low), ("high", high)):
        assert columns[key] == pytest.approx(expected.tolist(), abs=1e-6)
    is_covered = [step["low"] <= step["truth"] <= step["high"] for step in answer["steps"]]
    assert np.mean(is_covered) > 0.9
    assert answer["steps"][-1]["share"] == 1.0
    assert answer["steps"][-1]["truth"] == 1.0


def without_weak(fields):
    """Return the fields of a record, without what the API adds about how they are shown."""
    if not isinstance(fields, dict):
        return fields
    return {name: without_weak(value) for name, value in fields.items() if name != "weak"}


def test_an_estimate_has_the_histogram_and_the_numbers_of_the_record(crowd, board):
    answer = ask(board, "estimate", "load_time")
    record = decode(crowd.result(crowd_span(crowd)).window.records[0][1])
    fields = record.rest()["numbers"]
    assert without_weak(answer["numbers"]) == {name: value for name, value in fields.items() if name != "cdf"}
    assert len(answer["values"]) == answer["published"] == 32
    assert [row["share"] for row in answer["values"]] == fields["histogram"]["shares"]
    assert answer["values"][0]["value"].startswith("10.0..")
    assert answer["methods"] == ["unbiased", "norm_sub"]
    smooth = ask(board, "estimate", "load_time", method="norm_sub")["values"]
    assert [row["share"] for row in smooth] == fields["histogram"]["norm_sub"]
    assert sum(row["truth"] for row in smooth) == pytest.approx(1.0)
    assert answer["error"]["covered"] >= 26
    full_values = [row for row in answer["values"] if row["truth"] > 0.05]
    empty_values = [row for row in answer["values"] if row["truth"] == 0]
    assert full_values
    assert all(row["present"] for row in full_values)
    assert not any(row["present"] for row in empty_values)


def test_an_estimate_has_the_truth_of_each_answer(crowd, board):
    answer = ask(board, "estimate", "load_time")
    assert [*answer["truths"]] == ["p50", "p90", "p95", "p99", "mean", "geometric_mean", "slow"]
    for name, truth in answer["truths"].items():
        (*_, point) = ask(board, "history", "load_time", value=name)["points"]
        assert truth == point["truth"]
    fields = answer["numbers"]
    for name in ("mean", "geometric_mean"):
        assert fields[name]["low"] < answer["truths"][name] < fields[name]["high"]
    real = store([message for message in crowd.messages if message[0] != "truth"], queries=NUMBERS)
    assert ask(real, "estimate", "load_time")["truths"] is None


def crowd_span(crowd):
    windows = [window for window in LOAD_TIME.windows if window.kind == "tumbling"]
    return decode(crowd.messages[-2][2]).span._replace(window=windows[0], start=LAST - PANE, end=LAST)


@pytest.mark.parametrize("name", [*ALL, "p97.5"])
def test_a_history_has_one_answer_in_each_window(crowd, board, name):
    answer = ask(board, "history", "load_time", value=name)
    assert answer["measure"] == ("share" if name == "slow" else "number")
    assert answer["unit"] == "ms"
    for pane, point in enumerate(answer["points"]):
        numbers = numbers_of(crowd, pane)
        expected = {
            "mean": numbers.mean,
            "geometric_mean": numbers.geometric_mean,
            "slow": lambda n=numbers: n.range(1000, 60_000)[2:3] + n.range(1000, 60_000)[4:],
        }.get(name, lambda n=numbers: n.quantile(float(name[1:]) / 100))()
        assert [point["share"], point["low"], point["high"]] == near(expected)
        assert point["truth"] is not None
    is_covered = [point["low"] <= point["truth"] <= point["high"] for point in answer["points"]]
    assert sum(is_covered) >= PANES - 1
    if name in ("p50", "geometric_mean", "slow"):
        assert answer["points"][-1]["low"] > answer["points"][0]["high"]


def test_two_windows_have_differences_with_intervals_and_proofs(board):
    far = ask(board, "compare", "load_time", **{"from": FIRST, "to": LAST})
    assert [row["value"] for row in far["values"]] == ["p50", "p90", "p95", "p99", "mean", "geometric_mean", "slow"]
    assert [row["measure"] for row in far["values"]] == ["number"] * 6 + ["share"]
    by_name = {row["value"]: row for row in far["values"]}
    assert all(by_name[name]["proved"] for name in ("p50", "p90", "geometric_mean", "slow"))
    for row in far["values"]:
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["difference"] == pytest.approx(row["after"] - row["before"], rel=1e-5, abs=1e-5)
    assert by_name["p50"]["low"] < math.exp(6.3) < by_name["p50"]["high"], "the median has doubled"
    near_by = ask(
        board, "compare", "load_time", **{"from": FIRST + PANE, "to": FIRST + 3 * PANE, "values": "p50,p99.9,slow"}
    )
    assert [row["value"] for row in near_by["values"]] == ["p50", "p99.9", "slow"]
    assert near_by["proofs"] == 0
    assert near_by["unit"] == "ms"


def test_the_overview_has_the_first_quantile(board):
    (row,) = [row for row in ask(board, "overview")["queries"] if row["name"] == "load_time"]
    (median,) = ask(board, "quantiles", "load_time", p="0.5")["quantiles"]
    assert row["value"] == "p50"
    assert row["measure"] == "number"
    assert row["unit"] == "ms"
    assert row["level"] == 0.95
    assert [row[key] for key in ("share", "low", "high")] == [median[key] for key in ("value", "low", "high")]


def test_the_list_of_queries_has_the_scale_of_numbers(board):
    queries = {row["name"]: row for row in ask(board, "queries")["queries"]}
    (answer,) = queries["load_time"]["attributes"]
    names = ["p50", "p90", "p95", "p99"]
    scale = {"low": 10.0, "high": 60_000.0, "scale": "log", "bins": 256, "unit": "ms"}
    assert answer["numbers"] == {**scale, "quantiles": names, "ranges": {"slow": [1000.0, 60_000.0]}}
    assert [query["numbers"] is None for query in queries["visit"]["attributes"]] == [False, True]


def test_an_attribute_of_several_may_be_numbers():
    crowd = NumberCrowd(VISIT, clients=40_000)
    board = store([*chain.from_iterable(crowd.next() for _ in range(2))], queries=NUMBERS)
    (median,) = ask(board, "quantiles", "visit", attribute="age", p="0.5")["quantiles"]
    assert median["low"] <= 40.0 <= median["high"]
    assert ask(board, "quantiles", "visit")["attribute"] == "age"
    assert ask(board, "estimate", "visit", attribute="sex")["numbers"] is None
    assert problem(board, "quantiles", "visit", attribute="sex") == 400
    assert ask(board, "range", "visit", name="adult")["ranges"][0]["share"] > 0.9
    assert ask(board, "history", "visit", value="mean")["unit"] == "years"
    ends = {"from": FIRST, "to": FIRST + PANE}
    names = [row["value"] for row in ask(board, "compare", "visit", **ends)["values"]]
    assert names == ["p50", "p90", "p95", "p99", "mean", "adult"]
    assert ask(board, "compare", "visit", attribute="sex", **ends)["values"][0]["measure"] == "share"


FINE_SCALE = {"low": 1, "high": 60000, "bins": 16384, "scale": "log", "unit": "ms"}
FINE_RANGES = {"middle": [300, 700], "narrow": [500, 503], "slow": [1000, 60000]}
FINE_TABLE = make_table(FRESH, domain=FINE_SCALE, ranges=FINE_RANGES, epsilon=4.0, windows=[f"{PANE}s"])
FINE = make_queries({"latency": FINE_TABLE})


@pytest.fixture(scope="module")
def fine():
    """Return the board of a query with more bins than a record has steps."""
    crowd = NumberCrowd(FINE["latency"], clients=20_000, surge=1)
    return store([*chain.from_iterable(crowd.next() for _ in range(2))], queries=FINE)


def test_ranges_of_the_query_are_those_of_the_record_however_many_bins(fine):
    expected = ask(fine, "estimate", "latency")["numbers"]["ranges"]
    rows = ask(fine, "range", "latency")["ranges"]
    assert {row["name"]: {key: row[key] for key in expected["slow"]} for row in rows} == expected
    assert [ask(fine, "range", "latency", name=row["name"])["ranges"] for row in rows] == [[row] for row in rows]
    truths = ask(fine, "estimate", "latency")["truths"]
    assert {row["name"]: row["truth"] for row in rows} == {name: truths[name] for name in expected}
    for row in rows:
        assert abs(row["share"] - row["truth"]) <= 5.2 * row["stderr"], "more comes by chance in less than 1e-6"


def test_a_range_that_ends_below_its_start_is_refused_for_this_reason(fine):
    for start, end in [(100, 50), (700, 700)]:
        with pytest.raises(Problem, match=f"from must be below to, got {start} and {end}"):
            ask(fine, "range", "latency", **{"from": start, "to": end})
    with pytest.raises(Problem, match="from must be below to, got 90000 and 60000"):
        ask(fine, "range", "latency", **{"from": 90_000})


def test_the_truth_of_a_range_is_between_the_edges_that_the_answer_names(fine):
    (row,) = ask(fine, "range", "latency", **{"from": 300, "to": 700})["ranges"]
    times = FINE["latency"].domain.scale.edges
    assert {row["from"], row["to"]} <= set(times[::16].tolist())
    (same_range,) = ask(fine, "range", "latency", **{"from": row["from"], "to": row["to"]})["ranges"]
    assert same_range == row
    with pytest.raises(Problem, match="no whole step; a record has 1,024 steps for 16,384 bins"):
        ask(fine, "range", "latency", **{"from": 500, "to": 501})


def test_a_comparison_has_the_numbers_of_both_records_however_many_bins(fine):
    ends = {"from": FIRST, "to": FIRST + PANE}
    answer = ask(fine, "compare", "latency", **ends)
    names = [row["value"] for row in answer["values"]]
    assert names == ["p50", "p90", "p95", "p99", "mean", "geometric_mean", "middle", "narrow", "slow"]
    for row in answer["values"]:
        points = ask(fine, "history", "latency", value=row["value"])["points"]
        assert [row["before"], row["after"]] == [point["share"] for point in points]
        assert row["difference"] == pytest.approx(row["after"] - row["before"], rel=1e-6)
        assert row["low"] <= row["difference"] <= row["high"]
    assert {row["value"] for row in answer["values"] if row["proved"]} >= {"p50", "geometric_mean", "slow"}
    (narrow_value,) = ask(fine, "compare", "latency", **ends, values="narrow")["values"]
    assert narrow_value == next(row for row in answer["values"] if row["value"] == "narrow")


def test_a_withheld_window_has_no_numbers(crowd):
    messages = [
        withheld(message) if message[0] == "estimates" and decode(message[2]).span.end > FIRST else message
        for message in crowd.messages
    ]
    board = store(messages, queries=NUMBERS)
    for question, table in (("quantiles", "quantiles"), ("range", "ranges"), ("cdf", "steps")):
        answer = ask(board, question, "load_time", window=LAST)
        assert answer["n"] == 0
        assert answer["withheld_reason"] == "small"
        numbers = {value for row in answer[table] for key, value in row.items() if key in ("value", "share", "truth")}
        assert numbers <= {None}
    assert ask(board, "quantiles", "load_time")["window"]["end"] == FIRST
    estimate = ask(board, "estimate", "load_time", window=LAST)
    assert estimate["numbers"] is None
    assert estimate["values"] == []
    assert estimate["error"] is None
    points = ask(board, "history", "load_time", value="p95")["points"]
    assert [point["share"] is None for point in points] == [False] + [True] * (PANES - 1)
    assert [point["truth"] is None for point in points] == [False] + [True] * (PANES - 1)
    answer = ask(board, "compare", "load_time", **{"from": FIRST, "to": LAST})
    assert answer["values"] == []
    assert answer["after"]["withheld"] == "small"


def test_a_retired_query_answers_as_before(crowd):
    board = store(crowd.messages, queries=NUMBERS)
    earlier_answer = ask(board, "quantiles", "load_time")
    for write in catalog.changes(File({"visit": VISIT}), board.definitions, ["load_time"], "1" * 16).writes:
        board.define(*write, 0)
    assert {row["name"]: row["retired"] for row in ask(board, "queries")["queries"]}["load_time"]
    assert ask(board, "quantiles", "load_time") == earlier_answer


@pytest.mark.parametrize(
    ("status", "question", "parameters"),
    [
        (400, "quantiles", {"p": "0"}),
        (400, "quantiles", {"p": "1"}),
        (400, "quantiles", {"p": "nan"}),
        (400, "quantiles", {"p": "p95"}),
        (400, "quantiles", {"method": "norm_sub"}),
        (400, "range", {"from": "1000", "to": "1000"}),
        (400, "range", {"from": "500", "to": "100"}),
        (400, "range", {"from": "nan"}),
        (400, "range", {"to": "inf"}),
        (400, "range", {"from": "5", "name": "slow"}),
        (404, "range", {"name": "fast"}),
        (400, "estimate", {"values": "p95"}),
        (400, "estimate", {"method": "calibrate"}),
        (400, "heavy-hitters", {}),
        (400, "set", {"values": "500"}),
        (404, "history", {"value": "812.4"}),
        (404, "history", {"value": "p100"}),
        (404, "compare", {"from": FIRST, "to": LAST, "values": "news.example"}),
    ],
)
def test_a_wrong_question_about_numbers_is_refused(board, status, question, parameters):
    assert problem(board, question, "load_time", **parameters) == status


@pytest.mark.parametrize("question", ["quantiles", "range", "cdf", "estimate", "history", "compare"])
def test_every_answer_about_numbers_has_a_table(board, question):
    more = {"history": [("value", "p95")], "compare": [("from", str(FIRST)), ("to", str(LAST))]}
    route = BY_NAME[question]
    table = route.answer.of(board, Parameters(more.get(question, []), route.all_parameters), "load_time")
    rows = Reply.csv(table.columns, table.rows).body.decode().splitlines()
    assert rows[0] == ",".join(table.columns)
    assert len(rows) == len(table.rows) + 1 > 1


@pytest.mark.parametrize("question", ["quantiles", "range", "cdf"])
def test_values_have_no_quantiles(question):
    crowd = Crowd(HOMEPAGE, clients=1_000)
    assert problem(store(list(crowd.next())), question, "homepage") == 400


def test_the_windows_of_a_history_share_one_scale(crowd, monkeypatch):
    """The exact edges take a hundredth of a second, so 500 windows of their own would take five seconds."""
    calls, edges = [], Scale.edges.func
    monkeypatch.setattr(Scale.edges, "func", lambda scale: calls.append(scale) or edges(scale))
    ask(store(crowd.messages, queries=NUMBERS), "history", "load_time", value="p61.8")
    assert len(calls) <= 3, "one for the records, and one for each attribute of a definition"


TOKEN = {"Authorization": "Bearer t"}


def test_a_long_history_lets_the_event_loop_turn(board, monkeypatch):
    """A quantile that no record has is computed from the distribution of each window."""
    monkeypatch.setattr(server, "SLICE", 0.0)
    handler = server._answer_handler(BY_NAME["history"], board, SimpleNamespace(missing=None), AccessRule("t", "host"))
    request = make_mocked_request("GET", "/?value=p97.5", TOKEN, match_info={"query": "load_time"})
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def history():
        counter = asyncio.create_task(count_turns())
        response = await handler(request)
        counter.cancel()
        return response

    answer = orjson.loads(asyncio.run(history()).body)
    assert turns >= PANES - 1
    assert answer == ask(board, "history", "load_time", value="p97.5")
    assert len(answer["points"]) == PANES
