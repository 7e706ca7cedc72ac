"""The process that makes records. It answers requests from its standard input, and exits at the end of the input.

A request holds windows of one query in their order. The process carries the alert states from window to window, and
sends the answers while it goes on. The input ends when the worker dies, in whatever way. A thread reads it, so that the
process exits even during an estimate.
"""

import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import IO, NamedTuple

from aggregator.merging.blocks import BlockSpan, Place
from aggregator.merging.marks import Withheld
from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.publishing.alerts.comparisons import BlockInput
from aggregator.publishing.final_metrics import FinalMetrics
from aggregator.publishing.finals.final import final_metrics, window_result
from aggregator.publishing.window import CountedWindow
from aggregator.records.findings import AnyFindings
from aggregator.records.span import Span
from aggregator.records.subject import estimate_count
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query
from oracles.query.settings import Window

LENGTH = struct.Struct("<Q")
DELAY = 0.02
"""Seconds that an answer may wait for others, so that one message holds many."""
GROUP = 16
"""Most answers to one request that go together. Records of one query that arrive together cost less to publish."""
FEW = 256
"""Values up to which a record takes so little time that its answer may wait."""

States = Mapping[Window, Sequence[bytes]]
"""The alert state of each attribute, by kind of window."""
Blocks = Mapping[Window, Mapping[Place, bytes]]
"""Blocks by kind of window."""


class Question(NamedTuple):
    """A window whose records the worker needs."""

    span: Span
    total: Snapshot
    withheld: Sequence[Withheld | None] = ()
    """The reason for which it shows no values, for each place. See QueryMarks."""
    through: int | None = None
    """The end of the panes of a provisional window, or None for a final."""
    with_findings: bool = False
    """Whether the answer needs the findings."""
    blocks: Sequence[BlockSpan] = ()
    """The blocks that a final completes."""
    totals: Sequence[bool] = ()
    """Whether a provisional window has the total of each attribute."""


class Request(NamedTuple):
    """Windows of one query."""

    number: int
    """The number of the request. Later requests have larger ones."""
    digest: bytes
    query: Query | None
    """The query, or None for the last query of the same digest."""
    questions: Sequence[Question]
    states: States
    """The alert states before the first window."""
    blocks: Blocks
    """The blocks before the first window that these windows need."""
    history: NameHistory | None = None
    """The names before the first window, if strings are unknown."""


class Withdrawal(NamedTuple):
    """An order to end all requests up to this number after the window at work."""

    number: int


class Answer(NamedTuple):
    """The records of a window. For a final also alerts, states and metrics."""

    records: tuple[tuple[bytes, bytes], ...]
    maps: tuple[tuple[bytes, bytes], ...]
    """The record for the topic `maps`, if strings are unknown."""
    alerts: list[tuple[bytes, bytes]]
    states: list[bytes]
    metrics: list[FinalMetrics]
    findings: tuple[AnyFindings, ...]
    blocks: Mapping[Place, bytes]
    """The blocks to store."""
    search: NameSearch | None = None
    """The search for the history of names."""


class RequestAnswers(NamedTuple):
    """The next answers to a request."""

    number: int
    answers: list[Answer]
    is_last: bool
    """Whether no more answers to this request follow."""
    error: Exception | None = None
    """The error of the window after these answers."""


def answer(
    query: Query,
    question: Question,
    states: Sequence[bytes],
    store: Mapping[Place, bytes],
    history: NameHistory | None = None,
) -> Answer:
    """Return the answer. It depends on the arguments only."""
    window = CountedWindow(
        query=query,
        span=question.span,
        total=question.total,
        withheld=question.withheld,
        through=question.through,
        totals=question.totals,
        history=history or NameHistory(),
    )
    result = window_result(window, states, BlockInput(question.blocks, store))

    decision = result.decision
    return Answer(
        records=result.window.records,
        maps=result.window.maps,
        alerts=decision.alerts,
        states=decision.states,
        metrics=final_metrics(result),
        findings=result.findings.of_totals if question.with_findings else (),
        blocks=decision.blocks,
        search=decision.search,
    )


def answers(
    query: Query,
    questions: Sequence[Question],
    states: States,
    blocks: Blocks | None = None,
    history: NameHistory | None = None,
) -> Iterator[Answer]:
    """Yield the answers to a request. Each final continues from the states of the final of its kind before it."""
    newest_states = dict(states)
    store = {window: dict(places) for window, places in (blocks or {}).items()}
    for question in questions:
        window = question.span.window
        own_blocks = store.setdefault(window, {})
        own_answer = answer(query, question, newest_states.get(window, ()), own_blocks, history)

        # A provisional window may still change, so nothing continues from it.
        if question.through is None:
            newest_states[window] = own_answer.states
            own_blocks.update(own_answer.blocks)
            history = history and history.with_search(own_answer.search)
        yield own_answer


def write(pipe: IO[bytes], message: object) -> None:
    """Write one message to a pipe."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def read(pipe: IO[bytes]) -> object:
    """Read the next message, or raise an EOFError at the end of the pipe."""
    head = pipe.read(LENGTH.size)
    data = pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    if not data:
        raise EOFError("end of the pipe")
    return pickle.loads(data)  # noqa: S301 - the other end of the pipe is our own worker


class Requests:
    """The open requests. A thread fills them from a pipe."""

    def __init__(self, pipe: IO[bytes], at_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._at_end = at_end
        self._queue: SimpleQueue[Request] = SimpleQueue()
        self._withdrawn = -1
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        try:
            while True:
                self._take(read(self._pipe))
        except EOFError:
            pass
        finally:
            # Also after a damaged message: a process without this thread would wait for requests for ever.
            self._at_end()

    def _take(self, message: object) -> None:
        if isinstance(message, Withdrawal):
            self._withdrawn = message.number
        elif isinstance(message, list):
            for request in message:
                self._queue.put(request)

    def next(self) -> Request:
        """Return the next request, and wait for it."""
        return self._queue.get()

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    def is_withdrawn(self, request: Request) -> bool:
        return request.number <= self._withdrawn


class Replies:
    """The answers on their way to the worker. Many small ones go together."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._waiting: list[RequestAnswers] = []
        self._flush_time = 0.0

    def put(self, answers: RequestAnswers, *, at_once: bool = False) -> None:
        self._waiting.append(answers)
        if at_once or time.monotonic() >= self._flush_time:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            write(self._pipe, self._waiting)
        self._waiting = []
        self._flush_time = time.monotonic() + DELAY


class RequestReply:
    """The answers to one request. They go in groups, or one by one if each takes long."""

    def __init__(self, replies: Replies, number: int, *, is_slow: bool) -> None:
        self._replies = replies
        self._number = number
        self._is_slow = is_slow
        self._group: list[Answer] = []

    def add(self, window_answer: Answer) -> None:
        self._group.append(window_answer)
        if self._is_slow or len(self._group) == GROUP:
            self._replies.put(RequestAnswers(self._number, self._group, is_last=False), at_once=self._is_slow)
            self._group = []

    def end(self, error: Exception | None, *, at_once: bool) -> None:
        """Send the last answers, and the error of the window after them."""
        self._replies.put(RequestAnswers(self._number, self._group, is_last=True, error=error), at_once=at_once)


def serve(requests: Requests, replies: Replies) -> None:
    """Answer requests until the pipe to the worker breaks."""
    queries: dict[bytes, Query] = {}
    while True:
        request = requests.next()
        query = request.query or queries[request.digest]
        queries[request.digest] = query

        is_slow = estimate_count(query) > FEW
        reply = RequestReply(replies, request.number, is_slow=is_slow)
        error: Exception | None = None
        try:
            if is_slow:
                # Answers that wait for company would wait as long as this estimate takes.
                replies.flush()
            for window_answer in _answers_until_withdrawal(query, request, requests):
                reply.add(window_answer)
        except BrokenPipeError:
            return
        except Exception as fault:  # noqa: BLE001 - the worker raises it
            error = fault
        reply.end(error, at_once=requests.is_empty)


def _answers_until_withdrawal(query: Query, request: Request, requests: Requests) -> Iterator[Answer]:
    """Yield the answers to a request, but only that of the window at work if the request is withdrawn meanwhile."""
    if requests.is_withdrawn(request):
        return

    for window_answer in answers(query, request.questions, request.states, request.blocks, request.history):
        yield window_answer
        if requests.is_withdrawn(request):
            return


def main() -> None:
    """Answer requests until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the worker gets them too, and stops this process
        signal.signal(number, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not mix with the answers
    requests = Requests(sys.stdin.buffer, lambda: os._exit(0))
    load()
    serve(requests, Replies(output))


def load() -> None:
    """Import what records need and the modules import late. The first final would wait for it, 0.26 s of CPU."""
    import scipy.optimize
    import scipy.special  # noqa: F401
