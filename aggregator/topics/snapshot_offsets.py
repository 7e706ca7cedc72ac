"""The first clock record of a prefix. It names the end of each partition of `snapshots`.

Nobody else knows the offsets of snapshots that older releases wrote, and a merger must not close a pane before it has
read them.
"""

import asyncio

from aggregator.tallies.clock_record import RAISE, ClockRecord, Numbered, encode
from aggregator.topics.identity import identify
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import CLOCKS, REPORTS, SNAPSHOTS, Kafka

NOTHING = b"watermark|0|raise"
"""A key that no worker writes. Its deletion only tells the offset at which it lies."""


async def write_offsets(kafka: Kafka, partitions: int) -> None:
    """Append to each partition of `snapshots`, and write the offsets of these records to `clocks`."""
    async with Outbox(kafka) as outbox, OffsetLookup(kafka, kafka.topic(REPORTS)) as broker:
        topic_ids = await identify(kafka, broker, partitions)
        offsets = await asyncio.gather(*(_end(outbox, partition) for partition in range(partitions)))
        record = ClockRecord(
            partitions=partitions,
            topic_ids=topic_ids,
            offsets=Numbered.of({partition: offset + 1 for partition, offset in enumerate(offsets)}),
        )
        await (await outbox.send(CLOCKS, RAISE, encode(record), partition=0))


async def _end(outbox: Outbox, partition: int) -> int:
    """Append a record to a partition of `snapshots`, and return its offset."""
    offset = -1
    # After a retry the broker may acknowledge a record without its offset.
    while offset < 0:
        ack = await outbox.send(SNAPSHOTS, NOTHING, None, partition=partition)
        offset = (await ack).offset
    return offset
