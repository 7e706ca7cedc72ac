"""Measure the cost of `import producers` in addition to NumPy, in fresh processes and in turns.

python -m benchmarks.imports            CPU time, the least of several runs; the first target is 50 ms
"""

import os
import subprocess
import sys
import tempfile
from itertools import chain

ROUNDS = 15
STATEMENTS = {
    "import producers": ("import producers", "<= 50"),
    "from producers import Publisher": ("from producers import Publisher", ""),
}
CHILD = """
import sys, time
began = time.process_time()
import numpy
there = time.process_time()
{statement}
print(there - began, time.process_time() - there)
print(*sorted({{"aiokafka", "aiohttp", "faust"}} & sys.modules.keys()))
"""


def measure(statement: str, environment: dict[str, str]) -> tuple[float, float, str]:
    """Return the CPU seconds of NumPy and of the import after it, and the heavy packages of that import."""
    command = [sys.executable, "-c", CHILD.format(statement=statement)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    times, heavy = run.stdout.splitlines()
    numpy, ours = map(float, times.split())
    return numpy, ours, heavy


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        # An installed package is compiled once. A process without a cache would compile everything again.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [[measure(statement, environment) for statement, _ in STATEMENTS.values()] for _ in range(1 + ROUNDS)][
            1:
        ]
    # The first turn fills the cache of compiled files and does not count.
    alone = 1e3 * min(numpy for numpy, _, _ in chain.from_iterable(runs))
    print(f"{'import numpy':34}{alone:8.1f}  ms")
    for (name, (_, target)), turns in zip(STATEMENTS.items(), zip(*runs, strict=True), strict=True):
        least = 1e3 * min(ours for _, ours, _ in turns)
        packages = turns[0][2] or "neither aiokafka nor Faust nor a web framework"
        print(f"{name:34}{least:8.1f}  ms more {target:6} {least / alone:5.2f} of NumPy's; imports {packages}")


if __name__ == "__main__":
    main()
