"""Compare hubbub with two libraries from the literature on the same work: counting and estimating reports.

python -m benchmarks.peers     needs `pip install -e '.[bench]'`; one or two minutes

The servers of the other libraries handle one report at a time. Each gets reports of its own client, as many as it
counts in about a second. Times are per report. A ratio of 20 means that hubbub is 20 times faster.
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core for all

import numpy as np

from benchmarks.harness import best
from oracles import oracle

EPSILON, SIZE = 1.0, 1024
RNG = np.random.default_rng(20260101)
OURS = 1 << 18
TARGETS = {"oue": 20, "olh": 1_000, "grr": 50, "hr": 50}


def ours(name: str) -> float:
    o = oracle(name, epsilon=EPSILON, size=SIZE)
    reports = o.perturb(RNG.integers(0, SIZE, OURS), RNG)

    def work() -> None:
        state = o.zeros()
        o.add(state, reports)
        o.estimate(state, OURS)

    return best(work) / OURS


def timed(count: int, work) -> float:
    # A peer takes seconds, so one run is exact enough.
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) / count


def pure_ldp(name: str) -> float:
    """Return the seconds per report of aggregate() and estimate_all()."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    count = {"oue": 20_000, "olh": 500, "grr": 200_000, "hr": 20_000}[name]
    if name == "hr":
        server = HadamardResponseServer(EPSILON, SIZE)
        client = HadamardResponseClient(EPSILON, SIZE, server.get_hash_funcs())
    else:
        client_of, server_of, options = {
            "oue": (UEClient, UEServer, {"use_oue": True}),
            "olh": (LHClient, LHServer, {"use_olh": True}),
            "grr": (DEClient, DEServer, {}),
        }[name]
        client, server = client_of(EPSILON, SIZE, **options), server_of(EPSILON, SIZE, **options)
    reports = [client.privatise(int(value) + 1) for value in RNG.integers(0, SIZE, count)]

    def work() -> None:
        for report in reports:
            server.aggregate(report)
        server.estimate_all(range(1, SIZE + 1), suppress_warnings=True)

    return timed(count, work)


def multi_freq_ldpy(name: str) -> float | None:
    """Return the seconds per report of the library's aggregator over the whole list."""
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE

    values = RNG.integers(0, SIZE, {"oue": 5_000, "olh": 500, "grr": 200_000}.get(name, 0))
    if name == "grr":
        reports = [GRR.GRR_Client(value, SIZE, EPSILON) for value in values]
        return timed(len(values), lambda: GRR.GRR_Aggregator_MI(reports, SIZE, EPSILON))
    if name == "oue":
        reports = [UE.UE_Client(value, SIZE, EPSILON, True) for value in values]
        return timed(len(values), lambda: UE.UE_Aggregator_MI(reports, EPSILON, True))
    if name == "olh":
        reports = [LH.LH_Client(value, SIZE, EPSILON, True) for value in values]
        return timed(len(values), lambda: LH.LH_Aggregator_MI(reports, SIZE, EPSILON, True))
    return None


def main() -> None:
    print(f"add and estimate, epsilon {EPSILON:g}, size {SIZE:,}: nanoseconds a report")
    print(f"{'oracle':8} {'hubbub':>10} {'pure-ldp':>12} {'multi-freq-ldpy':>16} {'ratio to the better':>20}  target")
    for name, target in TARGETS.items():
        mine, peers = ours(name), [pure_ldp(name), multi_freq_ldpy(name)]
        better = min(peer for peer in peers if peer is not None)
        cells = [f"{peer * 1e9:,.0f}" if peer else "-" for peer in peers]
        print(f"{name:8} {mine * 1e9:10.1f} {cells[0]:>12} {cells[1]:>16} {better / mine:20,.0f}  >= {target:,}")


if __name__ == "__main__":
    main()
