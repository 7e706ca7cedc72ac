"""One estimator process, as its worker sees it. If it dies, the worker starts it again and repeats the open requests.

The answers are the same then, because a repeated request begins with the alert states of the last answer.
"""

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from aggregator.errors import EstimatorEnded
from aggregator.merging.name_history import NameHistory
from aggregator.publishing.finals.estimator_process import (
    Answer,
    Blocks,
    Question,
    Request,
    RequestAnswers,
    Withdrawal,
    read,
    write,
)
from aggregator.records.subject import estimate_count
from hubbub import outside
from oracles.query import Query
from oracles.query.settings import Window

log = logging.getLogger(__name__)

TRIES = 3
"""Most tries of one window, which may be the reason why the process dies."""
PATIENCE = 60.0
"""Seconds for one answer, whatever it holds."""
PATIENCE_A_VALUE = 5e-4
"""Seconds for each of its values. Proved values take most, with an alert and a rank of their own."""

Process = subprocess.Popen[bytes]


class EstimateTask:
    """Windows of one query for the estimator, and their answers as they arrive."""

    def __init__(
        self,
        query: Query,
        questions: Sequence[Question],
        states: Mapping[Window, Sequence[bytes]],
        blocks: Blocks | None = None,
        history: NameHistory | None = None,
    ) -> None:
        self.query = query
        self.completion = asyncio.get_running_loop().create_future()
        """Done when no more answers arrive: all are there, the task was withdrawn, or it failed."""
        self._questions = deque(questions)
        self._states = dict(states)
        self._blocks = {window: dict(places) for window, places in (blocks or {}).items()}
        self._history = history
        self._answers: deque[Answer] = deque()
        self._error: Exception | None = None
        self._arrival = asyncio.Event()

    async def answers(self) -> AsyncIterator[list[Answer]]:
        """Yield the answers in the order of the windows, all that are there at a time."""
        while self._answers or not self.completion.done():
            await self._arrival.wait()
            self._arrival.clear()
            if self._answers:
                answers = list(self._answers)
                self._answers.clear()
                yield answers

        if self._error is not None:
            raise self._error

    def request(self, number: int) -> Request:
        """Return the request for the windows without an answer."""
        return Request(
            number=number,
            digest=self.query.digest,
            query=self.query,
            questions=list(self._questions),
            states=dict(self._states),
            blocks=self._blocks,
            history=self._history,
        )

    def take(self, answers: Sequence[Answer]) -> None:
        """Take the next answers."""
        for answer in answers:
            question = self._questions.popleft()
            # Only a final changes the states that the next window begins with.
            if question.through is None:
                self._states[question.span.window] = answer.states
                self._blocks.setdefault(question.span.window, {}).update(answer.blocks)
                self._history = self._history and self._history.with_search(answer.search)

        self._answers.extend(answers)
        self._arrival.set()

    def end(self, error: Exception | None = None) -> None:
        """Note that no more answers arrive."""
        self._error = error
        if not self.completion.done():
            self.completion.set_result(None)
        self._arrival.set()


class Estimator:
    """One process, a thread that writes to it, and a thread that reads from it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._writer = ThreadPoolExecutor(1, name)
        self._process: Process | None = None
        self._queries: dict[bytes, Query] = {}
        """The queries that the process has."""
        self._tasks: dict[int, EstimateTask] = {}
        """The open tasks in their order."""
        self._numbers = count()
        self._withdrawn = -1
        """The number of the last withdrawn task."""
        self._deaths = 0
        """Number of deaths of the process since the last answer."""
        self._answer_time = 0.0
        """The time of the last answer, or of the first open task."""
        self._closed = False

    @property
    def is_stuck(self) -> bool:
        """Whether an answer is overdue. The first open task is the one at work."""
        task = next(iter(self._tasks.values()), None)
        if task is None:
            return False
        return outside.monotonic() - self._answer_time > PATIENCE + PATIENCE_A_VALUE * estimate_count(task.query)

    def start(self) -> None:
        """Start the process before the first task, since the start takes most of a second."""
        if self._process is None:
            self._submit([])

    def ask(self, *tasks: EstimateTask) -> None:
        """Send tasks to the process, all in one message."""
        if not tasks:
            return
        if not self._tasks:
            self._answer_time = outside.monotonic()

        by_number = {next(self._numbers): task for task in tasks}
        self._tasks |= by_number
        self._submit([task.request(number) for number, task in by_number.items()])

    def withdraw(self) -> None:
        """End all open tasks after the window at work."""
        if self._tasks:
            self._withdrawn = max(self._tasks)
            self._submit(Withdrawal(self._withdrawn))

    def close(self) -> None:
        """End the process at once."""
        self._closed = True
        if self._process is not None:
            self._process.kill()

        # The kill ends a write that is still open. Until then, the writer may have started another process.
        self._writer.shutdown(cancel_futures=True)
        if self._process is not None:
            _end(self._process)

    def _submit(self, message: list[Request] | Withdrawal) -> None:
        loop = asyncio.get_running_loop()

        def check(written: Future[None]) -> None:
            # A cancelled future raises instead of returning its exception.
            error = None if written.cancelled() else written.exception()
            if error is not None:
                loop.call_soon_threadsafe(self._fail, error)

        if not self._closed:
            self._writer.submit(self._send, message, loop).add_done_callback(check)

    def _send(self, message: list[Request] | Withdrawal, loop: asyncio.AbstractEventLoop) -> None:
        """Write a message to the process, and start the process if needed. This runs in the thread of the writer."""
        process = self._process
        if process is None or process.stdin.closed:  # type: ignore[union-attr]  # a process may die as it starts
            if self._closed or isinstance(message, Withdrawal):
                return
            process = self._started(loop)
            self._process = process

        if not isinstance(message, Withdrawal):
            message = [self._without_known_query(request) for request in message]
        if message:
            with suppress(BrokenPipeError, ConnectionError, ValueError):  # the reader sees the end too
                write(process.stdin, message)  # type: ignore[arg-type]

    def _without_known_query(self, request: Request) -> Request:
        """Return a request without its query, if the process has it."""
        if self._queries.get(request.digest) is request.query:
            return request._replace(query=None)
        if request.query is not None:
            self._queries[request.digest] = request.query
        return request

    def _started(self, loop: asyncio.AbstractEventLoop) -> Process:
        # The process reads its modules from where this one does. An empty entry is the working folder.
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self._queries.clear()
        process = subprocess.Popen(
            # Without -P, a file in the working folder could hide a module of the same name.
            [sys.executable, "-P", "-c", "from aggregator.publishing.finals.estimator_process import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
        threading.Thread(target=self._read, args=(process, loop), name=f"{self.name} reader", daemon=True).start()
        return process

    def _read(self, process: Process, loop: asyncio.AbstractEventLoop) -> None:
        """Read answers until the process ends. This runs in a thread of its own."""
        try:
            while True:
                message = read(process.stdout)  # type: ignore[arg-type]
                loop.call_soon_threadsafe(self._take, message)
        except (EOFError, OSError, ValueError) as error:
            if not self._closed:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._restart, process, error)

    def _take(self, message: Any) -> None:
        self._deaths = 0
        self._answer_time = outside.monotonic()
        reply: RequestAnswers
        for reply in message:
            task = self._tasks.get(reply.number)
            if task is None:
                continue
            task.take(reply.answers)
            if reply.is_last:
                del self._tasks[reply.number]
                task.end(reply.error)

    def _restart(self, process: Process, error: Exception) -> None:
        """Repeat the open tasks in a new process."""
        # The writer may have found the closed pipe first, and started another process.
        if self._process is process:
            self._process = None
        code = _end(process)
        if self._closed:
            return

        log.warning(
            "the estimator process for %s has ended with code %s (%r). It is started again", self.name, code, error
        )
        self._deaths += 1
        is_given_up = self._deaths == TRIES
        requests = []
        for number, task in list(self._tasks.items()):
            if is_given_up or number <= self._withdrawn:
                del self._tasks[number]
                task.end(EstimatorEnded(task.query.name, TRIES) if is_given_up else None)
            else:
                requests.append(task.request(number))

        if requests:
            self._submit(requests)
        if is_given_up:
            self._deaths = 0

    def _fail(self, error: BaseException) -> None:
        """End all tasks, because the process cannot be started."""
        tasks = list(self._tasks.values())
        self._tasks = {}
        for task in tasks:
            task.end(error if isinstance(error, Exception) else RuntimeError(repr(error)))


def _end(process: Process) -> int:
    """End a process, and return its exit code."""
    process.kill()
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        # A pipe with unsent bytes raises when it is closed.
        with suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    return code
