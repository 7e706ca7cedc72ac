"""Columns. They give the same tallies, ids, rejects and clock as records one by one."""

from contextlib import nullcontext
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from aggregator.counting import faust_patches
from aggregator.counting.admission import columnar_gate
from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.tallies.tally import encode_tally
from hubbub.kafka.columns import RecordColumns
from hubbub.kafka.patches import bounded_batches
from hubbub.kafka.patches.bounded_batches import FetchedBatches
from oracles.frame import encode
from oracles.kernels import batches, c_library
from tests.logs import LIMIT, POOL, QUERIES, START, VERSIONS, random_log

pytestmark = pytest.mark.skipif(not batches.can_walk(), reason="without compiled kernels there are no columns")


def results(source, fates):
    """Return all results of counting, with tallies, ids, rejects and snapshots."""
    plan = source.plan(whole=True)
    tallies = {pane: (encode_tally(tally), tally.ids) for pane, tally in source.tallies.items()}
    rejects = sorted((reject.offset, reject.start, reject.reason, reject.detail) for reject in plan.rejects)
    sums = [
        sum((getattr(fate, name) for fate in fates), type(getattr(fates[0], name))()) for name in fates[0].__slots__
    ]
    snapshots = sorted((key.encode(), value) for key, value in plan.snapshots)
    return source.next_offset, source.clock, tallies, sorted(plan.ids), sorted(plan.tallies), snapshots, rejects, sums


def runs(random, records, longest):
    while records:
        count = random.randint(1, longest)
        yield records[:count]
        records = records[count:]


def crowd(random, partition, partitions, count):
    """Return records as crowds send them. Query and pane are mostly the same, and many frames have ids."""
    now = START * 1000
    offset = random.choice([0, 7])
    number = 0
    records = []
    many, width, odd = (
        random.choice([1, 1, 2, 5]),
        random.choice([0.0, 0.02, 0.3]),
        random.choice([0.0, 0.0, 0.02, 0.2]),
    )
    ids = random.random()
    name = random.choice(list(QUERIES))
    for _ in range(count):
        if random.random() < width:
            name = random.choice(list(QUERIES))
        query = QUERIES[name]
        size = many if random.random() >= odd else random.randint(0, 6)
        rows = [random.randrange(40) for _ in range(size)]
        if random.random() >= odd:
            number += 1
        pane = now // 1000 // query.pane * query.pane
        reports = POOL[name][rows]
        if random.random() < odd / 4:
            reports = np.full_like(reports, 255)
        data = encode(query.digest, pane, reports, None)
        if random.random() < ids:
            where = partition if random.random() >= odd else partition + 1
            data = encode(query.digest, pane, reports, ((number + 1) * partitions + where).to_bytes(8, "little"))
        if random.random() < odd:
            data = data[: random.randint(0, len(data))]
        records.append((offset, now, data))
        # A gap is what compaction leaves, and a jump what a broker with another clock writes.
        step = 1 if random.random() > odd else 3
        is_usual = random.random() > odd / 4
        seconds = random.choice([0, 0, 0, 1, 30]) if is_usual else random.choice([-2_000, 5_000, 40_000])
        offset += step
        now += seconds
    return records


def check(seed, monkeypatch):
    random = Random(seed)
    partitions = random.randint(1, 3)
    partition = random.randrange(partitions)
    if random.random() < 0.5:
        records = random_log(random, partitions, random.randint(1, 200))[partition]
        records = [record for record in records if isinstance(record[2], bytes)]
    else:
        records = crowd(random, partition, partitions, random.randint(1, 400))
    monkeypatch.setattr(columnar_gate, "SINGLE_RECORDS", random.choice([1, 1, 8]))
    gate = Gate(partition, partitions, VERSIONS, limit=LIMIT)
    start = random.choice([0, 0, 50])
    longest = random.choice([3, 60, 1_000])
    result = []
    for form in (list, RecordColumns.of):
        pieces = Random(seed)
        source = SourcePartition(gate, "one")
        source.next_offset = start
        fates = [source.take(form(run)) for run in runs(pieces, records, longest)]
        result.append(results(source, fates))
    for slow, fast in zip(*result, strict=True):
        assert slow == fast, seed


@pytest.mark.parametrize("seed", range(120))
def test_columns_have_the_results_of_single_records(seed, monkeypatch):
    check(seed, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_columns_have_the_results_of_single_records_on_thousands_of_logs(part, monkeypatch):
    for seed in range(1_000 * (part + 1), 1_000 * (part + 2)):
        check(seed, monkeypatch)


def batch_of(random, base, count, moment):
    """Return a batch as brokers store it, sometimes an unusual one. The reader of aiokafka decides its meaning."""
    odd = random.random()
    codec = random.choice([1, 2, 3, 4]) if odd < 0.15 else 0
    builder = DefaultRecordBatchBuilder(2, codec, int(0.15 < odd < 0.18), -1, -1, -1, 1 << 24)
    for index in range(count):
        value = None if random.random() < 0.002 else random.randbytes(random.choice([0, 3, 64, 64, 64, 200]))
        key = random.choice([None, None, None, b"", b"key"]) if 0.18 < odd < 0.3 else None
        headers = [("name", b"x")] if 0.3 < odd < 0.33 else []
        builder.append(
            index + (index > 2 and 0.33 < odd < 0.36), moment + random.choice([0, 5, -5, 90_000]), key, value, headers
        )
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    if not 0.36 < odd < 0.4:
        data[22] |= 8  # the log's own time
    if 0.4 < odd < 0.43:
        data[22] |= 0x20
    elif 0.43 < odd < 0.45:
        data[22] |= 0x40
    data[35:43] = (moment if odd < 0.98 else -1).to_bytes(8, "big", signed=True)
    if 0.45 < odd < 0.5:  # its last records are compacted away, or were never there
        data[57:61] = max(0, count - random.randint(0, 2)).to_bytes(4, "big")
    if 0.5 < odd < 0.55:
        data[random.randrange(61, len(data))] ^= 1 << random.randrange(8)
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    if 0.55 < odd < 0.57:
        data[random.randrange(21, len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def read(kernels, data, offset, room):
    """Return the records of a fetch, the error that stops it, and the next offset."""
    with nullcontext() if kernels else c_library.numpy_alone(), patch.object(faust_patches, "LONGEST_WALK", room):
        reader = faust_patches._LeanRecords(
            TopicPartition("t", 0), FetchedBatches(data), [], offset, None, None, True, 0
        )
        result, columns = [], 0
        try:
            for piece in reader:
                if isinstance(piece, RecordColumns):
                    columns += len(piece)
                    result += piece.records()
                else:
                    result.append(piece)
        except CorruptRecordException as error:
            result.append(str(error))
        return result, reader.next_fetch_offset, columns


def check_fetch(seed):
    random = Random(seed)
    base = random.choice([0, 0, 1000])
    moment = START * 1000
    data = b""
    offset = None
    for _ in range(random.randint(1, 12)):
        count = random.choice([1, 2, 5, 20, 60])
        offset = base + random.choice([0, random.randrange(count)]) if offset is None else offset
        data += batch_of(random, base, count, moment)
        base += count + random.choice([0, 0, 0, 4])
        moment += random.choice([0, 700])
    data = data[: len(data) - random.choice([0, 0, 1, 70])]
    slow_reading, fast_reading = (
        read(False, data, offset, 0),
        read(True, data, offset, random.choice([20, 100, 20_000])),
    )
    assert slow_reading[:2] == fast_reading[:2], seed
    return fast_reading[2]


@pytest.fixture
def source(monkeypatch):
    monkeypatch.setattr(faust_patches, "_sources", {"t"})
    monkeypatch.setattr(bounded_batches, "_reported_topics", {"t"})


@pytest.mark.usefixtures("source")
def test_the_columns_of_a_fetch_have_its_records():
    assert sum(map(check_fetch, range(1_000))) > 20_000


def long_batch(codec, count, *, base=0, odd=None):
    """A batch with the log's own time. The record with the number `odd` has a header."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24)
    for index in range(count):
        builder.append(index, START * 1000, None, index.to_bytes(8, "big"), [("name", b"x")] if index == odd else [])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    data[22] |= 8
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("codec", [0, 1, 3])
def test_a_long_batch_is_walked_in_parts(codec):
    data = long_batch(codec, 45_000)
    slow_reading = read(False, data, 7, 0)
    for room, parts in ((20_000, 3), (44_993, 1), (50_000, 1)):
        fast_reading = read(True, data, 7, room)
        assert fast_reading == (*slow_reading[:2], 45_000 - 7), "all of them as columns"
        assert fast_reading[1] == 45_000
        reader = FetchedBatches(data)
        assert codec or len(list(iter(lambda r=reader, n=room: r.walk(7, n, checks=True), None))) == parts


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("codec", [0, 1])
def test_an_unusual_record_in_a_later_part_is_read_one_by_one(codec):
    data = long_batch(codec, 1_000, odd=777) + long_batch(codec, 50, base=1_000)
    slow_reading = read(False, data, 0, 0)
    fast_reading = read(True, data, 0, 100)
    assert slow_reading[:2] == fast_reading[:2]
    assert fast_reading[2] == 750, "seven parts, and the next batch"


@pytest.mark.long
@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("part", range(1, 21))
def test_the_columns_of_thousands_of_fetches_have_their_records(part):
    for seed in range(10_000 * part, 10_000 * (part + 1)):
        check_fetch(seed)
