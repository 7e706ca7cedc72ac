"""Heavy hitters and alerts: false ones beside what is promised, power, and what a posterior expects."""

from collections import Counter
from pathlib import Path

import numpy as np

from aggregator.publishing.changes import DAY, Final, Watch, finals_a_day, step
from benchmarks.accuracy import draw, populations
from benchmarks.accuracy.study import Claim, Figure, Section, Table, Track, seeded
from oracles import ORACLES, Estimate, oracle
from oracles.calibrate import calibrate
from oracles.heavy import Evidence, heavy_hitters
from oracles.query.settings import Threshold, Window
from oracles.types import Ints

WINDOWS, REAL = 6_000, 1_500
"""Of drawn estimates, and of real reports."""
DRAWS = 100_000
FAMILY = {
    "dense": ("oue", 1.0, 1_024, 100_000),
    "dense, olh": ("olh", 1.0, 1_024, 100_000),
    "sparse, grr": ("grr", 6.0, 1_024, 2_000),
    "sparse, oue": ("oue", 6.0, 1_024, 2_000),
    "sparse, ss": ("ss", 6.0, 1_024, 2_000),
    "few people, oue": ("oue", 8.0, 16_384, 500),
}
"""Oracle, epsilon, values, people: sixteen values are held, all others by nobody."""
SMP = "oue, a fifth answering (smp)"
POWER = [(1_024, 1.0, 100_000), (1_024, 4.0, 10_000), (1_024, 8.0, 1_000), (16_384, 8.0, 2_000)]
ALERTS = {("static", 600): 30, ("static", 3600): 180, ("static", DAY): 2000}
ALERTS |= {("daily rhythm", 600): 30, ("daily rhythm", 3600): 180}
RUNS = 12

TEXT = """Promises about lists: `decided` names a false value in at most 5% of windows (family-wise, Holm's procedure
with exact tails); the papers' list (`rule="paper"`: all above Phi^-1(1 - 0.05/d) sigma) means the same by normal
tails. A value at `detectable` is found with probability 0.9. A query with `alerts_a_day = 1` brings at most a third
of a false alert of each kind a day."""


def run(track: Track, folder: Path) -> Section:
    section = Section(TEXT)
    family = {label: false(label) for label in track(list(FAMILY), description="family-wise error")}
    keys = [(name, *cell) for name in (*ORACLES, SMP) for cell in POWER]
    power = {key: found(*key) for key in track(keys, description="power")}
    told = {key: alerts(*key, days) for key, days in track(list(ALERTS.items()), description="alerts")}
    data = {"Zipf 1.1": populations.zipf(1_024, 1_000_000, 1.1)}
    retail = populations.retail(folder)
    if retail is None:
        section.skipped.append("expected precision and recall on Retail")
    else:
        data["Retail"] = retail
    cells = [(name, epsilon) for name in data for epsilon in (1.0, 2.0, 4.0)]
    expected = {key: expectations(data[key[0]], *key) for key in track(cells, description="expected")}
    section.tables += [_family(family), _power(power), _alerts(told), _expected(expected)]
    section.claims += _claims(family, power, told, expected)
    return section


def false(label: str) -> tuple[Figure, Figure, Figure]:
    """The parts of windows with a false value among the decided, and in the papers' list; how many are decided."""
    name, epsilon, size, people = FAMILY[label]
    o, rng = oracle(name, epsilon=epsilon, size=size), seeded("family", label)
    counts = np.zeros(size, np.int64)
    counts[:16] = populations.zipf(16, people, 1.1)
    wrong = Counter[str]()
    number = []
    windows = WINDOWS if name in draw.JOINT else REAL
    for e in draw.windows(o, counts, windows, rng):
        decided = Evidence(e).decided
        wrong["decided"] += bool((decided >= 16).any())
        wrong["paper"] += bool((e.shares[16:] > e.noise.significance(size, 0.05)).any())
        number.append(float((decided < 16).sum()))
    rates = [Figure.rate(wrong[rule], windows) for rule in ("decided", "paper")]
    return rates[0], rates[1], Figure.of(number)


Power = tuple[float, Figure] | None
"""A detectable share, and the part of estimates that reach the critical count there."""


def found(name: str, size: int, epsilon: float, people: int) -> Power:
    """With smp a fifth of the people are a sample that answers."""
    sampled = name == SMP
    o, rng = (
        oracle("oue" if sampled else name, epsilon=epsilon, size=size),
        seeded("power", name, size, epsilon, people),
    )
    n = people // 5 if sampled else people
    share, critical = o.detectable(n, sampled=sampled), o.critical(n)
    if share is None or critical is None:
        return None
    held = round(share * people)
    own = rng.hypergeometric(held, people - held, n, DRAWS) if sampled else np.full(DRAWS, held)
    counts = rng.binomial(own, o.p) + rng.binomial(n - own, o.q)
    return share, Figure.rate(int((counts >= critical).sum()), DRAWS)


def alerts(population: str, seconds: int, days: int) -> Counter[str]:
    """Alerts by kind over so many days; a value that enters a first time is none."""
    o, rng = oracle("oue", epsilon=2.0, size=256), seeded("alerts", population, seconds)
    window = Window("tumbling", seconds, seconds)
    per_day = finals_a_day(window, seconds)
    watch = Watch("q", bytes(8), None, window, str, Threshold("significance"), 0.05, 1.0, per_day)
    weights = np.arange(1, 257) ** -1.1
    weights /= weights.sum()
    said, known, state = Counter[str](), set[str](), None
    for i in range(int(days * DAY / seconds)):
        swing = 0.9 * np.sin(2 * np.pi * i * seconds / DAY) if population == "daily rhythm" else 0.0
        n = int(20_000 * (1.0 + swing))
        e = draw.estimate(o, rng.multinomial(n, weights), rng)
        state, new = step(watch, state, Final(i * seconds, (i + 1) * seconds, e))
        for alert in new:
            first = alert.kind == "enter" and alert.value not in known
            known.add(alert.value)
            said["first" if first else alert.kind] += 1
    return said


Expectation = dict[str, Figure]


def expectations(counts: Ints, name: str, epsilon: float) -> Expectation:
    """Expected and true precision and recall of calibrate's list, at half the significance threshold."""
    o, rng, truth = (
        oracle("oue", epsilon=epsilon, size=len(counts)),
        seeded("expected", name, epsilon),
        counts / counts.sum(),
    )
    said: dict[str, list[float]] = {}
    for _ in range(RUNS):
        e: Estimate = draw.estimate(o, counts, rng)
        threshold = 0.5 * e.noise.significance(len(counts), 0.05)
        calibrated = calibrate(e)
        listed = heavy_hitters(e, calibrated.shares, threshold=threshold, posterior=calibrated)
        heavy = truth > threshold
        right = float(heavy[listed.positions].sum())
        expected = listed.expected
        if expected is None or expected.precision is None or expected.recall is None:
            continue
        numbers = (expected.precision, right / len(listed), expected.recall, right / float(heavy.sum()))
        for label, number in zip(("precision", "true precision", "recall", "true recall"), numbers, strict=True):
            said.setdefault(label, []).append(number)
    return {label: Figure.of(numbers) for label, numbers in said.items()}


def _family(family: dict[str, tuple[Figure, Figure, Figure]]) -> Table:
    rows = []
    for label, (ours, theirs, number) in family.items():
        name, epsilon, size, people = FAMILY[label]
        rows.append(
            [label, f"`{name}`", f"{epsilon:g}", f"{size:,}", f"{people:,}", str(ours), str(theirs), str(number)]
        )
    head = ["", "oracle", "epsilon", "d", "n", "`decided`", "the papers' list", "decided of the 16"]
    note = (
        f"Parts of {WINDOWS:,} windows (`olh`, `ss`: {REAL:,} of real reports) that name a value which nobody holds;"
        " 0.05 is allowed."
    )
    return Table("Family-wise error", note, head, rows)


def _power(power: dict[tuple[str, int, float, int], Power]) -> Table:
    rows = []
    for name in (*ORACLES, SMP):
        cells = [power[name, *cell] for cell in POWER]
        rows.append([name, *(f"{cell[0]:.3%}: {cell[1].mean:.4f}" if cell else "none" for cell in cells)])
    head = ["oracle", *(f"d = {size:,}, epsilon {epsilon:g}, n = {people:,}" for size, epsilon, people in POWER)]
    note = f"The detectable share, and the part of {DRAWS:,} estimates found there (0.9 is said; error 0.001)."
    return Table("Power at `detectable`", note, head, rows)


def _alerts(told: dict[tuple[str, int], Counter[str]]) -> Table:
    rows = []
    for (population, seconds), said in told.items():
        days = ALERTS[population, seconds]
        rates = [f"{said[k] / days:.3f} ± {max(said[k], 1) ** 0.5 / days:.3f}" for k in ("enter", "leave", "surge")]
        rows.append([population, f"{seconds:,} s", str(days), str(said["first"]), *rates])
    note = (
        "`oue`, epsilon 2, 256 values, Zipf 1.1, 20,000 other clients in each window (daily rhythm: 2,000 to 38,000);"
        " alerts a day that are false, of each kind; 0.333 is allowed. A value's first entering is news."
    )
    return Table("False alerts a day", note, ["population", "window", "days", "first", "enter", "leave", "surge"], rows)


def _expected(expected: dict[tuple[str, float], Expectation]) -> Table:
    labels = ("precision", "true precision", "recall", "true recall")
    rows = [[n, f"{e:g}", *(str(f[label]) if f else "" for label in labels)] for (n, e), f in expected.items()]
    note = f"Calibrate's list at half of T, `oue`: what its posterior expects, and what is true; {RUNS} runs."
    return Table("Expected precision and recall", note, ["data", "epsilon", *labels], rows)


def _claims(
    family: dict[str, tuple[Figure, Figure, Figure]],
    power: dict[tuple[str, int, float, int], Power],
    told: dict[tuple[str, int], Counter[str]],
    expected: dict[tuple[str, float], Expectation],
) -> list[Claim]:
    ours, theirs = ([row[i] for row in family.values()] for i in (0, 1))
    rates = [cell[1].mean for cell in power.values() if cell]
    over = [
        f"{kind}, {key}"
        for key, said in told.items()
        for kind in ("enter", "leave", "surge")
        if said[kind] > ALERTS[key] / 3 + 4 * (ALERTS[key] / 3) ** 0.5
    ]
    false_a_day = sum(sum(said[k] for k in ("enter", "leave", "surge")) for said in told.values()) / sum(
        ALERTS.values()
    )
    off = [f[k].mean - f["true " + k].mean for f in expected.values() if f for k in ("precision", "recall")]
    held = all(f.mean - 4 * f.stderr < 0.05 for f in ours)
    wide = any(f.mean - 4 * f.stderr > 0.05 for f in theirs)
    return [
        Claim(
            "hubbub", "`decided` names a false value in at most 5% of windows", "yes" if held else "no",
            f"{min(f.mean for f in ours):.3f} to {max(ours, key=lambda f: f.mean)}",
        ),
        Claim(
            "the papers", "their list at T does so too", "no" if wide else "yes",
            f"{min(f.mean for f in theirs):.3f} to {max(f.mean for f in theirs):.3f}: normal tails fail for few",
        ),
        Claim(
            "hubbub", "a value at `detectable` is found with 0.9", "yes" if min(rates) > 0.896 else "no",
            f"{min(rates):.4f} to {max(rates):.4f} in {len(rates)} cells (more where one person counts)",
        ),
        Claim(
            "hubbub", "at most a third of a false alert of each kind a day",
            "yes" if not over else f"not: {'; '.join(over)}",
            f"{false_a_day:.2f} a day of all kinds together, over {sum(ALERTS.values()):,} days",
        ),
        Claim(
            "hubbub", "`expected` is an indication of precision and recall", f"to within {max(map(abs, off)):.2f}",
            f"expected less true: {min(off):+.3f} to {max(off):+.3f}",
        ),
    ]  # fmt: skip
