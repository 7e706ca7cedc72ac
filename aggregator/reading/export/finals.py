"""The finals of a query, read from the topic of estimates from its beginning to where it ends now."""

import logging
from collections.abc import Callable
from typing import Any

from aiokafka import TopicPartition

from aggregator.publishing.record_reader import Record, decode
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import Kafka, consumer, partitions, started, through
from hubbub.names import ESTIMATES

log = logging.getLogger(__name__)

_Key = tuple[str, str | None, str, int, int, int]


async def finals(
    kafka: Kafka,
    wanted: Callable[[Record], bool],
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Those that are wanted, each once, by window and attribute; what is no record is passed over."""
    counts = await partitions(kafka, ESTIMATES)
    tps = [TopicPartition(kafka.topic(ESTIMATES), number) for number in range(counts[ESTIMATES])]
    found: dict[_Key, Record] = {}
    async with started(consumer(kafka, max_partition_fetch_bytes=LARGEST), kafka) as reader:
        reader.assign(tps)
        await reader.seek_to_beginning(*tps)
        begins, ends = await reader.beginning_offsets(tps), await reader.end_offsets(tps)
        total = sum(ends[tp] - begins[tp] for tp in tps)
        async for records in through(reader, ends, kafka):
            for record in records:
                found |= {_window_key(each): each for each in _read(record) if wanted(each)}
            if progress is not None:
                progress(sum([await reader.position(tp) - begins[tp] for tp in tps]), total)
        return sorted(found.values(), key=_order)


def _read(record: Any) -> list[Record]:
    if record.value is None:
        return []
    try:
        return [each for each in decode(record.value) if each.final]
    except ValueError as error:
        log.warning("%s, partition %d, offset %d: %s", record.topic, record.partition, record.offset, error)
        return []


def _order(record: Record) -> tuple[int, int, str]:
    return record.span.end, record.span.window.size, record.attribute or ""


def _window_key(record: Record) -> _Key:
    window, _, end = record.span
    return record.digest, record.attribute, window.kind, window.size, window.step, end
