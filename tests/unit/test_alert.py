"""Alerts are true, few, said once, and the same after a restart.

Windows are drawn by the law of their support counts: clients are a sample of a population, and each
count is binomial. False alerts are counted over whole days; by chance a test fails with a
probability below 1e-6 if there are just as many as stated.
"""

import json
import zlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aggregator.publishing.alerts.state import State, dump, load
from aggregator.publishing.alerts.step import Final
from aggregator.publishing.alerts.watch import DAY, Watch, finals_a_day, watch_of
from aggregator.publishing.decision import Decision, decide
from aggregator.publishing.group_findings import find
from aggregator.publishing.kinds import values as kind_values
from aggregator.publishing.window import CountedWindow
from aggregator.records.alert import encode
from aggregator.records.digits import rounded
from aggregator.records.encoder import encode as encode_records
from aggregator.records.span import Span
from aggregator.records.subject import Subject, subjects
from aggregator.tallies.snapshot import Snapshot
from oracles import Estimate, oracle
from oracles.errors import ReportError
from oracles.multi import multi
from oracles.query.domain import Domain
from oracles.query.footprint import stored_windows
from oracles.query.settings import Threshold, Window
from tests import schemas
from tests.queries import make_query, make_table
from tests.results import window_result

SECONDS = Window("tumbling", 10, 10)
HOUR = Window("tumbling", 3600, 3600)
SLIDING = Window("hopping", 60, 10)
SINCE = Window("all", 0, 0)
SIGNIFICANCE = Threshold("significance")
VISITS = Subject(None, Domain(tuple(f"v{number}" for number in range(5_000)), 5_000, False), (), ())


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def watch(window=SECONDS, threshold=SIGNIFICANCE, alerts_a_day=1.0, **options):
    per_day = finals_a_day(window, 10)
    return Watch("visits", b"\x01" * 8, VISITS, window, threshold, 0.05, alerts_a_day, per_day, **options)


def step(*record):
    """Return the state after a final, and the alerts as they are published."""
    state, alerts = kind_values.step(*record)
    return state, [json.loads(encode(alert)) for alert in alerts]


def draw(o, shares, n, rng):
    """Return a window of n clients from a population with these shares."""
    # The clients of a window are a sample of the population, so their own shares vary too.
    true_counts = rng.binomial(n, shares)
    counts = rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q)
    return Estimate(o.shares(counts, n), n, o)


def finals(window, estimates):
    for i, estimate in enumerate(estimates):
        start = i * (window.step or 10)
        yield Final(0 if window.kind == "all" else start, start + (window.size or 10), estimate)


def follow(watching, estimates, state=None):
    """Yield all alerts, each with the final that caused it."""
    for final in finals(watching.window, estimates):
        state, alerts = step(watching, state, final)
        yield from ((final, alert) for alert in alerts)


def position(alert):
    return int(alert["value"][1:])


def population(size):
    """Return shares with common values, a tail of rare ones, and a half of values that nobody has."""
    weights = np.where(np.arange(size) < size // 2, np.arange(1, size + 1) ** -1.1, 0.0)
    return weights / weights.sum()


def at_threshold(size):
    """Return shares with five values at 0.05 and many rare ones."""
    return np.r_[np.full(5, 0.05), np.full(size - 5, 0.75 / (size - 5))]


def count_false_alerts(watching, shares, estimates):
    """Return the number of false alerts of each kind about a population that never changes."""
    counts = Counter()
    for _, alert in follow(watching, estimates):
        share = shares[position(alert)]
        tau = alert["threshold"]
        if alert["kind"] == "surge":  # it has no threshold if no share below 1 is significant
            counts["surge"] += 1
        else:
            counts[alert["kind"]] += share <= tau if alert["kind"] == "enter" else share >= tau
    return counts


def crowds(n, count, rng):
    """Return sizes of windows, equal ones, or some from a tenth to ten times as large."""
    return [n] * count if isinstance(n, int) else (n[0] * np.exp(rng.normal(0, n[1], count))).astype(int).tolist()


CROWDS = [
    ("grr", 1.0, 50, 10_000),
    ("grr", 1.0, 5_000, (5_000, 1.0)),
    ("oue", 1.0, 200, (10_000, 1.0)),
    ("olh", 1.0, 200, 2_000),
    ("grr", 8.0, 200, (5_000, 1.0)),
    ("oue", 4.0, 200, 1_000),
]


@pytest.mark.parametrize(
    ("threshold", "shares"), [(SIGNIFICANCE, population), (Threshold("share", 0.05), at_threshold)]
)
@pytest.mark.parametrize(("window", "days", "alerts_a_day"), [(SECONDS, 0.05, 200.0), (HOUR, 15, 1.0)])
@pytest.mark.parametrize(("name", "epsilon", "size", "n"), CROWDS)
def test_false_alerts_are_at_most_the_stated_number(
    name, epsilon, size, n, window, days, alerts_a_day, threshold, shares
):
    o = oracle(name, epsilon=epsilon, size=size)
    rng = seeded(name, epsilon, size, window, threshold)
    watching = watch(window, threshold, alerts_a_day)
    shares = shares(size)
    count = int(days * watching.finals_a_day)
    counts = count_false_alerts(watching, shares, (draw(o, shares, m, rng) for m in crowds(n, count, rng)))
    # Rare events that are independent follow Poisson's law, so this is the bound of a false alarm.
    assert counts.total() <= stats.poisson.ppf(1 - 1e-6, days * alerts_a_day)


@pytest.mark.long
@pytest.mark.parametrize(("window", "days"), [(SECONDS, 4), (HOUR, 400)])
@pytest.mark.parametrize(("name", "epsilon", "size", "n"), CROWDS)
def test_false_alerts_are_at_most_the_stated_number_over_many_days(name, epsilon, size, n, window, days):
    o = oracle(name, epsilon=epsilon, size=size)
    rng = seeded("long", name, epsilon, size, window)
    watching = watch(window)
    shares = population(size)
    count = int(days * watching.finals_a_day)
    counts = count_false_alerts(watching, shares, (draw(o, shares, m, rng) for m in crowds(n, count, rng)))
    assert counts.total() <= stats.poisson.ppf(1 - 1e-6, days)


def test_sliding_windows_have_at_most_the_stated_number_too():
    """Windows that overlap cause the same false alert once."""
    o = oracle("oue", epsilon=1.0, size=100)
    rng = seeded("sliding")
    shares = population(100)
    # Each window is the sum of six panes, so two windows in a row share five.
    panes = [draw(o, shares, 2_000, rng).counts for _ in range(1_000)]
    sums = (sum(panes[i : i + 6]) for i in range(len(panes) - 5))
    estimates = (Estimate(o.shares(counts, 12_000), 12_000, o) for counts in sums)
    false_counts = count_false_alerts(watch(SLIDING, alerts_a_day=100.0), shares, estimates)
    assert false_counts.total() <= stats.poisson.ppf(1 - 1e-6, 100 * 1_000 / 8_640)


def test_the_stated_number_is_used_up():
    """Without any alerts the tests above would pass too."""
    o = oracle("oue", epsilon=1.0, size=200)
    rng = seeded("used")
    shares = population(200)
    counts = count_false_alerts(watch(HOUR), shares, (draw(o, shares, 10_000, rng) for _ in range(24 * 100)))
    assert counts["surge"] > 10


@pytest.mark.parametrize(("name", "epsilon"), [("grr", 8.0), ("grr", 1.0), ("oue", 4.0), ("olh", 1.0)])
def test_a_value_at_the_threshold_does_not_flap(name, epsilon):
    """This holds even if the noise is so small that each window shows its own share."""
    o = oracle(name, epsilon=epsilon, size=50)
    rng = seeded("flap", name, epsilon)
    for window, count in ((SECONDS, 500), (HOUR, 300)):
        watching = watch(window, Threshold("share", 0.05))
        alerts = [a for _, a in follow(watching, (draw(o, at_threshold(50), 50_000, rng) for _ in range(count)))]
        changes = [alert for alert in alerts if alert["kind"] != "surge"]
        assert len(changes) <= stats.poisson.ppf(1 - 1e-6, count / watching.finals_a_day)


def test_a_value_well_above_significance_enters_once_and_stays_and_one_at_it_does_not():
    o = oracle("oue", epsilon=1.0, size=100)
    rng = seeded("significance")
    shares = np.full(100, 1e-4)
    # The threshold follows from the number of clients alone, so any window of this size has it.
    tau = draw(o, np.full(100, 0.01), 10_000, rng).significance()
    shares[[7, 8]] = tau, tau + 5.0 * o.noise(10_000).sigma
    alerts = [alert for _, alert in follow(watch(), (draw(o, shares, 10_000, rng) for _ in range(1_000)))]
    assert [(alert["kind"], position(alert), alert["threshold"]) for alert in alerts] == [("enter", 8, rounded(tau))]


def test_a_value_keeps_the_threshold_that_it_entered_by():
    """At night few clients cannot prove a value that all clients prove. By day it is still above the threshold."""
    o = oracle("oue", epsilon=2.0, size=64)
    rng = seeded("night")
    shares = np.full(64, 0.005)
    shares[9] = 0.1
    crowd = [20_000] * 10 + [500] * 200 + [20_000] * 10
    estimates = [draw(o, shares, n, rng) for n in crowd]
    # By night the share lies below the threshold of the window, so only the old threshold keeps it above.
    assert estimates[100].significance() > 0.1 > estimates[0].significance()
    events = [(alert["kind"], position(alert)) for _, alert in follow(watch(HOUR), estimates)]
    assert events == [("enter", 9)]


def test_the_first_final_that_shows_values_is_a_baseline():
    o = oracle("grr", epsilon=4.0, size=8)
    rng = seeded("baseline")
    shares = [np.r_[0.5, np.zeros(7)], np.r_[0.5, 0.4, np.zeros(6)]]
    empty_estimate = Estimate(np.full(8, np.nan), 0, o)
    estimates = [empty_estimate, *(draw(o, share, 20_000, rng) for share in shares)]
    events = [(alert["kind"], position(alert), alert["baseline"]) for _, alert in follow(watch(HOUR), estimates)]
    assert events == [("enter", 0, True), ("enter", 1, False), ("surge", 1, False)]


@pytest.mark.parametrize("name", ["grr", "oue", "olh"])
def test_values_at_the_threshold_leave_as_rarely_as_stated(name):
    """Fifteen values entered, all exactly at the threshold. This is the most false leaves that can occur."""
    o = oracle(name, epsilon=1.0, size=50)
    rng = seeded("leave", name)
    runs = 200
    shares = np.r_[np.full(15, 0.05), np.full(35, 0.25 / 35)]
    watching = watch(HOUR, Threshold("share", 0.05), alerts_a_day=7.2)
    state = State(0, dict.fromkeys(range(15), 0.05))
    counts = Counter()
    for _ in range(runs):
        _, events = step(watching, state, Final(0, 3600, draw(o, shares, 5_000, rng)))
        counts.update(alert["kind"] for alert in events)
    assert counts["leave"] <= stats.poisson.ppf(1 - 1e-6, runs * watching.error())


def levels():
    """Return finals with the ninth value at 0.01, then at 0.3, then at 0.01 again."""
    low = np.full(64, 0.01)
    high = np.full(64, 0.01)
    high[9] = 0.3
    return [low] * 20 + [high] * 20 + [low] * 100


def test_a_value_that_rises_enters_and_one_that_falls_leaves():
    o = oracle("olh", epsilon=2.0, size=64)
    rng = seeded("rise")
    estimates = [draw(o, level, 20_000, rng) for level in levels()]
    alerts = follow(watch(threshold=Threshold("share", 0.1)), estimates)
    events = [(alert["kind"], position(alert), final.end) for final, alert in alerts]
    assert events == [("enter", 9, 210), ("surge", 9, 210), ("leave", 9, 410), ("fade", 9, 410)]


def test_since_the_start_values_enter_and_leave_but_do_not_surge():
    """Every such window overlaps all before it."""
    o = oracle("olh", epsilon=2.0, size=64)
    rng = seeded("since")
    counts = np.cumsum([draw(o, level, 20_000, rng).counts for level in levels()], axis=0)
    # A window since the start holds all reports so far.
    estimates = [Estimate(o.shares(c, 20_000 * i), 20_000 * i, o) for i, c in enumerate(counts, 1)]
    events = [(alert["kind"], position(alert)) for _, alert in follow(watch(SINCE, Threshold("share", 0.1)), estimates)]
    assert events == [("enter", 9), ("leave", 9)]


def test_a_rise_is_compared_with_a_window_that_does_not_overlap_and_reported_once():
    """A hopping window contains more and more of a rise. It alerts once, as soon as the rise is significant."""
    o = oracle("oue", epsilon=2.0, size=64)
    rng = seeded("sliding rise")
    low = np.full(64, 0.01)
    high = np.full(64, 0.01)
    high[9] = 0.2
    panes = [draw(o, low if i < 30 else high, 4_000, rng).counts for i in range(80)]
    estimates = [Estimate(o.shares(sum(panes[i : i + 6]), 24_000), 24_000, o) for i in range(75)]
    surges = [(final, alert) for final, alert in follow(watch(SLIDING), estimates) if alert["kind"] == "surge"]
    assert {position(alert) for _, alert in surges} == {9}
    assert 1 <= len(surges) <= 2
    first, alert = surges[0]
    assert 300 < first.end <= 340
    earlier = [e for e, final in zip(estimates, finals(SLIDING, estimates), strict=True) if final.end <= first.start]
    assert alert["before"] in [e.shares[9] for e in earlier]


def test_reference_windows_are_few_and_the_newest_comparable_ones():
    o = oracle("grr", epsilon=1.0, size=4)
    window = Window("hopping", 3600, 10)
    e = draw(o, np.full(4, 0.25), 1_000, seeded("kept"))
    state, ends = None, []
    for final in finals(window, [e] * 2_000):
        state, _ = step(watch(window), state, final)
        ends.append([reference.end for reference in state.references])
        comparable = [end for end in ends[-1] if end <= final.start + 10]
        assert len(ends[-1]) <= stored_windows(window)
        assert len(comparable) == 1 or final.end < 2 * 3600
        if comparable and final.end > 3 * 3600:
            assert final.start + 10 - comparable[0] < 3600 / 4 + 10
    assert stored_windows(window) in map(len, ends), "a state may be as large as load says, and no larger"
    tumbling, _ = step(watch(), None, Final(0, 10, e))
    assert [reference.end for reference in tumbling.references] == [10]
    assert stored_windows(SECONDS) == 1
    assert stored_windows(SINCE) == 0


@pytest.mark.parametrize(("size", "every"), [(20, 10), (30, 10), (40, 10), (50, 20), (60, 50), (3600, 70)])
def test_no_kind_of_window_keeps_more_references_than_the_limit(size, every):
    o = oracle("grr", epsilon=1.0, size=4)
    window = Window("hopping", size, every)
    e = draw(o, np.full(4, 0.25), 1_000, seeded("kept"))
    state, maximum = None, 0
    for final in finals(window, [e] * 300):
        state, _ = step(watch(window), state, final)
        maximum = max(maximum, len(state.references))
    assert maximum == stored_windows(window)


def test_a_rise_of_a_few_reports_is_no_surge():
    """With grr and many values a few reports are many standard errors, although they mean nothing."""
    o = oracle("grr", epsilon=1.0, size=41_270)
    rng = seeded("handful")
    shares = np.full(o.size, 1 / o.size)
    estimates = [draw(o, shares, 5_000, rng) for _ in range(12)]
    z = [(later.shares - was.shares) / np.sqrt(later.stderr**2 + was.stderr**2) for was, later in pairwise(estimates)]
    # A plain z test would alert: five standard errors have a probability of 3e-7, and here they are common.
    assert sum((score > 5.0).sum() for score in z) > 5
    assert list(follow(watch(), estimates)) == []


def test_memoised_answers_cause_no_false_alerts():
    """Each window has ten reports of every client."""
    o = oracle("oue", epsilon=1.0, size=200)
    rng = seeded("memoised")
    shares = population(200)
    estimates = (draw(o, shares, 2_000, rng) for _ in range(500))
    counts = count_false_alerts(watch(HOUR), shares, (Estimate(e.shares, 20_000, o, 2_000) for e in estimates))
    assert counts.total() <= stats.poisson.ppf(1 - 1e-6, 500 / 24)


def test_an_attribute_of_a_sample_causes_the_same_alerts():
    m = multi("smp", sizes=[20, 5], epsilon=4.0, oracle="grr")
    rng = seeded("smp")
    estimates = []
    for common_value in [3] * 10 + [8] * 10:
        values = np.where(rng.random(5_000) < 0.4, common_value, rng.integers(0, 20, 5_000))
        state = m.zeros()
        m.add(state, m.perturb(np.column_stack([values, values % 5]), rng))
        estimates.append(m.estimate(state, 5_000)[0])
    watching = replace(watch(threshold=Threshold("share", 0.2)), subject=VISITS._replace(name="colour"))
    events = [(alert["kind"], position(alert), alert["attribute"]) for _, alert in follow(watching, estimates)]
    kinds = [("enter", 3), ("enter", 8), ("leave", 3), ("surge", 8), ("fade", 3)]
    assert events == [(kind, value, "colour") for kind, value in kinds]


def story(seed, window=SLIDING):
    """Return windows in which values come and go. One is empty, and one has no independent reports."""
    o = oracle("olh", epsilon=3.0, size=30)
    rng = seeded("story", seed)
    shares = rng.dirichlet(np.full(30, 0.3), 8)
    estimates = [draw(o, shares[i // 6], int(rng.integers(1_000, 5_000)), rng) for i in range(40)]
    # Without reports, without independent reports, and with some: each leaves the state in its own way.
    estimates[11] = Estimate(np.full(30, np.nan), 0, o)
    estimates[17] = replace(estimates[17], n_independent=0)
    estimates[23] = replace(estimates[23], n_independent=estimates[23].n // 3)
    return list(finals(window, estimates))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 50), st.sampled_from([SECONDS, SLIDING, SINCE]), st.sets(st.integers(0, 39)))
def test_a_restart_repeats_every_alert_byte_for_byte_and_forgets_none(seed, window, restarts):
    """At each restart the state is decoded, and the finals of the last minute repeat."""
    watching = watch(window, Threshold("share", 0.1))
    windows = story(seed, window)
    state, expected = None, []
    for final in windows:
        state, alerts = step(watching, state, final)
        expected.append(json.dumps(alerts))
    # A story without alerts would repeat none, and prove nothing.
    assert sum(text.count('"id"') for text in expected) > 3

    state, stored = None, []
    for i, final in enumerate(windows):
        if i in restarts and state is not None:
            state = load(dump(state))
            for repeated_window in windows[max(0, i - 6) : i]:
                same, alerts = step(watching, state, repeated_window)
                assert same is state
                assert alerts == []
        state, alerts = step(watching, state, final)
        stored.append(json.dumps(alerts))
    assert stored == expected


def test_a_state_decodes_to_the_same_values():
    state = None
    for final in story(1):
        state, _ = step(watch(SLIDING, Threshold("share", 0.1)), state, final)
    again = load(dump(state))
    assert again.end == state.end
    assert again.above == state.above
    assert again.silences == state.silences
    assert state.above
    assert [(k.end, k.n, k.n_independent, k.counts.tolist()) for k in again.references] == [
        (k.end, k.n, k.n_independent, k.counts.tolist()) for k in state.references
    ]
    assert dump(again) == dump(state)
    assert load(dump(State(7))).references == ()
    with pytest.raises(ReportError, match="version 9"):
        load(dump(state).replace(b'"version":3', b'"version":9', 1))


def test_an_alert_describes_the_event_and_its_id_follows_from_it():
    o = oracle("oue", epsilon=2.0, size=8)
    rng = seeded("fields")
    earlier_values, present_values = (draw(o, np.array([share, *[0.05] * 7]), 20_000, rng) for share in (0.1, 0.6))
    watching = watch(threshold=Threshold("share", 0.3))
    state, nothing = step(watching, None, Final(0, 10, earlier_values))
    assert nothing == []
    final = Final(10, 20, present_values, np.linspace(0.9, 0.2, 8))
    _, alerts = step(watching, state, final)
    low, high = present_values.interval()
    compared = {"scale": 1, "from": {"start": 0, "end": 10}, "to": {"start": 10, "end": 20}}
    for alert, kind in zip(alerts, ("enter", "surge"), strict=True):
        assert alert.pop("id")
        assert alert == {
            "version": 2,
            "kind": kind,
            "query": "visits",
            "digest": "0101010101010101",
            "attribute": None,
            "value": "v0",
            "window": {"kind": "tumbling", "start": 10, "end": 20, "size": 10, "step": 10},
            "share": present_values.shares[0],
            "low": rounded(low[0]),
            "high": rounded(high[0]),
            "threshold": 0.3,
            "baseline": False,
            "before": earlier_values.shares[0],
            "probability": 0.9,
            "by": "share",
            **dict.fromkeys(("quantile", "unit")),
            **(compared if kind == "surge" else dict.fromkeys(compared)),
        }
    ids = set()
    for other_value in (
        watching,
        replace(watching, query="q"),
        replace(watching, digest=b"2" * 8),
        replace(watching, subject=VISITS._replace(name="a")),
    ):
        for variant in (final, replace(final, probability=None), replace(final, start=11, end=21)):
            ids |= {alert["id"] for alert in step(other_value, state, variant)[1]}
    # Two alerts of each final, four watches and three finals, and no two have the same id.
    assert len(ids) == 2 * 4 * 3


def test_the_first_final_lists_all_frequent_values():
    o = oracle("oue", epsilon=2.0, size=8)
    _, alerts = step(watch(), None, Final(0, 10, draw(o, np.full(8, 0.125), 50_000, seeded("first"))))
    assert [(alert["kind"], alert["before"]) for alert in alerts] == [("enter", None)] * 8


def test_the_number_of_finals_decides_the_significance_of_alerts():
    assert [finals_a_day(window, 10) for window in (SECONDS, HOUR, SLIDING, SINCE)] == [8_640, 24, 8_640, 8_640]
    assert watch(HOUR).error() == 1 / (4 * 24)
    assert watch(Window("tumbling", DAY, DAY), alerts_a_day=100.0).error() == 0.5


PROFILE_TABLE = make_table(attributes={"age": 12, "sex": ["f", "m"]}, solution="smp", oracle="grr", epsilon=4.0)
PROFILE_RULES = {"methods": ["norm_sub", "calibrate"], "threshold": 0.2, "alerts_a_day": 500.0}
PROFILE = make_query(PROFILE_TABLE | PROFILE_RULES, name="profile", budget=1e9, windows=["10s", "1m/10s"])


def all_findings(rng):
    """Yield the findings of finals of 10 s. First the third age and f are common, then the seventh age and m."""
    for i in range(12):
        age, sex = ((3, 0), (7, 1))[i // 6]
        common = rng.random((4_000, 2)) < 0.5
        values = np.where(common, [age, sex], np.column_stack([rng.integers(0, 12, 4_000), rng.integers(0, 2, 4_000)]))
        state = PROFILE.oracle.zeros()
        PROFILE.oracle.add(state, PROFILE.oracle.perturb(values, rng))
        span = Span(PROFILE.windows[0], 10 * i, 10 * i + 10)
        yield find(CountedWindow(PROFILE, span, Snapshot(4_000, 0, 0, 0, state)))


def test_the_finals_of_a_query_cause_alerts_for_each_attribute():
    results = list(all_findings(seeded("records")))
    states = []
    all_events = []
    for findings in results:
        decision = decide(findings, states)
        assert len(decision.states) == 2
        assert decide(findings, states) == decision
        states = decision.states
        assert decide(findings, states) == Decision([], states)
        all_events += decision.alerts
    summaries = []
    for key, value in all_events:
        alert = schemas.alert(value)
        end = alert["window"]["end"]
        digest = PROFILE.digest.hex()
        path = [alert["attribute"], "tumbling", 10, 10, end, alert["kind"], alert["value"]]
        if alert["scale"]:
            path += [alert["scale"]]
        assert key.decode() == "|".join(map(str, ["profile", digest, *path]))
        assert alert["query"] == "profile"
        assert alert["digest"] == digest
        summaries.append((end, alert["attribute"], alert["kind"], alert["value"]))
    changes = {(attribute, kind, value) for end, attribute, kind, value in summaries if end == 70}
    assert {(attribute, kind, value) for end, attribute, kind, value in summaries if end == 10} == {
        ("age", "enter", "3"),
        ("sex", "enter", "f"),
        ("sex", "enter", "m"),
    }
    assert changes == {
        ("age", "enter", "7"),
        ("age", "leave", "3"),
        ("age", "surge", "7"),
        ("age", "fade", "3"),
        ("sex", "surge", "m"),
        ("sex", "fade", "f"),
    }
    assert len({key for key, _ in all_events}) == len(all_events)


def test_an_alert_holds_the_numbers_of_its_record():
    findings, *_ = all_findings(seeded("numbers"))
    records = [schemas.record(value) for _, value in encode_records(findings).records]
    by_attribute = {record["attribute"]: record for record in records}
    for _, value in decide(findings).alerts:
        alert = schemas.alert(value)
        record = by_attribute[alert["attribute"]]
        at = record["values"].index(alert["value"])
        assert [alert["share"], alert["low"], alert["high"]] == [
            record["shares"]["unbiased"][at],
            record["low"][at],
            record["high"][at],
        ]
        chances = {hitter["value"]: hitter["probability"] for hitter in record["hitters"]["norm_sub"]}
        assert alert["probability"] == chances[alert["value"]]


def test_false_alerts_of_a_query_are_shared_out_over_its_windows_and_attributes():
    """Two kinds of windows and two attributes have 4 * 8,640 finals a day."""
    for window in PROFILE.windows:
        for subject in subjects(PROFILE):
            assert watch_of(PROFILE, subject, window).error() == 500 / (4 * 4 * 8_640)


def test_an_alert_without_attributes_has_an_empty_place_in_its_key():
    query = make_query(domain=5, oracle="grr", epsilon=4.0, budget=1e9, windows=["all"], name="visits")
    counts = np.append([900, 50, 50, 0, 0], np.zeros(64, np.int64))
    span = Span(query.windows[0], 0, 50)
    (key, value), *_ = window_result(query, span, Snapshot(1_000, 0, 0, 0, counts)).decision.alerts
    assert key.decode() == f"visits|{query.digest.hex()}||all|0|0|50|enter|0"
    assert schemas.alert(value)["attribute"] is None
