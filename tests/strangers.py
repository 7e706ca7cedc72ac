"""Batches, records and a writer that no producer of hubbub resembles."""

import asyncio
import random
import struct
import threading
import time
from collections import Counter
from contextlib import suppress

import cramjam
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.record.util import calc_crc32c

from aggregator.tallies.keys import PaneKey, StateKey
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.settings import ALERTS, ESTIMATES, QUERIES, REJECTS, SNAPSHOTS, TRUTH
from oracles.frame import MAX_FRAME, encode, partition_of
from tests.unit.fuzz import corpus
from tests.unit.fuzz.mutator import corrupt

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KEY = b"anybody"
"""The key of each record. Compacted topics refuse records without one."""
_BLOCK = 1 << 20


def batch(codec, payload, records, *, base=0, timestamp=1_700_000_000_000, log_append=False):
    """Return a batch of this many records. The payload is their bytes, compressed by `codec` ("" for none)."""
    attributes = CODECS.get(codec, 0) | 8 * log_append
    last_offset = records - 1
    rest = struct.pack(">hiqqqhii", attributes, last_offset, timestamp, timestamp, -1, -1, -1, records) + payload
    return struct.pack(">qiibI", base, 9 + len(rest), 0, 2, calc_crc32c(rest)) + rest


def record(index, value, header=None):
    """Return the bytes of one record of a batch."""
    tail = b"\x00" if header is None else b"\x02" + _varint(len(header)) + header + b"\x01"
    return _head(index, len(value), len(tail)) + value + tail


def bomb(codec, records, size):
    """Return a batch of records of `size` zeros each. It never holds them in memory."""
    compress = {"zstd": cramjam.zstd.Compressor, "lz4": cramjam.lz4.Compressor, "gzip": cramjam.gzip.Compressor}
    compressor = compress[codec]()
    for index in range(records):
        compressor.compress(_head(index, size, 1))
        for _ in range(size // _BLOCK):
            compressor.compress(bytes(_BLOCK))
        compressor.compress(bytes(size % _BLOCK + 1))  # and no headers
    return batch(codec, bytes(compressor.finish()), records)


def _head(index, size, after):
    """Return the bytes before the value of a record. `size` is the value's length, and `after` bytes follow it."""
    body = b"\x00\x00" + _varint(index) + _varint(len(KEY)) + KEY + _varint(size)
    return _varint(len(body) + size + after) + body


def _varint(number):
    """Return a signed integer as protocol buffers write it."""
    number = number << 1 ^ number >> 63
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes(digits) + bytes([number])


async def append(kafka, topic, partition, data, records):
    """Write these bytes as a batch. Return its base offset."""
    async with started(
        AIOKafkaProducer(**client_arguments(kafka), acks="all", request_timeout_ms=60_000), kafka
    ) as producer:
        batch = producer.create_batch()
        batch._buffer = data
        batch._relative_offset = records
        batch.close()
        sending = await producer.send_batch(batch, kafka.topic(topic), partition=partition)
        return (await sending).offset


def frames(query, pane, reports, draw, partitions):
    """Return one frame of each bad kind, and the partition that gets it."""
    name = draw.randbytes(8)
    anywhere = draw.randrange(partitions)
    good_frame = encode(query.digest, pane, reports)
    astray = (partition_of(name, partitions) + 1) % partitions
    return {
        "too large": (bytes(MAX_FRAME + 1), anywhere),
        "an id astray": (encode(query.digest, pane, reports, name), astray),
        "empty, with an id": (encode(query.digest, pane, reports[:0], name), partition_of(name, partitions)),
        "of another query": (encode(draw.randbytes(8), pane, reports), anywhere),
        "of no pane": (encode(query.digest, pane + 1, reports), anywhere),
        "before all time": (encode(query.digest, -(1 << 62) // query.pane * query.pane, reports), anywhere),
        "JSON too deep": (b'{"digest":' + b"[" * 10_000, anywhere),
        "spoilt": (corrupt(good_frame, draw)[:MAX_FRAME], anywhere),
        "rubbish": (draw.randbytes(draw.randrange(90)), anywhere),
        "nothing": (None, anywhere),
    }


class Writer:
    """A thread with an event loop that writes until `stop`."""

    over = False

    def start(self):
        self.thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.thread.start()

    def stop(self):
        self.over = True
        self.thread.join()


class Stranger(Writer):
    """A writer of strange records and of bombs into all topics except the changelog, until `stop`.

    It uses keys of hubbub only if readers must ignore such a record. For example, a closed snapshot that is unreadable
    makes its windows incomplete, so it writes none for the present.
    """

    def __init__(self, kafka, queries, partitions, seed, pause=0.3):
        self.kafka = kafka
        self.queries = list(queries.values())
        self.partitions = partitions
        self.pause = pause
        self.draw = random.Random(seed)
        self.kinds = Counter()
        corpus.values_by_topic()  # takes seconds of CPU, and is cached

    async def _run(self):
        bombs = {} if self.kafka.embedded else {codec: bomb(codec, 2, 70 << 20) for codec in ("zstd", "lz4")}
        settings = {"acks": "all", "request_timeout_ms": 10_000, "metadata_max_age_ms": 5_000}
        producer = AIOKafkaProducer(**client_arguments(self.kafka), **settings, max_request_size=4 << 20)
        await producer.start()
        try:
            while not self.over:
                topic, key, value = self._record()
                self.kinds[topic] += 1
                partition = 0 if topic == QUERIES else self.draw.randrange(self.partitions)
                with suppress(KafkaError):  # a broker may be down
                    self._note(await producer.send(self.kafka.topic(topic), value, key=key, partition=partition))
                    if bombs and self.draw.random() < 0.05:
                        await self._throw(producer, self.draw.choice([*bombs.values()]))
                await asyncio.sleep(self.pause)
        finally:
            with suppress(KafkaError):
                await producer.stop()

    def _note(self, sending):
        """Count the records that a broker refuses."""

        def count_refusal(future):
            refused = None if future.cancelled() else future.exception()
            if refused is not None:
                self.kinds[f"refused: {type(refused).__name__}"] += 1

        sending.add_done_callback(count_refusal)

    async def _throw(self, producer, data):
        topic = self.draw.choice(("reports", SNAPSHOTS, ESTIMATES, ALERTS, TRUTH, QUERIES))
        batch = producer.create_batch()
        batch._buffer = data
        batch._relative_offset = 2
        batch.close()
        partition = 0 if topic == QUERIES else self.draw.randrange(self.partitions)
        self._note(await producer.send_batch(batch, self.kafka.topic(topic), partition=partition))
        self.kinds[f"bombs in {topic}"] += 1

    def _record(self):
        draw = self.draw
        query = self.draw.choice(self.queries)
        topic = draw.choice((SNAPSHOTS, SNAPSHOTS, ESTIMATES, ALERTS, TRUTH, QUERIES, REJECTS))
        mine = f"{STRANGERS}{draw.randrange(100)}".encode()
        if topic == SNAPSHOTS:
            pane = int(time.time()) // query.pane * query.pane
            far = 1 << 40
            keys = (
                PaneKey("open", query.digest, pane, draw.randrange(self.partitions)).encode(),
                PaneKey("closed", query.digest, far // query.pane * query.pane, 0).encode(),
                PaneKey("closed", draw.randbytes(8), pane, 0).encode(),
                PaneKey("closed", query.digest, pane + 1, 0).encode(),
                PaneKey("closed", query.digest, pane, 99).encode(),
                StateKey(query.digest, draw.choice(query.windows), far).encode(),
                f"watermark|{draw.randrange(self.partitions)}|stranger".encode(),
                mine,
            )
            return topic, draw.choice(keys), draw.choice((b"", b"junk", b"\x02" + b"\xff" * 55, draw.randbytes(60)))
        if topic == QUERIES:
            return (
                topic,
                mine,
                draw.choice((b"{}", b"junk", b"[" * 5_000, b'{"query":"x","definition":{"from":1e300}}')),
            )
        return topic, mine, corrupt(draw.choice(corpus.values_by_topic().get(topic, [b"junk"])), draw)


STRANGERS = "strange|"
"""The prefix of a stranger's keys in topics that readers use by key."""
