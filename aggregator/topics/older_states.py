"""The states that a worker of an older release has written after the rise of the formats version.

Each checkpoint replaces states, so they stay in the log until Kafka compacts it. A newer state may already hide them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

from aiokafka import TopicPartition

from aggregator.tallies.state_forms import is_older
from hubbub.definitions.catalog import Definitions
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import LARGEST, SNAPSHOTS, Kafka


class OlderStates(NamedTuple):
    """The older states of one partition."""

    partition: int
    number: int
    first: int
    """The log time of the first one, in ms."""
    last: int

    def __str__(self) -> str:
        return f"partition {self.partition}: {self.number:,} from {_time(self.first)} to {_time(self.last)}"


async def find(kafka: Kafka, definitions: Definitions, partitions: int) -> list[OlderStates]:
    """Return the states of an older form that are newer than the rise."""
    if kafka.embedded or not definitions.raised_at:
        return []

    tps = [TopicPartition(kafka.topic(SNAPSHOTS), number) for number in range(partitions)]
    times: dict[int, list[int]] = {}
    async with open_log(kafka, {SNAPSHOTS: range(partitions)}, max_partition_fetch_bytes=LARGEST) as reader:
        positions = await reader.consumer.offsets_for_times(dict.fromkeys(tps, definitions.raised_at))
        for tp in tps:
            position = positions[tp]
            reader.consumer.seek(tp, reader.ends[tp] if position is None else position.offset)

        async for batches in reader.batches_to_end():
            for record in chain(*batches.values()):
                if is_older(record.key, record.value):
                    times.setdefault(record.partition, []).append(record.timestamp)
    return [OlderStates(number, len(own), min(own), max(own)) for number, own in sorted(times.items())]


def lines(states: list[OlderStates]) -> Iterator[str]:
    """Yield what an older worker has left."""
    for state in states:
        yield f"states: of an older form in snapshots, {state}"
    if states:
        yield 'states: an older worker ran after the rise; docs/life.md, "An older worker ran", has the steps'


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat()
