"""The estimator processes. They return the same bytes after a crash, and they end with the worker."""

import asyncio
import io
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from aggregator.errors import EstimatorEnded
from aggregator.publishing.finals import estimator
from aggregator.publishing.finals.estimator import EstimateTask
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question, Request, answers, read, write
from aggregator.publishing.finals.final import final_metrics
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles import ORACLES
from oracles.multi.rsfd import FAKES
from tests.queries import make_query, make_table
from tests.results import window_result

COMMON = make_table(budget=1e9, crowd=1)
TABLE = make_table(domain=40, budget=1e9, methods=["norm_sub", "calibrate"])
ONE = make_query(TABLE)


def windows(query, count):
    """Return finals of a query as (span, total, reasons)."""
    rng = np.random.default_rng(5)
    for number in range(count):
        state = query.oracle.zeros()
        query.oracle.add(state, query.oracle.perturb(rng.integers(0, 40, 900), rng))
        span = Span(query.windows[0], 10 * number, 10 * number + 10)
        total = Snapshot(900, 0, 0, 0, state)
        yield span, total, [None] * len(query.domains)


async def made(pool, query, *questions, states=None):
    """The answers to one request."""
    task = EstimateTask(query, questions, states or {})
    pool.ask(task)
    return [answer async for batch in task.answers() for answer in batch]


@contextmanager
def closing(all_of_them):
    try:
        yield all_of_them
    finally:
        all_of_them.close()


def test_the_process_returns_the_bytes_of_this_one_even_after_it_was_killed():
    """The states go from final to final in the process, and from request to request through the worker."""
    finals = list(windows(ONE, 9))
    states = []
    here = []
    for span, total, reasons in finals:
        here.append(window_result(ONE, span, total, reasons, states))
        states = here[-1].decision.states

    async def run():
        with closing(EstimatorPool()) as pool:
            results, states = [], {}
            for number in range(0, len(finals), 3):
                questions = [Question(*final, with_findings=True) for final in finals[number : number + 3]]
                if number:
                    os.kill(pool._most._process.pid, signal.SIGKILL)
                results += await made(pool, ONE, *questions, states=states)
                states = {ONE.windows[0]: results[-1].states}
            for result, own_result in zip(results, here, strict=True):
                window = own_result.window
                assert result.records == window.records
                assert result.alerts == own_result.decision.alerts
                assert result.states == own_result.decision.states
                assert result.metrics == final_metrics(own_result)
                assert len(result.findings) == 1
            [provisional] = await made(pool, ONE, Question(*finals[0], through=5))
            assert provisional.records == window_result(ONE, *finals[0], through=5).window.records

    asyncio.run(run())


SLOW = make_table(domain=3_000, oracle="olh", budget=1e9, methods=["calibrate"])
TIMES = 12


def test_one_that_dies_in_the_middle_of_a_request_goes_on_after_the_last_answer():
    query = make_query(SLOW)
    finals = list(windows(query, TIMES))
    states = []
    here = []
    for span, total, reasons in finals:
        here.append(window_result(query, span, total, reasons, states))
        states = here[-1].decision.states

    async def run():
        with closing(EstimatorPool()) as pool:
            task = EstimateTask(query, [Question(*final) for final in finals], {})
            pool.ask(task)
            results = []
            async for batch in task.answers():
                results += batch
                if len(results) < TIMES - 2 and len(results) % 2:
                    os.kill(pool._most._process.pid, signal.SIGKILL)
            expected = [(result.window.records, result.decision.states) for result in here]
            assert [(answer.records, answer.states) for answer in results] == expected

    asyncio.run(run())


def test_a_withdrawn_request_ends_after_the_window_at_work_and_the_next_one_is_answered():
    query = make_query(SLOW)
    questions = [Question(*final) for final in windows(query, 60)]

    async def run():
        with closing(EstimatorPool()) as pool:
            tasks = [EstimateTask(query, questions, {}) for _ in range(3)]
            for task in tasks:
                pool.ask(task)
            first = await anext(tasks[0].answers())
            pool.withdraw()
            rest = [answer for task in tasks async for batch in task.answers() for answer in batch]
            assert len(first) + len(rest) < 60
            assert all(task.completion.done() for task in tasks)
            assert len(await made(pool, query, *questions[:2])) == 2

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
    query = make_query({**COMMON, **what, **table})
    total = Snapshot(0, 0, 0, 0, query.oracle.zeros())
    span = Span(query.windows[0], 0, 10)
    questions = transfer(Request(0, query.digest, query, [Question(span, total, with_findings=True)], {}, {}))
    [answered] = transfer(list(answers(questions.query, questions.questions, questions.states)))
    assert answered.records == window_result(query, span, total).window.records
    assert len(answered.findings) == len(query.domains)


def test_it_starts_at_the_first_question_and_a_large_one_only_for_large_queries():
    async def run():
        with closing(EstimatorPool()) as pool:
            assert pool._most._process is None
            span, total, reasons = next(windows(ONE, 1))
            await made(pool, ONE, Question(span, total, reasons))
            assert pool._most._process is not None
            assert pool._large._process is None

    asyncio.run(run())


def test_it_runs_before_the_first_window_closes():
    async def run():
        with closing(EstimatorPool()) as pool:
            pool.start([ONE, ONE])
            process = pool._most._writer.submit(lambda: pool._most._process).result()
            assert process is not None
            await made(pool, ONE, Question(*next(windows(ONE, 1))))
            assert pool._most._process is process
            assert pool._large._process is None

    asyncio.run(run())


def test_a_question_that_always_kills_it_stops_the_worker_with_a_message(monkeypatch):
    monkeypatch.setattr(estimator.sys, "executable", "/bin/true")

    async def run():
        with closing(EstimatorPool()) as pool:
            with pytest.raises(EstimatorEnded, match="ended 3 times over a record of q") as error:
                await made(pool, ONE, Question(*next(windows(ONE, 1))))
            assert error.value.exit_code == 1

    asyncio.run(run())


def test_an_error_in_the_process_is_raised_here():
    async def run():
        with closing(EstimatorPool()) as pool:
            span, total, _ = next(windows(ONE, 1))
            with pytest.raises(AttributeError, match="NoneType"):
                await made(pool, ONE, Question(span, None))
            await made(pool, ONE, Question(span, total))

    asyncio.run(run())


PARENT = """
import asyncio, sys, time
from tests.unit.test_estimators import ONE, made, windows
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import Question

async def run():
    beside = EstimatorPool()
    span, total, reasons = next(windows(ONE, 1))
    await made(beside, ONE, Question(span, total, reasons))
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
    monkeypatch.setattr(estimator, "PATIENCE", 0.0)

    async def run():
        with closing(EstimatorPool()) as pool:
            span, total, reasons = next(windows(ONE, 1))
            await made(pool, ONE, Question(span, total, reasons))
            assert not pool.is_stuck
            os.kill(pool._most._process.pid, signal.SIGSTOP)
            task = asyncio.create_task(made(pool, ONE, Question(span, total)))
            while not pool.is_stuck:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
            os.kill(pool._most._process.pid, signal.SIGCONT)
            await task
            assert not pool.is_stuck

    asyncio.run(run())


FIRST_ANSWER = """\
import pickle, sys
from aggregator.publishing.finals.estimator_process import answers, load
load()
query, questions = pickle.load(sys.stdin.buffer)
loaded = set(sys.modules)
assert len(list(answers(query, questions, {}))) == len(questions)
print(sorted(name for name in set(sys.modules) - loaded if name.startswith("scipy")))
"""


def test_the_first_answer_imports_no_part_of_scipy():
    """The import takes a hundred times as long as a record, and the first final after a kill waits for it."""
    questions = [Question(*final) for final in windows(ONE, 2)]
    data = pickle.dumps((ONE, questions))
    process = subprocess.run([sys.executable, "-c", FIRST_ANSWER], input=data, capture_output=True, check=False)
    assert process.stdout == b"[]\n", process.stderr.decode()
