"""Measure the time of a record with every statistic of the vector, in seconds and relative to sorting the vector.

python -m benchmarks.records            a line for each size and list of methods, then the parts of the time
"""

from functools import partial

import numpy as np

from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.records.encoder import encode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from benchmarks.harness import best, query_of, zipf
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, apply
from oracles.estimate import Estimate
from oracles.heavy import Evidence
from oracles.query import Query
from oracles.risk import risk

N = 8_000_000
USUAL = ["norm_sub", "calibrate"]
ALL = [name for name in METHODS if name != "base"]
TARGETS = {1_000_000: 5.0}
RNG = np.random.default_rng(20260101)


def window_of(query: Query) -> Snapshot:
    """Return a window of N reports on a Zipf population."""
    o = query.oracle
    own = np.repeat(np.arange(o.size), RNG.multinomial(N, zipf(o.size)))
    state = o.zeros()
    # All reports at once would take gigabytes.
    for values in np.array_split(own, 16):
        o.add(state, o.perturb(values, RNG))
    return Snapshot(N, 0, 0, 0, state)


def parts(query: Query, total: Snapshot) -> dict[str, float]:
    """Return the seconds of each part of a record, with the usual methods."""

    def estimate() -> Estimate:
        return query.oracle.estimate(total.counts, N)

    e = estimate()
    posterior = calibrate(e)
    # The standard deviations are made at the first use, which no part should pay for alone.
    _ = posterior.stdev
    shares = [apply(name, e, calibrated=posterior) for name in USUAL]

    def hitters() -> None:
        evidence = Evidence(e, query.threshold, query.family_error, posterior)
        for by_method in (e.shares, *shares):
            evidence.hitters(by_method)

    return {
        "decode": best(estimate, rounds=3),
        "fit, reject": best(lambda: calibrate(e).rejected, rounds=3),
        "methods": best(lambda: [apply(name, e, calibrated=posterior) for name in USUAL], rounds=3),
        "risks": best(lambda: [risk(name, e, calibrated=posterior) for name in ("unbiased", *USUAL)], rounds=3),
        "hitters": best(hitters, rounds=3),
    }


def main() -> None:
    print(f"{'values':>9}  {'methods':18} {'record':>9} {'of np.sort':>10}  {'target':>7}")
    for size in (1_024, 1_000_000):
        query = query_of(domain=size, oracle="olh", methods=USUAL)
        total = window_of(query)
        span = Span(query.windows[0], 0, 10)
        shares = query.oracle.estimate(total.counts, N).shares
        sort = best(partial(np.sort, shares))
        target = f"{TARGETS[size]:.1f} s" if size in TARGETS else ""
        for methods, name in ((USUAL, "norm_sub calibrate"), (ALL, f"all {len(ALL)}")):
            query_with_methods = query_of(domain=size, oracle="olh", methods=methods)
            window = CountedWindow(query_with_methods, span, total)
            seconds = best(lambda window=window: encode(find(window)), rounds=3)
            print(f"{size:9,}  {name:18} {seconds:7.3f} s {seconds / sort:10.1f}  {target:>7}")

        parts_of_time = "  ".join(f"{part} {seconds:.3f} s" for part, seconds in parts(query, total).items())
        print(f"{'':9}  parts of the first: {parts_of_time}")


if __name__ == "__main__":
    main()
