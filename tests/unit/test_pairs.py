"""Pairs: an attribute whose values are all pairs of values of two others, from the query file to the API."""

import json
import re
from itertools import chain

import numpy as np
import orjson
import pytest

from aggregator.plan.command import main as plan_main
from aggregator.records.decoder import decode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.table import dump, query_of
from oracles import oracle
from oracles.errors import ParameterError, QueryError, ReportError
from oracles.estimate.pairs import given
from oracles.multi import multi
from producers import Client
from producers.gateway.intake.active_definitions import public_definition
from tests.boards import START
from tests.queries import make_queries, make_query, make_table
from tests.results import build
from tests.unit.test_board_store import ask, problem, store

ATTRIBUTES = {"version": ["3.1", "3.2"], "crash": ["TypeError", "Range"], "system": 3}
PAIRS = {"attributes": ATTRIBUTES, "pairs": [["version", "crash"]]}
TABLE = make_table(PAIRS, solution="smp", oracle="ss", epsilon=2.0, answers="once")
WRONG = {
    "a name": ("version", "must be a list"),
    "one attribute": ([["version"]], "two different"),
    "the same twice": ([["version", "version"]], "two different"),
    "an unknown one": ([["version", "model"]], "two different"),
    "a number": ([["version", 3]], "two different"),
    "both orders": ([["version", "crash"], ["crash", "version"]], "once"),
}


def query_with(**keys):
    return make_query(TABLE, name="crashes", **keys)


QUERY = query_with()


def test_a_pair_is_one_more_attribute():
    assert [attribute.name for attribute in QUERY.attributes] == ["crash", "system", "version", "version*crash"]
    assert QUERY.oracle.sizes == (3, 3, 3, 9)
    domain = QUERY.domains[3]
    assert domain.names[1] == '["3.1","Range"]'
    for position in range(9):
        assert domain.find(domain.name(position)) == domain.find(domain.pair(position)) == position
    assert [domain.find(text) for text in ("[", "3.1", '["3.1"]', '["3.1","x"]', "[" * 10_000)] == [None] * 5


def test_the_digest_names_the_pairs_in_their_order():
    assert json.loads(QUERY.canonical)["pairs"] == [["version", "crash"]]
    assert list(json.loads(QUERY.canonical)["attributes"]) == ["crash", "system", "version"]
    digests = {query_with(pairs=pairs).digest for pairs in ([], [["version", "crash"]], [["crash", "version"]])}
    assert len(digests) == 3
    assert query_of("crashes", dump(QUERY)).digest == QUERY.digest
    assert public_definition(QUERY)["pairs"] == [["version", "crash"]]


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_pair_is_refused(case):
    pairs, fault = WRONG[case]
    with pytest.raises(QueryError, match=fault):
        query_with(pairs=pairs)


def test_pairs_need_smp_values_and_at_most_4096_cells():
    with pytest.raises(QueryError, match="smp"):
        query_with(solution="spl")
    with pytest.raises(QueryError, match="absent"):
        make_queries({"q": make_table(domain=4, pairs=[])})
    numbers = {"version": ["3.1"], "crash": {"low": 0, "high": 9}}
    with pytest.raises(QueryError, match="number"):
        query_with(attributes=numbers, oracle="hr", budget=100.0)
    with pytest.raises(QueryError, match="4,096"):
        query_with(attributes={"version": 65, "crash": 64})
    assert query_with(attributes={"version": 64, "crash": 64}).domains[2].size == 4096
    for pairs in ([(0, 0)], [(0, 2)], [(0, 1), (1, 0)]):
        with pytest.raises(ParameterError):
            multi("smp", sizes=[2, 3], epsilon=1.0, pairs=pairs)


def test_clients_answer_the_single_attributes_alone():
    crashes = multi("smp", sizes=[2, 3], epsilon=4.0, oracle="grr", pairs=[(1, 0)])
    rng = np.random.default_rng(5)
    records = np.column_stack([rng.integers(0, 2, 60_000), rng.integers(0, 3, 60_000)])
    state = crashes.zeros()
    crashes.add(state, crashes.perturb(records, rng))
    pair = crashes.estimate(state, len(records))[2]
    true = np.bincount(records[:, 1] * 2 + records[:, 0], minlength=6) / len(records)
    assert np.all(np.abs(pair.shares - true) < 5.5 * pair.stderr)  # fails by chance at most once in 1e6 runs
    with pytest.raises(ReportError, match="shape"):
        crashes.perturb(np.zeros((1, 3), int))


def test_a_client_gives_no_answer_for_a_pair():
    answers = {"version": "3.2", "crash": "TypeError", "system": 1}
    reports = set()
    for number in range(40):
        client = Client(QUERY, ":memory:", key=bytes([number]) * 32)
        reports.add(int(np.ascontiguousarray(client.answer(answers)[0, :2]).view("<u2")[0]))
    assert reports == {0, 1, 2, 3}
    client = Client(QUERY, ":memory:", key=bytes(32))
    with pytest.raises(ReportError, match="crash, system, version"):
        client.answer({**answers, "version*crash": 3})


def snapshot(n=40_000, seed=3):
    rng = np.random.default_rng(seed)
    version = rng.choice(3, n, p=[0.3, 0.6, 0.1])
    crash = np.where(version == 1, rng.choice(3, n, p=[0.7, 0.2, 0.1]), rng.choice(3, n, p=[0.2, 0.7, 0.1]))
    state = QUERY.oracle.zeros()
    QUERY.oracle.add(state, QUERY.oracle.perturb(np.column_stack([crash, rng.integers(0, 3, n), version]), rng))
    return Snapshot(n, 0, 0, 0, state), {"TypeError": 0.7, "Range": 0.2, "(other)": 0.1}


@pytest.fixture(scope="module")
def messages():
    return [
        ("estimates", *record)
        for record in build(QUERY, Span(QUERY.windows[0], START, START + 10), snapshot()[0]).records
    ]


def test_the_record_of_a_pair_holds_every_cell_as_a_list(messages):
    _, key, value = messages[3]
    fields = orjson.loads(value)
    assert key.endswith(b"|a:version*crash")
    assert fields["attribute"] == "version*crash"
    assert sorted(fields["values"]) == sorted(QUERY.domains[3].pair(position) for position in range(9))
    assert all(row["value"] in fields["values"] for row in chain.from_iterable(fields["hitters"].values()))
    few_query = query_with(publish=2)
    records = build(few_query, Span(few_query.windows[0], START, START + 10), snapshot()[0]).records
    assert len(orjson.loads(records[3][1])["values"]) == 9
    assert len(orjson.loads(records[0][1])["values"]) < 9
    record = decode(value)
    assert record.values == tuple(json.dumps(pair, separators=(",", ":")) for pair in fields["values"])
    assert [row.value for row in record.hitters("unbiased")] == [
        json.dumps(row["value"], separators=(",", ":")) for row in fields["hitters"]["unbiased"]
    ]


@pytest.mark.parametrize("value", [["3.1"], ["3.1", "Range", "x"], ["3.1", 4], ["3.1", None], 4])
def test_a_record_with_wrong_pairs_is_refused(messages, value):
    fields = orjson.loads(messages[3][2])
    fields["values"][0] = value
    with pytest.raises(ReportError):
        decode(orjson.dumps(fields))


def test_the_board_answers_conditional_shares(messages):
    board = store(messages, queries={QUERY.name: QUERY})
    answer = ask(board, "given", "crashes", attribute="version", value="3.2", of="crash")
    _, true = snapshot()
    assert [row["value"] for row in answer["values"]] == ["TypeError", "Range", "(other)"]
    for row in answer["values"]:
        assert row["low"] < true[row["value"]] < row["high"]
        assert row["low"] <= row["share"] <= row["high"]
    assert answer["margin"]["low"] < 0.6 < answer["margin"]["high"]
    assert answer["single"]["low"] < 0.6 < answer["single"]["high"]
    reverse = ask(board, "given", "crashes", attribute="crash", value="TypeError", of="version")
    assert {row["value"] for row in reverse["values"]} == {"3.1", "3.2", "(other)"}


def test_a_provisional_window_may_have_the_pair_alone():
    """The other attributes are withheld, or their records have not arrived."""
    span = Span(QUERY.windows[0], START, START + 10)
    messages = [("estimates", *record) for record in build(QUERY, span, snapshot()[0], through=START + 10).records]
    board = store([messages[3]], queries={QUERY.name: QUERY})
    parameters = {"attribute": "version", "value": "3.2", "of": "crash", "provisional": "true"}
    answer = ask(board, "given", "crashes", **parameters)
    assert answer["margin"]["low"] < 0.6 < answer["margin"]["high"]
    assert answer["single"] == {"share": None, "low": None, "high": None}


def test_wrong_requests_for_conditional_shares_are_refused(messages):
    board = store(messages, queries={QUERY.name: QUERY})
    assert problem(board, "given", "crashes", attribute="version", of="system", value="3.2") == 400
    assert problem(board, "given", "crashes", attribute="version", of="crash") == 400
    assert problem(board, "given", "crashes", attribute="version", of="crash", value="9.9") == 404
    assert problem(board, "given", "nobody", attribute="version", of="crash", value="3.2") == 404


def test_conditional_shares_are_unknown_without_reports_of_the_row():
    pairs = oracle("hr", epsilon=1.0, size=9)
    state = pairs.zeros()
    pairs.add(state, pairs.perturb(np.zeros(500, int), np.random.default_rng(2)))
    result = given(pairs.estimate(state, 500), np.array([6, 7, 8]))
    assert np.isnan([result.share, result.low, result.high]).all()
    assert np.isnan(given(pairs.estimate(pairs.zeros(), 0), np.array([0, 1])).share).all()


LAWS = [("hr", 1.0, 100_000), ("olh", 2.0, 30_000), ("grr", 4.0, 5_000), ("ss", 2.0, 30_000)]


@pytest.mark.parametrize(("name", "epsilon", "n"), LAWS)
def test_the_intervals_of_conditional_shares_hold_the_truth(name, epsilon, n):
    """Of 540 intervals at least 90% hold the truth: below that once in 1e6 runs, if 95% are right."""
    rng = np.random.default_rng(11)
    pairs = multi("smp", sizes=[3, 3], epsilon=epsilon, oracle=name, pairs=[(0, 1)])
    hits = []
    for _ in range(60):
        law = rng.dirichlet(np.full(9, 2.0))
        cells = rng.choice(9, n, p=law)
        counts = np.bincount(cells, minlength=9).reshape(3, 3)
        state = pairs.zeros()
        pairs.add(state, pairs.perturb(np.column_stack(divmod(cells, 3)), rng))
        estimate = pairs.estimate(state, n)[2]
        for row in range(3):
            result = given(estimate, 3 * row + np.arange(3))
            true = counts[row] / counts[row].sum()
            known = ~np.isnan(result.share)
            hits += ((result.low <= true) & (true <= result.high))[known].tolist()
    assert len(hits) > 400
    assert np.mean(hits) >= 0.90


def test_a_plan_says_how_many_people_a_table_needs(capsys):
    assert plan_main(["--table", "16x8", "--epsilon", "2", "--answers", "once"]) == 0
    text = capsys.readouterr().out.replace("\n", " ")
    cell, alone = (int(number.replace(",", "")) for number in re.findall(r"needs? ([0-9,]+) people", text))
    table = oracle("olh", epsilon=2.0, size=128)
    assert table.detectable(cell // 3, sampled=True) < 0.0115
    assert alone < cell
    for wrong_value in ("16by8", "1x8", "65x64"):
        with pytest.raises(SystemExit):
            plan_main(["--table", wrong_value])
    assert "such as 16x8" in capsys.readouterr().err


def test_few_people_with_almost_no_noise_have_no_conditional_shares():
    """With two people in a cell and epsilon 8 the interval would hold the truth in 80% of windows only."""
    pairs = oracle("grr", epsilon=8.0, size=9)
    row = np.arange(3)
    for people, is_known in ((2, False), (20, False), (60, True)):
        state = pairs.zeros()
        pairs.add(state, pairs.perturb(np.repeat(np.arange(9), people), np.random.default_rng(1)))
        shares = given(pairs.estimate(state, 9 * people), row)
        assert np.isfinite(shares.low).all() == is_known
        assert np.isnan(shares.share).all() != is_known
