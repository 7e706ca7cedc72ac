"""Clock records: their bytes, what a reader takes from them, and which of them a writer may delete."""

import asyncio
import struct
from itertools import count, permutations
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.counting.clock_log import ClockLog
from aggregator.tallies.clock_book import NO_CLOCK, ClockBook
from aggregator.tallies.clock_record import RAISE, ClockRecord, Numbered, clock_key, decode, encode, is_clock_key
from aggregator.tallies.progress import TopicIds
from hubbub.kafka.settings import Kafka
from oracles.errors import ReportError
from tests.worlds.mutants import BY_NAME

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=100)
IDS = TopicIds(b"r" * 16, b"s" * 15)
HEX = (
    "01000400" + "72" * 16 + "73" * 15 + "00" + "0200" + "0100"  # version, P, ids, two clocks and one offset
    "0000" + "e803000000000000" + "0300" + "ffffffffffffffff"  # partition 0 at 1000 ms, partition 3 at -1 ms
    "0200" + "0500000000000000"  # home 2 is read up to offset 5
)


def record_of(clocks, offsets=None, partitions=4, ids=IDS):
    return ClockRecord(partitions, ids, Numbered.of(clocks), Numbered.of(offsets or {}))


def book_of(*records, partitions=4, ids=IDS):
    book = ClockBook(partitions)
    book.topic_ids = ids
    for number, record in enumerate(records):
        book.put(clock_key("ab" * 8, number), encode(record))
    return book


def content(book):
    view = book.view
    return view.clocks.tolist(), view.offsets.tolist(), view.least


def test_a_record_has_the_documented_bytes():
    assert encode(record_of({0: 1000, 3: -1}, {2: 5})) == bytes.fromhex(HEX)
    record = decode(bytes.fromhex(HEX))
    assert record.partitions == 4
    assert record.topic_ids == IDS
    assert record.clocks.numbers.tolist() == [0, 3]
    assert record.clocks.values.tolist() == [1000, -1]
    assert (record.offsets.numbers.tolist(), record.offsets.values.tolist()) == ([2], [5])


@EXAMPLES
@given(
    st.dictionaries(st.integers(0, 99), st.integers(-(1 << 60), 1 << 60), max_size=9),
    st.dictionaries(st.integers(0, 99), st.integers(0, 1 << 62), max_size=9),
)
def test_what_is_written_is_read(clocks, offsets):
    data = encode(record_of(clocks, offsets, partitions=100))
    assert encode(decode(data)) == data
    assert content(book_of(decode(data), partitions=100))[1] == [offsets.get(number, 0) for number in range(100)]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"\2" + data[1:],
        lambda data: data[:1] + b"\1" + data[2:],
        lambda data: data.replace(b"\3\0" + b"\xff" * 8, b"\0\0" + b"\xff" * 8),  # one partition twice
        lambda data: data.replace(b"\3\0" + b"\xff" * 8, b"\4\0" + b"\xff" * 8),  # a partition that is none
        lambda data: data.replace(struct.pack("<q", 1000), struct.pack("<q", (1 << 63) - 1)),  # all panes to come
        lambda data: data.replace(struct.pack("<q", 5), struct.pack("<q", -5)),
        lambda _: b"",
        lambda _: bytes(2 << 20),
    ],
)
def test_a_spoilt_record_is_skipped_and_counted(spoil):
    spoilt = spoil(bytes.fromhex(HEX))
    with pytest.raises(ReportError):
        decode(spoilt)
    book = book_of()
    book.put(clock_key("ab" * 8, 1), spoilt)
    assert book.take_unreadable_count() == 1
    assert content(book) == content(book_of())


def test_a_key_that_nobody_writes_is_counted():
    book = book_of()
    names = [b"clock|raise.0", clock_key("0123456789abcdef", 12)]
    assert all(map(is_clock_key, names))
    for name in (None, b"", b"clock|x.0", b"clock|0123456789ABCDEF.0", b"clock|0123456789abcdef.01", b"watermark|0|w"):
        assert not is_clock_key(name)
        book.put(name, bytes.fromhex(HEX))
    assert book.take_unreadable_count() == 6


def test_neither_the_order_of_records_nor_their_deletion_changes_what_a_reader_knows():
    records = [record_of({0: 5, 1: 9}, {0: 7}), record_of({0: 6}, {0: 3, 2: 8}), record_of({1: 2, 2: 1, 3: 4})]
    books = [book_of(*order) for order in permutations(records)]
    for book in books:
        assert content(book) == ([6, 9, 1, 4], [7, 0, 8, 0], 1)
        book.put(clock_key("ab" * 8, 0), None)
        assert content(book) == ([6, 9, 1, 4], [7, 0, 8, 0], 1)
    assert content(book_of(records[0])) == ([5, 9, NO_CLOCK, NO_CLOCK], [7, 0, 0, 0], NO_CLOCK)


def test_a_record_of_deleted_topics_is_ignored():
    record = record_of({0: 5}, {0: 7})
    for ids in (TopicIds(b"other" * 3, IDS.snapshots), TopicIds(IDS.reports, b"other")):
        assert content(book_of(record, ids=ids)) == content(book_of())
    for ids in (TopicIds(), TopicIds(IDS.reports), IDS):
        assert content(book_of(record, ids=ids)) == content(book_of(record))
    other_number = record_of({0: 5}, {0: 7}, partitions=3)
    assert content(book_of(other_number)) == content(book_of())


def test_only_the_owner_of_the_first_partition_deletes_and_never_at_an_equal_clock():
    other = record_of({1: 5, 2: 5}, {0: 7})

    def deleted(own, *more):
        book = book_of(other, *more)
        book.note(b"own", own)
        return book.take_obsolete(own, [b"own"])

    assert deleted(record_of({1: 6, 2: 6}, {0: 7})) == [clock_key("ab" * 8, 0)]
    assert deleted(record_of({1: 6, 2: 5}, {0: 7})) == []
    assert deleted(record_of({1: 6}, {0: 7}), record_of({2: 6})) == [clock_key("ab" * 8, 0)]
    assert deleted(record_of({1: 6, 2: 6}, {0: 6})) == [], "nobody else says that offset"
    assert deleted(record_of({2: 6}, {0: 7}), record_of({1: 6})) == [], "the owner of partition 1 deletes it"


class LogInMemory:
    """The topic `clocks`, which acknowledges every record at once."""

    def __init__(self):
        self.records = []
        self._offsets = count()

    async def send(self, topic, key, value, partition):
        assert (topic, partition) == ("clocks", 0)
        return self._append(key, value)

    async def write(self, topic, partition, writes):
        return [self._append(*write) for write in writes]

    def _append(self, key, value):
        self.records.append((key, value))
        ack = asyncio.get_running_loop().create_future()
        ack.set_result(SimpleNamespace(offset=next(self._offsets)))
        return ack

    def live(self):
        newest = dict(self.records)
        return {key: decode(value) for key, value in newest.items() if value is not None}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_deleted_a_new_reader_knows_as_much_as_one_that_read_all(seed):
    """Workers die, come back under new names, read late, and delete what they may."""
    random = Random(seed)
    log = LogInMemory()
    log.records.append((RAISE, encode(record_of({}, {0: 3, 1: 4, 2: 5, 3: 6}))))
    clocks = [0] * 4
    whole = ClockBook(4)
    whole.topic_ids = IDS

    async def run():
        workers = []
        places = []
        assignments = []
        for _ in range(2):
            workers.append(ClockLog(Kafka("nowhere:1", "p."), log, ClockBook(4)))
            workers[-1].assign(IDS)
            places.append(0)
            assignments.append([0, 1])
        for _ in range(80):
            number = random.randrange(2)
            worker = workers[number]
            if random.random() < 0.15:
                worker.assign(IDS)
                assignments[number] = random.sample(range(4), random.randint(1, 3))
            if worker.is_new or random.random() < 0.6:  # before its first record a writer has read all
                for record in log.records[places[number] :]:
                    worker.book.put(*record)
                places[number] = len(log.records)
            for partition in assignments[number]:
                clocks[partition] += random.randint(0, 2)
                worker.book.note_offset(random.randrange(4), random.randint(5, 90))
            await worker.say({partition: clocks[partition] for partition in assignments[number]})
        for record in log.records:
            whole.put(*record)

    asyncio.run(run())
    fresh = ClockBook(4)
    fresh.topic_ids = IDS
    for key, record in log.live().items():
        fresh.note(key, record)
    assert fresh.view.clocks.tolist() == whole.view.clocks.tolist()
    assert fresh.view.offsets.tolist() == whole.view.offsets.tolist()
    assert len(log.live()) <= 6


@pytest.mark.parametrize(
    "name",
    [
        "clock record deleted at an equal clock",
        "clock record deleted whatever its clocks and offsets",
        "one key of clock records for each writer",
    ],
)
def test_a_planted_bug_of_the_deletion_loses_a_clock(name):
    def run():
        for seed in range(20):
            test_whatever_is_deleted_a_new_reader_knows_as_much_as_one_that_read_all(seed)

    with BY_NAME[name].applied(), pytest.raises(AssertionError):
        run()
