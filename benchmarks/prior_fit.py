"""Three tests of a fitted prior, on populations whose prior is useful, and on some whose prior is wrong.

python -m benchmarks.prior_fit [--windows N]

None of them separates the two, so hubbub uses none. Each window's noise is split: x + s w and x - s w have independent
errors if w is normal with the variance of the estimate. One half fits the prior, and the other one checks it.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy import stats

from benchmarks.accuracy import draw
from benchmarks.harness import arguments, table_of
from oracles import Estimate, oracle
from oracles.consistency import apply
from oracles.consistency.calibration import Calibration
from oracles.consistency.fitting import fit_prior

SIZE = 1024
PEOPLE = 1_000_000
EPSILON = 1.0
SURE = 0.9
LEVEL = 0.01
TOP = 20
BINS = 16
RANK = np.arange(1.0, SIZE + 1)


def levels(count: int, share: float) -> np.ndarray:
    """Return weights in which the first values hold a share together, and all others the rest."""
    return np.where(count >= RANK, share / count, (1.0 - share) / (SIZE - count))


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
    residuals = estimate.shares - shift - calibration.shares
    return calibration, residuals, np.sqrt(2.0 * spread**2 + calibration.stdev**2)


def largest(calibration: Calibration, residuals: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of the sum of the values that the prior puts first."""
    top = np.argsort(-calibration.shares)[:TOP]
    return float(2.0 * stats.norm.sf(abs(residuals[top].sum()) / np.sqrt(np.sum(spread[top] ** 2))))


def dispersion(calibration: Calibration, residuals: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of the sum of squares of the standardized residuals."""
    del calibration
    total = float(np.sum((residuals / spread) ** 2))
    return 2.0 * min(stats.chi2.sf(total, SIZE), stats.chi2.cdf(total, SIZE))


def in_bins(calibration: Calibration, residuals: np.ndarray, spread: np.ndarray) -> float:
    """Return the p-value of chi-square over groups of values with similar posterior means."""
    groups = np.array_split(np.argsort(calibration.shares), BINS)
    total = sum(residuals[group].sum() ** 2 / np.sum(spread[group] ** 2) for group in groups)
    return float(stats.chi2.sf(total, BINS))


TESTS: dict[str, Callable[[Calibration, np.ndarray, np.ndarray], float]] = {
    f"sum of the top {TOP}": largest,
    "dispersion": dispersion,
    f"chi-square in {BINS} bins": in_bins,
}


def row(name: str, windows: int) -> list[str]:
    """Return a row of the table for one population."""
    weights, multiple = POPULATIONS[name]
    shares = weights / weights.sum()
    rng = np.random.default_rng(1)
    counts = np.rint(PEOPLE * shares).astype(int)
    encoder = oracle("oue", epsilon=EPSILON, size=SIZE)

    claims = []
    errors = Counter()
    rejections = dict.fromkeys(TESTS, 0)
    for _ in range(windows):
        estimate = draw.estimate(encoder, counts, rng)
        limit = multiple * shares.max() or 3.0 * estimate.sigma
        calibration = fit_prior(estimate)
        # Each value that the prior calls sure is a claim, which the true share decides.
        claims += (shares[calibration.above(limit) > SURE] <= limit).tolist()
        errors["calibrate"] += float(np.mean((calibration.shares - shares) ** 2))
        errors["norm_sub"] += float(np.mean((apply("norm_sub", estimate) - shares) ** 2))

        halves = split(estimate, rng)
        for test, p_value in TESTS.items():
            rejections[test] += p_value(*halves) < LEVEL

    cells = [name, f"{errors['calibrate'] / errors['norm_sub']:.2f}", f"{sum(claims)} of {len(claims)}"]
    return cells + [f"{100 * count / windows:.0f}%" for count in rejections.values()]


def main() -> None:
    windows = arguments("Try tests of a fitted prior.", windows=(50, "windows of each population")).windows
    head = ["population", "error of calibrate / norm_sub", f"P > {SURE} false", *TESTS]
    print(table_of(head, [row(name, windows) for name in POPULATIONS]))


if __name__ == "__main__":
    main()
