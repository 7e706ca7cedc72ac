"""How fast the kernels are, as ratios to this machine's own primitives measured in the same run.

python benchmarks/kernels.py            the table; a ratio above its target is good, a cost below it
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import numpy as np
from timing import best, together

from oracles import oracle
from oracles.kernels.popcount import column_counts
from oracles.kernels.walsh import walsh
from oracles.mechanisms.protocol import Oracle

RNG = np.random.default_rng(20260101)
REPORTS = 1 << 20


def line(kernel: str, ratio: float, yardstick: str, target: str, rate: str) -> None:
    print(f"{kernel:44} {ratio:8.2f}  {target:>7}  of {yardstick:34} {rate}")


def filled(name: str, epsilon: float, size: int, count: int) -> tuple[Oracle, np.ndarray]:
    o = oracle(name, epsilon=epsilon, size=size)
    return o, o.perturb(RNG.integers(0, size, count), RNG)


def unary() -> None:
    memory = RNG.integers(0, 1 << 62, 1 << 23)
    for name in ("oue", "sue"):
        for size in (1024, 16_384):
            o, reports = filled(name, 1.0, size, (1 << 27) // size * 4)
            state = o.zeros()
            o.add(state, reports[:10])
            read, add, count, check = together(
                [
                    lambda m=memory: np.bitwise_or.reduce(m),
                    lambda o=o, s=state, r=reports: o.add(s, r),
                    lambda r=reports: column_counts(r),
                    lambda o=o, r=reports: o.implausible(r),
                ],
            )
            bandwidth = memory.nbytes / read
            rate = reports.nbytes / count
            line(
                f"{name} add, size {size:,}",
                rate / bandwidth,
                "memory read bandwidth",
                ">= 0.15",
                f"{rate / 1e9:.1f} of {bandwidth / 1e9:.1f} GB/s",
            )
            line(
                "  its plausibility check",
                check / count,
                "the time of that",
                "<= 1",
                f"both: {reports.nbytes / add / 1e9:.1f} GB/s, {len(reports) / add / 1e6:.1f} million reports/s",
            )


def histograms() -> None:
    indices = RNG.integers(0, 1024, REPORTS)
    for name, epsilon, target in (("olh", 1.0, 0.15), ("grr", 1.0, 0.75), ("hr", 1.0, 0.75)):
        o, reports = filled(name, epsilon, 1024, REPORTS)
        state = o.zeros()
        count, add = together(
            [lambda: np.bincount(indices, minlength=1024), lambda o=o, s=state, r=reports: o.add(s, r)], rounds=15
        )
        line(
            f"{name} add, size 1,024, checked",
            count / add,
            "np.bincount's rate",
            f">= {target}",
            f"{REPORTS / add / 1e6:.0f} million reports/s",
        )


def transform() -> None:
    for scale in (10, 1000, 1 << 30):
        vector = RNG.integers(-scale, scale, 1 << 20)
        others = [RNG.integers(0, 9, 1 << 20) for _ in range(9)]
        target = [np.empty_like(o) for o in others]

        def copies(others: list = others, target: list = target) -> None:
            for a, b in zip(others, target, strict=True):
                np.copyto(b, a)

        copy, cached, work = together([copies, lambda v=vector: v.copy(), lambda v=vector: walsh(v)], rounds=15)
        line(
            f"walsh 2^20, values to {scale:.0e}",
            work / (copy / len(others)),
            "a copy of the array",
            "<= 20",
            f"{work * 1e3:.1f} ms; {work / cached:.0f} copies of one that stays in cache",
        )
    o = oracle("olh", epsilon=1.0, size=1_000_000)
    state = o.zeros()
    o.add(state, o.perturb(RNG.integers(0, 1_000_000, REPORTS), RNG))
    decode = best(lambda: o.estimate(state, REPORTS))
    print(f"{'olh decode, size 1,000,000':44} {decode * 1e3:8.1f}  ms")


def clients() -> None:
    o = oracle("oue", epsilon=1.0, size=1024)
    values = RNG.integers(0, 1024, 1 << 14)

    def naive() -> np.ndarray:
        return np.packbits(RNG.random((len(values), o.size)) < o.q, axis=1, bitorder="little")

    plain, ours = together([naive, lambda: o.perturb(values, RNG)])
    line(
        "oue perturb, simulated, size 1,024",
        plain / ours,
        "rng.random((n, d)) < q, packed",
        ">= 4",
        f"{len(values) / ours / 1e6:.2f} million reports/s",
    )
    one = values[:1]
    alone = best(lambda: [o.perturb(one) for _ in range(500)]) / 500
    print(f"{'oue perturb, one report, system entropy':44} {alone * 1e6:8.1f}  microseconds (about 30 is good)")
    for name in ("grr", "olh", "hr", "ss"):
        o = oracle(name, epsilon=1.0, size=1024)
        alone = best(lambda o=o: [o.perturb(one) for _ in range(500)]) / 500
        many = best(lambda o=o: o.perturb(values, RNG)) / len(values)
        print(
            f"{name + ' perturb, one report, system entropy':44} {alone * 1e6:8.1f}  microseconds;"
            f" simulated {1e-6 / many:.2f} million reports/s"
        )


def main() -> None:
    print(f"{'kernel':44} {'ratio':>8}  {'target':>7}")
    unary()
    histograms()
    transform()
    clients()


if __name__ == "__main__":
    main()
