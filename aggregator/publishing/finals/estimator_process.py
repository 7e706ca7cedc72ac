"""The process that makes records. It answers questions from its standard input, and exits at the end of the input.

The input ends when the worker dies, in whatever way. A thread reads it, so that the process exits even
during an estimate.
"""

import os
import pickle
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

from aggregator.merging.small_groups import VisibleWindow
from aggregator.merging.windows import Span
from aggregator.publishing.finals.final import FinalMetrics, final_metrics, window_result
from aggregator.publishing.findings import Findings
from aggregator.tallies.snapshot import Snapshot
from oracles.query import Query

LENGTH = struct.Struct("<Q")


class Question(NamedTuple):
    """A window whose records the worker needs."""

    digest: bytes
    query: Query | None
    """The query, or None for the last query of the same digest."""
    span: Span
    total: Snapshot
    visible: Sequence[VisibleWindow] | None
    """The values that a final may show, or None for a provisional window."""
    states: Sequence[bytes]
    """The alert state of each attribute."""
    with_findings: bool
    """Whether the answer needs the findings."""


class Answer(NamedTuple):
    """The records of a window. For a final also alerts, states and metrics."""

    records: tuple[tuple[bytes, bytes], ...]
    alerts: list[tuple[bytes, bytes]]
    states: list[bytes]
    metrics: list[FinalMetrics]
    findings: tuple[Findings, ...]


def answer(query: Query, question: Question) -> Answer:
    """Return the answer. It depends on the question only."""
    result = window_result(query, question.span, question.total, question.visible, question.states)
    findings = result.window.findings if question.with_findings else ()
    return Answer(result.window.records, result.alerts, result.states, final_metrics(query, result.window), findings)


def write(pipe: IO[bytes], message: object) -> None:
    """Write one message to a pipe."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read(pipe: IO[bytes]) -> object:
    """Read the next message, or raise an EOFError at the end of the pipe."""
    head = pipe.read(LENGTH.size)
    data = pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    if not data:
        raise EOFError("end of the pipe")
    return pickle.loads(data)  # noqa: S301 - the other end of the pipe is our own worker


def main() -> None:
    """Answer questions until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the worker gets them too, and stops this process
        signal.signal(number, signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not mix with the answers
    questions: SimpleQueue[Any] = SimpleQueue()

    def read_questions() -> None:
        try:
            while True:
                questions.put(read(sys.stdin.buffer))
        except EOFError:
            pass
        finally:
            os._exit(0)

    threading.Thread(target=read_questions, daemon=True).start()
    queries: dict[bytes, Query] = {}
    while True:
        question = questions.get()
        query = queries[question.digest] = question.query or queries[question.digest]
        try:
            result: Answer | Exception = answer(query, question)
        except Exception as error:  # noqa: BLE001 - the worker raises it
            result = error
        try:
            write(output, result)
        except BrokenPipeError:
            return
