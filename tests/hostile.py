"""Batches that no producer of ours would write, and how they come into a topic."""

import struct

import cramjam
from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c

from hubbub.kafka import started

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KEY = b"anybody"
"""Of each record: compacted topics take none without."""
_BLOCK = 1 << 20


def batch(codec, payload, records, *, base=0, timestamp=1_700_000_000_000, log_append=False):
    """A batch of this many records whose bytes, compressed by `codec` ("" for none), are the payload."""
    attributes = CODECS.get(codec, 0) | 8 * log_append
    last = records - 1
    rest = struct.pack(">hiqqqhii", attributes, last, timestamp, timestamp, -1, -1, -1, records) + payload
    return struct.pack(">qiibI", base, 9 + len(rest), 0, 2, calc_crc32c(rest)) + rest


def record(index, value, header=None):
    """The bytes of one record of a batch."""
    tail = b"\x00" if header is None else b"\x02" + _varint(len(header)) + header + b"\x01"
    return _head(index, len(value), len(tail)) + value + tail


def bomb(codec, records, size):
    """A batch of so many records of `size` zeros each, made without ever holding them."""
    compress = {"zstd": cramjam.zstd.Compressor, "lz4": cramjam.lz4.Compressor, "gzip": cramjam.gzip.Compressor}
    compressor = compress[codec]()
    for index in range(records):
        compressor.compress(_head(index, size, 1))
        for _ in range(size // _BLOCK):
            compressor.compress(bytes(_BLOCK))
        compressor.compress(bytes(size % _BLOCK + 1))  # and no headers
    return batch(codec, bytes(compressor.finish()), records)


def _head(index, size, after):
    """What stands before the value of a record of this size, where `after` bytes follow it."""
    body = b"\x00\x00" + _varint(index) + _varint(len(KEY)) + KEY + _varint(size)
    return _varint(len(body) + size + after) + body


def _varint(number):
    """As protocol buffers write a signed one."""
    number = number << 1 ^ number >> 63
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes(found) + bytes([number])


async def append(kafka, topic, partition, data, records):
    """Write these bytes as a batch; its base offset."""
    async with started(AIOKafkaProducer(**kafka.client(), acks="all", request_timeout_ms=60_000), kafka) as producer:
        built = producer.create_batch()
        built._buffer, built._relative_offset = data, records
        built.close()
        sent = await producer.send_batch(built, kafka.topic(topic), partition=partition)
        return (await sent).offset
