"""The study of heavy hitters and alerts: false ones, power, and the expectation of a posterior."""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

from aggregator.publishing.alerts.step import Final
from aggregator.publishing.alerts.watch import DAY, Watch, finals_a_day
from aggregator.publishing.kinds.values import step
from aggregator.records.subject import Subject
from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from benchmarks.harness import zipf
from oracles import ORACLES, Estimate, oracle
from oracles.calibrate import calibrate
from oracles.heavy import Evidence, heavy_hitters
from oracles.query.domain import Domain
from oracles.query.settings import Threshold, Window
from oracles.types import Ints

WINDOWS, REAL = 6_000, 1_500
"""Numbers of windows with drawn estimates, and with real reports."""
DRAWS = 100_000
FAMILY = {
    "dense": ("oue", 1.0, 1_024, 100_000),
    "dense, olh": ("olh", 1.0, 1_024, 100_000),
    "sparse, grr": ("grr", 6.0, 1_024, 2_000),
    "sparse, oue": ("oue", 6.0, 1_024, 2_000),
    "sparse, ss": ("ss", 6.0, 1_024, 2_000),
    "few people, oue": ("oue", 8.0, 16_384, 500),
}
"""Oracle, epsilon, values and people. Sixteen values have clients, and all others have none."""
SMP = "oue, a fifth answering (smp)"
POWER = [(1_024, 1.0, 100_000), (1_024, 4.0, 10_000), (1_024, 8.0, 1_000), (16_384, 8.0, 2_000)]
ALERTS = {("static", 600): 30, ("static", 3600): 180, ("static", DAY): 2000}
ALERTS |= {("daily rhythm", 600): 30, ("daily rhythm", 3600): 180}
RUNS = 12

TEXT = """The study checks promises about lists. `decided` names a false value in at most 5% of windows
(family-wise, by Holm's procedure with exact tails). The papers' list (`rule="paper"`: all above Phi^-1(1 -
0.05/d) sigma) makes the same promise with normal tails. A value at `detectable` is found with probability 0.9.
A query with `alerts_a_day = 1` has at most a quarter of a false alert of each kind per day."""


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    family = {label: family_error(label) for label in track(list(FAMILY), description="family-wise error")}
    keys = [(name, *cell) for name, cell in product((*ORACLES, SMP), POWER)]
    power = {key: detection(*key) for key in track(keys, description="power")}
    totals = {key: alerts(*key, days) for key, days in track(list(ALERTS.items()), description="alerts")}
    data = {"Zipf 1.1": populations.zipf(1_024, 1_000_000, 1.1)}
    retail = populations.items(folder, "retail")
    if retail is None:
        section.omissions.append("expected precision and recall on Retail")
    else:
        data["Retail"] = retail
    cells = list(product(data, (1.0, 2.0, 4.0)))
    forecasts = {key: expectations(data[key[0]], *key) for key in track(cells, description="expected")}
    section.tables += [_family(family), _power(power), _alerts(totals), _expected(forecasts)]
    section.claims += _claims(family, power, totals, forecasts)
    return section


def family_error(label: str) -> tuple[Figure, Figure, Figure]:
    """Return the shares of windows with a false value in `decided` and in the papers' list, and the number decided."""
    name, epsilon, size, people = FAMILY[label]
    o = oracle(name, epsilon=epsilon, size=size)
    rng = seeded("family", label)
    counts = np.zeros(size, np.int64)
    counts[:16] = populations.zipf(16, people, 1.1)
    errors = Counter[str]()
    number = []
    windows = WINDOWS if name in draw.JOINT else REAL
    for e in draw.windows(o, counts, windows, rng):
        members = Evidence(e).decided
        errors["decided"] += bool((members >= 16).any())
        errors["paper"] += bool((e.shares[16:] > e.noise.significance(size, 0.05)).any())
        number.append(float((members < 16).sum()))
    rates = [Figure.rate(errors[rule], windows) for rule in ("decided", "paper")]
    return rates[0], rates[1], Figure.of(number)


Power = tuple[float, Figure] | None
"""A detectable share, and the share of estimates that reach the critical count there."""


def detection(name: str, size: int, epsilon: float, people: int) -> Power:
    """Return the power at the detectable share. With smp a fifth of the people answer."""
    is_sample = name == SMP
    o = oracle("oue" if is_sample else name, epsilon=epsilon, size=size)
    rng = seeded("power", name, size, epsilon, people)
    n = people // 5 if is_sample else people
    share = o.detectable(n, sampled=is_sample)
    critical = o.critical(n)
    if share is None or critical is None:
        return None
    holders = round(share * people)
    own = rng.hypergeometric(holders, people - holders, n, DRAWS) if is_sample else np.full(DRAWS, holders)
    counts = rng.binomial(own, o.p) + rng.binomial(n - own, o.q)
    return share, Figure.rate(int((counts >= critical).sum()), DRAWS)


def alerts(population: str, seconds: int, days: int) -> Counter[str]:
    """Count the alerts of these days by kind. The first entry of a value is counted separately."""
    o = oracle("oue", epsilon=2.0, size=256)
    rng = seeded("alerts", population, seconds)
    window = Window("tumbling", seconds, seconds)
    per_day = finals_a_day(window, seconds)
    subject = Subject(None, Domain(None, 256, False), (), ())
    watch = Watch("q", bytes(8), subject, window, Threshold("significance"), 0.05, 1.0, per_day)
    weights = np.arange(1, 257) ** -1.1
    weights /= weights.sum()
    totals = Counter[str]()
    values = set[str]()
    state = None
    for i in range(int(days * DAY / seconds)):
        swing = 0.9 * np.sin(2 * np.pi * i * seconds / DAY) if population == "daily rhythm" else 0.0
        n = int(20_000 * (1.0 + swing))
        e = draw.estimate(o, rng.multinomial(n, zipf(256)), rng)
        state, new = step(watch, state, Final(i * seconds, (i + 1) * seconds, e))
        for alert in new:
            # Each value enters once, which is no false alert.
            first = alert.kind == "enter" and alert.value not in values
            values.add(alert.value)
            totals["first" if first else alert.kind] += 1
    return totals


Expectation = dict[str, Figure]


def expectations(counts: Ints, name: str, epsilon: float) -> Expectation:
    """Return expected and true precision and recall of calibrate's list, at half the significance threshold."""
    o = oracle("oue", epsilon=epsilon, size=len(counts))
    rng = seeded("expected", name, epsilon)
    truth = counts / counts.sum()
    numbers_by_label: dict[str, list[float]] = {}
    for _ in range(RUNS):
        e: Estimate = draw.estimate(o, counts, rng)
        threshold = 0.5 * e.noise.significance(len(counts), 0.05)
        posterior = calibrate(e)
        hitters = heavy_hitters(e, posterior.shares, threshold=threshold, posterior=posterior)
        heavy = truth > threshold
        hits = float(heavy[hitters.positions].sum())
        forecast = hitters.expected
        if forecast is None or forecast.precision is None or forecast.recall is None:
            continue
        numbers = (forecast.precision, hits / len(hitters), forecast.recall, hits / float(heavy.sum()))
        for label, number in zip(("precision", "true precision", "recall", "true recall"), numbers, strict=True):
            numbers_by_label.setdefault(label, []).append(number)
    return {label: Figure.of(numbers) for label, numbers in numbers_by_label.items()}


def _family(family: dict[str, tuple[Figure, Figure, Figure]]) -> Table:
    rows = []
    for label, (ours, theirs, number) in family.items():
        name, epsilon, size, people = FAMILY[label]
        rows.append(
            [label, f"`{name}`", f"{epsilon:g}", f"{size:,}", f"{people:,}", str(ours), str(theirs), str(number)]
        )
    head = ["", "oracle", "epsilon", "d", "n", "`decided`", "the papers' list", "decided of the 16"]
    note = (
        f"Share of {WINDOWS:,} windows (`olh`, `ss`: {REAL:,} of real reports) that name a value without clients."
        " 0.05 is allowed."
    )
    return Table("Family-wise error", note, head, rows)


def _power(power: dict[tuple[str, int, float, int], Power]) -> Table:
    rows = []
    for name in (*ORACLES, SMP):
        cells = [power[name, *cell] for cell in POWER]
        rows.append([name, *(f"{cell[0]:.3%}: {cell[1].mean:.4f}" if cell else "none" for cell in cells)])
    head = ["oracle", *(f"d = {size:,}, epsilon {epsilon:g}, n = {people:,}" for size, epsilon, people in POWER)]
    note = f"The detectable share, and the share of {DRAWS:,} estimates found there (0.9 is promised, error 0.001)."
    return Table("Power at `detectable`", note, head, rows)


def _alerts(totals: dict[tuple[str, int], Counter[str]]) -> Table:
    rows = []
    for (population, seconds), counts in totals.items():
        days = ALERTS[population, seconds]
        rates = [f"{counts[k] / days:.3f} ± {max(counts[k], 1) ** 0.5 / days:.3f}" for k in ("enter", "leave", "surge")]
        rows.append([population, f"{seconds:,} s", str(days), str(counts["first"]), *rates])
    note = (
        "`oue`, epsilon 2, 256 values, Zipf 1.1, 20,000 other clients in each window (daily rhythm: 2,000 to 38,000)."
        " False alerts per day of each kind (0.333 is allowed). The first entry of a value is not a false alert."
    )
    return Table("False alerts a day", note, ["population", "window", "days", "first", "enter", "leave", "surge"], rows)


def _expected(forecasts: dict[tuple[str, float], Expectation]) -> Table:
    labels = ("precision", "true precision", "recall", "true recall")
    rows = [[n, f"{e:g}", *(str(f[label]) if f else "" for label in labels)] for (n, e), f in forecasts.items()]
    note = f"Calibrate's list at half of T with `oue`, {RUNS} runs: the posterior's expectation, and the truth."
    return Table("Expected precision and recall", note, ["data", "epsilon", *labels], rows)


def _claims(
    family: dict[str, tuple[Figure, Figure, Figure]],
    power: dict[tuple[str, int, float, int], Power],
    totals: dict[tuple[str, int], Counter[str]],
    forecasts: dict[tuple[str, float], Expectation],
) -> list[Claim]:
    ours, theirs = ([row[i] for row in family.values()] for i in (0, 1))
    rates = [cell[1].mean for cell in power.values() if cell]
    excess = [
        f"{kind}, {key}"
        for (key, counts), kind in product(totals.items(), ("enter", "leave", "surge"))
        if counts[kind] > ALERTS[key] / 4 + 4 * (ALERTS[key] / 4) ** 0.5
    ]
    false_a_day = sum(sum(counts[k] for k in ("enter", "leave", "surge")) for counts in totals.values()) / sum(
        ALERTS.values()
    )
    differences = [f[k].mean - f["true " + k].mean for f in forecasts.values() if f for k in ("precision", "recall")]
    is_kept = all(f.mean - 4 * f.stderr < 0.05 for f in ours)
    wide = any(f.mean - 4 * f.stderr > 0.05 for f in theirs)
    return [
        Claim(
            "hubbub", "`decided` names a false value in at most 5% of windows", "yes" if is_kept else "no",
            f"{min(f.mean for f in ours):.3f} to {max(ours, key=lambda f: f.mean)}",
        ),
        Claim(
            "the papers", "their list at T names a false value in at most 5% of windows", "no" if wide else "yes",
            f"{min(f.mean for f in theirs):.3f} to {max(f.mean for f in theirs):.3f}: normal tails fail for small"
            " counts",
        ),
        Claim(
            "hubbub", "a value at `detectable` is found with probability 0.9", "yes" if min(rates) > 0.896 else "no",
            f"{min(rates):.4f} to {max(rates):.4f} in {len(rates)} cells (more if one person makes a difference)",
        ),
        Claim(
            "hubbub", "at most a quarter of a false alert of each kind per day",
            "yes" if not excess else f"not: {'; '.join(excess)}",
            f"{false_a_day:.2f} per day for all kinds together, over {sum(ALERTS.values()):,} days",
        ),
        Claim(
            "hubbub", "`expected` is an indication of precision and recall", f"within {max(map(abs, differences)):.2f}",
            f"expected minus true: {min(differences):+.3f} to {max(differences):+.3f}",
        ),
    ]  # fmt: skip
