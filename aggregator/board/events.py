"""Server-sent events, which report every new record and alert to the listeners."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson

from aggregator.board.entry import Entry
from aggregator.publishing.records.rows import WindowRow

LISTENERS = 200
"""Maximum number of listeners at one time."""
BACKLOG = 500
"""Maximum number of events that wait for a slow listener.

The board then disconnects it. The page reconnects and loads the current state.
"""
BEAT = 5.0
"""Seconds between two `beat` events, which report the state of the board."""


class Events:
    """The listeners, with a queue of events for each."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def full(self) -> bool:
        return len(self._queues) >= LISTENERS

    def send(self, event: str, data: Any) -> None:
        """Queue an event for every listener. Disconnect the listeners whose queue is full."""
        message = encode(event, data)
        for queue in list(self._queues):
            if queue.qsize() >= BACKLOG:
                self._queues.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)

    def close(self) -> None:
        """Disconnect all listeners."""
        for queue in self._queues:
            queue.put_nowait(None)
        self._queues.clear()

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield all messages from now on, until the board disconnects this listener."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._queues.discard(queue)


def encode(event: str, data: Any) -> bytes:
    """Return the bytes of an event. It has two lines, because this JSON has no line breaks."""
    return b"event: " + event.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def notice(record: Entry) -> dict[str, Any]:
    """Return the message for a new record. Listeners load the estimates from the API."""
    return {
        "query": record.query,
        "digest": record.digest,
        "window": WindowRow.of(record.span),
        "final": record.final,
        "n": record.n,
        "refused": record.refused,
    }
