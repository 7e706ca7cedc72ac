"""Server-sent events, which report every new record and alert to the listeners."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import randint
from typing import Any

import orjson

from aggregator.board.store.entry import Entry
from aggregator.records.rows import WindowRow
from hubbub.http.connections import Connection
from hubbub.http.fair_shares import CallerPath, FairShares
from hubbub.http.problem import Problem

LISTENERS = 200
"""Maximum number of listeners at one time."""
RETRY = 30, 90
"""Seconds after which a listener that gave way may come again, from and to."""
BACKLOG = 500
"""Maximum number of events that wait for a slow listener.

The board then disconnects it. The page reconnects and loads the current state.
"""
BEAT = 5.0
"""Seconds between two `beat` events, which report the state of the board."""


class Events:
    """The listeners, with a queue of events for each. They share the places by the rule of fair shares."""

    def __init__(self, most: int = LISTENERS) -> None:
        self.places = FairShares(most, time.monotonic)
        self._most = most
        self._queues: dict[asyncio.Queue[bytes | None], Callable[[str], bool]] = {}
        """The queue of each listener, with a test whether the listener sees a query."""

    def send(self, event: str, data: Any, query: str | None = None) -> None:
        """Queue an event for every listener that sees its query. Disconnect the listeners whose queue is full."""
        message = encode(event, data)
        # A copy, because slow listeners leave the set in between.
        for queue, sees in list(self._queues.items()):
            if query is not None and not sees(query):
                continue
            if queue.qsize() >= BACKLOG:
                self._queues.pop(queue, None)
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)

    def close(self) -> None:
        """Disconnect all listeners."""
        for queue in self._queues:
            queue.put_nowait(None)
        self._queues.clear()

    @contextmanager
    def join(
        self, path: CallerPath, connection: Connection | None = None, sees: Callable[[str], bool] = lambda _: True
    ) -> Iterator[asyncio.Queue[bytes | None]]:
        """Yield a queue of all messages from now on for a client with this path. The last one is None.

        A listener that gives way gets the event `full` before. Raise a Problem if there is no room.
        """
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        def give_way() -> None:
            self._queues.pop(queue, None)
            # At random, so that listeners that gave way together do not come again together.
            queue.put_nowait(encode("full", {"retry": randint(*RETRY)}))
            queue.put_nowait(None)

        place = self.places.enter(path, 1, give_way)
        if place is None:
            raise Problem(503, f"All {self._most} event streams are in use. Try again.", retry_after=1)
        self._queues[queue] = sees
        if connection is not None:
            connection.parts.add(place)
        try:
            yield queue
        finally:
            self._queues.pop(queue, None)
            self.places.leave(place)
            if connection is not None:
                connection.parts.discard(place)


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
