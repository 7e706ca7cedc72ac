"""Batches that no reader may inflate. Reading skips them in bounded memory and goes on after them."""

import random
import subprocess
import sys

import cramjam
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import READ_UNCOMMITTED
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from hubbub.kafka.columns import UnreadableBatch
from hubbub.kafka.patches import bounded_batches
from hubbub.kafka.patches.bounded_batches import MOST, Bounded, FetchedBatches, TooLarge, inflate
from tests.strangers import CODECS, batch, bomb, record

REPORTS, OTHER = TopicPartition("some.reports", 0), TopicPartition("some.other", 0)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    for name in ("MemoryRecords", "PartitionRecords"):
        monkeypatch.setattr(fetcher, name, getattr(fetcher, name))
    monkeypatch.setattr(bounded_batches, "_reported_topics", {REPORTS.topic})
    bounded_batches.skipped.clear()


def read(data, tp=REPORTS, offset=0):
    """Return the records of a fetch of these bytes, and the offset of the next fetch."""
    records = Bounded(tp, FetchedBatches(data), [], offset, None, None, True, READ_UNCOMMITTED)
    return [(record.offset, record.value) for record in records], records.next_fetch_offset


def good(codec, base, count):
    """Return a batch that aiokafka makes."""
    builder = DefaultRecordBatchBuilder(2, CODECS.get(codec, 0), 0, -1, -1, -1, 1 << 20)
    for index in range(count):
        builder.append(index, 1_700_000_000_000, b"key", b"value %d" % index, [("name", b"x")])
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


@pytest.mark.parametrize("codec", ["", *CODECS])
def test_good_batches_are_read_as_before(codec):
    result, following = read(good(codec, 0, 3) + good(codec, 3, 2))
    values = [b"value %d" % index for index in (0, 1, 2, 0, 1)]
    assert result == list(enumerate(values))
    assert following == 5
    records = Bounded(REPORTS, FetchedBatches(good(codec, 0, 3)), [], 1, None, None, True, READ_UNCOMMITTED)
    one = next(records)
    assert one.offset == 1
    assert one.timestamp == 1_700_000_000_000
    assert one.key == b"key"
    assert one.headers == (("name", b"x"),)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_one_record_without_bytes_and_the_rest_is_fetched_again(codec):
    records, following = read(bomb(codec, 2, 40 * MIB) + good(codec, 2, 1))
    [(last, unread)] = records
    assert last == 1
    assert following == 2
    assert unread.first == 0
    assert unread.records == 2
    assert unread.reason == "too_large"
    assert read(good(codec, 2, 1), offset=following) == ([(2, b"value 0")], 3)


def test_the_size_of_snappy_is_checked_before_the_inflation():
    huge = bytearray()
    for shift in range(0, 35, 7):  # 4 GiB - 1, as a varint
        huge.append(((1 << 32) - 1) >> shift & 127 | (128 if shift < 28 else 0))
    lies = bytes(huge) + b"\x00a"
    blocks = b"\x82SNAPPY\x00" + bytes(8)
    block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
    many = blocks + (len(block).to_bytes(4, "big") + block) * 65
    for payload in (lies, blocks + len(lies).to_bytes(4, "big") + lies, many):
        with pytest.raises(TooLarge):
            inflate(CODECS["snappy"], payload)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_of_exactly_the_limit_is_read(codec):
    module = getattr(cramjam, codec)
    assert len(inflate(CODECS[codec], bytes(module.compress(bytes(MOST))))) == MOST
    with pytest.raises(TooLarge):
        inflate(CODECS[codec], bytes(module.compress(bytes(MOST + 1))))


@pytest.mark.parametrize("codec", ["", *CODECS])
def test_an_unreadable_batch_is_malformed(codec):
    records, following = read(batch(codec, b"rubbish that is no record", 7))
    [(last, unread)] = records
    assert last == 6
    assert following == 7
    assert unread.first == 0
    assert unread.records == 7
    assert unread.reason == "malformed"


def test_a_name_that_is_not_utf_8_affects_only_the_rest_of_its_batch():
    """Brokers accept such a name. Without the patch aiokafka fails at each fetch."""
    payload = record(0, b"one") + record(1, b"two", b"\xff\xfe") + record(2, b"three")
    records, following = read(batch("", payload, 3) + good("", 3, 1))
    assert records[0] == (0, b"one")
    assert records[1] == (2, UnreadableBatch(1, 2, "malformed", records[1][1].detail))
    assert records[2:] == [(3, b"value 0")]
    assert following == 4


def test_in_other_topics_it_is_skipped_counted_and_logged(caplog):
    assert read(batch("zstd", b"rubbish", 7) + good("", 7, 1), OTHER) == ([], 7)
    assert bounded_batches.skipped == {OTHER.topic: 1}
    assert "some.other, partition 0, offset 0: 7 records are skipped" in caplog.text


def test_a_batch_that_was_damaged_on_its_way_is_fetched_again():
    data = bytearray(good("zstd", 0, 3))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordException, match="Invalid CRC"):
        read(bytes(data))
    assert not bounded_batches.skipped


def test_the_timestamp_is_that_of_the_batch():
    data = batch("zstd", b"rubbish", 7, timestamp=12_345, log_append=True)
    [one] = Bounded(REPORTS, FetchedBatches(data), [], 0, None, None, True, READ_UNCOMMITTED)
    assert one.timestamp == 12_345
    assert one.timestamp_type == 1


MEASURE = """
import resource
from tests.strangers import bomb
from tests.unit.test_inflation import MIB, FetchedBatches, Bounded, READ_UNCOMMITTED, OTHER, REPORTS, batch
import cramjam
data = {data}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
at = 0
for _ in range(4):
    for one in Bounded(OTHER, FetchedBatches(data), [], at, None, None, True, READ_UNCOMMITTED):
        pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
MOST_MIB = 250
"""MiB for an inflated batch, its copy as records, and the record for the caller."""


@pytest.mark.parametrize(
    "data",
    [
        "bomb('zstd', 2, 700 * MIB)",
        "bomb('lz4', 2, 200 * MIB)",
        "bomb('gzip', 2, 200 * MIB)",
        "bomb('zstd', 1, 63 * MIB) * 20",
    ],
)
def test_a_fetch_needs_at_most_the_memory_of_a_few_batches(data):
    process = subprocess.run(
        [sys.executable, "-c", MEASURE.format(data=data)], capture_output=True, text=True, check=True
    )
    assert int(process.stdout) < MOST_MIB


@pytest.mark.parametrize("count", [2_500, pytest.param(250_000, marks=pytest.mark.long)])
def test_reading_reaches_the_end_of_any_topic(count):
    """Reading ends at the right offset after a damaged batch with a correct checksum."""
    draw = random.Random(14)
    corpus = [good(codec, 0, 3) for codec in ("", *CODECS)]
    corpus.append(batch("", record(0, b"v", b"name") + record(1, b"w"), 2))
    for _ in range(count):
        data = bytearray(draw.choice(corpus))
        for _ in range(draw.randrange(1, 5)):
            data[draw.randrange(61, len(data))] = draw.randrange(256)
        codec = ["", *CODECS][data[22] & 7]
        records = int.from_bytes(data[57:61], "big")
        for tp in (REPORTS, OTHER):
            result, following = read(batch(codec, bytes(data[61:]), records), tp)
            assert following == records
            assert not any(isinstance(value, UnreadableBatch) for _, value in result[:-1])
