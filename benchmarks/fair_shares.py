"""Measure the cost of one newcomer to a full thing, which chooses the holder that gives way.

python -m benchmarks.fair_shares [--holders 1000]     the target is below 50 us; seconds

Callers of each row hold everything. Half of the newcomers are theirs, and half come from 250 homes. "lags" gives
each holder a debt and progress between two newcomers.
"""

import random
import time
from collections.abc import Callable

from benchmarks.harness import arguments, show
from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.share_groups import RATE

NEWCOMERS = 50_000
SUBNETS = 1 << 16
PATHS: dict[str, Callable[[random.Random], CallerPath]] = {
    "one address": lambda _: ("203.0.113.0/24", "203.0.113.1"),
    "17 addresses": lambda draw: ("203.0.113.0/24", f"203.0.113.{draw.randrange(17)}"),
    "100 networks": lambda draw: (f"203.0.{draw.randrange(100)}.0/24", f"{draw.randrange(256)}"),
    "an IPv6 /48": lambda draw: ("/32", "/48", f"{draw.randrange(256)}", f"{draw.randrange(SUBNETS)}"),
}


def measure(holders: int, path: Callable[[random.Random], CallerPath], *, lags: bool) -> float:
    """Return the microseconds of a newcomer, with all that its place costs until it gives way again."""
    draw = random.Random(1)
    now = 0.0
    shares = FairShares(holders, clock=lambda: now)
    members = [shares.enter(path(draw), 1, lambda: None) for _ in range(holders)]
    paths = [path(draw) if index % 2 else (f"home {index % 500}", "one") for index in range(NEWCOMERS)]

    began = time.process_time()
    for index, newcomer in enumerate(paths):
        now += 0.001
        holder = shares.enter(newcomer, 1, lambda: None)
        if holder is not None and lags:
            holder.owe(now)
            members[index % holders] = holder
            progressing = members[(7 * index) % holders]
            if progressing is not None:
                progressing.progress(RATE, now)
    return (time.process_time() - began) / NEWCOMERS * 1e6


def main() -> None:
    options = arguments(__doc__, holders=1_000)
    show(f"{'us of a newcomer':16}{'plain':>9}{'lags':>9}")
    for name, path in PATHS.items():
        figures = [measure(options.holders, path, lags=lags) for lags in (False, True)]
        show(f"{name:16}" + "".join(f"{figure:9.1f}" for figure in figures))


if __name__ == "__main__":
    main()
