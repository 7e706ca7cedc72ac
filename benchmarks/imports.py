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


def turns() -> list[list[tuple[float, float, str]]]:
    """Return the measurements of all statements in several turns."""
    with tempfile.TemporaryDirectory() as cache:
        # An installed package is compiled once. A process without a cache would compile everything again.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [[measure(statement, environment) for statement, _ in STATEMENTS.values()] for _ in range(1 + ROUNDS)]
    # The first turn fills the cache of compiled files and does not count.
    return runs[1:]


def least(runs: list[list[tuple[float, float, str]]]) -> tuple[float, list[float]]:
    """Return the least milliseconds of NumPy, and those of each statement after it."""
    numpy = 1e3 * min(seconds for seconds, _, _ in chain.from_iterable(runs))
    return numpy, [1e3 * min(seconds for _, seconds, _ in column) for column in zip(*runs, strict=True)]


def figures() -> dict[str, str]:
    """Return the figures of `import producers`: its share of NumPy's own import, and both in milliseconds."""
    numpy, (ours, _) = least(turns())
    return {"ratio": f"{ours / numpy:.2f}", "ms": f"{ours:.0f}", "numpy_ms": f"{numpy:.0f}"}


def main() -> None:
    runs = turns()
    numpy, times = least(runs)
    print(f"{'import numpy':34}{numpy:8.1f}  ms")
    for (name, (_, target)), duration, (_, _, heavy) in zip(STATEMENTS.items(), times, runs[0], strict=True):
        packages = heavy or "neither aiokafka nor Faust nor a web framework"
        print(f"{name:34}{duration:8.1f}  ms more {target:6} {duration / numpy:5.2f} of NumPy's; imports {packages}")


if __name__ == "__main__":
    main()
