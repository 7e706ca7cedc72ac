"""Alerts over months, from the code that publishes them. They do not flap, and they report real changes.

False alerts are those of a population that does not cross a threshold. By chance a test fails with a
probability below 1e-6 if there are as many as stated.
"""

import zlib
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from aggregator.publishing.alerts.step import Final
from aggregator.publishing.alerts.watch import DAY, Watch, finals_a_day
from aggregator.publishing.kinds.values import step
from aggregator.records.subject import Subject
from oracles import Estimate, oracle
from oracles.query.domain import Domain
from oracles.query.settings import Threshold, Window

SIZES = [10, 600, 3600, DAY]
SIZE = 256
EPSILON = 2.0
CLIENTS = 20_000


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def zipf(size=SIZE):
    weights = np.arange(1, size + 1) ** -1.1
    return weights / weights.sum()


def watch(seconds, *, panel=False):
    window = Window("tumbling", seconds, seconds)
    per_day = finals_a_day(window, seconds)
    subject = Subject(None, Domain(None, SIZE, False), (), ())
    return Watch("visits", bytes(8), subject, window, Threshold("significance"), 0.05, 1.0, per_day, panel)


def sampled(o, days, seconds, rng, *, rhythm=0.0, drift=0.0):
    """Yield windows of new clients. Their number and half of the shares rise and fall with the time of day."""
    base = zipf()
    moves = np.where(np.arange(SIZE) % 2 == 0, 1.0, -1.0)
    for i in range(int(days * DAY / seconds)):
        hour = np.sin(2 * np.pi * i * seconds / DAY)
        shares = base * (1 + drift * moves * np.sin(2 * np.pi * i * seconds / (30 * DAY)))
        n = int(CLIENTS * (1 + rhythm * hour))
        true_counts = rng.binomial(n, shares / shares.sum())
        counts = rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q)
        yield Estimate(o.shares(counts, n), n, o)


def panel(o, windows, rng, *, churn, shares=zipf, rise=None):
    """Yield estimates of the same clients in every window. Each has one report for each class for life.

    In each window the share `churn` of the clients draws a new value.

    From window `rise`[0] on the value `rise`[1] has `rise`[2] more of the clients.
    """
    rows = o.rows(CLIENTS, rng)
    memory = np.stack([o.answer(np.full(CLIENTS, c), rows, rng) for c in range(o.classes)])
    law = shares()
    values = rng.choice(SIZE, CLIENTS, p=law)
    for i in range(windows):
        new = rng.random(CLIENTS) < churn
        values = np.where(new, rng.choice(SIZE, CLIENTS, p=law), values)
        here = values
        if rise is not None and i >= rise[0]:
            here = values.copy()
            here[: int(rise[2] * CLIENTS)] = rise[1]
        state = o.zeros()
        o.add(state, memory[o.classify(here, rows), np.arange(CLIENTS)])
        yield o.estimate(state, CLIENTS)


def follow(watching, estimates):
    state, seconds = None, watching.window.size
    for i, estimate in enumerate(estimates):
        state, alerts = step(watching, state, Final(i * seconds, (i + 1) * seconds, estimate))
        yield from ((i, alert) for alert in alerts)


def count_alerts(watching, estimates):
    """Return the number of alerts by kind. The first entry of a value counts as "news", and later ones as "enter"."""
    counts = Counter()
    known_values = set()
    for _, alert in follow(watching, estimates):
        kind = alert.kind
        if kind == "enter" and alert.value not in known_values:
            known_values.add(alert.value)
            kind = "first"
        counts[kind] += 1
    return counts


POPULATIONS = {"static": {}, "daily rhythm": {"rhythm": 0.9}, "drift": {"drift": 0.2}}
QUICK = {10: 0.02, 600: 2, 3600: 8, DAY: 100}
LONG = {10: 1, 600: 30, 3600: 180, DAY: 3000}


def flaps(population, seconds, days):
    o = oracle("oue", epsilon=EPSILON, size=SIZE)
    rng = seeded(population, seconds, days)
    counts = count_alerts(watch(seconds), sampled(o, days, seconds, rng, **POPULATIONS[population]))
    assert 3 <= counts["first"] < 40
    maximum = stats.poisson.ppf(1 - 1e-6, days / 4)
    # A share that drifts crosses the threshold truly, once a month and way.
    crossings = 40 * days / 30 if population == "drift" else 0
    assert counts["enter"] <= maximum + crossings
    assert counts["leave"] <= maximum + crossings
    assert counts["surge"] <= maximum
    return counts


@pytest.mark.parametrize("seconds", SIZES)
@pytest.mark.parametrize("population", POPULATIONS)
def test_alerts_do_not_flap(population, seconds):
    flaps(population, seconds, QUICK[seconds])


@pytest.mark.long
@pytest.mark.parametrize("seconds", SIZES)
@pytest.mark.parametrize("population", POPULATIONS)
def test_alerts_do_not_flap_for_months(population, seconds):
    flaps(population, seconds, LONG[seconds])


def panels(churn, seconds, windows):
    """Return alerts of a panel. An old answer and its noise repeat until the value changes."""
    o = oracle("hr", epsilon=EPSILON, size=SIZE)
    rng = seeded("panel", churn, seconds, windows)
    counts = count_alerts(watch(seconds, panel=True), panel(o, windows, rng, churn=churn))
    days = windows * seconds / DAY
    maximum = stats.poisson.ppf(1 - 1e-6, days / 4)
    assert counts["first"] >= 2
    assert [counts[kind] <= maximum for kind in ("enter", "leave", "surge")] == [True] * 3, counts
    return counts


@pytest.mark.parametrize("churn", [0.0, 0.1])
def test_a_panel_does_not_flap(churn):
    panels(churn, DAY, 60)


@pytest.mark.long
@pytest.mark.parametrize("seconds", SIZES)
@pytest.mark.parametrize("churn", [0.0, 0.01, 0.1, 1.0])
def test_a_panel_does_not_flap_for_months(churn, seconds):
    panels(churn, seconds, 3000)


def test_a_panel_alerts_on_a_rise_of_three_standard_errors():
    """Two windows of other people would need a difference of over five standard errors."""
    o = oracle("hr", epsilon=EPSILON, size=SIZE)
    rng = seeded("risen")
    rise = 3.0 * float(o.noise(CLIENTS).sigma)
    for watching, expected in ((watch(3600, panel=True), [20]), (watch(3600), [])):
        windows = panel(o, 30, rng, churn=0.05, rise=(20, 200, rise))
        surges = [i for i, alert in follow(watching, windows) if (alert.kind, alert.value) == ("surge", "200")]
        assert surges == expected


@pytest.mark.parametrize("seconds", SIZES)
def test_a_value_that_gains_three_standard_errors_in_each_window_causes_an_alert(seconds):
    o = oracle("oue", epsilon=EPSILON, size=SIZE)
    rng = seeded("ramp", seconds)
    sigma = float(o.noise(CLIENTS).sigma)
    base = zipf()
    estimates = []
    for i in range(20):
        shares = base.copy()
        shares[200] += 3.0 * sigma * max(i - 4, 0)
        true_counts = rng.binomial(CLIENTS, shares / shares.sum())
        counts = rng.binomial(true_counts, o.p) + rng.binomial(CLIENTS - true_counts, o.q)
        estimates.append(Estimate(o.shares(counts, CLIENTS), CLIENTS, o))
    windows = [i for i, alert in follow(watch(seconds), estimates) if alert.value == "200"]
    assert 5 <= windows[0] <= 9
