"""Measure the effect of forged reports of 1% of 100,000 clients, and their detection, for every oracle.

python -m benchmarks.poison             a line for each oracle, number of targets and attacker

The attacker `all` sends reports that support the most targets. The attacker `quiet` has less effect but looks honest:
it sends as many ones as honest clients, or supports 7 of 10 targets per report, with a new choice each time. A shift is
the mean over the targets of the estimated share minus the true share. `bound` is the largest effect of the fakes
(`shift_per_fake`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from oracles import ORACLES, oracle
from oracles.mechanisms.entropy import source
from oracles.mechanisms.protocol import Oracle
from oracles.mechanisms.unary import Unary, forged_sets
from oracles.multi.forgery import skewed
from oracles.types import MARKS

SIZE, CLIENTS, FAKES, ROUNDS, EPSILON = 1024, 100_000, 1_000, 10, 1.0
WEIGHTS = np.arange(1.0, SIZE + 1) ** -1.1
TARGETS = (1, 5, 10)


def quiet(o: Oracle, targets: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Return forged reports that avoid the marks, or None if the oracle has no such attack."""
    if isinstance(o, Unary):
        ones, counts = np.unique(rng.choice(SIZE + 1, FAKES, p=o.law()), return_counts=True)
        draw = source(rng)
        each = zip(ones.tolist(), counts.tolist(), strict=True)
        return np.concatenate([forged_sets(SIZE, k, targets, count, draw) for k, count in each])
    some = round(0.7 * len(targets))
    if o.honest_marks is None or some == len(targets):
        return None
    return np.concatenate([o.forge(rng.choice(targets, some, replace=False), 1, rng) for _ in range(FAKES)])


@dataclass(frozen=True)
class Attack:
    """The effect of one attacker on one oracle."""

    oracle: str
    targets: int
    attacker: str
    shift: float
    """Mean over targets and rounds of the estimated share minus the true share."""
    stderr: float
    bound: float
    flags: int
    """Number of rounds, of ROUNDS, with the flag `skewed`."""


def attacks(name: str, rng: np.random.Generator) -> Iterator[Attack]:
    o = oracle(name, epsilon=EPSILON, size=SIZE)
    crowds = []
    for _ in range(ROUNDS):
        # Forgers replace honest clients, so the number of reports stays.
        counts = rng.multinomial(CLIENTS - FAKES, WEIGHTS / WEIGHTS.sum())
        state = o.zeros()
        o.add(state, o.perturb(np.repeat(np.arange(SIZE), counts), rng))
        crowds.append((counts / CLIENTS, state))
    for size in TARGETS:
        targets = rng.choice(np.arange(100, SIZE), size, replace=False)
        for attacker, fakes in (("all", o.forge(targets, FAKES, rng)), ("quiet", quiet(o, targets, rng))):
            if fakes is None:
                continue
            shifts = []
            flags = 0
            for true, honest in crowds:
                state = honest.copy()
                n = CLIENTS - o.add(state, fakes)
                shifts.append(float((o.estimate(state, n).shares - true)[targets].mean()))
                flags += skewed(o, state[-MARKS:], n, n)
            error = float(np.std(shifts, ddof=1) / np.sqrt(ROUNDS))
            bound = FAKES * o.shift_per_fake(CLIENTS)
            yield Attack(name, size, attacker, float(np.mean(shifts)), error, bound, flags)


def main() -> None:
    rng = np.random.default_rng(20260101)
    print(f"epsilon {EPSILON:g}, {SIZE:,} values, {FAKES:,} of {CLIENTS:,} fakes, {ROUNDS} rounds; shares in points")
    print(f"{'oracle':6} {'targets':>7} {'attacker':8} {'shift a target':>22} {'bound':>8} {'flagged':>7}")
    for name in ORACLES:
        for attack in attacks(name, rng):
            print(
                f"{name:6} {attack.targets:7} {attack.attacker:8} {100 * attack.shift:12.3f} ±"
                f" {100 * attack.stderr:.3f} {100 * attack.bound:8.3f} {attack.flags:4}/{ROUNDS}"
            )


if __name__ == "__main__":
    main()
