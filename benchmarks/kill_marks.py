"""The times at which a worker of `benchmarks.kills` ends the parts of its start or of its take-over.

`install` runs in the worker, before its command. The file named by MARKS gets a line for each end of a part.
"""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "MARKS"
PATCH = "from benchmarks.kill_marks import install; install()"


def install() -> None:
    """Note the ends of all parts. The modules that a worker loads late are not loaded before."""
    from aggregator.publishing.finals.estimator import Estimator
    from aggregator.publishing.finals.estimator_pool import EstimatorPool

    _wrap(EstimatorPool, "ask", "snapshots", lambda _, *tasks: bool(tasks))
    _wrap(Estimator, "_take", "estimator", lambda _, message: bool(message))

    # The estimators start as soon as their module is there, and the rest of the worker is loaded meanwhile.
    start = EstimatorPool.start

    @functools.wraps(start)
    def start_first(*arguments: Any) -> None:
        EstimatorPool.start = start  # type: ignore[method-assign]
        start(*arguments)
        _install_in_worker()

    EstimatorPool.start = start_first  # type: ignore[method-assign]


def _install_in_worker() -> None:
    """Load the rest of the worker, as its command does next, and note the ends of its parts."""
    from aggregator.counting.app import CountingApp
    from aggregator.counting.faust_app import App
    from aggregator.worker import start
    from aggregator.worker.worker import Worker

    _wrap(start, "run_worker", "imports")
    _wrap(Worker, "run", "gate")
    _wrap(App, "_on_partitions_revoked", "session")
    _wrap(CountingApp, "recover", "rebalance")
    _wrap(Worker, "_on_assignment", "recovery")


def _wrap(owner: Any, name: str, part: str, ends: Callable[..., bool] = lambda *_: True) -> None:
    """Note the end of a part at the beginning of each call that `ends` accepts."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        if ends(*arguments):
            _note(part)
        return function(*arguments, **options)

    setattr(owner, name, call)


def _note(part: str) -> None:
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(f"{part} {time.time()}\n")


def read(path: Path, moment: float) -> dict[str, float]:
    """Return the first time of each part after a moment."""
    times: dict[str, float] = {}
    for line in path.read_text().splitlines():
        part, text = line.split()
        if float(text) > moment:
            times.setdefault(part, float(text))
    return times
