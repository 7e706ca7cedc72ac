"""The API compares two windows, and reading in Python gives the same numbers."""

from itertools import chain

import numpy as np
import orjson
import pytest

from aggregator.records.decoder import decode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.estimate.changes import compare
from oracles.estimate.intervals import listed_level
from tests.boards import HOMEPAGE, PANE, PROFILE, START, Crowd, withheld
from tests.queries import make_query
from tests.results import build
from tests.unit.test_board_store import ask, problem, store

EARLY, LATE = START + PANE, START + 12 * PANE
DOMAIN = HOMEPAGE.domains[0].size


@pytest.fixture(scope="module")
def crowd():
    crowd = Crowd(HOMEPAGE, clients=30_000, surge=8)
    crowd.messages = [*chain.from_iterable(crowd.next() for _ in range(12))]
    return crowd


@pytest.fixture(scope="module")
def board(crowd):
    return store(crowd.messages)


def comparison(board, **more):
    return ask(board, "compare", "homepage", **{"from": EARLY, "to": LATE, "kind": "tumbling", **more})


def test_the_differences_are_those_of_the_estimates(crowd, board):
    answer = comparison(board, top=10_000)
    first_snapshot = crowd.snapshots[0]
    last_snapshot = crowd.snapshots[11]
    first_estimate, second_estimate = (
        HOMEPAGE.oracle.estimate(row.counts, row.n) for row in (first_snapshot, last_snapshot)
    )
    expected = compare(first_estimate, second_estimate, family_error=HOMEPAGE.family_error)
    rows = {row["value"]: row for row in answer["values"]}
    assert len(rows) == answer["common"] == DOMAIN
    for position, value in enumerate(HOMEPAGE.domains[0].name(number) for number in range(DOMAIN)):
        row = rows[value]
        assert row["difference"] == pytest.approx(expected.difference[position], abs=1e-9)
        assert row["stderr"] == pytest.approx(expected.stderr[position], rel=1e-6)
        assert row["p_value"] == pytest.approx(expected.p_values[position], rel=1e-4, abs=1e-12)
        assert row["proved"] == bool(expected.proved[position])
    assert answer["proofs"] == np.count_nonzero(expected.proved) > 0
    assert answer["before"]["window"]["end"] == EARLY
    assert answer["after"]["window"]["end"] == LATE
    sizes = [abs(row["difference"]) for row in answer["values"]]
    assert sizes == sorted(sizes, reverse=True)


def test_a_list_has_wider_intervals_than_a_named_value(board):
    large_comparison = comparison(board, top=3)
    few_comparison = comparison(board, values="news.example,shop.example")
    assert large_comparison["level"] == listed_level(3, DOMAIN)
    assert few_comparison["level"] == 0.95
    assert [row["value"] for row in few_comparison["values"]] == ["news.example", "shop.example"]
    every = {row["value"]: row for row in comparison(board, top=10_000)["values"]}
    for row in large_comparison["values"]:
        assert row["low"] < every[row["value"]]["low"]
        assert row["high"] > every[row["value"]]["high"]


def test_a_value_in_only_one_record_is_not_tested(crowd):
    def cut(message):
        topic, key, value = message
        record = orjson.loads(value)
        if topic == "estimates" and record["window"]["end"] == EARLY and record["window"]["kind"] == "tumbling":
            names = ("values", "stderr", "low", "high")
            record |= {name: record[name][:5] for name in names}
            record["shares"] = {method: shares[:5] for method, shares in record["shares"].items()}
        return topic, key, orjson.dumps(record)

    board = store([cut(message) for message in crowd.messages])
    answer = comparison(board, top=10_000)
    assert answer["common"] == 5
    singles = [row for row in answer["values"] if row["difference"] is None]
    assert len(singles) == DOMAIN - 5
    for row in singles:
        assert (row["before"], row["stderr"], row["low"], row["high"], row["p_value"]) == (None,) * 5
        assert row["after"] is not None
        assert not row["proved"]
    assert answer["values"][0]["difference"] is not None, "values of both come first"


def test_windows_that_share_panes_say_so(board):
    assert not comparison(board)["overlap"]
    assert comparison(board, **{"from": LATE - PANE, "kind": "hopping"})["overlap"]


def test_a_withheld_window_has_no_differences(crowd):
    late_messages = [m for m in crowd.messages if m[0] == "estimates" and orjson.loads(m[2])["window"]["end"] == LATE]
    board = store([*(m for m in crowd.messages if m not in late_messages), *map(withheld, late_messages)])
    answer = comparison(board)
    assert answer["after"]["withheld"] == "small"
    assert answer["values"] == []
    assert answer["common"] == 0
    assert answer["proofs"] == 0


def test_wrong_requests_are_refused(board):
    assert problem(board, "compare", "homepage") == 400
    assert problem(board, "compare", "homepage", **{"from": EARLY}) == 400
    assert problem(board, "compare", "homepage", **{"from": EARLY, "to": EARLY}) == 400
    assert problem(board, "compare", "homepage", **{"from": 1, "to": LATE}) == 404
    assert problem(board, "compare", "nobody", **{"from": EARLY, "to": LATE}) == 404
    assert problem(board, "compare", "homepage", **{"from": EARLY, "to": LATE, "values": "nowhere"}) == 404
    assert problem(board, "compare", "homepage", **{"from": EARLY, "to": LATE, "family_error": 0}) == 400


def test_an_attribute_is_compared_alone():
    crowd = Crowd(PROFILE, clients=5_000)
    board = store([*chain.from_iterable(crowd.next() for _ in range(3))])
    ends = {"from": START + PANE, "to": START + 3 * PANE}
    answer = ask(board, "compare", "profile", attribute="sex", **ends)
    assert answer["attribute"] == "sex"
    assert {row["value"] for row in answer["values"]} == {"f", "m", "(other)"}


def test_people_who_repeat_their_answers_bring_less_noise():
    query = make_query(domain=100, oracle="olh", windows=["10s"], crowd=1, publish="all", name="panel")
    rng = np.random.default_rng(3)
    oracle = query.oracle
    reports = oracle.perturb(rng.choice(100, 30_000), rng)
    later_reports = reports.copy()
    later_reports[:1_500] = oracle.perturb(rng.choice(100, 1_500), rng)
    messages = []
    for position, each in enumerate((reports, later_reports)):
        state = oracle.zeros()
        oracle.add(state, each)
        span = Span(query.windows[0], START + position * PANE, START + (position + 1) * PANE)
        messages.append(("estimates", *build(query, span, Snapshot(len(each), 0, 0, 0, state)).records[0]))
    board = store(messages, queries={"panel": query})
    answer = ask(board, "compare", "panel", **{"from": START + PANE, "to": START + 2 * PANE, "top": 10_000})
    assert decode(messages[0][2]).answers == "life"
    stderr = ask(board, "estimate", "panel", top=1)["values"][0]["stderr"]
    assert max(row["stderr"] for row in answer["values"]) < stderr


def test_a_comparison_read_in_python_is_that_of_the_api(crowd, board):
    from aggregator.reading.export.reader import difference_table

    records = [decode(value) for topic, _, value in crowd.messages if topic == "estimates"]
    table = difference_table(records, (EARLY, LATE), HOMEPAGE.family_error)
    rows = {row["value"]: row for row in table.to_dicts() if row["kind"] == "tumbling"}
    answer = {row["value"]: row for row in comparison(board, top=10_000)["values"]}
    assert rows.keys() == answer.keys()
    for value, row in answer.items():
        assert {key: rows[value][key] for key in row} == row
    assert {(row["from"], row["to"]) for row in rows.values()} == {(EARLY, LATE)}
