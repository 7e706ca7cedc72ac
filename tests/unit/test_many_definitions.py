"""Thousands of definitions: each record is read once, no step is quadratic, and the event loop turns meanwhile."""

import asyncio
import gc
import sys
from collections import Counter
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest

from aggregator.board.answers.query_list import Queries
from aggregator.board.server import follower as board_follower
from aggregator.board.server.events import Events
from aggregator.board.server.follower import BoardFollower
from aggregator.board.server.metrics import BoardMetrics, newest_finals
from aggregator.board.store.store import Store
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.plan import check
from aggregator.process.metrics import Metrics
from hubbub.definitions import definition_record, follower
from hubbub.definitions.catalog import DefinitionLog, DefinitionsError, TopicRecord, changes, read
from hubbub.definitions.follower import Follower
from hubbub.definitions.registrar import Registrar
from hubbub.kafka.settings import Kafka
from hubbub.texts import MOST
from oracles.query import File, load_file
from producers.gateway.intake.active_definitions import ServedDefinitions
from tests.queries import make_queries, make_table, make_text

NOW = 1_000_000_000
TABLE = make_table(domain=4, oracle="grr", budget=1e9, answers="fresh")


def file(count, **settings):
    tables = {f"q{number}": TABLE | settings for number in range(count)}
    return File(make_queries(tables))


def records(count, **settings):
    writes = changes(file(count, **settings), read([]), (), "0" * 16).writes
    return [TopicRecord(key, value, NOW) for key, value in writes]


def retired(count):
    """Return the records of definitions that are all retired."""
    first_records = records(count)
    names = [f"q{number}" for number in range(count)]
    writes = changes(File({}), read(first_records), names, "1" * 16).writes
    return [*first_records, *(TopicRecord(key, value, NOW) for key, value in writes)]


def store_of(messages):
    store = Store(86_400, 1 << 30)
    for record in messages:
        store.define(*record)
    return store


def log_of(count):
    log = DefinitionLog()
    for record in records(count):
        log.take(record)
    return log


def reference(messages):
    """Return the definitions of the records that compaction would keep."""
    latest = {}
    for record in messages:
        latest.pop(record.key, None)
        if record.value is not None:
            latest[record.key] = record
    return read(latest.values())


@pytest.mark.parametrize("seed", range(8))
def test_records_one_by_one_give_the_same_definitions_as_all_at_once(seed):
    random, log, messages = Random(seed), DefinitionLog(), []
    for number in range(30):
        present = log.definitions if random.random() < 0.5 else reference(messages)
        names = random.sample("abcde", random.randint(1, 4))
        tables = {name: TABLE | {"pane": random.choice(["10s", "20s"])} for name in names}
        queries = File(make_queries(tables))
        writes = changes(queries, present, [name for name in "abcde" if name not in names], f"{number:016x}").writes
        batch = [TopicRecord(key, value, NOW + 90_000 * number) for key, value in writes]
        # An old record comes again, removed, damaged or as it was, as after a mistake of an operator.
        if messages and random.random() < 0.3:
            old_value = random.choice(messages)
            batch.append(old_value._replace(value=random.choice([None, b"{", old_value.value])))
        for record in batch:
            log.take(record)
        messages += batch
        assert log.definitions == reference(messages)
    assert any(record.value is None for record in messages)


def test_a_record_is_read_once_however_often_the_definitions_are_used(monkeypatch):
    reads = Counter()

    def count(record, before=definition_record._read_content):
        reads[record.key] += 1
        return before(record)

    messages = records(50)
    monkeypatch.setattr(definition_record, "_read_content", count)
    store = Store(86_400, 1 << 30)
    for record in messages:
        store.define(*record)
        assert store.names
    assert reads == Counter({record.key: 1 for record in messages})


def lines_run(work):
    """Return the number of lines of Python that `work` runs, without those of destructors of other tests."""
    count = 0

    def trace(_frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace

    tracer = sys.gettrace()
    # Destructors would run in the middle of the work, and their lines would count as its own.
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        # The measurement of coverage is a tracer too, and would lose all lines after this test.
        sys.settrace(tracer)
        gc.enable()
    return count


def check_file(path, count):
    tables = (make_text(f"q{number}", domain=4) for number in range(count))
    path.write_text("".join(tables))
    return lambda: check.main([str(path)])


def list_all(store):
    Queries.of(store, None, "")
    list(newest_finals(store))


def count_in(metrics, queries):
    metrics.add_queries(queries.values())
    metrics.retain_queries(queries)


def snapshots():
    partition = SnapshotPartition(0, 1, {})
    partition.load()
    return partition


STEPS = {
    "put together": (log_of, DefinitionLog._restart),
    "retire": (retired, read),
    "replace": (lambda count: records(count) * 2, read),
    "compare": (lambda count: read(records(count)), lambda now: changes(File(now.active), now, (), "2" * 16)),
    "board": (records, store_of),
    "board, retired": (lambda count: store_of(retired(count)), list_all),
    "gateway": (lambda count: read(records(count)), lambda present: ServedDefinitions(present.versions).listing(NOW)),
    "metrics": (lambda count: file(count).queries, lambda queries: count_in(Metrics(), queries)),
    "snapshots": (lambda count: read(records(count)).versions, lambda versions: snapshots().define(versions)),
}
"""The objects of each step, by the number of definitions, and its work."""


class Left:
    """An object in a cycle, as a test may leave it, whose destructor runs many lines."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        for _ in range(100_000):
            pass


def test_lines_of_destructors_are_not_counted():
    for _ in range(10):
        Left()
    # Ten destructors of 100,000 rounds would be two million lines.
    assert lines_run(lambda: [[] for _ in range(100_000)]) < 1_000_000


@pytest.mark.parametrize("step", STEPS)
def test_four_times_the_definitions_are_four_times_the_work(step):
    prepare, work = STEPS[step]
    few_lines, many_lines = (lines_run(partial(work, prepare(count))) for count in (20, 80))
    # Quadratic work would be 16 times as much. Fixed parts make four times a little less exact.
    assert many_lines < 6 * few_lines


def test_check_takes_four_times_the_work_for_four_times_the_queries(tmp_path, capsys):
    few_lines, many_lines = (lines_run(check_file(tmp_path / "hubbub.toml", count)) for count in (10, 40))
    assert many_lines < 6 * few_lines
    assert "q19" in capsys.readouterr().out, "the table shows twenty queries"


class Topic:
    """A consumer of a topic that has its records at once."""

    def __init__(self, messages):
        self._messages, self._at = messages, 0

    async def end_offsets(self, tps):
        return dict.fromkeys(tps, len(self._messages))

    async def position(self, _):
        return self._at

    async def getmany(self, tp, **_):
        batch, self._at = self._messages[self._at :], len(self._messages)
        return {tp: batch}

    def resume(self, _): ...

    def pause(self, _): ...


async def turns_during(work):
    """Return how often the event loop turned during a coroutine."""
    turns = 0

    async def turn():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other_task = asyncio.create_task(turn())
    await work
    other_task.cancel()
    return turns


def test_the_event_loop_turns_while_the_definitions_are_read(monkeypatch):
    monkeypatch.setattr(follower, "SLICE", 0.0)

    async def run():
        reader = Follower(Kafka("nowhere:1", "p."))
        reader._consumer = Topic(records(30))
        assert await turns_during(reader.read()) >= 30
        assert len(reader.definitions.active) == 30

    asyncio.run(run())


def test_a_read_that_ends_in_the_middle_applies_nothing_and_the_next_one_all(monkeypatch):
    monkeypatch.setattr(follower, "SLICE", 0.0)

    async def run():
        reader = Follower(Kafka("nowhere:1", "p."))
        reader._consumer = Topic(records(30))
        reading = asyncio.create_task(reader.read())
        for _ in range(10):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        assert reader._log.definitions.active
        assert not reader.definitions.active
        reader.forget({b"12345678": "other"})
        assert not reader.definitions.active
        await reader.read()
        assert len(reader.definitions.active) == 30

    asyncio.run(run())


def test_the_event_loop_turns_while_a_board_reads(monkeypatch):
    monkeypatch.setattr(board_follower, "SLICE", 0.0)

    async def run():
        store = Store(86_400, 1 << 30)
        reader = BoardFollower(Kafka("nowhere:1", "p."), store, Events(), BoardMetrics(store))
        messages = [SimpleNamespace(key=key, value=value, timestamp=moment) for key, value, moment in records(30)]
        assert await turns_during(reader._take("queries", messages)) >= 30
        assert len(store.names) == 30

    asyncio.run(run())


def test_a_file_that_lacks_many_queries_gets_five_names_and_their_number(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(make_text("other", domain=4))
    reader = SimpleNamespace(definitions=read(records(300)))
    with pytest.raises(DefinitionsError) as refused:
        asyncio.run(Registrar(path, reader).register(load_file(path)))
    text = str(refused.value)
    assert "(300): q0, q1, q10, q100, q101 and 295 more." in text
    assert text.count("--retire") == MOST


def test_many_unreadable_records_are_one_message(caplog):
    async def run():
        reader = Follower(Kafka("nowhere:1", "p."))
        reader._consumer = Topic([TopicRecord(b"key%d" % number, b"{", NOW) for number in range(40)])
        await reader.read()

    asyncio.run(run())
    [text] = [record.getMessage() for record in caplog.records]
    assert "(40): b'key0'" in text
    assert text.endswith("and 35 more")
