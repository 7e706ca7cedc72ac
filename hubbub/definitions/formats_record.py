"""The record of the formats version in the topic `queries`: it is looked up without reading the definitions."""

import asyncio
from itertools import chain

from hubbub.definitions import formats
from hubbub.definitions.catalog import DefinitionLog, Definitions, TopicRecord
from hubbub.definitions.formats import Formats
from hubbub.kafka.clients import partitions, producer, started
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import LARGEST, QUERIES, Kafka

_LOOKS, _PAUSE = 6, 0.5
"""Looks for the record in a topic that is still empty, and seconds between two looks."""


async def look_up(kafka: Kafka) -> Formats:
    """Return the formats version of the topics. Without a record it is the first."""
    return (await read(kafka)).formats


async def read(kafka: Kafka) -> Definitions:
    """Return the formats version and its log time, without any definition."""
    await partitions(kafka, QUERIES)
    log = DefinitionLog()
    async with open_log(kafka, {QUERIES: [0]}, max_partition_fetch_bytes=LARGEST) as reader:
        async for batches in reader.batches_to_end():
            for record in chain(*batches.values()):
                if record.key == formats.KEY:
                    log.take(TopicRecord(record.key, record.value, record.timestamp))
    return log.definitions


async def look_up_patiently(kafka: Kafka) -> Formats:
    """Return the formats version. In an empty topic wait a moment for the record of the run that created the topic."""
    for _ in range(_LOOKS):
        formats = await look_up(kafka)
        if formats != Formats() or await _has_records(kafka):
            break
        await asyncio.sleep(_PAUSE)
    return formats


async def _has_records(kafka: Kafka) -> bool:
    """Whether the topic ever had a record. The embedded broker's end is too low, so there the answer is yes."""
    async with open_log(kafka, {QUERIES: [0]}) as reader:
        return not kafka.dialect.ends_are_exact or any(reader.ends.values())


async def check(kafka: Kafka) -> None:
    """Raise a FormatsError if this release cannot read everything in the topics."""
    formats.refuse_higher(await look_up(kafka))


async def append(kafka: Kafka) -> None:
    """Append the version that this release writes."""
    client = producer(kafka, acks="all", enable_idempotence=kafka.dialect.is_idempotent)
    async with started(client, kafka):
        await client.send_and_wait(kafka.topic(QUERIES), formats.newest_value(), formats.KEY, partition=0)
