"""Three tests of a fitted prior, on populations whose prior is useful, and on some whose prior is wrong.

python -m benchmarks.prior_fit [--windows N]

None of them separates the two, so hubbub uses none. Each window's noise is split: x + s w and x - s w have independent
errors if w is normal with the variance of the estimate. One half fits the prior, and the other one checks it.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from oracles import Estimate, oracle
from oracles.consistency import apply
from oracles.consistency.fitting import Calibration, fit_prior

SIZE, PEOPLE, EPSILON = 1024, 1_000_000, 1.0
SURE, LEVEL = 0.9, 0.01
TOP, BINS = 20, 16
RANK = np.arange(1.0, SIZE + 1)


def levels(many: int, share: float) -> np.ndarray:
    """Return weights in which the first values hold a share together, and all others the rest."""
    return np.where(many >= RANK, share / many, (1.0 - share) / (SIZE - many))


POPULATIONS: dict[str, tuple[np.ndarray, float]] = {
    "Zipf 1.1": (RANK**-1.1, 0.0),
    "Zipf 1.5": (RANK**-1.5, 0.0),
    "geometric": (0.98**RANK, 0.0),
    "two levels, 64 values hold 60%": (levels(64, 0.6), 1.05),
    "two levels, half of the values hold 70%": (levels(SIZE // 2, 0.7), 1.05),
    "uniform": (np.ones(SIZE), 1.05),
}
"""Weights, and the threshold as a multiple of the largest share. 0 stands for three standard errors."""


def split(estimate: Estimate, rng: np.random.Generator) -> tuple[Calibration, np.ndarray, np.ndarray]:
    """Return a calibration of one half of the noise, the other half less its means, and their standard deviations."""
    spread = np.full(SIZE, estimate.sigma)
    shift = spread * rng.normal(size=SIZE)
    half = Estimate(estimate.shares + shift, estimate.n, estimate.oracle, estimate.n // 2)
    calibration = fit_prior(half)
    rest = estimate.shares - shift - calibration.shares
    return calibration, rest, np.sqrt(2.0 * spread**2 + calibration.stdev**2)


def largest(calibration: Calibration, rest: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of the sum of the values that the prior puts first."""
    top = np.argsort(-calibration.shares)[:TOP]
    return float(2.0 * stats.norm.sf(abs(rest[top].sum()) / np.sqrt(np.sum(spread[top] ** 2))))


def dispersion(calibration: Calibration, rest: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of the sum of squares of the standardized residuals."""
    del calibration
    total = float(np.sum((rest / spread) ** 2))
    return 2.0 * min(stats.chi2.sf(total, SIZE), stats.chi2.cdf(total, SIZE))


def in_bins(calibration: Calibration, rest: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of chi-square over groups of values with similar posterior means."""
    groups = np.array_split(np.argsort(calibration.shares), BINS)
    total = sum(rest[group].sum() ** 2 / np.sum(spread[group] ** 2) for group in groups)
    return float(stats.chi2.sf(total, BINS))


TESTS: dict[str, Callable[[Calibration, np.ndarray, np.ndarray], float]] = {
    f"sum of the top {TOP}": largest,
    "dispersion": dispersion,
    f"chi-square in {BINS} bins": in_bins,
}


def row(name: str, windows: int) -> str:
    """Return a row of the table for one population."""
    weights, multiple = POPULATIONS[name]
    shares, rng = weights / weights.sum(), np.random.default_rng(1)
    counts = np.rint(PEOPLE * shares).astype(int)
    n, encoder = int(counts.sum()), oracle("oue", epsilon=EPSILON, size=SIZE)
    many = false = 0
    rejections = dict.fromkeys(TESTS, 0)
    errors = {"calibrate": 0.0, "norm_sub": 0.0}
    for _ in range(windows):
        support = rng.binomial(counts, encoder.p) + rng.binomial(n - counts, encoder.q)
        estimate = Estimate(encoder.shares(support, n), n, encoder)
        limit = multiple * shares.max() or 3.0 * estimate.sigma
        calibration = fit_prior(estimate)
        sure = calibration.above(limit) > SURE
        many, false = many + int(sure.sum()), false + int(np.sum(sure & (shares <= limit)))
        errors["calibrate"] += float(np.mean((calibration.shares - shares) ** 2))
        errors["norm_sub"] += float(np.mean((apply("norm_sub", estimate) - shares) ** 2))
        halves = split(estimate, rng)
        for test, p_value in TESTS.items():
            rejections[test] += p_value(*halves) < LEVEL
    cells = [name, f"{errors['calibrate'] / errors['norm_sub']:.2f}", f"{false} of {many}"]
    return " | ".join([*cells, *(f"{100 * each / windows:.0f}%" for each in rejections.values())])


def main() -> None:
    parser = argparse.ArgumentParser(description="Try tests of a fitted prior.")
    parser.add_argument("--windows", type=int, default=50, help="windows of each population (default: 50)")
    options = parser.parse_args()
    print(f"| population | error of calibrate / norm_sub | P > {SURE} false | {' | '.join(TESTS)} |")
    print("|--" * (3 + len(TESTS)) + "|")
    for name in POPULATIONS:
        print(f"| {row(name, options.windows)} |", flush=True)


if __name__ == "__main__":
    main()
