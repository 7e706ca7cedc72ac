"""The finals of a query, read from the topic of estimates from its beginning to where it ends now."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
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
    query: str,
    wanted: Callable[[Record], bool],
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Those of a query that are wanted, each once, by window and attribute; what is no record is passed over."""
    counts = await partitions(kafka, ESTIMATES)
    tps = [TopicPartition(kafka.topic(ESTIMATES), number) for number in range(counts[ESTIMATES])]
    found: dict[_Key, Record] = {}
    ends_of: dict[str, tuple[int, int]] = {}
    """The first and the last end of the windows of each query."""
    async with started(consumer(kafka, max_partition_fetch_bytes=LARGEST), kafka) as reader:
        reader.assign(tps)
        await reader.seek_to_beginning(*tps)
        begins, ends = await reader.beginning_offsets(tps), await reader.end_offsets(tps)
        total = sum(ends[tp] - begins[tp] for tp in tps)
        async for records in through(reader, ends, kafka):
            for record in records:
                for each in _read(record):
                    first, last = ends_of.get(each.query, (each.span.end, each.span.end))
                    ends_of[each.query] = min(first, each.span.end), max(last, each.span.end)
                    if each.query == query and wanted(each):
                        found[_window_key(each)] = each
            if progress is not None:
                progress(sum([await reader.position(tp) - begins[tp] for tp in tps]), total)
    if not found:
        log.warning("%s", nothing(query, ends_of))
    return sorted(found.values(), key=_order)


def nothing(query: str, ends: Mapping[str, tuple[int, int]]) -> str:
    """Why no final was found, by the ends of those that there are of each query."""
    if not ends:
        return "no final of any query stands there yet"
    if query not in ends:
        return f"no final of {query!r} stands there; there are finals of {', '.join(sorted(ends))}"
    first, last = (datetime.fromtimestamp(end, UTC).isoformat() for end in ends[query])
    return f"no final of {query} fits; those that stand there end from {first} to {last}"


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
