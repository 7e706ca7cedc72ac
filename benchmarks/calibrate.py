"""Measure the time of Calibrate with 8 million reports, and its error on data of several shapes.

python -m benchmarks.calibrate [counts.csv]     one core

The first table has a line for each size and family, and compares with the direct sum. The second table has a line for
each data set and epsilon. It shows the mean squared errors of other methods as multiples of Calibrate's, and the number
of runs with a rejected prior. A file of true counts (a column `count`; .csv or .csv.gz) is one more data set.
"""

import csv
import gzip
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks.accuracy import draw
from benchmarks.harness import best, together, zipf
from oracles import Estimate, oracle
from oracles.calibrate import FAMILIES, Calibrated, calibrate
from oracles.consistency import apply
from oracles.kernels.priors import Law

N = 8_000_000
RNG = np.random.default_rng(20260101)
TARGETS = {41_270: 0.3, 1_000_000: 3.0}
SAMPLE = 5

RUNS = 40
EPSILONS = (0.5, 1.0, 2.0, 4.0)
OTHERS = ("norm_sub", "base_cut", "zero", "calibrate_norm_sub")


def direct(law: Law, y: float, s: float) -> float:
    """Return the posterior mean at y by the sum over all counts."""
    k = np.arange(law.lowest, law.n + 1, dtype=np.float64)
    weight = law.log_weight(k) - (y - k) ** 2 / (2.0 * s * s)
    # Without the largest exponent, the sum would overflow or vanish.
    weight = np.exp(weight - weight.max())
    return float(weight @ k / weight.sum())


def everything(e: Estimate, family: str) -> Calibrated:
    result = calibrate(e, family)
    _ = result.stdev
    return result


def speed() -> None:
    print(
        f"{'values':>9}  {'family':10} {'fit and mean':>12} {'and stdev':>11} {'target':>8}  direct sum, extrapolated"
    )
    for size, target in TARGETS.items():
        e = draw.estimate(oracle("olh", epsilon=1.0, size=size), RNG.multinomial(N, zipf(size)), RNG)
        for family in (*FAMILIES, "auto", "best"):
            works = [lambda e=e, f=family: calibrate(e, f), lambda e=e, f=family: everything(e, f)]
            fit, whole = together(works, rounds=5)
            law = calibrate(e, family).prior.law
            if law is None:  # a law of shares has few atoms, and no sum over all counts
                print(f"{size:9,}  {family:10} {fit:10.3f} s {whole:9.3f} s {target:6.1f} s")
                continue
            # The direct sum of all values takes hours, so a sample is extrapolated.
            some = RNG.choice(N * e.shares, SAMPLE)
            hours = best(lambda law=law, some=some, s=N * e.sigma: [direct(law, y, s) for y in some], rounds=1)
            hours *= size / SAMPLE / 3600
            print(f"{size:9,}  {family:10} {fit:10.3f} s {whole:9.3f} s {target:6.1f} s  {hours:.1f} hours")


def counts_of(path: Path) -> np.ndarray:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return np.array([int(row["count"]) for row in csv.DictReader(lines)])


def accuracy(data: dict[str, np.ndarray]) -> None:
    print(f"\n{'data':24} {'epsilon':>7}  {'rejected':>8}  " + "  ".join(f"{name:>8}" for name in OTHERS))
    for label, own in data.items():
        for epsilon in EPSILONS:
            errors = Counter()
            rejections = 0
            for _ in range(RUNS):
                e = draw.estimate(oracle("oue", epsilon=epsilon, size=len(own)), own, RNG)
                result = calibrate(e)
                rejections += result.rejected
                for name in ("calibrate", *OTHERS):
                    errors[name] += np.mean((apply(name, e, calibrated=result) - own / own.sum()) ** 2)
            ratios = (f"{errors[name] / errors['calibrate']:{max(len(name), 8)}.2f}" for name in OTHERS)
            print(f"{label:24} {epsilon:7}  {rejections:3} of {RUNS}" + "  " + "  ".join(ratios))


def main() -> None:
    speed()
    data = {
        "uniform, 1,024": np.full(1_024, 976),
        "zipf 1.5, 1,024": RNG.multinomial(1_000_000, zipf(1_024, 1.5)),
        "zipf 1.1, 16,470": RNG.multinomial(908_576, zipf(16_470)),
    }
    accuracy(data | {Path(name).name: counts_of(Path(name)) for name in sys.argv[1:]})


if __name__ == "__main__":
    main()
