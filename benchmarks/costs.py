"""Measure the costs that `hubbub plan --rate` assumes, relative to the machine of docs/performance.md.

python -m benchmarks.costs     half a minute, without a broker

benchmarks/end_to_end.py measures the costs that need a broker (reading a message and its bytes). benchmarks/state.py
measures records of state from a real worker. This file measures their steps in Python. The last line is for `--speed`.
"""

from statistics import geometric_mean

import numpy as np

from aggregator.plan import costs
from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.records.encoder import encode
from aggregator.records.span import Span
from benchmarks.harness import best, query_of, show
from benchmarks.records import USUAL, window_of
from benchmarks.steps import steps as steps_of_a_message
from oracles import oracle

RNG = np.random.default_rng(20260101)
ORACLES = (("olh", 1024), ("olh", 1_000_000), ("oue", 1024))
MESSAGE = 0.31e-6
"""Seconds for the steps of a message of 20 reports with id, on the machine of docs/performance.md."""
FRAMES = 8_000


def adding(name, size):
    """Return the seconds to count a report, measured and in the plan."""
    o = oracle(name, epsilon=1.0, size=size)
    reports = o.perturb(RNG.integers(0, size, min(1_000_000, 20_000_000 // o.width)), RNG)
    state = o.zeros()
    return best(lambda: o.add(state, reports)) / len(reports), costs.add(o)


def record(size):
    """Return the seconds of a record, measured and in the plan."""
    query = query_of(domain=size, oracle="olh", methods=USUAL)
    total = window_of(query)
    span = Span(query.windows[0], 0, 10)
    return best(lambda: encode(find(CountedWindow(query, span, total))), rounds=3), costs.record(query)


def main():
    costs_by_name = {f"{name}, a report of {size:,} values": adding(name, size) for name, size in ORACLES}
    costs_by_name |= {f"a record of {size:,} values": record(size) for size in (1024, 1_000_000)}
    seconds = sum(steps_of_a_message("olh", 20, FRAMES, ids=True).values()) / FRAMES
    costs_by_name["the steps of a frame of 20 with id"] = seconds, MESSAGE
    for name, (measured, plan) in costs_by_name.items():
        show(f"{name:38} {1e6 * measured:12,.4f} us measured, {1e6 * plan:12,.4f} in the plan: {plan / measured:.2f}")

    faster = geometric_mean(plan / measured for measured, plan in costs_by_name.values())
    print(f"--speed {faster:.1f}")


if __name__ == "__main__":
    main()
