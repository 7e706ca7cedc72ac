"""The API answers by group: the same routes for each group, all groups side by side, and the difference of two."""

import unicodedata
from itertools import chain, product

import numpy as np
import orjson
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.board.answers.parameters import Parameters
from aggregator.board.server import metrics
from aggregator.board.server.metrics import BoardMetrics
from aggregator.reading.export.reader import difference_table, pair_filter
from aggregator.records.decoder import decode
from hubbub.http.problem import Problem
from oracles.errors import ReportError
from oracles.estimate.changes import compare
from oracles.estimate.intervals import listed_level
from tests.boards import GROUPS, HOMEPAGE, LOAD, PANE, SCREENS, START, Crowd, GroupCrowd
from tests.queries import make_queries
from tests.unit.test_board_store import BY_NAME, ask, feed, problem, store

PANES = 7
LAST = START + PANE * PANES
LABELS = ["ios", "android", "web"]
CLIENTS = dict(zip(["(none)", *LABELS], GroupCrowd.clients_by_group, strict=True))


@pytest.fixture(scope="module")
def crowds():
    crowds = [GroupCrowd(SCREENS), GroupCrowd(LOAD)]
    for crowd in crowds:
        crowd.messages = [*chain.from_iterable(crowd.next() for _ in range(PANES))]
    return crowds


@pytest.fixture(scope="module")
def board(crowds):
    return store([*chain.from_iterable(crowd.messages for crowd in crowds)], queries=GROUPS)


def records(crowd, end=LAST, size=PANE):
    """Return the records of a window by their group. None is the total."""
    parts = [decode(value) for topic, _, value in crowd.messages if topic == "estimates"]
    return {part.group: part for part in parts if (part.span.end, part.span.window.size) == (end, size)}


def test_a_group_has_its_own_answers_and_without_it_they_are_those_of_the_total(crowds, board):
    by_group = records(crowds[0])
    for group in (None, *LABELS):
        parameters = {} if group is None else {"group": group}
        answer = ask(board, "estimate", "screens", **parameters)
        assert answer["group"] == (None if group is None else {"platform": group})
        assert answer["n"] == by_group[group].n == (15_000 if group is None else CLIENTS[group])
        shares = {row["value"]: row["unbiased"] for row in answer["values"]}
        assert shares == dict(zip(by_group[group].values, by_group[group].shares["unbiased"].tolist(), strict=True))
        (*_, point) = ask(board, "history", "screens", value="cart", **parameters)["points"]
        assert point["share"] == shares["cart"]
        (*_, window) = ask(board, "windows", "screens", **parameters)["windows"]
        assert window["n"] == answer["n"]
    remaining_answer = ask(board, "estimate", "screens", group="(none)")
    assert remaining_answer["withheld_reason"] == "small"
    assert remaining_answer["values"] == []
    assert ask(board, "quantiles", "load", group="android")["quantiles"][0]["value"] > 700
    assert ask(board, "quantiles", "load", group="ios")["quantiles"][0]["value"] < 700


@pytest.mark.parametrize("question", ["estimate", "quantiles", "range", "cdf", "set", "heavy-hitters", "history"])
def test_every_route_of_a_query_takes_a_group(question):
    assert "group" in [parameter.name for parameter in BY_NAME[question].parameters]


def test_an_unknown_group_is_refused(board):
    assert problem(board, "estimate", "screens", group="linux") == 404
    plain = store([*chain.from_iterable(crowd.next() for crowd in [Crowd(HOMEPAGE)])])
    assert problem(plain, "estimate", "homepage", group="ios") == 404
    assert problem(plain, "groups", "homepage") == 400
    (query,) = ask(plain, "queries")["queries"][:1]
    assert query["groups"] is None


def test_a_group_without_reports_is_told_from_a_query_without_finals():
    class Absent(GroupCrowd):
        clients_by_group = (30, 9_000, 4_000, 0)

    board = store([message for message in Absent(SCREENS).next() if b"web" not in message[1]], queries=GROUPS)
    assert ask(board, "estimate", "screens", group="ios")["n"] == 9_000
    with pytest.raises(Problem) as error_info:
        ask(board, "estimate", "screens", group="web")
    assert error_info.value.detail.startswith("no final window has reports of group 'web'")
    assert "web" not in [row["group"] for row in ask(board, "groups", "screens")["groups"]]


def test_a_history_has_the_truth_of_all_groups_together_alone():
    class Whole(GroupCrowd):
        clients_by_group = (300, 9_000, 4_000, 2_000)

    body = {"query": "screens", "digest": SCREENS.digest.hex(), "pane": START, "source": "test"}
    counts = [("truth", b"", orjson.dumps({**body, "counts": [10] * SCREENS.domain.size}))]
    for crowd, truth in ((Whole, 1 / 13), (GroupCrowd, None)):
        board = store([*crowd(SCREENS).next(), *counts], queries=GROUPS)
        assert [point["truth"] for point in ask(board, "history", "screens", value="cart")["points"]] == [truth]
        for group in LABELS:
            points = ask(board, "history", "screens", value="cart", group=group)["points"]
            assert [point["truth"] for point in points] == [None]


def test_records_of_unknown_groups_are_refused_and_hide_no_others(crowds):
    """A query may have 256 groups, and each of these records has a new one."""
    board = store(queries=GROUPS)
    (message,) = [each for each in GroupCrowd(SCREENS).next() if b"ios" in each[1]]
    record = orjson.loads(message[2])
    for number in range(300):
        with pytest.raises(ReportError, match="has no group"):
            feed(board, *message[:2], orjson.dumps({**record, "group": {"platform": f"strange-{number}"}}))
    for each in crowds[0].messages:
        feed(board, *each)
    assert ask(board, "estimate", "screens", group="ios")["n"] == 9_000


def test_the_list_of_queries_names_the_groups(board):
    by_name = {row["name"]: row["groups"] for row in ask(board, "queries")["queries"]}
    assert by_name["screens"] == {
        "name": "platform",
        "values": LABELS,
        "weights": {"ios": 0.28, "android": 0.72, "web": 0.0},
    }
    assert by_name["load"]["weights"] is None


def test_a_weighted_total_stands_beside_the_total(crowds, board):
    fields = records(crowds[0])[None].rest()["weighted"]
    answer = ask(board, "estimate", "screens", method="norm_sub")
    assert answer["by_weight"] == {"n_effective": fields["n_effective"], "weight": 1.0}
    places = {value: position for position, value in enumerate(records(crowds[0])[None].values)}
    for row in answer["values"]:
        at = places[row["value"]]
        assert row["by_weight"] == fields["shares"]["norm_sub"][at]
        assert [row["by_weight_low"], row["by_weight_high"]] == [fields["low"][at], fields["high"][at]]
    assert "partial_groups" in answer["quality"]["flags"], "a few answered without a platform"
    alone = ask(board, "estimate", "screens", group="ios")
    assert alone["by_weight"] is None
    assert {row["by_weight"] for row in alone["values"]} == {None}


def test_all_groups_stand_side_by_side_with_intervals_for_the_whole_page(crowds, board):
    answer = ask(board, "groups", "screens", top=4)
    assert answer["by"] == "platform"
    assert len(answer["names"]) == 4
    assert answer["names"] == [row["value"] for row in ask(board, "estimate", "screens", top=4)["values"]]
    assert {row["group"]: row["n"] for row in answer["groups"]} == CLIENTS | {"(none)": 0}
    assert [row["withheld"] for row in answer["groups"]] == [None, None, None, "small"]
    assert answer["level"] == listed_level(12, 13 * 3)
    assert [(row["group"], row["value"]) for row in answer["values"]] == [
        (group, name) for group, name in product(LABELS, answer["names"])
    ]
    for row in answer["values"]:
        part = records(crowds[0])[row["group"]]
        position = part.values.index(row["value"])
        assert row["share"] == part.shares["unbiased"][position]
        assert row["low"] < part.low[position]
        assert row["high"] > part.high[position]
    pair = ask(board, "groups", "screens", values="cart,help")
    assert pair["names"] == ["cart", "help"]
    assert pair["level"] == 0.95


def test_quantiles_stand_side_by_side(board):
    answer = ask(board, "groups", "load", values="p95,slow")
    assert [(row["value"], row["measure"]) for row in answer["values"][:2]] == [("p95", "number"), ("slow", "share")]
    for row in answer["values"]:
        if row["value"] == "p95":
            (quantile,) = ask(board, "quantiles", "load", group=row["group"], p="0.95")["quantiles"]
            assert [row["share"], row["low"], row["high"]] == [quantile[key] for key in ("value", "low", "high")]
    assert ask(board, "groups", "load")["names"][:2] == ["p50", "p90"]


def test_two_groups_of_one_window_are_compared(crowds, board):
    answer = ask(board, "compare", "screens", group="ios", **{"with": "android"})
    assert [answer[end]["group"]["platform"] for end in ("before", "after")] == ["ios", "android"]
    assert answer["before"]["window"] == answer["after"]["window"]
    assert answer["before"]["window"]["end"] == LAST
    assert not answer["overlap"]
    cart = answer["values"][0]
    assert cart["value"] == "cart"
    assert cart["proved"] is True
    assert cart["difference"] > 0.1
    ios, android = (records(crowds[0])[group] for group in ("ios", "android"))
    places = [[part.values.index(value) for value in ios.values] for part in (ios, android)]
    stderr = np.hypot(*(part.stderr[places] for part, places in zip((ios, android), places, strict=True)))
    by_value = {row["value"]: row for row in answer["values"]}
    assert [by_value[value]["stderr"] for value in ios.values] == pytest.approx(stderr.tolist(), rel=1e-5)
    reverse = ask(board, "compare", "screens", group="android", values="cart", **{"with": "ios"})
    assert reverse["values"][0]["difference"] == -cart["difference"]
    earlier_answer = ask(board, "compare", "screens", group="ios", window=START + PANE, **{"with": "web"})
    assert earlier_answer["before"]["window"]["end"] == START + PANE
    one_look = {"with": "android", "looks": "one"}
    median = ask(board, "compare", "load", group="ios", values="p50", **one_look)["values"][0]
    assert median["proved"]


@pytest.mark.parametrize("query", ["screens", "load"])
def test_a_comparison_of_groups_read_in_python_is_that_of_the_api(crowds, board, query):
    crowd = crowds[["screens", "load"].index(query)]
    pair = "ios", "android"
    is_match = pair_filter(pair, kind="tumbling")
    parts = [decode(value) for topic, _, value in crowd.messages if topic == "estimates"]
    table = difference_table([part for part in parts if is_match(part)], pair, crowd.query.family_error).to_dicts()
    assert {row["to"] for row in table} == {START + PANE * pane for pane in range(1, PANES + 1)}
    answer = ask(board, "compare", query, group="ios", **{"with": "android", "top": 10_000})
    last_table = [row for row in table if row["to"] == LAST]
    assert {(row["group"], row["with"], row["from"]) for row in last_table} == {(*pair, LAST)}
    law = ("level", "looks", "width")
    assert [{key: row[key] for key in (*law, *answer["values"][0])} for row in last_table] == [
        {key: answer[key] for key in law} | row for row in answer["values"]
    ]


def test_two_windows_of_one_group_are_compared(board):
    ends = {"from": START + PANE, "to": LAST}
    answer = ask(board, "compare", "screens", group="ios", **ends)
    assert [answer[end]["group"] for end in ("before", "after")] == [{"platform": "ios"}] * 2
    assert [answer[end]["n"] for end in ("before", "after")] == [9_000, 9_000]
    assert ask(board, "compare", "screens", **ends)["before"]["group"] is None


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({"with": "ios"}, 400),
        ({"group": "ios", "with": "ios"}, 400),
        ({"group": "ios", "with": "linux"}, 404),
        ({"group": "ios", "with": "(none)"}, 404),
        ({"group": "ios", "with": "web", "from": 1}, 400),
        ({"group": "ios", "window": LAST}, 400),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused(board, parameters, status):
    assert problem(board, "compare", "screens", **parameters) == status


def test_answers_by_group_can_be_a_table(board):
    request = Parameters([("top", "1")], BY_NAME["groups"].all_parameters)
    answer = BY_NAME["groups"].answer.of(board, request, "screens")
    assert answer.columns[:3] == ("group", "value", "measure")
    assert len(answer.rows) == 3


def test_metrics_have_few_series_of_each_group_and_those_of_the_total_apart(crowds, board):
    families = text_string_to_metric_families(generate_latest(BoardMetrics(board).whole).decode())
    (samples,) = [family.samples for family in families if family.name == "hubbub_top_share"]
    by_group = {}
    for sample in samples:
        if sample.labels["query"] == "screens":
            by_group.setdefault(sample.labels["group"], {})[sample.labels["value"]] = sample.value
    assert {group: len(shares) for group, shares in by_group.items()} == {"": 10, "ios": 5, "android": 5, "web": 5}
    part = records(crowds[0])["android"]
    largest = dict(zip(part.values[:5], part.shares["unbiased"].tolist(), strict=False))
    assert by_group["android"] == largest


def test_metrics_have_the_quantiles_of_each_group(board):
    families = {family.name: family for family in metrics.ShareMetrics(board).collect()}
    ends = {"value": "", "low": "_low", "high": "_high"}
    for group in LABELS:
        (row,) = ask(board, "quantiles", "load", group=group, p="0.95")["quantiles"]
        labels = {"query": "load", "attribute": "", "group": group, "quantile": "0.95"}
        for key, end in ends.items():
            samples = families[f"hubbub_group_quantile{end}"].samples
            assert [sample.value for sample in samples if sample.labels == labels] == [row[key]]


def test_metrics_have_a_bounded_number_of_groups(crowds, monkeypatch):
    monkeypatch.setattr(metrics, "GROUPS", 2)
    board = store(crowds[0].messages, queries=GROUPS)
    families = [*metrics.ShareMetrics(board).collect()]
    assert {sample.labels["group"] for family in families[:3] for sample in family.samples} == {"", "ios", "android"}


def test_a_difference_of_equal_groups_is_proved_at_the_family_error_only():
    """Holm's procedure over all values: of 200 pairs of equal groups about one in twenty has any proof."""
    rng = np.random.default_rng(1)
    oracle = SCREENS.oracle
    pairs = 200
    weights = 1.0 / np.arange(1, oracle.size + 1)
    hits = 0
    for _ in range(pairs):
        estimates = []
        for n in (3_000, 1_500):
            tally = oracle.zeros()
            oracle.add(tally, oracle.perturb(rng.choice(oracle.size, n, p=weights / weights.sum()), rng))
            estimates.append(oracle.estimate(tally, n))
        hits += bool(compare(*estimates, size=oracle.size).proved.any())
    assert hits <= 27  # a binomial law with 200 draws at 0.05 exceeds this with probability below 1e-6


def test_a_value_has_its_answers_however_its_accents_are_typed():
    """The domain compares values in normal form C, so a request may have the other form."""
    typed = unicodedata.normalize("NFD", "café")
    table = {"domain": ["café", "thé", "eau"], "groups": {"platform": ["ios", "android", "web"]}, "epsilon": 2.0}
    drinks = make_queries({"drinks": table | {"pane": f"{PANE}s", "oracle": "grr"}})
    board = store([*GroupCrowd(drinks["drinks"]).next()], queries=drinks)
    for question, parameters, rows in [
        ("estimate", {}, "values"),
        ("groups", {}, "values"),
        ("compare", {"group": "ios", "with": "android"}, "values"),
        ("set", {}, "sets"),
        ("history", {}, "points"),
    ]:
        answer = ask(board, question, "drinks", value=typed, **parameters)
        assert answer[rows] == ask(board, question, "drinks", value="café", **parameters)[rows]
        assert answer.get("missing", []) == []
    both_answer = ask(board, "estimate", "drinks", values=f"café,{typed}")
    assert [row["value"] for row in both_answer["values"]] == ["café"]
    assert ask(board, "set", "drinks", values=f"café,{typed}")["sets"][0]["values"] == ["café"]
