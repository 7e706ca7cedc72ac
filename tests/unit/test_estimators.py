"""The estimator processes. They return the same bytes after a crash, and they end with the worker."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aggregator.errors import EstimatorEnded
from aggregator.merging.small_groups import own
from aggregator.merging.windows import Span
from aggregator.publishing.finals import estimator_pool
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question, answer, read, write
from aggregator.publishing.finals.final import final_metrics, window_result
from aggregator.tallies.snapshot import Snapshot
from oracles import ORACLES
from oracles.multi.rsfd import FAKES
from oracles.query import parse

COMMON = {"epsilon": 1.0, "budget": 1e9, "pane": "10s", "crowd": 1}
TABLE = {"domain": 40, "epsilon": 1.0, "budget": 1e9, "pane": "10s", "methods": ["norm_sub", "calibrate"]}
ONE = parse({"queries": {"q": TABLE}}, "test", ".")["q"]


def windows(query, count):
    """Return finals of a query as (span, total, visible windows)."""
    rng = np.random.default_rng(5)
    for number in range(count):
        state = query.oracle.zeros()
        query.oracle.add(state, query.oracle.perturb(rng.integers(0, 40, 900), rng))
        span = Span(query.windows[0], 10 * number, 10 * number + 10)
        total = Snapshot(900, 0, 0, 0, state)
        yield span, total, own(query, span, total)


@contextmanager
def closing(all_of_them):
    try:
        yield all_of_them
    finally:
        all_of_them.close()


def test_the_process_returns_the_bytes_of_this_one_even_after_it_was_killed():
    async def run():
        with closing(EstimatorPool()) as beside:
            states = []
            for number, (span, total, faces) in enumerate(windows(ONE, 4)):
                here = window_result(ONE, span, total, faces, states)
                there = await beside.final(ONE, span, total, faces, states, with_findings=number == 1)
                assert (there.records, there.alerts, there.states) == (here.window.records, here.alerts, here.states)
                assert there.metrics == final_metrics(ONE, here.window)
                assert len(there.findings) == (number == 1)
                provisional = await beside.provisional(ONE, span, total)
                assert provisional.records == window_result(ONE, span, total, None).window.records
                states = there.states
                if number == 2:
                    os.kill(beside._most._process.pid, signal.SIGKILL)

    asyncio.run(run())


def transfer(message):
    """Return a value as the other process reads it."""
    pipe = io.BytesIO()
    write(pipe, message)
    pipe.seek(0)
    return read(pipe)


@pytest.mark.parametrize(
    "table",
    [{"oracle": name} for name in ORACLES]
    + [{"solution": "smp", "oracle": "oue"}, *({"solution": "rsfd", "oracle": name} for name in FAKES)],
    ids=lambda table: "-".join(table.values()),
)
def test_a_question_carries_every_kind_of_query(table):
    what = {"attributes": {"a": 3, "b": 5}} if "solution" in table else {"domain": 5}
    query = parse({"queries": {"q": {**COMMON, **what, **table}}}, "test", ".")["q"]
    total = Snapshot(0, 0, 0, 0, query.oracle.zeros())
    span = Span(query.windows[0], 0, 10)
    faces = own(query, span, total)
    question = transfer(Question(query.digest, query, span, total, faces, [], True))
    result = transfer(answer(question.query, question))
    assert result.records == window_result(query, span, total, faces, []).window.records
    assert len(result.findings) == len(query.domains)


def test_it_starts_at_the_first_question_and_a_large_one_only_for_large_queries():
    async def run():
        with closing(EstimatorPool()) as beside:
            assert beside._most._process is None
            span, total, faces = next(windows(ONE, 1))
            await beside.final(ONE, span, total, faces, [], with_findings=False)
            assert beside._most._process is not None
            assert beside._large._process is None

    asyncio.run(run())


def test_it_runs_before_the_first_window_closes():
    async def run():
        with closing(EstimatorPool()) as beside:
            beside.start([ONE, ONE])
            process = beside._most._thread.submit(lambda: beside._most._process).result()
            assert process is not None
            [(span, total, faces)] = windows(ONE, 1)
            await beside.final(ONE, span, total, faces, [], with_findings=False)
            assert beside._most._process is process
            assert beside._large._process is None

    asyncio.run(run())


def test_a_question_that_always_kills_it_stops_the_worker_with_a_message(monkeypatch):
    monkeypatch.setattr(estimator_pool.sys, "executable", "/bin/true")

    async def run():
        with closing(EstimatorPool()) as beside:
            span, total, faces = next(windows(ONE, 1))
            with pytest.raises(EstimatorEnded, match="ended 3 times over a record of q") as error:
                await beside.final(ONE, span, total, faces, [], with_findings=False)
            assert error.value.exit_code == 1

    asyncio.run(run())


def test_an_error_in_the_process_is_raised_here():
    async def run():
        with closing(EstimatorPool()) as beside:
            span, total, faces = next(windows(ONE, 1))
            with pytest.raises(AttributeError, match="NoneType"):
                await beside.final(ONE, span, total, [faces[0]._replace(total=None)], [], with_findings=False)
            await beside.provisional(ONE, span, total)

    asyncio.run(run())


PARENT = """
import asyncio, sys, time
from tests.unit.test_estimators import ONE, windows
from aggregator.publishing.finals.estimator_pool import EstimatorPool

async def run():
    beside = EstimatorPool()
    span, total, faces = next(windows(ONE, 1))
    await beside.final(ONE, span, total, faces, [], with_findings=False)
    print(beside._most._process.pid, flush=True)
    time.sleep(600)

asyncio.run(run())
"""


def test_it_ends_with_the_worker_in_every_case():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
    for _ in range(3000):
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("it lives on")


def test_an_estimator_that_hangs_is_noticed(monkeypatch):
    monkeypatch.setattr(estimator_pool, "PATIENCE", 0.0)

    async def run():
        with closing(EstimatorPool()) as beside:
            span, total, faces = next(windows(ONE, 1))
            await beside.final(ONE, span, total, faces, [], with_findings=False)
            assert not beside.is_stuck
            os.kill(beside._most._process.pid, signal.SIGSTOP)
            task = asyncio.create_task(beside.provisional(ONE, span, total))
            while not beside.is_stuck:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
            os.kill(beside._most._process.pid, signal.SIGCONT)
            await task
            assert not beside.is_stuck

    asyncio.run(run())
