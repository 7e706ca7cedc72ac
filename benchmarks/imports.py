"""What `import producers` costs a client beyond NumPy, each in fresh processes, in turns.

python benchmarks/imports.py            processor time, the least of some runs; the first may cost 50 ms
"""

import os
import subprocess
import sys
import tempfile

ROUNDS = 15
WHAT = {
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
    """Processor seconds of NumPy and of what comes after it, and which of the heavy packages that brought."""
    command = [sys.executable, "-c", CHILD.format(statement=statement)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    times, heavy = run.stdout.splitlines()
    numpy, ours = map(float, times.split())
    return numpy, ours, heavy


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        # As installed: compiled once. A process that must not write caches would compile it all again each time.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [[measure(statement, environment) for statement, _ in WHAT.values()] for _ in range(1 + ROUNDS)][1:]
    alone = 1e3 * min(numpy for turn in runs for numpy, _, _ in turn)
    print(f"{'import numpy':34}{alone:8.1f}  ms")
    for (name, (_, target)), turns in zip(WHAT.items(), zip(*runs, strict=True), strict=True):
        least = 1e3 * min(ours for _, ours, _ in turns)
        brings = turns[0][2] or "neither aiokafka nor Faust nor a web framework"
        print(f"{name:34}{least:8.1f}  ms more {target:6} {least / alone:5.2f} of NumPy's; brings {brings}")


if __name__ == "__main__":
    main()
