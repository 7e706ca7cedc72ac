"""The recovery, which reads partitions of the changelog in bulk with a consumer without a group.

Faust reads a changelog record by record: 5,000 records in a CPU second. A plain consumer reads 200,000.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.rights import access_refusal
from hubbub.kafka.settings import CHANGELOG, Kafka

log = logging.getLogger(__name__)

FETCH = 16 << 20
"""The most bytes of one partition in a fetch."""
PATIENCE = 10.0
"""Seconds until a request without an answer fails."""
RETRY_PAUSE = 1.0
"""Seconds between two attempts."""
ChangelogRecords = dict[bytes, bytes]
"""The newest value of each key."""
_Answer = TypeVar("_Answer")


async def retry(ask: Callable[[], Awaitable[_Answer]], is_current: Callable[[], bool]) -> _Answer | None:
    """Ask until a broker answers, and return the answer, or None once it is not needed any more."""
    while is_current():
        try:
            return await ask()
        except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
            if access_refusal("worker", error):
                raise
            log.warning("recovery waits: no broker answers, trying again: %r", error)
            await asyncio.sleep(RETRY_PAUSE)
    return None


class Recovery:
    """A reader of changelog partitions. Its count of records shows the watchdog that it makes progress."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.records_read = 0
        self._offsets: dict[bytes, tuple[int, int]] = {}

    def place(self, key: bytes) -> str:
        """Return the place of the newest record of a key, for messages."""
        partition, offset = self._offsets.get(key, (-1, -1))
        return f"{self._kafka.topic(CHANGELOG)}, partition {partition}, offset {offset}"

    async def read(self, partitions: Collection[int], is_current: Callable[[], bool]) -> ChangelogRecords | None:
        """Return the newest value of each key, or None once a rebalance makes the recovery useless."""
        return await retry(lambda: self._read(partitions, is_current), is_current)

    async def _read(self, partitions: Collection[int], is_current: Callable[[], bool]) -> ChangelogRecords | None:
        newest_values: ChangelogRecords = {}
        self._offsets.clear()
        if not partitions:
            return newest_values

        topics = {CHANGELOG: partitions}
        settings = {"max_partition_fetch_bytes": FETCH, "request_timeout_ms": int(1000 * PATIENCE)}
        async with open_log(self._kafka, topics, PATIENCE, **settings) as reader:
            async for batches in reader.batches_to_end(poll_ms=200, stop=lambda: not is_current()):
                for records in batches.values():
                    self.records_read += len(records)
                    self._put(newest_values, records)

        # A recovery that stopped early has not read all of the newest values.
        return newest_values if is_current() else None

    def _put(self, newest_values: ChangelogRecords, records: list[Any]) -> None:
        for record in records:
            if record.value is None:
                newest_values.pop(record.key, None)
                self._offsets.pop(record.key, None)
            else:
                newest_values[record.key] = record.value
                self._offsets[record.key] = record.partition, record.offset
