"""Measure the start and the memory of every process with 200, 1,000 and 3,000 definitions, and its answer to SIGTERM.

python -m benchmarks.definitions [--counts N ...]     needs Java and Maven; about three minutes

Each process starts with the definitions in the topic, except for the worker, which writes them. `start` is the wall
time until the process is ready, `CPU` its CPU time until then, `memory` its peak. The `stop` is the longest time from
SIGTERM to the end of the process, of five processes that get it at different moments of their start. `tail` has read a
final of each query. The estimator answers no question yet.
"""

import math
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aggregator.publishing.group_findings import find
from aggregator.publishing.window import CountedWindow
from aggregator.records.encoder import encode
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from benchmarks.harness import arguments, children, cpu, place_of, show
from tests.boards import publish
from tests.brokers import Cluster
from tests.integration.workers import HUBBUB, environment, until

COUNTS = [200, 1_000, 3_000]
TABLE = 'domain = 64\nepsilon = 2.0\npane = "10s"\nwindows = ["10s", "1m/10s"]\nanswers = "fresh"\n'
MOMENTS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Moments of SIGTERM, as shares of a whole start."""
PATIENCE = 300.0


class Usage(NamedTuple):
    """What a process has used until a moment."""

    seconds: float
    cpu: float
    memory: float
    """The peak of resident memory in MiB."""


def usage(pid, start):
    """Return the usage of a process that was started at the monotonic time `start`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return Usage(time.monotonic() - start, cpu(pid), peak / 1024)


class Process:
    """A process of hubbub with its output."""

    def __init__(self, place, *arguments):
        self._output = place.folder / "output"
        self.start = time.monotonic()
        env = environment(place.kafka, place.file)
        with self._output.open("wb") as output, (place.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([HUBBUB, *arguments], env=env, stdout=output, stderr=log)  # noqa: S603 - our own
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()

    def text(self):
        return self._output.read_text()

    def ready(self):
        """Return the usage until /readyz answers 200."""
        address = until(lambda: self.text().partition("http://")[2].partition("\n")[0].partition("/")[0], PATIENCE)

        def is_ready():
            with suppress(urllib.error.URLError, TimeoutError):
                return urllib.request.urlopen(f"http://{address}/readyz", timeout=60).status == 200

        until(is_ready, PATIENCE)
        return usage(self.pid, self.start)

    def lines(self, count):
        """Return the usage until the process has written so many lines."""
        until(lambda: self.text().count("\n") >= count, PATIENCE)
        return usage(self.pid, self.start)

    def child(self):
        """Return the usage of the child once it has used no CPU for a second."""
        [pid] = until(lambda: children(self.pid))
        cpu_before = None
        used = usage(pid, self.start)
        # An estimator prints nothing when its imports are over, but then it uses no CPU.
        while cpu_before is None or cpu_before < used.cpu or not used.cpu:
            time.sleep(1.0)
            cpu_before = used.cpu
            used = usage(pid, self.start)
        return used._replace(seconds=math.nan)

    def end(self):
        """Return the usage of the whole process."""
        _, _, used = os.wait4(self.pid, 0)
        return Usage(time.monotonic() - self.start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    def stop(self):
        """Return the seconds from SIGTERM to the end."""
        start = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE)
        return time.monotonic() - start


def longest_stop(place, arguments, seconds):
    """Return the longest stop of processes that get SIGTERM while they start."""
    stops = []
    for moment in MOMENTS:
        with Process(place, *arguments) as process:
            time.sleep(moment * seconds)
            stops.append(process.stop())
    return max(stops)


def finals(queries):
    """Yield a final of each query."""
    end = int(time.time()) // 60 * 60
    for query in queries:
        state = query.oracle.zeros()
        query.oracle.add(state, query.oracle.perturb(np.arange(1_000) % 64, np.random.default_rng(1)))
        span = Span(query.windows[0], end - 10, end)
        total = Snapshot(1_000, 0, 0, 0, state)
        yield from (("estimates", *record) for record in encode(find(CountedWindow(query, span, total))).records)


def measure(broker, count):
    """Yield name, usage and longest stop of each process."""
    text = "".join(f"[queries.q{number:04}]\n{TABLE}" for number in range(count))
    with place_of(broker, text) as place:
        with Process(place, "worker") as worker:
            yield "worker, first start", worker.ready(), None
            yield "estimator", worker.child(), None
            worker.stop()

        for name in ("worker", "gateway", "board"):
            with Process(place, name) as process:
                used = process.ready()
            yield name, used, longest_stop(place, (name,), used.seconds)

        publish(place.kafka, finals(place.queries.values()))
        command = "tail", "--last", str(count)
        with Process(place, *command) as tail:
            used = tail.lines(count)
        yield "tail", used, longest_stop(place, command, used.seconds)
        with Process(place, "check") as check:
            yield "check", check.end(), None


def main() -> None:
    counts = arguments(__doc__, counts=(COUNTS, "numbers of definitions")).counts
    show(f"{'':22}{'definitions':>12}{'start s':>9}{'CPU s':>8}{'memory MiB':>12}{'stop s':>8}")
    with Cluster(1) as broker:
        for count in counts:
            for name, used, stop in measure(broker, count):
                longest = "" if stop is None else f"{stop:8.1f}"
                show(f"{name:22}{count:12,}{used.seconds:9.1f}{used.cpu:8.2f}{used.memory:12.0f}{longest}")


if __name__ == "__main__":
    main()
