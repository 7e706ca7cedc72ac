"""What a board keeps of the topics, what it forgets, and what it answers."""

import gc
import random
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aggregator.board import lookup
from aggregator.board.answers import WindowEstimate
from aggregator.board.metrics import BoardMetrics
from aggregator.board.parameters import Parameters
from aggregator.board.reply import Reply
from aggregator.board.route import ROUTES, SCHEMAS, describe
from aggregator.board.store import MOST_ALERTS, Store
from aggregator.publishing.freshness import PUBLISHING
from hubbub import definitions
from hubbub.problem import Problem
from oracles.consistency import answer, apply
from oracles.heavy import heavy_hitters
from oracles.query import File, parse
from oracles.query.settings import Threshold
from tests import boards
from tests.boards import HOMEPAGE, PANE, PROFILE, START, Crowd

DAY = 86_400
BY_NAME = {route.name: route for route in ROUTES}


def store(messages=(), retention=DAY, memory=1 << 30, queries=boards.QUERIES):
    made = Store(retention, memory)
    for message in [*boards.defined(queries), *messages]:
        feed(made, *message)
    return made


def feed(made, topic, key, value):
    match topic:
        case "queries":
            made.define(key, value, 0)
        case "estimates":
            made.take_record(value)
        case "alerts":
            made.take_alert(value)
        case "truth":
            made.take_truth(value)


def ask(made, question, *names, **parameters):
    """What a question is answered, held to its schema."""
    route = BY_NAME[question]
    given = [(name, str(value)) for name, value in parameters.items()]
    said = orjson.loads(Reply.json(route.answer.of(made, Parameters(given, route.known), *(names or [""]))).body)
    schema = {"$ref": f"#/components/schemas/{question}", "components": {"schemas": SCHEMAS}}
    Draft202012Validator(schema).validate(said)
    return said


def problem(made, question, *names, **parameters):
    with pytest.raises(Problem) as caught:
        ask(made, question, *names, **parameters)
    assert caught.value.detail
    return caught.value.status


@pytest.fixture(scope="module")
def crowd():
    """Twelve panes of a crowd, and all that was said of them."""
    made = Crowd(HOMEPAGE, clients=4_000, surge=8)
    made.messages = [message for _ in range(12) for message in made.next()]
    made.messages.append(made.provisional())
    return made


@pytest.fixture(scope="module")
def full(crowd):
    return store(crowd.messages)


def test_it_does_not_matter_in_which_order_partitions_are_read(crowd, full):
    shuffled = list(crowd.messages)
    random.Random(1).shuffle(shuffled)
    other = store(shuffled)
    for question, names, parameters in (
        ("queries", [], {}),
        ("estimate", ["homepage"], {}),
        ("estimate", ["homepage"], {"provisional": "true"}),
        ("windows", ["homepage"], {"kind": "all"}),
        ("history", ["homepage"], {"value": "a,b", "kind": "hopping"}),
    ):
        assert ask(other, question, *names, **parameters) == ask(full, question, *names, **parameters)
    assert other.size == full.size


def test_told_again_changes_nothing(crowd, full):
    twice = store([*crowd.messages, *crowd.messages])
    assert (twice.size, twice.windows) == (full.size, full.windows)
    assert ask(twice, "alerts") == ask(full, "alerts")


def test_an_estimate_has_the_numbers_of_its_record(crowd, full):
    record = orjson.loads([value for topic, _, value in crowd.messages if topic == "estimates"][-2])
    assert record["window"]["kind"] == "all"
    for method in record["shares"]:
        said = ask(full, "estimate", "homepage", kind="all", method=method)
        rows = {row["value"]: row for row in said["values"]}
        for at, value in enumerate(record["values"]):
            row = rows[value]
            assert row["share"] == record["shares"][method][at]
            assert [row["unbiased"], row["stderr"]] == [record["shares"]["unbiased"][at], record["stderr"][at]]
            assert [row["low"], row["high"]] == [record["low"][at], record["high"][at]]
        hitters = {hitter["value"] for hitter in record["hitters"][method]}
        either = [*record["hitters"]["unbiased"], *record["hitters"][method]]
        proved = {hitter["value"] for hitter in either if hitter["decided"]}
        assert {row["value"] for row in said["values"] if row["listed"]} == hitters | proved, "what is proved is listed"
        assert {row["value"] for row in said["values"] if row["decided"]} == proved
        shares = [row["share"] for row in said["values"]]
        assert shares == sorted(shares, reverse=True)
        for key in ("n", "n_independent", "sigma", "detectable", "sets", "quality", "refused", "digest", "window"):
            assert said[key] == record[key]


def test_the_threshold_is_the_one_that_lists(full):
    said = ask(full, "estimate", "homepage", method="unbiased")
    assert 0 < said["threshold"] < 1
    for row in said["values"]:
        assert row["listed"] == (row["share"] > said["threshold"])


def test_chosen_values_stand_as_they_are_asked_for(full):
    every = {row["value"]: row for row in ask(full, "estimate", "homepage")["values"]}
    said = ask(full, "estimate", "homepage", values="wiki.example,mail.example", value="a,b")
    assert said["values"] == [every["wiki.example"], every["mail.example"], every["a,b"]]
    assert problem(full, "estimate", "homepage", values="nobody") == 404
    assert problem(full, "estimate", "homepage", values="wiki.example,wiki.example") == 400


def test_windows_are_found_by_kind_and_end(full):
    end = START + 12 * PANE
    assert ask(full, "estimate", "homepage")["window"]["end"] == end
    assert ask(full, "estimate", "homepage", window="latest") == ask(full, "estimate", "homepage", window=end)
    assert ask(full, "estimate", "homepage", window=end - PANE)["window"]["end"] == end - PANE
    assert ask(full, "estimate", "homepage", kind="hopping", size=60, step=10)["window"]["size"] == 60
    assert problem(full, "estimate", "homepage", window=end + PANE) == 404
    assert problem(full, "estimate", "homepage", kind="hopping", size=61) == 404
    assert problem(full, "estimate", "homepage", kind="sliding") == 400
    assert problem(full, "estimate", "homepage", window="now") == 400


def test_a_provisional_record_stands_until_its_window_is_final(crowd):
    made = store(crowd.messages)
    end = START + 13 * PANE
    assert ask(made, "estimate", "homepage", provisional="true")["window"]["end"] == end
    assert not ask(made, "estimate", "homepage", provisional="true")["final"]
    assert ask(made, "estimate", "homepage")["final"]
    assert [row["final"] for row in ask(made, "windows", "homepage", provisional="true")["windows"]][-2:] == [
        True,
        False,
    ]
    ahead = Crowd(HOMEPAGE, clients=4_000)
    for _ in range(13):
        final = [message for message in ahead.next() if message[0] == "estimates"]
    feed(made, *final[0])
    assert ask(made, "estimate", "homepage", provisional="true")["final"]
    feed(made, *crowd.messages[-1])
    assert ask(made, "estimate", "homepage", provisional="true")["final"], "a provisional record came late"


def test_how_old_the_newest_final_is_stands_beside_what_is_expected(crowd):
    now = START + 12 * PANE + 100.00012
    made = Store(DAY, 1 << 30, lambda: now)
    for message in boards.defined():
        feed(made, *message)
    assert [(row["age"], row["expected"]) for row in ask(made, "queries")["queries"]] == [(None, None)] * 2
    for message in crowd.messages:
        feed(made, *message)
    homepage, profile = ask(made, "queries")["queries"]
    allowed = PANE + HOMEPAGE.lateness + PUBLISHING
    assert (homepage["age"], homepage["expected"]) == (100, allowed)
    assert [(row["age"], row["expected"]) for row in homepage["windows"]] == [(100, allowed)] * 3
    assert (profile["age"], profile["expected"]) == (None, None)


def test_before_the_first_final_only_what_is_provisional_is_known(crowd):
    made = store([crowd.messages[-1]])
    assert problem(made, "estimate", "homepage") == 404
    assert ask(made, "estimate", "homepage", provisional="true")["n"] > 0
    assert ask(made, "history", "homepage", value="a,b")["points"] == []


def held(made):
    """The memory of all that is kept of a query."""
    series = made.series("homepage")
    windows = [each for kind in series.kinds.values() for each in (*kind.finals.values(), kind.provisional)]
    records = [record.size for record in windows if record]
    return sum(records) + series.truth.size


def test_what_is_older_than_the_retention_is_forgotten(crowd):
    made = store(crowd.messages, retention=5 * PANE)
    ends = [row["end"] for row in ask(made, "windows", "homepage")["windows"]]
    assert ends == [START + PANE * pane for pane in range(8, 13)]
    assert made.series("homepage").truth.oldest == START + 6 * PANE
    assert made.size == held(made)


def test_memory_is_bounded_and_the_newest_windows_stay(crowd, full):
    memory = full.size // 3
    made = store(crowd.messages, memory=memory)
    assert made.size <= memory
    assert made.size == held(made)
    series = made.series("homepage")
    for window in HOMEPAGE.windows:
        assert series.kinds[window].ends[-1] == START + 12 * PANE
    tiny = store(crowd.messages, memory=1)
    assert [len(windows.ends) for windows in tiny.series("homepage").kinds.values()] == [1, 1, 1]


def test_the_memory_that_is_counted_is_about_what_is_taken():
    table = {"domain": 5_000, "oracle": "olh", "epsilon": 4.0, "budget": 1e9, "pane": "10s", "publish": 2_000}
    query = parse({"queries": {"wide": table}}, "test", ".")["wide"]
    crowd = Crowd(query, clients=2_000)
    values = [value for _ in range(40) for topic, _, value in crowd.next() if topic == "estimates"]
    store(queries={"wide": query}).take_record(values[0])  # what all stores share is there before it is counted
    made = store(queries={"wide": query})
    gc.collect()
    tracemalloc.start()
    for value in values:
        made.take_record(value)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken / 2 < made.size < taken * 2


def test_truth_is_added_over_sources_and_replaced_by_each(crowd, full):
    said = ask(full, "estimate", "homepage")
    true = {row["value"]: row["truth"] for row in said["values"]}
    assert sum(true.values()) == pytest.approx(1.0)
    shares = np.array([row["share"] for row in said["values"]])
    off = shares - np.array([row["truth"] for row in said["values"]])
    assert said["error"]["rms"] == pytest.approx(np.sqrt(np.mean(off**2)))
    assert said["error"]["covered"] == sum(row["low"] <= row["truth"] <= row["high"] for row in said["values"])

    made, pane = store(crowd.messages), START + 11 * PANE
    counts = [0] * HOMEPAGE.domain.size
    counts[1] = 4_000
    more = {"query": "homepage", "digest": HOMEPAGE.digest.hex(), "pane": pane, "source": "other", "counts": counts}
    made.take_truth(orjson.dumps(more))
    both = {row["value"]: row["truth"] for row in ask(made, "estimate", "homepage")["values"]}
    assert both["mail.example"] == pytest.approx((true["mail.example"] + 1) / 2)
    made.take_truth(orjson.dumps(more | {"counts": [0] * HOMEPAGE.domain.size}))
    again = {row["value"]: row["truth"] for row in ask(made, "estimate", "homepage")["values"]}
    assert again == pytest.approx(true)
    with pytest.raises(ValueError, match="values"):
        made.take_truth(orjson.dumps(more | {"counts": [1, 2]}))


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "all"])
def test_a_history_says_what_each_window_does(crowd, full, kind):
    points = ask(full, "history", "homepage", value="books.example", kind=kind)["points"]
    assert len(points) == (7 if kind == "hopping" else 12)
    for point in points:
        row = ask(full, "estimate", "homepage", kind=kind, window=point["end"], values="books.example")["values"][0]
        assert {key: point[key] for key in ("share", "unbiased", "low", "high")} == {
            key: row[key] for key in ("share", "unbiased", "low", "high")
        }
        assert point["truth"] == pytest.approx(row["truth"])
    assert points[-1]["truth"] > points[0]["truth"]
    later = ask(
        full, "history", "homepage", value="books.example", kind=kind, **{"from": START + 100, "to": START + 120}
    )
    assert [point["end"] for point in later["points"]] == [START + 100, START + 110]
    assert len(ask(full, "history", "homepage", value="books.example", kind=kind, limit=3)["points"]) == 3


def test_truth_that_is_forgotten_in_part_is_not_told(crowd):
    made = store(crowd.messages, retention=5 * PANE)
    assert ask(made, "estimate", "homepage", kind="all")["error"] is None
    assert ask(made, "estimate", "homepage", kind="hopping")["error"] is not None
    assert {point["truth"] for point in ask(made, "history", "homepage", value="a,b", kind="all")["points"]} == {None}


def test_sets_are_answered_as_the_estimate_does(crowd, full):
    total = crowd.snapshots[-1]
    estimate = HOMEPAGE.oracle.estimate(total.counts, total.n)
    chosen = [4, 19]
    share, stderr = estimate.answer(chosen)
    said = ask(full, "set", "homepage", values="video.example", value="a,b", method="unbiased")["sets"][0]
    assert [said["share"], said["stderr"]] == [pytest.approx(share, abs=1e-15), stderr]
    by_method = answer("norm_sub", estimate, chosen)[0]
    assert ask(full, "set", "homepage", values="video.example", value="a,b")["sets"][0]["share"] == pytest.approx(
        by_method
    )
    named = ask(full, "set", "homepage", name="fun", method="unbiased")["sets"][0]
    spelt = ask(full, "set", "homepage", values="video.example,music.example,games.example", method="unbiased")["sets"][
        0
    ]
    assert [named["share"], named["stderr"]] == pytest.approx([spelt["share"], spelt["stderr"]])
    assert named["truth"] == spelt["truth"] > 0
    assert problem(full, "set", "homepage") == 400
    assert problem(full, "set", "homepage", name="nothing") == 404


@pytest.mark.parametrize("threshold", ["significance", "0.05", "300"])
def test_a_threshold_that_is_asked_for_is_answered_as_by_the_whole_tally(crowd, full, threshold):
    total = crowd.snapshots[-1]
    estimate = HOMEPAGE.oracle.estimate(total.counts, total.n)
    asked = threshold if threshold == "significance" else float(threshold)
    expected = heavy_hitters(estimate, apply("norm_sub", estimate), threshold=asked, family_error=0.1)
    said = ask(full, "heavy-hitters", "homepage", threshold=threshold, family_error=0.1, method="norm_sub")
    assert said["threshold"]["share"] == pytest.approx(expected.threshold, rel=1e-12)
    found = [(h["value"], h["decided"], h["p_value"], tuple(h["ranks"])) for h in said["hitters"]]
    names = [(HOMEPAGE.domain.name(h.position), h.decided, pytest.approx(h.p_value), tuple(h.ranks)) for h in expected]
    assert found == names
    assert found


def test_a_record_that_publishes_a_part_says_what_it_does_not_know(crowd):
    brief = replace(HOMEPAGE, publish=3)
    part = Crowd(brief, clients=4_000)
    made = store(part.next(), queries={"homepage": brief})
    said = ask(made, "estimate", "homepage", values="news.example,books.example")
    assert (said["published"], said["size"], said["missing"]) == (3, 22, ["books.example"])
    assert [row["value"] for row in said["values"]] == ["news.example"]
    assert problem(made, "set", "homepage", values="books.example") == 400
    assert problem(made, "heavy-hitters", "homepage", threshold="0.1") == 400
    assert ask(made, "heavy-hitters", "homepage")["hitters"]
    assert ask(made, "history", "homepage", value="books.example")["points"][0]["share"] is None
    assert said["error"]["values"] == 3


def test_attributes_are_asked_for_by_name():
    crowd = Crowd(PROFILE, clients=4_000)
    made = store(message for _ in range(2) for message in crowd.next())
    age, sex = (ask(made, "estimate", "profile", attribute=name) for name in ("age", "sex"))
    assert (age["attribute"], sex["attribute"], age["size"], sex["size"]) == ("age", "sex", 8, 3)
    assert ask(made, "estimate", "profile") == age
    assert age["n"] + sex["n"] == 4_000
    assert sum(row["truth"] for row in sex["values"]) == pytest.approx(1.0)
    # Of smp the error has a part that comes from the sample; a set of one value has the error of the value.
    row = next(row for row in sex["values"] if row["value"] == "f")
    alone = ask(made, "set", "profile", attribute="sex", values="f", method="unbiased")["sets"][0]
    assert alone["stderr"] == pytest.approx(row["stderr"])
    assert ask(made, "history", "profile", attribute="sex", value="m")["points"][1]["truth"] > 0
    assert problem(made, "estimate", "profile", attribute="shoe") == 404
    assert problem(store(), "estimate", "homepage", attribute="sex") == 404


def test_a_new_definition_takes_over_from_the_old_one(crowd):
    other = parse({"queries": {"homepage": {"domain": 5, "epsilon": 2.0, "budget": 1e9, "pane": "10s"}}}, "test", ".")
    made = store(crowd.messages)
    before = made.definitions
    for write in definitions.changes(File(other), before, ["profile"], "1" * 16).writes:
        made.define(*write, 0)
    said = {query["name"]: query for query in ask(made, "queries")["queries"]}
    assert said["homepage"]["digest"] == other["homepage"].digest.hex()
    assert said["profile"]["retired"]
    assert problem(made, "estimate", "homepage") == 404
    fresh = Crowd(other["homepage"], clients=1_000, start=START + 200)
    for message in fresh.next():
        feed(made, *message)
    assert ask(made, "estimate", "homepage")["size"] == 5
    for write in definitions.changes(File({}), made.definitions, ["homepage"], "2" * 16).writes:
        made.define(*write, 0)
    assert ask(made, "estimate", "homepage")["size"] == 5, "the last that was counted is still told of"


def test_alerts_are_told_once_the_newest_first_and_not_without_end(crowd):
    made = Store(DAY, 1 << 30)
    value = next(value for topic, _, value in crowd.messages if topic == "alerts")
    assert made.take_alert(value).id
    assert made.take_alert(value) is None
    alert = orjson.loads(value)
    for number in range(MOST_ALERTS + 5):
        window = alert["window"] | {"end": START + number}
        made.take_alert(orjson.dumps(alert | {"id": f"{number:032x}", "window": window}))
    told = made.alerts()
    assert len(told) == MOST_ALERTS
    assert [each.window.end for each in told[:2]] == [START + MOST_ALERTS + 4, START + MOST_ALERTS + 3]


def test_alerts_are_filtered(full):
    every = ask(full, "alerts")["alerts"]
    entered = ask(full, "alerts", query="homepage", kind="enter", limit=2)["alerts"]
    assert [alert["kind"] for alert in entered] == ["enter", "enter"]
    assert entered == [alert for alert in every if alert["kind"] == "enter"][:2]
    assert problem(full, "alerts", query="nobody") == 404
    assert problem(full, "alerts", kind="exit") == 400


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
def test_what_cannot_be_answered_says_why(full, status, question, names, parameters):
    assert problem(full, question, *names, **parameters) == status


def test_a_table_is_the_rows_of_the_answer(full):
    asked = Parameters([("top", "3")], BY_NAME["estimate"].known)
    told = WindowEstimate.of(full, asked, "homepage")
    row = told.rows[0]
    empty = replace(row, **dict.fromkeys(told.columns))
    answer = Reply.csv(told.columns, [*told.rows, replace(empty, value='a "b",\nc', share=float("nan"), listed=True)])
    head, first, *_, last, end = answer.body.decode().split("\r\n")
    assert head == "value,share,unbiased,stderr,low,high,listed,decided,truth"
    cells = [row.value, *(repr(getattr(row, key)) for key in ("share", "unbiased", "stderr", "low", "high"))]
    assert first == ",".join([*cells, "true", "true", repr(row.truth)])
    assert (last, end) == ('"a ""b"",\nc",,,,,,true,,', "")
    assert answer.tag != Reply.json(told).tag


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_answer_has_a_table(full, route):
    asked = Parameters([("value", "a,b")] if route.name in ("set", "history") else [], route.known)
    told = route.answer.of(full, asked, "homepage" if route.of_query else "")
    rows = Reply.csv(told.columns, told.rows).body.decode().splitlines()
    assert rows[0] == ",".join(told.columns)
    assert len(rows) == len(told.rows) + 1 > 1


def named(schema):
    """All names of members in a schema."""
    if isinstance(schema, list):
        return set().union(*map(named, schema))
    if not isinstance(schema, dict):
        return set()
    members = schema.get("properties", {})
    return set(members) | named(list(members.values())) | named([v for k, v in schema.items() if k != "properties"])


def test_the_page_about_the_api_names_all_that_it_has():
    page = (Path(__file__).parents[2] / "docs" / "board-api.md").read_text()
    for route in ROUTES:
        assert f"`GET {route.path}`" in page
        for parameter in route.known:
            assert f"`{parameter.name}`" in page
    for member in named(list(SCHEMAS.values())):
        assert f"`{member}`" in page, member


def test_the_description_names_every_question_and_parameter():
    described = describe("1", protected=True)
    assert set(described["paths"]) == {route.path for route in ROUTES} | {"/api/v1/events"}
    for route in ROUTES:
        operation = described["paths"][route.path]["get"]
        named = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
        assert named == [parameter.name for parameter in route.known]
    assert described["security"] == [{"token": []}]
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_a_board_needs_no_faust():
    code = "import sys, aggregator.board.command; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_thresholds_keep_their_kind():
    asked = [
        Parameters([("threshold", text)], BY_NAME["heavy-hitters"].known) for text in ("significance", "0.5", "20")
    ]
    kinds = [lookup.threshold(each, HOMEPAGE) for each in asked]
    assert kinds == [Threshold("significance"), Threshold("share", 0.5), Threshold("count", 20.0)]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_number_beyond_what_is_described_is_refused(crowd, route):
    kept, names = store(crowd.messages), ["homepage"] if route.of_query else [""]
    for parameter in route.known:
        most = parameter.schema.get("maximum")
        for text in [] if most is None else [str(most + 1), "-1"]:
            asked = [(parameter.name, text)] + [("value", "a.example")] * (route.name == "set")
            with pytest.raises(Problem, match=f"{parameter.name} must be"):
                route.answer.of(kept, Parameters(asked, route.known), *names)


def test_metrics_say_what_the_newest_final_of_the_shortest_window_says(crowd):
    kept = store(crowd.messages)
    families = text_string_to_metric_families(generate_latest(BoardMetrics(kept).whole).decode())
    found = {
        family.name: {each.labels["value"]: each.value for each in family.samples}
        for family in families
        if family.name.startswith(("hubbub_top", "hubbub_hitter"))
    }
    newest = kept.series("homepage").kinds[HOMEPAGE.windows[0]].latest
    assert newest.span.end == START + 12 * PANE
    [part] = newest.parts
    shares = dict(zip(part.values, part.shares["unbiased"], strict=True))
    top = sorted(shares, key=lambda value: -shares[value])[:10]
    for name, numbers in ("share", part.shares["unbiased"]), ("share_low", part.low), ("share_high", part.high):
        assert found[f"hubbub_top_{name}"] == {value: numbers[part.values.index(value)] for value in top}
    proved = {each.value: shares[each.value] for each in part.hitters("unbiased") if each.decided}
    assert proved
    assert found["hubbub_hitter_share"] == proved


def test_metrics_say_how_old_the_newest_finals_are(crowd):
    kept = store(crowd.messages)
    families = text_string_to_metric_families(generate_latest(BoardMetrics(kept).registry).decode())
    found = {
        family.name: {s.labels["query"]: s.value for s in family.samples if "query" in s.labels} for family in families
    }
    assert found["hubbub_newest_final_age_seconds"] == {
        "homepage": pytest.approx(time.time() - START - 12 * PANE, abs=60),
        "profile": 0.0,  # before its first
    }
    expected = {
        name: min(w.step or q.pane for w in q.windows) + q.lateness + PUBLISHING for name, q in boards.QUERIES.items()
    }
    assert found["hubbub_expected_final_age_seconds"] == expected
    assert not [name for name in found if name.startswith(("hubbub_top", "hubbub_hitter"))]
