"""The process that makes records: it answers what it is asked on its standard input, and ends when that does.

Whoever asks has died then, however: a thread waits for it, so that no estimate under way holds the process up.
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

from aggregator.counting.tally import Snapshot
from aggregator.merging.crowd import Face
from aggregator.merging.windows import Span
from aggregator.publishing.analysis import Findings
from aggregator.publishing.final import Seen, look, made
from oracles.query import Query

LENGTH = struct.Struct("<Q")


class Question(NamedTuple):
    """A window whose records are asked for."""

    digest: bytes
    query: Query | None
    """None: the one of this digest that was named last."""
    span: Span
    total: Snapshot
    faces: Sequence[Face] | None
    """What a final may show; None: it is provisional."""
    states: Sequence[bytes]
    """Of the alerts of each attribute."""
    whole: bool
    """Whether the findings are wanted too."""


class Answer(NamedTuple):
    """The records of a window, and what follows from a final."""

    records: tuple[tuple[bytes, bytes], ...]
    alerts: list[tuple[bytes, bytes]]
    states: list[bytes]
    seen: list[Seen]
    findings: tuple[Findings, ...]


def answer(query: Query, question: Question) -> Answer:
    """The answer, a function of the question."""
    found = made(query, question.span, question.total, question.faces, question.states)
    findings = found.built.findings if question.whole else ()
    return Answer(found.built.records, found.alerts, found.states, look(query, found.built), findings)


def write(pipe: IO[bytes], message: object) -> None:
    """One message."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read(pipe: IO[bytes]) -> object:
    """The next message; an EOFError where there is none any more."""
    head = pipe.read(LENGTH.size)
    data = pipe.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
    if not data:
        raise EOFError("the pipe has ended")
    return pickle.loads(data)  # noqa: S301 - of our own other end


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the worker, which ends in order
        signal.signal(number, signal.SIG_IGN)
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nobody's print stands among the answers
    asked: SimpleQueue[Any] = SimpleQueue()

    def listen() -> None:
        try:
            while True:
                asked.put(read(sys.stdin.buffer))
        except EOFError:
            pass
        finally:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    queries: dict[bytes, Query] = {}
    while True:
        question = asked.get()
        query = queries[question.digest] = question.query or queries[question.digest]
        try:
            found: Answer | Exception = answer(query, question)
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
            found = error
        try:
            write(told, found)
        except BrokenPipeError:
            return
