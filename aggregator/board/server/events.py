"""Server-sent events, which report every new record and alert to the listeners."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from aggregator.board.store.entry import Entry
from aggregator.records.rows import WindowRow
from hubbub.http.addresses import Networks, shares
from hubbub.http.problem import Problem

LISTENERS = 200
"""Maximum number of listeners at one time."""
LISTENERS_EACH = LISTENERS // 10
"""Maximum number of listeners at one address."""
BACKLOG = 500
"""Maximum number of events that wait for a slow listener.

The board then disconnects it. The page reconnects and loads the current state.
"""
BEAT = 5.0
"""Seconds between two `beat` events, which report the state of the board."""


class Events:
    """The listeners, with a queue of events for each. Addresses in `exempt` have no limit of their own."""

    def __init__(self, exempt: Networks = ()) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()
        self._exempt = exempt
        self._places: Counter[str] = Counter()
        """The number of listeners in each network."""

    def send(self, event: str, data: Any) -> None:
        """Queue an event for every listener. Disconnect the listeners whose queue is full."""
        message = encode(event, data)
        # A copy, because slow listeners leave the set in between.
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

    @contextmanager
    def join(self, peer: str) -> Iterator[asyncio.Queue[bytes | None]]:
        """Yield a queue of all messages from now on for a client at this address. The last one is None.

        Raise a Problem if there is no room for it.
        """
        networks = shares(peer, LISTENERS_EACH, self._exempt)
        if len(self._queues) >= LISTENERS:
            raise Problem(503, f"All {LISTENERS} event streams are in use. Try again.", retry_after=1)
        if any(self._places[network] >= limit for network, limit in networks.items()):
            raise Problem(429, "This address has too many event streams. Close one of them.", retry_after=1)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        self._places.update(networks.keys())
        try:
            yield queue
        finally:
            self._queues.discard(queue)
            # This operator drops addresses without listeners, which would fill the memory in time.
            self._places -= Counter(networks.keys())


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
