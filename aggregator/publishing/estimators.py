"""Estimates are made beside the counting, in processes of their own: one for most queries, one for the largest.

They start where a query is merged, or when they are first asked, and again where they have died: what is asked
is asked anew, and the answer is the same.
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

from aggregator.counting.tally import Snapshot
from aggregator.errors import EstimatorEnded
from aggregator.merging.crowd import Face
from aggregator.merging.windows import Span
from aggregator.publishing.estimator import Answer, Question, read, write
from aggregator.publishing.large import is_large
from oracles.query import Query

log = logging.getLogger(__name__)

TRIES = 3
"""Times that a question is asked before it is given up: it may be what the process dies of."""
PATIENCE = 60.0
"""Seconds for one answer; one of millions of values takes seconds."""


class Estimator:
    """One process, and the thread that asks it, one question at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread = ThreadPoolExecutor(1, name)
        self._process: subprocess.Popen[bytes] | None = None
        self._queries: dict[bytes, Query] = {}
        """Those that the process knows."""
        self._since: float | None = None
        self._closed = False

    @property
    def hangs(self) -> bool:
        """Whether an answer is waited for that should have come."""
        since = self._since
        return since is not None and time.monotonic() - since > PATIENCE

    def start(self) -> None:
        """Have it run by the time that it is asked, which takes most of a second."""
        if self._process is None:
            self._thread.submit(self._running)

    async def ask(self, query: Query, question: Question) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, query, question)

    def close(self) -> None:
        """End it at once."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        self._thread.shutdown(cancel_futures=True)  # it hears of that
        self._bury("closed")

    def _ask(self, query: Query, question: Question) -> Answer:
        self._since = time.monotonic()
        try:
            for _ in range(TRIES):
                try:
                    return self._answer(query, question)
                except (EOFError, ConnectionError) as error:  # the pipe has ended
                    self._bury(error)
        finally:
            self._since = None
        raise EstimatorEnded(query.name, TRIES)

    def _answer(self, query: Query, question: Question) -> Answer:
        process = self._running()
        known = self._queries.get(query.digest) is query
        write(process.stdin, question if known else question._replace(query=query))  # type: ignore[arg-type]
        self._queries[query.digest] = query
        found = read(process.stdout)  # type: ignore[arg-type]
        if isinstance(found, Answer):
            return found
        raise found if isinstance(found, Exception) else TypeError(f"an answer that is none: {found!r}")

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._closed:
            raise EstimatorEnded(self.name, 0)
        if self._process is None:
            path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
            self._queries.clear()
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", "from aggregator.publishing.estimator import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
            )
        return self._process

    def _bury(self, error: object) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        if not self._closed:
            log.warning("the process that makes %s has ended with %s (%r); it is started again", self.name, code, error)


class Estimators:
    """All of a worker's."""

    def __init__(self) -> None:
        self._most, self._large = Estimator("records"), Estimator("large records")

    @property
    def hang(self) -> bool:
        """Whether any answer is waited for that should have come."""
        return self._most.hangs or self._large.hangs

    is_large = staticmethod(is_large)

    def start(self, queries: Iterable[Query]) -> None:
        """Those that these will ask."""
        for each in {self._of(query) for query in queries}:
            each.start()

    async def final(
        self, query: Query, span: Span, total: Snapshot, faces: Sequence[Face], states: Sequence[bytes], *, whole: bool
    ) -> Answer:
        """The records and alerts of a final."""
        return await self._of(query).ask(query, Question(query.digest, None, span, total, faces, states, whole))

    async def provisional(self, query: Query, span: Span, total: Snapshot) -> Answer:
        """The records of a window that is not final."""
        return await self._of(query).ask(query, Question(query.digest, None, span, total, None, (), False))

    def close(self) -> None:
        for each in (self._most, self._large):
            each.close()

    def _of(self, query: Query) -> Estimator:
        return self._large if self.is_large(query) else self._most
