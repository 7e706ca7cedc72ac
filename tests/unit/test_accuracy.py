"""The metrics of a simulation's accuracy. They agree with its final records and true counts."""

import tomllib

import numpy as np
import orjson
import pytest

from aggregator.process.metrics import Metrics
from aggregator.publishing.accuracy import Accuracy
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from hubbub.kafka.settings import Kafka
from oracles.query import parse
from tests.queries import make_text
from tests.results import window_result

QUERY = make_text(
    "page", domain=8, oracle="grr", budget=1e9, pane="5s", windows=["10s"], methods=["norm_sub"], publish="all"
)
START = 1_700_000_000
HALF = [500, 250, 120, 60, 30, 20, 10, 10]


@pytest.fixture
def query():
    return parse(tomllib.loads(QUERY), "test", ".")["page"]


@pytest.fixture
def accuracy():
    return Accuracy(Kafka("127.0.0.1:1"), 1, Metrics())


def true_counts(query, pane, source, counts):
    record = {"query": "page", "digest": query.digest.hex(), "pane": pane, "source": source, "counts": counts}
    return orjson.dumps(record)


def final(query):
    """Return a final over both panes, and its span."""
    values = np.repeat(np.arange(8), np.multiply(HALF, 2))
    state = query.oracle.zeros()
    query.oracle.add(state, query.oracle.perturb(values, np.random.default_rng(5)))
    span = Span(query.windows[0], START, START + 10)
    return span, window_result(query, span, Snapshot(len(values), 0, 0, 0, state))


def test_the_error_and_the_coverage_are_those_of_the_record(query, accuracy):
    for pane in (START, START + 5):
        accuracy.truth.put(true_counts(query, pane, "a", [1] * 8))  # replaced by what the source says later
        accuracy.truth.put(true_counts(query, pane, "a", [n // 2 for n in HALF]))
        accuracy.truth.put(true_counts(query, pane, "b", [n - n // 2 for n in HALF]))
    span, result = final(query)
    accuracy.measure(query, span, result.findings.of_totals)

    record = orjson.loads(result.window.records[0][1])
    true = np.array(HALF) / sum(HALF)
    order = [int(value) for value in record["values"]]
    value = accuracy.metrics.registry.get_sample_value
    for method, shares in record["shares"].items():
        labels = {"query": "page", "attribute": "", "method": method}
        assert value("hubbub_true_mse", labels) == pytest.approx(np.mean((np.array(shares) - true[order]) ** 2))
    low = np.array(record["low"])
    high = np.array(record["high"])
    covered = np.mean((low <= true[order]) & (true[order] <= high))
    assert value("hubbub_coverage_ratio", {"query": "page", "attribute": ""}) == covered


@pytest.mark.parametrize(
    "wrong_count",
    [None, b"", b"[]", b"{", b'{"digest": "00", "pane": 1, "source": "a", "counts": []}', b'{"counts": [[1], ["x"]]}'],
)
def test_an_invalid_true_count_is_skipped(query, accuracy, wrong_count):
    accuracy.truth.put(wrong_count)
    span, result = final(query)
    accuracy.measure(query, span, result.findings.of_totals)
    assert not next(iter(accuracy.metrics.true_mse.collect())).samples


def test_true_counts_of_another_length_are_skipped(query, accuracy):
    accuracy.truth.put(true_counts(query, START, "a", [1] * 9))
    assert accuracy.truth.shares(query, final(query)[0]) is None


def test_the_newest_panes_remain_and_future_panes_do_not_replace_them(query, accuracy, monkeypatch):
    monkeypatch.setattr("aggregator.publishing.accuracy.PANES", 3)
    span, _ = final(query)
    for pane in (START, START + 5):
        accuracy.truth.put(true_counts(query, pane, "a", HALF), START)
    for number in range(20):
        accuracy.truth.put(true_counts(query, START + 10**6 + number, "a", HALF), START)
    (shares,) = accuracy.truth.shares(query, span)
    assert shares.tolist() == [n / sum(HALF) for n in HALF]
    for pane in (START + 10, START + 15):
        accuracy.truth.put(true_counts(query, pane, "a", HALF), START)
    assert accuracy.truth.shares(query, span) is None
