"""How long Calibrate takes with 8 million reports, beside the direct sum over all counts.

python benchmarks/calibrate.py          a line for each size and family; the target is for one core
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import numpy as np
from timing import best

from oracles import Estimate, oracle
from oracles.calibrate import FAMILIES, Calibrated, calibrate
from oracles.priors import Law

N = 8_000_000
RNG = np.random.default_rng(20260101)
TARGETS = {41_270: 0.3, 1_000_000: 3.0}
SAMPLE = 5


def estimate(size: int) -> Estimate:
    """Shares as 8 million reports on a Zipf population give them."""
    o = oracle("olh", epsilon=1.0, size=size)
    weights = np.arange(1, size + 1) ** -1.1
    own = RNG.multinomial(N, weights / weights.sum())
    counts = RNG.binomial(own, o.p) + RNG.binomial(N - own, o.q)
    return Estimate(o.shares(counts, N), N, o)


def direct(law: Law, y: float, s: float) -> float:
    """The posterior mean at y by the sum over all counts."""
    k = np.arange(law.lowest, law.n + 1, dtype=np.float64)
    weight = law.log_weight(k) - (y - k) ** 2 / (2.0 * s * s)
    weight = np.exp(weight - weight.max())
    return float(weight @ k / weight.sum())


def everything(e: Estimate, family: str) -> Calibrated:
    calibrated = calibrate(e, family)
    _ = calibrated.stdev
    return calibrated


def main() -> None:
    print(
        f"{'values':>9}  {'family':10} {'fit and mean':>12} {'and stdev':>10} {'target':>7}   direct sum, extrapolated"
    )
    for size, target in TARGETS.items():
        e = estimate(size)
        for family in (*FAMILIES, "auto"):
            fit = best(lambda e=e, family=family: calibrate(e, family), rounds=3)
            whole = best(lambda e=e, family=family: everything(e, family), rounds=3)
            law = calibrate(e, family).prior.law
            some = RNG.choice(N * e.shares, SAMPLE)
            hours = best(lambda law=law, some=some, s=N * e.sigma: [direct(law, y, s) for y in some], rounds=1)
            hours *= size / SAMPLE / 3600
            print(f"{size:9,}  {family:10} {fit:10.3f} s {whole:8.3f} s {target:5.1f} s   {hours:.1f} hours")


if __name__ == "__main__":
    main()
