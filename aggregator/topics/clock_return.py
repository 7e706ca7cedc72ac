"""The return from clocks to the forms of release 0.2.0, which has an end for each query in progress and watermarks.

Each step waits until the one before is acknowledged, and may be repeated: workers of this release read both forms, and
those of release 0.2.0 exit at progress that has a closed clock.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from aggregator.tallies.clock import Clock, max_clock
from aggregator.tallies.clock_book import NO_CLOCK, ClockBook
from aggregator.tallies.keys import PartitionKey, Write, decode, home
from aggregator.tallies.progress import Progress, combine, encode_ends
from aggregator.tallies.progress import decode as decode_progress
from aggregator.topics.identity import identify
from hubbub import outside
from hubbub.definitions.versions import Versions
from hubbub.kafka.clients import partitions as partition_counts
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import CHANGELOG, CLOCKS, LARGEST, REPORTS, SNAPSHOTS, Kafka

PartitionWrites = dict[int, list[Write]]


@dataclass(frozen=True)
class ClockReturn:
    """The writes of the return, by partition."""

    progress: PartitionWrites
    """Progress with an end for each query."""
    watermarks: PartitionWrites
    deletions: PartitionWrites
    """Deletions of the progress that has a closed clock."""

    async def write(self, outbox: Outbox) -> None:
        """Write all, and wait for the acknowledgements of each step before the next one."""
        for topic, writes in ((CHANGELOG, self.progress), (SNAPSHOTS, self.watermarks), (CHANGELOG, self.deletions)):
            sending = [await outbox.write(topic, partition, records) for partition, records in writes.items()]
            await asyncio.gather(*chain(*sending))


async def plan(kafka: Kafka, partitions: int, definitions: Mapping[bytes, Versions]) -> ClockReturn:
    """Read progress and clocks, and return the writes of the return."""
    async with OffsetLookup(kafka, kafka.topic(REPORTS)) as broker:
        book = ClockBook(partitions)
        book.topic_ids = await identify(kafka, broker, partitions)
    for name, value in await _newest(kafka, CLOCKS, [0]):
        book.put(name, value)
    clocks = book.view.clocks.tolist()

    writer = outside.random_hex(8)
    result = ClockReturn({}, {}, {})
    for partition, records in (await _read_progress(kafka, partitions)).items():
        progress = combine(records.values())
        newest_clock = None if clocks[partition] == NO_CLOCK else clocks[partition]
        _add_progress(result, partition, records, _with_ends(progress, progress.closed_clock, definitions), writer)
        ends = _with_ends(progress, max_clock(progress.closed_clock, newest_clock), definitions).closed
        _add_watermarks(result, partition, partitions, ends, writer)
    return result


async def delete_clocks(kafka: Kafka, outbox: Outbox) -> None:
    """Delete all clock records. Workers of older releases do not read them."""
    if CLOCKS in await partition_counts(kafka, optional=[CLOCKS]):
        names = [name for name, _ in await _newest(kafka, CLOCKS, [0])]
        await asyncio.gather(*await outbox.write(CLOCKS, 0, [(name, None) for name in names]))


def _with_ends(progress: Progress, clock: Clock, definitions: Mapping[bytes, Versions]) -> Progress:
    """Return progress with the end of the newest closed pane of each query at a clock."""
    result = replace(progress, closed_clock=clock)
    ends = {digest: result.closed_through(versions) for digest, versions in definitions.items()}
    present_ends = {digest: end for digest, end in ends.items() if end is not None}
    # Ends of definitions that are gone stay, because the next worker of this release may know them again.
    return replace(result, closed={**progress.closed, **present_ends})


def _add_progress(
    result: ClockReturn, partition: int, records: Mapping[bytes, Progress], progress: Progress, writer: str
) -> None:
    # An empty record of an older release counts as one of this release. To write it again changes nothing.
    names = [name for name, record in records.items() if record.closed_clock is not None or not record.closed]
    if not names:
        return
    key = PartitionKey("progress", partition, f"{writer}.0").encode()
    result.progress[partition] = [(key, encode_ends(progress))]
    result.deletions[partition] = [(name, None) for name in names]


def _add_watermarks(
    result: ClockReturn, partition: int, partitions: int, ends: Mapping[bytes, int], writer: str
) -> None:
    # Workers of release 0.2.0 delete watermarks under the name of the writer of the progress.
    key = PartitionKey("watermark", partition, writer).encode()
    by_home: dict[int, dict[bytes, int]] = {}
    for digest, end in ends.items():
        by_home.setdefault(home(digest, partitions), {})[digest] = end
    for target, home_ends in by_home.items():
        result.watermarks.setdefault(target, []).append((key, encode_ends(Progress(closed=home_ends))))


async def _read_progress(kafka: Kafka, partitions: int) -> dict[int, dict[bytes, Progress]]:
    """Return the progress records by partition and key."""
    progress: dict[int, dict[bytes, Progress]] = {}
    for name, value in await _newest(kafka, CHANGELOG, range(partitions)):
        key = decode(name)
        if isinstance(key, PartitionKey) and key.kind == "progress":
            progress.setdefault(key.partition, {})[name] = decode_progress(value)
    return progress


async def _newest(kafka: Kafka, topic: str, numbers: Iterable[int]) -> list[tuple[bytes, bytes]]:
    """Return the newest value of each key that is not deleted."""
    values: dict[bytes, bytes] = {}
    async with open_log(kafka, {topic: list(numbers)}, max_partition_fetch_bytes=LARGEST) as reader:
        async for batches in reader.batches_to_end():
            for record in chain(*batches.values()):
                values.pop(record.key, None)
                if record.key is not None and record.value is not None:
                    values[record.key] = record.value
    return list(values.items())
