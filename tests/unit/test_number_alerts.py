"""Alerts of numbers: changes of quantiles and ranges, limits of quantiles, and few false alerts.

Statistical tests have fixed seeds. Each fails by chance with a probability below 1e-6.
"""

from statistics import median

import numpy as np
import pytest
from prometheus_client import generate_latest
from scipy import stats

from aggregator.process.metrics import Metrics
from aggregator.publishing.alerts.state import Silence, State, check_states, dump, load
from aggregator.publishing.alerts.watch import watch_of
from aggregator.publishing.finals.final import final_metrics
from aggregator.publishing.finals.publisher import set_gauges
from aggregator.publishing.kinds.numbers import change_error, limit_error, step
from aggregator.reading.tail.notice import Notice
from aggregator.records.alert import decode, encode
from aggregator.records.findings import NumberFindings
from aggregator.records.span import Span
from aggregator.records.subject import subjects
from aggregator.tallies.snapshot import Snapshot
from benchmarks.number_alerts import NumberFollower, delays, estimates, false_alerts, follow, query
from benchmarks.slow_change import REST, jump
from oracles import oracle
from oracles.errors import QueryError, ReportError
from oracles.mechanisms.entropy import source
from oracles.multi import multi
from oracles.numbers import Numbers, Scale
from oracles.numbers.number_changes import NumberChanges, crossing
from oracles.numbers.tree import estimate_of
from producers.client.respondents import Respondents
from tests import schemas
from tests.results import window_result

START = 60 * 64 * 1_000
MANY = 20.0
"""Alerts a day that a test allows, so that a short one has false alerts to count."""


def estimate(o, positions, rng):
    tally = o.zeros()
    o.add(tally, o.perturb(positions, rng))
    return o.estimate(tally, len(positions))


@pytest.mark.parametrize(("percent", "value", "maximum"), [(50, "p50", 8), (100, "p95", 32), (100, "slow", 16)])
def test_numbers_that_grow_are_found(percent, value, maximum):
    hits = delays(query(), jump(percent / 100), value, runs=3)
    assert len(hits) == 3
    assert median(hits) <= maximum


def test_numbers_that_shrink_are_found():
    assert max(delays(query(), jump(-0.5), "p50", runs=3, kind="fade")) <= 8


def test_numbers_at_rest_bring_few_alerts():
    counts = false_alerts(query(alerts_a_day=MANY), 0.6)
    # Half of the budget is for surges, half for fades. Both are looked at, so each has less than half of 1e-6.
    assert max(counts.values()) <= stats.poisson.ppf(1 - 1e-7, 0.6 * MANY / 2)
    assert counts.keys() == {"surge", "fade"}, "there are false alerts to count"


@pytest.mark.long
def test_numbers_at_rest_bring_few_alerts_for_days():
    counts = false_alerts(query(alerts_a_day=MANY), 12)
    assert max(counts.values()) <= stats.poisson.ppf(1 - 1e-7, 12 * MANY / 2)


@pytest.mark.parametrize("noise", ["table", "each"])
def test_a_panel_at_rest_brings_few_alerts_and_a_change_is_found(noise):
    """Nobody's noise moves, unless the number moves. The errors are then taken as large as they can be."""
    life = query("life", noise=noise, alerts_a_day=MANY)
    assert max(false_alerts(life, 0.4).values(), default=0) <= stats.poisson.ppf(1 - 1e-7, 0.4 * MANY / 2)
    follower = NumberFollower(query("life", noise=noise))
    kinds = set()
    for estimate in estimates(life, 80 + REST, lambda number: 1.0 * (number > 8), 3, clients=20_000):
        kinds |= {(alert.kind, alert.value) for alert in follower.take(estimate)}
    assert ("surge", "p50") in kinds


@pytest.mark.parametrize(("noise", "table"), [("table", 2), ("each", None)])
def test_no_panel_varies_more_than_its_stated_error(noise, table):
    """All clients move from one half of the middle block to the other. A range that holds both does not change."""
    o, rng, scale = oracle("haar", epsilon=1.0, size=16, table=table), np.random.default_rng(5), Scale(0.0, 16.0, 16)
    n, rounds, rises = 2_000, 400, []
    for _ in range(rounds):
        panel = Respondents(o, n, lambda *_: source(rng))
        tallies = [o.zeros() for _ in range(2)]
        for tally, value in zip(tallies, (7, 8), strict=True):
            o.add(tally, panel.reports(np.full(n, value)))
        changes = NumberChanges.of(*(o.estimate(tally, n) for tally in tallies), scale, panel=True)
        rises.append(changes.range(4.0, 12.0))
    # The mean of 400 squares of a normal variable has the standard error sqrt(2 / 400).
    assert np.mean(np.square(rises)) < 1 + 5.5 * np.sqrt(2 / rounds)


def test_counts_of_windows_add_up_to_those_of_all():
    rng = np.random.default_rng(1)
    o = oracle("haar", epsilon=1.0, size=64)
    reports = [o.perturb(rng.integers(0, 64, 500), rng) for _ in range(2)]
    tallies = [o.zeros() for _ in reports]
    for tally, report in zip(tallies, reports, strict=True):
        o.add(tally, report)
    first_estimate, second_estimate = (o.estimate(tally, 500) for tally in tallies)
    whole_estimate = o.estimate(sum(tallies), 1_000)
    assert len(first_estimate.counts) == o.counters
    assert min(first_estimate.counts) >= 0
    assert max(first_estimate.counts) <= 500
    joint_estimate = estimate_of(o, first_estimate.counts + second_estimate.counts, 1_000, 1_000)
    np.testing.assert_array_equal(joint_estimate.shares, whole_estimate.shares)
    assert joint_estimate.answering == whole_estimate.answering
    grr = oracle("grr", epsilon=1.0, size=4)
    values = estimate(grr, rng.integers(0, 4, 300), rng)
    np.testing.assert_array_equal(estimate_of(grr, values.counts, 300, 300).shares, values.shares)


def test_a_median_that_stays_in_its_bin_has_not_changed():
    """Of 93% zeros many become something else, but the median is still zero."""
    rng = np.random.default_rng(2)
    scale = Scale(0.0, 16.0, 16)
    o = oracle("haar", epsilon=4.0, size=16)
    earlier_estimates, present_estimates = (
        estimate(o, np.where(rng.random(50_000) < zeros, 0, 9), rng) for zeros in (0.93, 0.7)
    )
    changes = NumberChanges.of(earlier_estimates, present_estimates, scale, panel=False)
    assert changes.quantile(0.5) == 0.0
    assert changes.quantile(0.9) > 20
    assert changes.range(0.0, 1.0) < -20
    back = NumberChanges.of(present_estimates, earlier_estimates, scale, panel=False)
    assert back.quantile(0.9) < -20


def test_a_limit_is_crossed_when_the_interval_lies_beyond_it():
    rng = np.random.default_rng(3)
    scale = Scale(0.0, 256.0, 256)
    o = oracle("haar", epsilon=2.0, size=256)
    numbers = Numbers(estimate(o, rng.integers(100, 140, 30_000), rng), scale)
    sides = [crossing(numbers, 0.5, limit, 1e-4) for limit in range(257)]
    interval = numbers.quantile(0.5)
    assert sides == sorted(sides, key=["above", None, "below"].index)
    assert all((side != "above" or limit < interval.low) for limit, side in enumerate(sides))
    assert all((side != "below" or limit > interval.high) for limit, side in enumerate(sides))
    assert sides[80] == "above"
    assert sides[160] == "below"
    assert crossing(numbers, 0.5, 119.0, 1e-4) is None
    assert crossing(Numbers(o.estimate(o.zeros(), 0), scale), 0.5, 9.0, 0.1) is None


def run(waits, factors, clients=20_000):
    """Return the alerts of windows whose numbers are larger by these factors."""
    return [
        (number, alert)
        for follower in [NumberFollower(waits)]
        for number, estimate in enumerate(
            estimates(waits, REST + len(factors), lambda at: factors[at] - 1.0, 4, clients=clients)
        )
        for alert in follower.take(estimate)
    ]


def test_a_quantile_enters_and_leaves_by_its_limit():
    waits = query(threshold={"p95": 4000})
    alerts = run(waits, [1.0] * 3 + [3.0] * 4 + [1.0] * 4, clients=100_000)
    events = [alert for alert in alerts if alert[1].kind in ("enter", "leave")]
    assert [(number - REST, alert.kind, alert.value) for number, alert in events] == [
        (3, "enter", "p95"),
        (7, "leave", "p95"),
    ]
    (_, enter), (_, leave) = events
    assert enter.low > 4000 > leave.high
    assert enter.threshold == 4000.0
    assert enter.by == "limit"
    assert enter.quantile == 0.95
    assert enter.unit == "ms"
    assert enter.share == pytest.approx(6_100, rel=0.3)
    assert enter.before == pytest.approx(2_050, rel=0.3)
    for alert in (enter, leave):
        schemas.alert(encode(alert))
        assert decode(encode(alert)) == alert
    text = str(Notice.of(enter))
    assert text.startswith("p95 is now proved above 4,000 ms: ")
    assert text.count(" ms") == 3
    assert "%" not in text


def test_a_surge_of_a_quantile_and_of_a_range():
    hits = {alert.value: alert for _, alert in run(query(), [2.0] * 20) if alert.kind == "surge"}
    assert hits.keys() >= {"p50", "p90", "p95", "slow"}
    p50, slow = hits["p50"], hits["slow"]
    assert p50.share / p50.before == pytest.approx(2.0, rel=0.1)
    assert p50.low < p50.share < p50.high
    assert p50.scale == 1
    assert p50.threshold is None
    assert p50.by is None
    assert p50.unit == "ms"
    assert p50.key.endswith(b"|surge|p50|1")
    assert slow.quantile is None
    assert slow.unit is None
    assert slow.before < slow.share < 1.0
    for alert in hits.values():
        schemas.alert(encode(alert))
    text = str(Notice.of(p50))
    assert text.startswith(("p50 has risen to 1,0", "p50 has risen to 9"))
    assert text.count(" ms") == 2
    assert "%" in str(Notice.of(slow))


def test_a_change_is_said_once_and_its_end_too():
    kinds = [
        alert.kind for number, alert in run(query(), [2.0] * 70 + [1.0] * 20) if alert.value == "p50" and number >= REST
    ]
    assert kinds == ["surge", "fade"]


def test_the_budget_is_shared_by_quantiles_and_ranges():
    plain = query()
    with_limits = query(threshold={"p95": 2000, "p50": 900})
    first_watch, second_watch = (
        watch_of(query, subjects(query)[0], query.windows[0]) for query in (plain, with_limits)
    )
    # One look at each minute's window, and one at each block that is complete.
    looks = 1440 * (1 + 63 / 64)
    assert change_error(first_watch) == pytest.approx(1.0 / (2 * looks * 5))
    assert change_error(second_watch) == pytest.approx(1.0 / (4 * looks * 5))
    assert limit_error(second_watch) == pytest.approx(1.0 / (4 * 1440 * 2))


def test_a_state_of_numbers_reads_back_and_damage_is_refused():
    waits = query(threshold={"p95": 2000})
    state = State(60, {"p95": 2000.0}, (Silence("slow", "fade", 60, 0.1),), has_values=True)
    assert dump(load(dump(state))) == dump(state)
    check_states(waits, [dump(state)])
    with pytest.raises(ReportError, match="values that query"):
        check_states(waits, [dump(State(60, {3: 0.5}))])
    follower = NumberFollower(waits)
    follower.take(next(estimates(waits, 1, lambda _: 0.0, 1)))
    check_states(waits, [dump(follower.state)])
    with pytest.raises(ReportError, match="does not fit"):
        check_states(query(domain={"low": 0, "high": 9, "bins": 16}, ranges={}), [dump(follower.state)])


def test_a_window_without_a_level_changes_nothing():
    waits = query()
    subject = subjects(waits)[0]
    window = waits.windows[0]
    empty_estimate = waits.oracle.estimate(waits.oracle.zeros(), 0)
    findings = NumberFindings(subject, empty_estimate, Numbers(empty_estimate, subject.domain.scale), ())
    state = State(START, {"p95": 1.0}, has_values=True)
    watch = watch_of(waits, subject, window)
    after, news = step(watch, state, Span(window, START, START + 60), findings, ())
    assert after.end == START + 60
    assert after.above == {"p95": 1.0}
    assert news == []
    assert step(watch, after, Span(window, START, START + 60), findings, ()) == (after, [])


def test_a_range_must_not_have_the_name_of_a_quantile():
    with pytest.raises(QueryError, match=r"ranges.*p95"):
        query(ranges={"p95": [10, 100]})


def test_attributes_of_numbers_have_counts_too():
    smp = multi("smp", sizes=[4, 16], epsilon=2.0, oracle=["grr", "haar"])
    rng = np.random.default_rng(8)
    tally = smp.zeros()
    smp.add(tally, smp.perturb(np.stack([rng.integers(0, 4, 900), rng.integers(0, 16, 900)], axis=1), rng))
    number = smp.estimate(tally, 900)[1]
    repeated_estimate = estimate_of(smp.attributes[1], number.counts, number.n, number.n_independent)
    np.testing.assert_array_equal(repeated_estimate.shares, number.shares)


def test_a_run_repeats_its_alerts():
    waits = query()
    one, two = ([encode(alert) for _, alert in follow(waits, jump(1.0), REST + 8, 1)] for _ in range(2))
    assert one == two
    assert one


def test_the_gauges_of_numbers_are_those_of_the_record():
    waits = query(windows=["1m"])
    tally = waits.tally()
    rng = np.random.default_rng(6)
    scale = waits.domains[0].scale
    tally.add(waits.oracle.perturb(scale.positions(rng.lognormal(6.3, 0.8, 5_000)), rng))
    span = Span(waits.windows[0], START, START + 60)
    result = window_result(waits, span, Snapshot(tally.n, 0, 0, 0, tally.state))
    fields = schemas.record(result.window.records[0][1])["numbers"]
    metrics = Metrics()
    metrics.add_queries([waits])
    set_gauges(metrics, waits, final_metrics(result))
    lines = generate_latest(metrics.registry).decode().splitlines()
    numbers = {name: float(number) for line in lines for name, _, number in [line.rpartition(" ")] if line[0] != "#"}
    labels = 'attribute="",'
    for share, row in fields["quantiles"].items():
        names = [
            f'hubbub_quantile{end}{{{labels}quantile="{share}",query="measured"}}' for end in ("", "_low", "_high")
        ]
        assert [numbers[name] for name in names] == pytest.approx([row["value"], row["low"], row["high"]])
    slow = fields["ranges"]["slow"]
    name = f'hubbub_range_share{{{labels}query="measured",range="slow"}}'
    assert numbers[name] == pytest.approx(slow["share"])
    assert numbers['hubbub_mean{attribute="",query="measured"}'] == pytest.approx(fields["mean"]["value"])
    assert not [name for name in numbers if name.startswith(("hubbub_detectable_share", "hubbub_sigma_share"))]
    metrics.clear_finals()
    assert b'quantile="0.5"' not in generate_latest(metrics.registry)
