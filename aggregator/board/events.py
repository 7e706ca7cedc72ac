"""Server-sent events: what is new is told to everyone who listens, as it is read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson

from aggregator.board.entry import Entry
from aggregator.publishing.window import WindowRow

LISTENERS = 200
"""The most who listen at a time."""
BACKLOG = 500
"""Events that wait for a slow listener; then it is let go, and comes back to see how things stand."""
BEAT = 5.0
"""Seconds between two events that only say that all is well, or what is wrong."""


class Events:
    """Everyone who listens."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def full(self) -> bool:
        return len(self._queues) >= LISTENERS

    def tell(self, event: str, said: Any) -> None:
        written = encode(event, said)
        for queue in list(self._queues):
            if queue.qsize() >= BACKLOG:
                self._queues.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(written)

    def close(self) -> None:
        """Let all go."""
        for queue in self._queues:
            queue.put_nowait(None)
        self._queues.clear()

    async def listen(self) -> AsyncIterator[bytes]:
        """The messages told from now on, until this listener is let go."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            while (written := await queue.get()) is not None:
                yield written
        finally:
            self._queues.discard(queue)


def encode(event: str, said: Any) -> bytes:
    """JSON has no line breaks of its own, so an event is two lines."""
    return b"event: " + event.encode() + b"\ndata: " + orjson.dumps(said) + b"\n\n"


def notice(record: Entry) -> dict[str, Any]:
    """That there is a new record; whoever wants its numbers asks for them."""
    return {
        "query": record.query,
        "digest": record.digest,
        "window": WindowRow.of(record.span),
        "final": record.final,
        "n": record.n,
        "refused": record.refused,
    }
