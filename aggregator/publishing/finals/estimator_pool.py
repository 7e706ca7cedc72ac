"""The estimator processes of a worker: one for most queries, and one for large queries. They run beside the counting.

A process starts when the worker takes over a query, or at the first question. If it dies, the worker starts
it again and repeats the question. The answer is the same.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from aggregator.errors import EstimatorEnded
from aggregator.merging.small_groups import VisibleWindow
from aggregator.merging.windows import Span
from aggregator.publishing.finals.estimator_process import Answer, Question, read, write
from aggregator.publishing.finals.final import is_large
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query

log = logging.getLogger(__name__)

TRIES = 3
"""Most tries of one question, which may be the reason why the process dies."""
PATIENCE = 60.0
"""Seconds for one answer. An answer of millions of values takes seconds."""


class Estimator:
    """One process, and the thread that asks it one question at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread = ThreadPoolExecutor(1, name)
        self._process: subprocess.Popen[bytes] | None = None
        self._queries: dict[bytes, Query] = {}
        """The queries that the process has."""
        self._question_time: float | None = None
        """The time of the open question."""
        self._closed = False

    @property
    def is_stuck(self) -> bool:
        """Whether an answer is overdue."""
        start = self._question_time
        return start is not None and time.monotonic() - start > PATIENCE

    def start(self) -> None:
        """Start the process before the first question, since the start takes most of a second."""
        if self._process is None:
            self._thread.submit(self._running)

    async def ask(self, query: Query, question: Question) -> Answer:
        """Return the answer of the process."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, query, question)

    def close(self) -> None:
        """End the process at once."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        self._thread.shutdown(cancel_futures=True)  # the kill ends a question that is still open
        self._end("closed")

    def _ask(self, query: Query, question: Question) -> Answer:
        self._question_time = time.monotonic()
        try:
            for _ in range(TRIES):
                try:
                    return self._answer(query, question)
                except (EOFError, ConnectionError) as error:  # the process has died
                    self._end(error)
        finally:
            self._question_time = None
        raise EstimatorEnded(query.name, TRIES)

    def _answer(self, query: Query, question: Question) -> Answer:
        process = self._running()
        has_query = self._queries.get(query.digest) is query
        write(process.stdin, question if has_query else question._replace(query=query))  # type: ignore[arg-type]
        self._queries[query.digest] = query
        answer = read(process.stdout)  # type: ignore[arg-type]
        if isinstance(answer, Answer):
            return answer
        raise answer if isinstance(answer, Exception) else TypeError(f"not an answer: {answer!r}")

    def _running(self) -> "subprocess.Popen[bytes]":
        """Return the process, and start it if needed."""
        if self._closed:
            raise EstimatorEnded(self.name, 0)
        if self._process is None:
            path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
            self._queries.clear()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from aggregator.publishing.finals.estimator_process import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
            )
        return self._process

    def _end(self, error: object) -> None:
        """End the process, and log its exit code."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        if not self._closed:
            log.warning(
                "the estimator process for %s has ended with code %s (%r). It is started again", self.name, code, error
            )


class EstimatorPool:
    """The estimators of one worker."""

    def __init__(self) -> None:
        self._most, self._large = Estimator("records"), Estimator("large records")

    @property
    def is_stuck(self) -> bool:
        """Whether an answer is overdue."""
        return self._most.is_stuck or self._large.is_stuck

    is_large = staticmethod(is_large)

    def start(self, queries: Iterable[Query]) -> None:
        """Start the estimators that these queries need."""
        for estimator in {self._of(query) for query in queries}:
            estimator.start()

    async def final(
        self,
        query: Query,
        span: Span,
        total: Snapshot,
        visible: Sequence[VisibleWindow],
        states: Sequence[bytes],
        *,
        with_findings: bool,
    ) -> Answer:
        """Return the records and alerts of a final."""
        question = Question(query.digest, None, span, total, visible, states, with_findings)
        return await self._of(query).ask(query, question)

    async def provisional(self, query: Query, span: Span, total: Snapshot) -> Answer:
        """Return the records of a provisional window."""
        return await self._of(query).ask(query, Question(query.digest, None, span, total, None, (), False))

    def close(self) -> None:
        """End all processes at once."""
        for estimator in (self._most, self._large):
            estimator.close()

    def _of(self, query: Query) -> Estimator:
        return self._large if self.is_large(query) else self._most
