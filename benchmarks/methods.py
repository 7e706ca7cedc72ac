"""Measure the time of the methods on 1,000,000 values, relative to sorting the same vector in the same run.

python -m benchmarks.methods            a line for each method and vector; a cost below its target is good
"""

import numpy as np

from benchmarks.accuracy import draw
from benchmarks.harness import together
from oracles import Estimate, oracle
from oracles.consistency import METHODS, apply

SIZE, N = 1_000_000, 10_000_000
RNG = np.random.default_rng(20260101)
TARGETS = {"norm_sub": 1.0}
TARGET = 6.0
SHAPES = {
    "uniform": np.ones(SIZE),
    "zipf": np.arange(1.0, SIZE + 1) ** -1.1,
    "one value": (np.arange(SIZE) == 0).astype(float),
}


def estimate(weights: np.ndarray, epsilon: float) -> Estimate:
    """Return shares with the law of N reports, in random order."""
    o = oracle("olh", epsilon=epsilon, size=SIZE)
    own = RNG.permutation(RNG.multinomial(N, weights / weights.sum()))
    return draw.estimate(o, own, RNG)


def main() -> None:
    methods = [name for name, method in METHODS.items() if "calibration" not in method.options]
    print(f"{'values':10} {'epsilon':>7}  {'method':10} {'of np.sort':>10}  {'target':>7}")
    for shape, weights in SHAPES.items():
        for epsilon in (1.0, 8.0):
            e = estimate(weights, epsilon)
            works = [lambda name=name, e=e: apply(name, e) for name in methods]
            sort, *times = together([lambda e=e: np.sort(e.shares), *works], rounds=25)
            for name, seconds in zip(methods, times, strict=True):
                target = TARGETS.get(name, TARGET)
                print(
                    f"{shape:10} {epsilon:7}  {name:10} {seconds / sort:10.2f}  {f'<= {target:g}':>7}"
                    f"  {seconds * 1e3:6.1f} ms of {sort * 1e3:.1f}"
                )


if __name__ == "__main__":
    main()
