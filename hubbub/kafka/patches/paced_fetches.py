"""A fetcher that asks less often while records come steadily, because each fetch costs a worker about a millisecond.

A fetch after a quiet time is sent at once, and so is one after a large answer. Single records therefore wait for
nothing, and neither does a worker that catches up.
"""

import asyncio
import time
from typing import Any

from aiokafka.consumer import consumer, fetcher

PAUSE = 0.1
"""Seconds from one small fetch of a broker to the next. With 0.04 a worker at a low rate takes an eighth more CPU."""
LARGE = 1 << 18
"""Bytes of an answer after which the next fetch is sent at once: its records cost more than the fetch itself."""

_paced_topics: set[str] = set()
"""The topics whose fetches are paced."""


class PacedFetcher(fetcher.Fetcher):  # type: ignore[misc] # aiokafka is untyped
    """A fetcher that sends its fetches of some topics at the times of a `Pace`."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        self._paces: dict[int, Pace] = {}
        super().__init__(*arguments, **more)

    async def _proc_fetch_request(self, assignment: Any, node_id: int, request: Any) -> bool:
        """Send the only fetch of a broker in flight, after a wait if it is too early, and keep its records."""
        if not any(topic in _paced_topics for topic, _ in request.topics):
            return bool(await super()._proc_fetch_request(assignment, node_id, request))

        pace = self._paces.setdefault(node_id, Pace())
        try:
            await asyncio.sleep(pace.wait(time.monotonic()))
        except asyncio.CancelledError:
            return False  # like aiokafka, if the assignment has changed

        pace.note_sent(time.monotonic())
        has_records = bool(await super()._proc_fetch_request(assignment, node_id, request))
        size = 0
        for topic, parts in request.topics:
            size += sum(self._fetched_bytes(topic, part[0]) for part in parts)
        pace.note_answer(size)
        return has_records

    def _fetched_bytes(self, topic: str, partition: int) -> int:
        """Return the bytes of a partition that were fetched and not read yet."""
        result = self._records.get(fetcher.TopicPartition(topic, partition))
        records = getattr(result, "_partition_records", None)
        return 0 if records is None else int(records._records.size_in_bytes())  # noqa: SLF001 - aiokafka has no other name


class Pace:
    """The earliest time of the next fetch of one broker."""

    def __init__(self) -> None:
        self._earliest = 0.0

    def wait(self, now: float) -> float:
        """Return the seconds until the next fetch may be sent."""
        return max(0.0, self._earliest - now)

    def note_sent(self, now: float) -> None:
        """Note that a fetch was sent. The next ones of all brokers are sent at the same time, and so read together."""
        self._earliest = (now // PAUSE + 1) * PAUSE

    def note_answer(self, size: int) -> None:
        """Note the size of an answer."""
        if size >= LARGE:
            self._earliest = 0.0


def install(topic: str) -> None:
    """Pace the fetches of this topic in this process."""
    _paced_topics.add(topic)
    consumer.Fetcher = PacedFetcher
