"""Queries of numbers: the query file, the digest, the topic's definition, answers of clients, and records."""

import json
import math

import numpy as np
import orjson
import pytest

from aggregator.publishing.alerts.watch import watch_of
from aggregator.publishing.findings import find_all
from aggregator.publishing.kinds.numbers import step
from aggregator.records.decoder import decode
from aggregator.records.digits import digits_of
from aggregator.records.kinds.numbers import differences
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.table import dump, query_of
from oracles.errors import QueryError, ReportError
from oracles.numbers import Numbers, Scale
from oracles.query.settings import quantile_name, quantile_of
from producers import Client
from producers.simulation.crowd.distribution import read_law
from tests import schemas
from tests.queries import make_queries, make_query, make_table
from tests.results import build

START = 1_700_000_000
LATENCY = {"low": 1.0, "high": 60_000.0, "scale": "log"}


def ask(domain=LATENCY, edition=1, **settings):
    return make_query({"domain": domain}, **settings, name="load_time", edition=edition)


def total(query, numbers, rng):
    tally = query.tally()
    tally.add(query.oracle.perturb(query.domain.scale.positions(numbers), rng))
    return Snapshot(tally.n, 0, 0, 0, tally.state)


def records(query, whole, withheld=()):
    span = Span(query.windows[0], START, START + query.windows[0].size)
    return [value for _, value in build(query, span, whole, withheld).records]


def test_the_digest_is_that_of_the_documented_definition():
    assert ask().digest.hex() == "6888bce6a2de3ee2"
    unit = {**LATENCY, "unit": "ms"}
    assert ask(unit).digest.hex() == "6888bce6a2de3ee2"
    assert unit["unit"] == "ms"
    assert ask(edition=2).table == 2
    assert ask(edition=2).record_charge == 1.0
    assert ask().record_charge == 2.0


@pytest.mark.parametrize("edition", [1, 2])
def test_a_definition_of_the_topic_is_the_same_query(edition):
    whole_answer = ask({**LATENCY, "unit": "ms"}, edition, ranges={"slow": [1000, 60_000]}, threshold={"p95": 2000.0})
    attributes = {"wait": LATENCY, "kind": ["a", "b"]}
    several = make_query(
        attributes=attributes, ranges={"wait": {"slow": [1000, 60_000]}}, name="load_time", edition=edition
    )
    for query in (whole_answer, several):
        repeated_query = query_of("load_time", json.loads(json.dumps(dump(query))))
        assert repeated_query == query
        assert repeated_query.digest == query.digest
        assert repeated_query.quantiles == (0.5, 0.9, 0.95, 0.99)
    assert whole_answer.limits == ((0.95, 2000.0),)


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"domain": {"low": 1}}, "domain.high", "both ends"),
        ({"domain": {"low": 2, "high": 1}}, "domain", "low must be below high"),
        ({"domain": {"low": 0, "high": 5, "scale": "log"}}, "domain", "above 0"),
        ({"domain": {"low": 0, "high": 5, "bins": 100}}, "domain.bins", "power of two from 16 to 65536"),
        ({"domain": {"low": 0, "high": math.inf}}, "domain.high", "finite"),
        ({"domain": {"low": 0, "high": 1e-300, "scale": "cubic"}}, "domain.scale", "linear, log"),
        ({"oracle": "olh"}, "oracle", "haar"),
        ({"other": True}, "domain", "counts in the bin at that end"),
        ({"sets": {"a": ["1"]}}, "sets", "ranges for numbers"),
        ({"quantiles": [1.5]}, "quantiles", "above 0 and below 1"),
        ({"threshold": {"p100": 4}}, "threshold.p100", "p99.9"),
        ({"threshold": {"p95": 1e9}}, "threshold.p95", "the scale"),
        ({"threshold": 0.01}, "threshold", "table"),
        ({"ranges": {"slow": [5]}}, "ranges.slow", "two numbers"),
        ({"ranges": {"slow": [5, 4]}}, "ranges.slow", "begin below its end"),
        ({"ranges": {"slow": [5, 5.0001]}}, "ranges.slow", "a whole bin"),
        ({"domain": 64, "ranges": {"slow": [5, 9]}}, "ranges", "sets for values"),
        ({"domain": 64, "quantiles": [0.5]}, "quantiles", "no answer of this query is a number"),
        ({"domain": 64, "oracle": "haar"}, "oracle", "for numbers"),
    ],
)
def test_a_wrong_setting_names_its_key(settings, key, message):
    with pytest.raises(QueryError, match=message) as caught:
        ask(**settings)
    assert f"queries.load_time.{key}: " in str(caught.value)


def test_numbers_are_no_attributes_of_rsfd():
    table = make_table(attributes={"wait": LATENCY, "kind": ["a", "b"]}, solution="rsfd")
    with pytest.raises(QueryError, match="smp"):
        make_queries({"load_time": table})


@pytest.mark.parametrize("share", [0.5, 0.95, 0.999, 0.07, 1e-6])
def test_a_quantile_has_one_name(share):
    assert quantile_of(quantile_name(share)) == share
    assert quantile_of("p95.0") is None


def test_a_client_answers_with_a_number():
    query = ask(edition=2)
    report = Client(query, ":memory:").answer(812.4)
    assert query.oracle.check(report) is None
    for value in (3, np.float32(3.5), 1e9, -7):
        assert len(Client(query, ":memory:").answer(value)) == 1
    for value in ("812", True, math.nan, [1.0]):
        with pytest.raises(ReportError, match="number"):
            Client(query, ":memory:").answer(value)
    with pytest.raises(ReportError, match="needs a value"):
        Client(query, ":memory:").answer(None)


def test_a_simulation_draws_numbers():
    domain = ask().domain
    weights = read_law("lognormal:6.3,0.8", domain).weights
    median = domain.scale.edges[np.searchsorted(np.cumsum(weights), 0.5)]
    assert weights.sum() == pytest.approx(1.0)
    assert median == pytest.approx(math.exp(6.3), rel=0.05)
    assert read_law("0.5*normal:10,1+0.5*uniform", domain).weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("bins", [16, 256, 4096])
def test_a_record_shows_the_distribution_and_gives_every_other_answer(bins):
    query = ask({**LATENCY, "bins": bins, "unit": "ms"}, ranges={"slow": [1000, 60_000]})
    rng = np.random.default_rng(3)
    numbers = rng.lognormal(6.0, 0.8, 50_000)
    (value,) = records(query, total(query, numbers, rng))
    fields = schemas.record(value)["numbers"]
    assert fields["unit"] == "ms"
    assert fields["bins"] == bins
    assert sum(fields["levels"]) == 50_000
    assert fields["quantiles"].keys() == {"0.5", "0.9", "0.95", "0.99"}
    median = fields["quantiles"]["0.5"]
    assert median["low"] <= np.median(numbers) <= median["high"]
    slow = fields["ranges"]["slow"]
    assert slow["low"] <= np.mean(numbers >= slow["from"]) <= slow["high"]
    repeated_numbers = decode(value).numbers()
    if bins <= 1024:
        assert repeated_numbers.quantile(0.5).value == pytest.approx(median["value"], rel=1e-5)
        row = repeated_numbers.range(1000, 60_000)
        assert (row.share, row.stderr) == pytest.approx((slow["share"], slow["stderr"]), rel=1e-4)
    assert repeated_numbers.quantile(0.25).low <= np.quantile(numbers, 0.25) <= repeated_numbers.quantile(0.25).high


def test_a_withheld_record_shows_no_numbers():
    query = ask()
    (value,) = records(query, total(query, [5.0] * 30, np.random.default_rng(1)), ["small"])
    assert schemas.record(value)["numbers"] is None
    assert decode(value).numbers() is None


def test_a_record_without_reports_knows_nothing():
    query = ask()
    (value,) = records(query, Snapshot(0, 0, 0, 0, query.oracle.zeros()))
    fields = schemas.record(value)["numbers"]
    assert fields["quantiles"]["0.5"] == {"value": None, "low": None, "high": None}
    assert set(fields["cdf"]) == {None}


def test_the_bytes_do_not_depend_on_the_order_of_reports():
    query, rng = ask(), np.random.default_rng(5)
    reports = query.oracle.perturb(query.domain.scale.positions(rng.lognormal(6.0, 0.8, 5_000)), rng)
    one, two = query.tally(), query.tally()
    one.add(reports)
    two.add(reports[::-1][:1_000].copy())
    two.add(reports[::-1][1_000:].copy())
    assert records(query, Snapshot(5_000, 0, 0, 0, one.state)) == records(query, Snapshot(5_000, 0, 0, 0, two.state))


def test_numbers_and_values_are_attributes_together():
    for solution in ("smp", "spl"):
        table = make_table(attributes={"kind": ["a", "b"], "wait": LATENCY}, solution=solution, epsilon=4.0)
        table["answers"] = "once"
        query = make_query(table, name="load_time", edition=2)
        rng = np.random.default_rng(7)
        waits = rng.lognormal(6.0, 0.8, 40_000)
        values = np.column_stack([rng.integers(0, 2, 40_000), query.domains[1].scale.positions(waits)])
        tally = query.tally()
        tally.add(query.oracle.perturb(values, rng))
        kind, wait = map(schemas.record, records(query, Snapshot(tally.n, 0, 0, 0, tally.state)))
        assert kind["shares"]["unbiased"]
        median = wait["numbers"]["quantiles"]["0.5"]
        assert median["low"] <= np.median(waits) <= median["high"]


@pytest.mark.parametrize(
    "change",
    [
        {"levels": [1] * 17},
        {"levels": [-1] * 8},
        {"cdf": [0.5] * 100},
        {"cdf": [0.5] * 512},
        {"bins": 1 << 20},
        {"low": 9.0, "high": 1.0},
        {"scale": "cubic"},
        {"quantiles": {str(i): {"value": 1, "low": 1, "high": 1} for i in range(65)}},
        {"quantiles": {"0.5": 7}},
        {"ranges": []},
        {"histogram": {"edges": [1.0], "shares": [1.0], "stderr": [1.0], "low": [1.0], "high": [1.0], "norm_sub": []}},
        {"histogram": None},
        {"mean": "fast"},
    ],
)
def test_a_record_with_faulty_numbers_is_refused(change):
    query, rng = ask(), np.random.default_rng(9)
    (value,) = records(query, total(query, rng.lognormal(6.0, 0.8, 5_000), rng))
    fields = orjson.loads(value)
    fields["numbers"] |= change
    with pytest.raises(ReportError):
        decode(orjson.dumps(fields))


FAR = {"low": 1.7e9, "high": 1.7e9 + 86_400.0, "bins": 1024}
"""The seconds of a day, as Unix times. With seven digits they would be multiples of 1,000 s."""


def test_numbers_far_from_zero_have_the_digits_that_tell_their_bins_apart():
    query = ask(FAR, epsilon=4.0)
    rng = np.random.default_rng(1)
    whole_total = total(query, FAR["low"] + rng.uniform(0.0, 60_000.0, 50_000), rng)
    fields = orjson.loads(records(query, whole_total)[0])["numbers"]
    numbers = Numbers(query.oracle.estimate(whole_total.counts, whole_total.n, whole_total.n), query.domain.scale)
    for row, quantity in ((fields["mean"], numbers.mean()), (fields["quantiles"]["0.5"], numbers.quantile(0.5))):
        np.testing.assert_allclose([*row.values()], quantity, rtol=0.0, atol=1.0)


def test_alerts_and_differences_of_numbers_far_from_zero_have_these_digits():
    query, rng = ask(FAR, epsilon=4.0, crowd=1), np.random.default_rng(2)
    scale, watch = query.domain.scale, watch_of(query, subjects(query)[0], query.windows[0])
    state, results = None, []
    for number, latest in enumerate((20_000.0, 60_000.0)):
        whole_total = total(query, FAR["low"] + rng.uniform(0.0, latest, 50_000), rng)
        start = START + 10 * number
        span = Span(query.windows[0], start, start + 10)
        [(_, record)] = build(query, span, whole_total).records
        findings = find_all(query, span, whole_total)
        state, alerts = step(watch, state, span, findings[0], [])
        results.append((decode(record), findings[0].numbers))
    (earlier_rows, earlier_alerts), (later_rows, later_alerts) = results
    rise = next(alert for alert in alerts if alert.value == "p50")
    medians = earlier_alerts.quantile(0.5).value, later_alerts.quantile(0.5).value
    assert (rise.before, rise.share) == pytest.approx(medians, rel=0.0, abs=1.0)
    silence = next(silence for silence in state.silences if silence.value == "p50")
    assert silence.before == rise.before
    [row] = differences(earlier_rows, later_rows, scale.bins, 0.05, ["p50"], None).rows
    assert (row.before, row.after) == pytest.approx(medians, rel=0.0, abs=1.0)


@pytest.mark.parametrize("ends", [(0.0, 60_000.0, 65_536), (10.0, 60_000.0, 256, "log"), (-40.0, 60.0, 4096)])
def test_usual_numbers_have_seven_digits(ends):
    assert digits_of(Scale(*ends)) == 7


@pytest.mark.parametrize("ends", [(1e15, 1e15 + 1.0, 1024), (0.0, 5e-324, 16)])
def test_numbers_never_have_more_digits_than_processors_agree_on(ends):
    assert digits_of(Scale(*ends)) <= 15
