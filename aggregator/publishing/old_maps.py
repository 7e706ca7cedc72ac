"""The deletion of the maps that releases before formats version 3 wrote to the topic `estimates`.

Its readers are many, and maps show single reports of a small window. So the owner of a query's partition reads once
what the older releases wrote there, and deletes their records of maps. A second look finds none.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import chain

from aiokafka.errors import KafkaError

from aggregator.records.maps_record import is_maps
from aggregator.tallies import keys
from hubbub.definitions.follower import Follower
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.outbox import Outbox, OutboxRecord, count_refused
from hubbub.kafka.rights import access_refusal
from hubbub.kafka.settings import ESTIMATES, LARGEST, Kafka

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds until the next try after an error."""
MARGIN = 86_400_000
"""Milliseconds by which the times of records may be ahead of the log time of the formats version.

Records have the times of windows, or of the clocks of workers.
"""


class OldMaps:
    """The partitions of `estimates` that this worker has to look through."""

    def __init__(self, kafka: Kafka, follower: Follower, outbox: Outbox, fail: Callable[[BaseException], None]) -> None:
        self._kafka = kafka
        self._follower = follower
        self._outbox = outbox
        self._fail = fail
        self._done: set[int] = set()
        """The partitions that are looked through."""
        self._task: asyncio.Task[None] | None = None

    def assign(self, digests: Collection[bytes]) -> None:
        """Look through the partitions of these queries of unknown strings, which this worker merges."""
        self.cancel()
        # The topics of an embedded broker live as long as its process, so no older release has written to them.
        if digests and not self._kafka.embedded:
            self._task = asyncio.create_task(self._run(digests))

    def cancel(self) -> None:
        """Stop looking. The next assignment begins the partition again."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, digests: Collection[bytes]) -> None:
        count = await self._outbox.partitions(ESTIMATES)
        for partition in sorted({keys.home(digest, count) for digest in digests} - self._done):
            while partition not in self._done:
                await self._try(partition)

    async def _try(self, partition: int) -> None:
        """Delete the maps of one partition. Without brokers wait, because counting waits for them too."""
        try:
            await self._delete(partition)
            self._done.add(partition)
        except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
            if access_refusal("worker", error):
                self._fail(error)
            log.warning("old maps in estimates not deleted yet, trying again: %r", error)
            await asyncio.sleep(PAUSE)

    async def _delete(self, partition: int) -> None:
        """Delete the maps of one partition."""
        old_maps = await self._find(partition)
        if old_maps:
            acks = await self._outbox.append(ESTIMATES, partition, [OutboxRecord(key, None) for key in old_maps])
            await count_refused(acks)
            log.info("old maps deleted from estimates", extra={"partition": partition, "records": len(old_maps)})

    async def _find(self, partition: int) -> list[bytes]:
        """Return the keys of maps in the part of the log that an older release may have written."""
        last_time = self._follower.definitions.raised_at + MARGIN
        present: dict[bytes, bool] = {}
        async with open_log(self._kafka, {ESTIMATES: [partition]}, max_partition_fetch_bytes=LARGEST) as reader:
            async for batches in reader.batches_to_end():
                records = [*chain(*batches.values())]
                present |= {record.key: record.value is not None for record in records if is_maps(record.key)}
                if any(record.timestamp > last_time for record in records):
                    break
        return [key for key, has_value in present.items() if has_value]
