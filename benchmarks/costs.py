"""The costs that `hubbub plan --rate` counts with, measured here: how fast a core is beside that of the page.

python benchmarks/costs.py     half a minute, without a broker

What needs one (reading a message and its bytes) is measured by benchmarks/end_to_end.py, records of state as a worker
writes them by benchmarks/state.py; here stand their steps in Python. The last line is for `--speed`.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import math

import numpy as np
from records import USUAL, asked, held
from steps import steps as steps_of_a_message
from timing import best

from aggregator.merging.windows import Span
from aggregator.plan import costs
from aggregator.publishing.record import build
from oracles import oracle

RNG = np.random.default_rng(20260101)
ADDED = (("olh", 1024), ("olh", 1_000_000), ("oue", 1024))
MESSAGE = 0.31e-6
"""The steps of a message of 20 reports with id, on the machine of docs/performance.md."""
FRAMES = 8_000


def added(name, size):
    """Seconds to count a report, here and as planned."""
    chosen = oracle(name, epsilon=1.0, size=size)
    reports = chosen.perturb(RNG.integers(0, size, min(1_000_000, 20_000_000 // chosen.width)), RNG)
    state = chosen.zeros()
    return best(lambda: chosen.add(state, reports)) / len(reports), costs.add(chosen)


def recorded(size):
    """Seconds of a record, here and as planned."""
    query = asked(size, USUAL)
    total, span = held(query), Span(query.windows[0], 0, 10)
    return best(lambda: build(query, span, total, final=True), rounds=3), costs.record(query)


def main():
    found = {f"{name}, a report of {size:,} values": added(name, size) for name, size in ADDED}
    found |= {f"a record of {size:,} values": recorded(size) for size in (1024, 1_000_000)}
    took = sum(steps_of_a_message("olh", 20, FRAMES, ids=True).values()) / FRAMES
    found["the steps of a frame of 20 with id"] = took, MESSAGE
    for name, (here, planned) in found.items():
        print(
            f"{name:38} {1e6 * here:12,.4f} us here, {1e6 * planned:12,.4f} planned: {planned / here:.2f}", flush=True
        )
    faster = math.exp(sum(math.log(planned / here) for here, planned in found.values()) / len(found))
    print(f"--speed {faster:.1f}")


if __name__ == "__main__":
    main()
