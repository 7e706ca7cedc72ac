"""CPU times of work and of its yardstick, in turns, so that a noisy machine disturbs both equally."""

import time
from collections.abc import Callable

Work = Callable[[], object]


def best(work: Work, *, rounds: int = 7) -> float:
    """Return the shortest of several runs in seconds, which a busy machine disturbs least."""
    return together([work], rounds=rounds)[0]


def together(works: list[Work], *, rounds: int = 7) -> list[float]:
    """Return the shortest run of each work, with all works in turns."""
    shortest = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            shortest[i] = min(shortest[i], time.process_time() - start)
    return shortest
