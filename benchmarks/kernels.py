"""Measure the speed of the kernels, relative to primitives of this machine in the same run.

python -m benchmarks.kernels [--bits 256] [part ...]     prints a table

A rate should be above its target, and a cost below it. With `--bits` the compiled kernels use narrower vectors than the
widest of this processor.
"""

import numpy as np

from benchmarks.harness import Work, arguments, best, selection, together
from oracles import oracle
from oracles.kernels import c_library
from oracles.kernels.walsh import walsh
from oracles.mechanisms.protocol import Oracle

RNG = np.random.default_rng(20260101)
REPORTS = 1 << 20


def line(kernel: str, ratio: float, yardstick: str, target: str, rate: str) -> None:
    print(f"{kernel:44} {ratio:8.2f}  {target:>7}  of {yardstick:34} {rate}")


def filled(name: str, epsilon: float, size: int, count: int) -> tuple[Oracle, np.ndarray]:
    o = oracle(name, epsilon=epsilon, size=size)
    return o, o.perturb(RNG.integers(0, size, count), RNG)


def ways(*works: Work) -> dict[str, list[Work]]:
    """Return the same work with each available kernel, by the name of the kernel."""

    def alone(work: Work) -> Work:
        def run() -> object:
            with c_library.numpy_alone():
                return work()

        return run

    works_by_kernel = {"numpy": [alone(work) for work in works]}
    return {"c": list(works), **works_by_kernel} if c_library.in_use() else works_by_kernel


def both(work: Work, yardstick: Work) -> tuple[dict[str, float], float]:
    """Return the time of work with each kernel, and the time of its yardstick, in turns."""
    works_by_kernel = ways(work)
    *times, last = together([run for [run] in works_by_kernel.values()] + [yardstick], rounds=9)
    return dict(zip(works_by_kernel, times, strict=True)), last


def unary() -> None:
    # 64 MiB fit no cache, so this measures memory.
    memory = RNG.integers(0, 1 << 62, 1 << 23)
    for name in ("oue", "sue"):
        for size in (1024, 16_384):
            o, reports = filled(name, 1.0, size, (1 << 27) // size * 4)
            state = o.zeros()
            targets = {"c": 0.45, "numpy": 0.07}
            times, read_seconds = both(
                lambda o=o, s=state, r=reports: o.add(s, r), lambda m=memory: np.bitwise_or.reduce(m)
            )
            bandwidth = memory.nbytes / read_seconds
            for kernels, add in times.items():
                line(
                    f"{name} add, size {size:,}, checked, {kernels}",
                    reports.nbytes / add / bandwidth,
                    "memory read bandwidth",
                    f">= {targets[kernels]}",
                    f"{reports.nbytes / add / 1e9:.1f} of {bandwidth / 1e9:.1f} GB/s, "
                    f"{len(reports) / add / 1e6:.1f} million reports/s",
                )


def live() -> None:
    """Compare one add per frame with one add of all reports."""
    for name, size, count in (("oue", 1024, 1 << 17), ("olh", 1024, REPORTS), ("grr", 1024, REPORTS)):
        o, reports = filled(name, 1.0, size, count)
        state = o.zeros()
        frames = [reports[start : start + 1000] for start in range(0, count, 1000)]
        few = reports[:20]
        works = (
            lambda o=o, s=state, r=reports: o.add(s, r),
            lambda o=o, s=state, fs=frames: [o.add(s, f) for f in fs],
            # A frame of 20 reports is too short for the clock.
            lambda o=o, s=state, f=few: [o.add(s, f) for _ in range(100)],
        )
        for kernels, runs in ways(*works).items():
            whole, pieces, twenty = together(runs, rounds=9)
            line(
                f"{name} add, frames of 1,000, {kernels}",
                pieces / whole,
                "the time of one add",
                "",
                f"{count / pieces / 1e6:.1f} million reports/s; a frame of 20: {twenty * 1e4:.1f} microseconds",
            )


def histograms() -> None:
    indices = RNG.integers(0, 1024, REPORTS)
    targets = {"olh": {"c": 0.5, "numpy": 0.15}, "grr": {"c": 2, "numpy": 0.75}, "hr": {"c": 0.75, "numpy": 0.75}}
    for name, target in targets.items():
        for size in (1024, 10_000, 100_000, 1_000_000):
            o, reports = filled(name, 1.0, size, REPORTS)
            state = o.zeros()
            times, count = both(
                lambda o=o, s=state, r=reports: o.add(s, r), lambda: np.bincount(indices, minlength=1024)
            )
            for kernels, add in times.items():
                line(
                    f"{name} add, size {size:,}, checked, {kernels}",
                    count / add,
                    "np.bincount's rate at 1,024",
                    f">= {target[kernels]}" if size == 1024 else "",
                    f"{REPORTS / add / 1e6:.0f} million reports/s",
                )


def transform() -> None:
    for scale in (10, 1000, 1 << 30):
        vector = RNG.integers(-scale, scale, 1 << 20)
        # Nine arrays fit no cache, so copies measure memory too.
        others = [RNG.integers(0, 9, 1 << 20) for _ in range(9)]
        target = [np.empty_like(o) for o in others]

        def copies(others: list = others, target: list = target) -> None:
            for a, b in zip(others, target, strict=True):
                np.copyto(b, a)

        copy, cache_copy, work = together([copies, lambda v=vector: v.copy(), lambda v=vector: walsh(v)], rounds=15)
        line(
            f"walsh 2^20, values to {scale:.0e}",
            work / (copy / len(others)),
            "a copy of the array",
            "<= 20",
            f"{work * 1e3:.1f} ms; {work / cache_copy:.0f} copies of an array in cache",
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


PARTS = {part.__name__: part for part in (unary, live, histograms, transform, clients)}


def main() -> None:
    options = arguments(__doc__, PARTS, bits=(int, "64, 256 or 512"))
    if options.bits:
        c_library.vector_bits = lambda: options.bits
    bits = f", vectors of {c_library.vector_bits()} bits" if c_library.in_use() else ""
    print(f"{'kernel' + bits:44} {'ratio':>8}  {'target':>7}")
    for part in selection(PARTS, options.cases).values():
        part()


if __name__ == "__main__":
    main()
