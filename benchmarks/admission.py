"""Measure the admission of a frame in microseconds, in short and long runs.

Good frames come as a list or as columns. Mixed runs alternate good and malformed frames.

python -m benchmarks.admission
"""

import numpy as np

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import Gate
from benchmarks.harness import query_of, together
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import RecordColumns
from oracles.frame import encode

FRAMES, REPORTS = 5_000, 4
CASES = (("grr", 64), ("olh", 1024), ("ss", 1000))
RNG = np.random.default_rng(1)


def runs(oracle: str, size: int) -> tuple[Gate, list[tuple[int, int, bytes]], list[tuple[int, int, bytes]]]:
    """Return a gate, a run of good frames, and a run with every other frame malformed."""
    query = query_of(domain=size, oracle=oracle)
    good = encode(query.digest, 1000, query.oracle.perturb(RNG.integers(0, size, REPORTS), RNG))
    bad = encode(query.digest, 1000, np.full((REPORTS, query.oracle.width), 255, np.uint8))
    gate = Gate(0, 1, {query.digest: Versions.of(query)})
    alternating = [(offset, 1_005_000, bad if offset % 2 else good) for offset in range(FRAMES)]
    return gate, [(offset, time, good) for offset, time, _ in alternating], alternating


def microseconds(oracle: str, size: int, count: int) -> tuple[float, float, float]:
    """Return the microseconds a frame of good frames, of good frames as columns, and of alternating ones."""
    gate, good, alternating = runs(oracle, size)
    kinds = (good[:count], RecordColumns.of(good[:count]), alternating[:count])
    seconds = together([lambda g=gate, r=run: admit(g, r, None) for run in kinds], rounds=10)
    listed, columns, mixed = (duration / count * 1e6 for duration in seconds)
    return listed, columns, mixed


def figures() -> dict[str, str]:
    """Return the figures of a run of many frames: of good ones as columns, and of alternating ones."""
    results = {}
    for oracle, size in CASES:
        _, columns, mixed = microseconds(oracle, size, FRAMES)
        results |= {oracle: f"{columns:.2f}", f"{oracle}_mixed": f"{mixed:.2f}"}
    return results


def main() -> None:
    for oracle, size in CASES:
        for count in (1, 8, 16, 64, FRAMES):
            good, columns, mixed = microseconds(oracle, size, count)
            print(f"{oracle} {size:5}, {count:5} frames: good {good:.2f}, as columns {columns:.2f}, mixed {mixed:.2f}")


if __name__ == "__main__":
    main()
