"""Recovery in bulk: what partitions of the changelog hold, read by a consumer without a group.

Faust reads a changelog one record at a time, 5,000 in a CPU second; a plain consumer reads 200,000.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from hubbub.errors import KafkaUnreachable
from hubbub.kafka import Kafka, consumer, started
from hubbub.names import CHANGELOG
from hubbub.rights import explained

log = logging.getLogger(__name__)

FETCH = 16 << 20
PATIENCE = 10.0
AGAIN = 1.0
"""Seconds until a broker that was away is asked again."""
Found = dict[bytes, bytes]
_Answer = TypeVar("_Answer")


async def answered(ask: Callable[[], Awaitable[_Answer]], wanted: Callable[[], bool]) -> _Answer | None:
    """What brokers answer, however long they are silent; None once it is no longer wanted."""
    while wanted():
        try:
            return await ask()
        except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
            if explained("worker", error):
                raise
            log.warning("no broker answers the recovery, which asks again: %r", error)
            await asyncio.sleep(AGAIN)
    return None


class Recovery:
    """Reads partitions of the changelog; `moved` shows others that it goes on."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.moved = 0
        self._offsets: dict[bytes, tuple[int, int]] = {}

    def where(self, key: bytes) -> str:
        """Where the newest record of a key stands, for people."""
        partition, offset = self._offsets.get(key, (-1, -1))
        return f"{self._kafka.topic(CHANGELOG)}, partition {partition}, offset {offset}"

    async def read(self, partitions: Collection[int], wanted: Callable[[], bool]) -> Found | None:
        """The newest value of each key; None once it is no longer wanted, since partitions are shared out anew."""
        return await answered(lambda: self._read(partitions, wanted), wanted)

    async def _read(self, partitions: Collection[int], wanted: Callable[[], bool]) -> Found | None:
        tps = [TopicPartition(self._kafka.topic(CHANGELOG), partition) for partition in partitions]
        found: Found = {}
        self._offsets.clear()
        if not tps:
            return found
        patience = int(1000 * PATIENCE)
        reader = consumer(self._kafka, max_partition_fetch_bytes=FETCH, request_timeout_ms=patience)
        async with started(reader, self._kafka):
            reader.assign(tps)
            await reader.seek_to_beginning(*tps)
            ends = await asyncio.wait_for(reader.end_offsets(tps), PATIENCE)
            while wanted():
                batches = await reader.getmany(timeout_ms=200)
                for records in batches.values():
                    self.moved += len(records)
                    self._put(found, records)
                # The embedded broker states an end that is too low: there, all is read when nothing more comes.
                if not (batches and self._kafka.embedded) and await _is_read(reader, ends):
                    return found
        return None

    def _put(self, found: Found, records: list[Any]) -> None:
        for record in records:
            if record.value is None:
                found.pop(record.key, None)
                self._offsets.pop(record.key, None)
            else:
                found[record.key] = record.value
                self._offsets[record.key] = record.partition, record.offset


async def _is_read(reader: Any, ends: dict[TopicPartition, int]) -> bool:
    for tp, end in ends.items():
        if end and await reader.position(tp) < end:
            return False
    return True
