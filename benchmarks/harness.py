"""What benchmarks share: arguments, queries and populations, brokers and workers, CPU times, and tables."""

import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oracles.query import Query, parse
from oracles.types import Floats
from tests.brokers import Cluster
from tests.integration.workers import Place, Worker

ROOT = Path(__file__).parents[1]
PARTITIONS = 4
OURS, THEIRS = (sorted(os.sched_getaffinity(0)) * 2)[:2]
"""The core of the measured process, and the core of the broker."""
BROKER = ("-XX:TieredStopAtLevel=4", "-Xmx1g")
"""Java options of production. Tests use options for a quick start."""
QUERY = """\
[queries.measured]
domain = {size}
oracle = "{oracle}"
epsilon = 1.0
budget = 1e9
pane = "1h"
lateness = "1h"
windows = ["1h"]
emit_every = "never"
max_ids = 2_000_000
"""
Work = Callable[[], object]

# A pipe holds a line back until it is full, and some benchmarks run for an hour.
show = partial(print, flush=True)


def arguments(text: str | None, cases: Iterable[str] = (), **options: Any) -> argparse.Namespace:
    """Return the arguments of a benchmark. Each option has a default, or a pair of a default and a help text.

    The default gives the type. False makes a flag, a list takes several values, and a type stands for no default.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    if cases:
        parser.add_argument("cases", nargs="*", metavar="case", help=f"{'; '.join(cases)} (default: all)")

    for name, option in options.items():
        default, description = option if isinstance(option, tuple) else (option, "")
        settings: dict[str, Any] = {"help": description}
        if default is False:
            settings["action"] = "store_true"
        elif isinstance(default, type):
            settings["type"] = default
        elif isinstance(default, list):
            settings |= {"nargs": "*", "type": type(default[0]), "default": default}
        else:
            settings |= {"type": type(default), "default": default, "help": f"{description} (default: {default})"}
        parser.add_argument(f"--{name}", **settings)

    return parser.parse_args()


def selection(cases: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """Return the cases whose name has one of these parts. No parts stand for all cases."""
    return {name: case for name, case in cases.items() if not parts or any(part in name for part in parts)}


def query_of(edition: int = 1, **table: object) -> Query:
    """Return a query with this table, and the usual settings of benchmarks for the rest."""
    usual = {"domain": 1024, "epsilon": 1.0, "budget": 1e9, "pane": "10s"}
    return parse({"edition": edition, "queries": {"measured": usual | table}}, "benchmark", ".")["measured"]


def zipf(size: int, exponent: float = 1.1) -> Floats:
    """Return shares that fall with a power of the rank."""
    weights = np.arange(1.0, size + 1) ** -exponent
    shares: Floats = weights / weights.sum()
    return shares


def pin(core: int) -> None:
    """Let this process, and those that it starts, run on one core."""
    os.sched_setaffinity(0, {core})


@contextmanager
def broker_on_other_core() -> Iterator[Cluster]:
    """Start a broker on one core, and leave this process on the other one."""
    pin(THEIRS)
    with Cluster(1, flags=BROKER) as cluster:
        pin(OURS)
        yield cluster


@contextmanager
def place_of(cluster: Any, text: str, partitions: int = PARTITIONS) -> Iterator[Place]:
    """Make topics, and a folder with a query file. Its workers import and start all of a worker, as in production."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Place(cluster, Path(folder), text, partitions, begin=subprocess.Popen) as place,
    ):
        yield place


@contextmanager
def load_of(target: Callable[..., object], *values: object) -> Iterator[multiprocessing.Process]:
    """Run a function in a process until the end of the context."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=values, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def worker_on(place: Place, core: int, patch: str | None = None) -> Worker:
    """Start a worker on one core. This process stays on that core too."""
    pin(core)
    return place.start(patch=patch, HUBBUB_LOG_LEVEL="warning")


def cpu(pid: int | str) -> float:
    """Return the CPU seconds of a process with all its threads."""
    # The name of a program may hold blanks, so the fields start behind its bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> set[str]:
    """Return the processes that any thread of a process has started."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return set(" ".join(texts).split())


def usage(worker: Worker) -> tuple[float, float]:
    """Return the CPU seconds of a worker and of its estimators."""
    pid = worker.process.pid
    return cpu(pid), sum(map(cpu, children(pid)))


def best(work: Work, *, rounds: int = 7) -> float:
    """Return the shortest of several runs in CPU seconds, which a busy machine disturbs least."""
    return together([work], rounds=rounds)[0]


def together(works: Sequence[Work], *, rounds: int = 7) -> list[float]:
    """Return the shortest run of each work. They take turns, so that a noisy machine disturbs all of them equally."""
    shortest = [float("inf")] * len(works)
    for _ in range(rounds):
        for index, work in enumerate(works):
            start = time.process_time()
            work()
            shortest[index] = min(shortest[index], time.process_time() - start)

    return shortest


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["--"] * len(head), *rows))


def write_block(page: Path, name: str, text: str) -> None:
    """Replace what a page has between the mark of a name and the next end mark."""
    beginning, mark, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, end, remainder = rest.partition("<!-- end -->")
    page.write_text(f"{beginning}{mark}{text}\n{end}{remainder}")
