"""CPU times of work and of its yardstick, taken in turns, so that a noisy machine disturbs both alike."""

import time
from collections.abc import Callable

Work = Callable[[], object]


def best(work: Work, *, rounds: int = 7) -> float:
    """The shortest of some runs, in seconds: what the machine can do when left alone."""
    return together([work], rounds=rounds)[0]


def together(works: list[Work], *, rounds: int = 7) -> list[float]:
    """The shortest run of each, interleaved."""
    shortest = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            shortest[i] = min(shortest[i], time.process_time() - start)
    return shortest
