"""A load of reports on a real Kafka, while a test changes something else."""

import asyncio
import threading
import time
from contextlib import contextmanager

from aiokafka import AIOKafkaProducer

from hubbub.kafka.clients import client_arguments, started

VALUES = {
    "page": [0, 0, 1],
    "site": [3, 3, 40],
    "both": [[5, 0], [9, 1]],
    "new": [1, 7, 7, 7],
    "wait": [*range(16)] * 8,
}


@contextmanager
def load(place, queries):
    """Send keyed reports of these queries ten times a second, in all partitions, and some of them twice.

    Yield a function that returns the number of reports so far.
    """
    over = threading.Event()
    sent = []

    async def run():
        number = 0
        settings = {**client_arguments(place.kafka), "acks": "all", "linger_ms": 5}
        async with started(AIOKafkaProducer(**settings), place.kafka) as producer:
            while not over.is_set():
                for query in queries:
                    number += 1
                    # The id of a frame decides its partition.
                    frame = place.encode(
                        query, VALUES[query.name], number=place.partitions * number + number % place.partitions
                    )
                    for _ in range(1 + (number % 5 == 0)):
                        await producer.send(place.kafka.topic("reports"), frame, partition=number % place.partitions)
                    sent.append(len(VALUES[query.name]))
                place.sent_at = time.time()
                await asyncio.sleep(0.1)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield lambda: sum(sent)
    finally:
        over.set()
        thread.join()
