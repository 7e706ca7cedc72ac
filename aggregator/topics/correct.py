"""How a correction of the log's time is written: the stretch is read first, for the newest time that it has."""

import asyncio
import time

from aiokafka import AIOKafkaProducer, TopicPartition

from hubbub.definitions.corrections import Correction
from hubbub.kafka import Kafka, consumer, partitions, started
from hubbub.names import QUERIES, REPORTS
from oracles.errors import ParameterError

PATIENCE = 10.0
"""Seconds without a record until the reading is given up."""


async def correct(kafka: Kafka, wanted: Correction) -> str:
    """Write it; a line that says what was done."""
    said = await _read(kafka, wanted)
    key, value = said.encode()
    producer = AIOKafkaProducer(**kafka.client(), acks="all", enable_idempotence=not kafka.embedded)
    async with started(producer, kafka):
        now = time.time_ns() // 1_000_000
        await producer.send_and_wait(kafka.topic(QUERIES), value, key, partition=0, timestamp_ms=now)
    takes = "they do not move the clock" if said.clock is None else f"their time is {said.clock} ms"
    return f"corrected {kafka.topic(REPORTS)}, {said}: {takes}; the log's newest there is {said.wrong} ms"


async def _read(kafka: Kafka, wanted: Correction) -> Correction:
    tp = TopicPartition(kafka.topic(REPORTS), wanted.partition)
    newest, count = 0, (await partitions(kafka, REPORTS))[REPORTS]
    if wanted.partition >= count:
        raise ParameterError(
            f"--correct: {tp.topic} has no partition {tp.partition}: they are numbered 0 to {count - 1}"
        )
    async with started(consumer(kafka), kafka) as reader:
        reader.assign([tp])
        ends = await reader.end_offsets([tp])
        if wanted.end > ends[tp]:
            raise ParameterError(f"--correct: {tp.topic}, partition {tp.partition} ends at offset {ends[tp]}")
        reader.seek(tp, wanted.first)
        clock = asyncio.get_running_loop().time
        async with asyncio.timeout(PATIENCE) as patience:
            while await reader.position(tp) < wanted.end:
                for record in (await reader.getmany(tp, timeout_ms=200)).get(tp, []):
                    if record.offset < wanted.end and record.timestamp_type:
                        newest = max(newest, record.timestamp)
                    patience.reschedule(clock() + PATIENCE)
    return Correction(wanted.partition, wanted.first, wanted.end, wanted.clock, newest)
