"""A sink on an object store: conditional writes, a lease, and stores that fail."""

import itertools
import logging
from contextlib import closing, contextmanager
from types import SimpleNamespace

import polars as pl
import pytest

import hubbub
from aggregator.errors import TargetRefused, TargetUnreachable
from aggregator.sink import lease, objects, row_file
from aggregator.sink.due_files import ReadProgress, SinkPlan
from aggregator.sink.file_names import FINALS, OPEN, parse
from aggregator.sink.folder import Folder
from aggregator.sink.lease import PATH as OWNER
from aggregator.sink.object_store import ObjectStore
from aggregator.sink.objects import Objects
from aggregator.sink.sink_state import PATH, SinkState
from aggregator.sink.waiting_rows import WaitingRows
from aggregator.sink.writer import Writer
from oracles.errors import ParameterError
from tests.boards import START
from tests.sinks import keys, rows_of, waiting_rows
from tests.stores import BUCKET, FAULTS, SECRET, proxied, random_faults, unused_address

END = START // 3600 * 3600 + 3600
PRESENT = 4_000_000_000


@pytest.fixture(autouse=True)
def no_retries_of_the_library(monkeypatch):
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    monkeypatch.setattr(objects, "RETRIES", 0)


class Nothing:
    def inc(self, _=1):
        pass

    set = inc


def writer_of(target, waiting):
    counts = SimpleNamespace(files=Nothing(), bytes=Nothing(), conflicts=Nothing(), last_write=Nothing())
    return Writer(target, waiting, SinkPlan(interval=60), counts)


def progress(now=PRESENT):
    return ReadProgress(time=now, read_through=float("inf"), closed_through={"homepage": 0})


def again(work):
    """Repeat work until no fault of the store stops it."""
    for _ in range(1_000):
        try:
            return work()
        except OSError:
            continue
    raise AssertionError("the store never works")


@contextmanager
def taken(address, **options):
    with closing(ObjectStore(address, **options)) as store:
        again(store.take)
        yield store


def contents(address, part=FINALS):
    source = Objects(address)
    return {path: source.get(path)[0] for path in sorted(source.times(part))}


def test_a_file_is_created_once_and_others_are_replaced_by_the_version_that_was_read(store_address):
    with taken(store_address) as store:
        assert store.create("finals/a.parquet", b"1")
        assert not store.create("finals/a.parquet", b"2")
        store.replace("open/a.parquet", b"1")
        store.replace("open/a.parquet", b"2")
        assert store.read("open/a.parquet") == b"2"
        assert store.read("open/b.parquet") is None
        assert store.modified("open").keys() == {"open/a.parquet"}
        store.delete("open/a.parquet")
        assert not store.modified("open")
        assert store.read("finals/a.parquet") == b"1"


def test_a_store_without_conditional_writes_is_refused_unless_a_sink_is_alone(s3_server):
    with proxied(s3_server) as proxy:
        proxy.is_conditional = False
        address = unused_address()
        with closing(ObjectStore(address)) as store, pytest.raises(TargetRefused, match="--alone"):
            store.take()
        with taken(address, is_alone=True) as store:
            assert store.create("finals/a.parquet", b"1")
            assert not store.create("finals/a.parquet", b"2")
            store.replace("open/a.parquet", b"1")
            store.replace("open/a.parquet", b"2")
            assert store.read("open/a.parquet") == b"2"


def test_a_second_sink_is_refused_while_the_first_renews_its_lease(store_address, monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL", 0.05)
    with (
        taken(store_address),
        closing(ObjectStore(store_address)) as second,
        pytest.raises(TargetRefused, match="has a sink already: process"),
    ):
        second.take()


def test_a_released_lease_is_taken_at_once(store_address):
    # The lease lasts a minute, so a wait for its end would end the test.
    for _ in range(3):
        with taken(store_address):
            assert b'"released":false' in Objects(store_address).get(OWNER)[0]
        assert b'"released":true' in Objects(store_address).get(OWNER)[0]


def test_a_sink_that_was_paused_fails_and_writes_nothing(store_address, monkeypatch):
    monkeypatch.setattr(lease, "RENEWAL", 1e6)
    monkeypatch.setattr(lease, "TAKEOVER", 0.0)
    with closing(ObjectStore(store_address)) as sleeper:
        sleeper.take()
        sleeper.replace("open/a.parquet", b"paused")
        with taken(store_address) as second:
            second.read("open/a.parquet")
            second.replace("open/a.parquet", b"second")
            # Whether its lease seems to last or not, and whichever file it writes.
            for takeover in (1e6, 0.0):
                monkeypatch.setattr(lease, "TAKEOVER", takeover)
                with pytest.raises(TargetRefused, match="another sink now: process"):
                    sleeper.replace("open/a.parquet", b"paused")
                with pytest.raises(TargetRefused, match="another sink now: process"):
                    sleeper.create("finals/a.parquet", b"paused")
            assert contents(store_address, OPEN) == {"open/a.parquet": b"second"}
            assert not contents(store_address)


def test_a_removed_lease_ends_the_sink(store_address, monkeypatch):
    with taken(store_address) as store:
        Objects(store_address).delete(OWNER)
        with pytest.raises(TargetRefused, match="was deleted"):
            store._lease.renew()


def lives(address, ends):
    """Let two sinks after each other write finals, the second on what the first has left. Yield after each step."""
    for last in (2, len(ends)):
        with taken(address) as store, closing(WaitingRows()) as waiting:
            writer = writer_of(store, waiting)
            again(writer.start)
            state = again(lambda store=store: store.read(PATH))
            start = 0 if state is None else SinkState.decode(state).offsets[0]
            for finals in waiting_rows(ends[start:last], start):
                waiting.add(*finals)
            for now in (END, PRESENT if last == len(ends) else END):
                again(
                    lambda writer=writer, now=now, last=last: writer.write(
                        progress(now), SinkState("hubbub.", "day", offsets={0: last})
                    )
                )
                yield


def check(server, address, choose):
    ends = [END, END - 10, END + 3_600, END - 20]
    with proxied(server, choose) as proxy:
        steps = lives(address, ends)
        while True:
            try:
                next(steps)
            except StopIteration:
                break
            choice, proxy.choose = proxy.choose, lambda method, path: None
            look(address)
            proxy.choose = choice
        proxy.choose = lambda method, path: None
        assert set(rows_of(contents(address))["end"]) == {*ends}
        return proxy


def look(address):
    """Fail if the view of all files has a row twice."""
    finals = contents(address)
    names = {parse(path)[0] for path in finals}
    files = {path: content for path, content in contents(address, OPEN).items() if parse(path)[0] not in names}
    assert keys(rows_of(finals)).isdisjoint(keys(rows_of(files)))


def test_a_store_that_fails_often_loses_and_repeats_nothing(s3_server):
    proxy = check(s3_server, unused_address(), random_faults(1, 0.2))
    assert set(FAULTS) < set(proxy.faults)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_any_request_loses_and_repeats_nothing(s3_server, fault):
    for number in itertools.count():
        requests = itertools.count()
        choose = lambda method, path, requests=requests, number=number: fault if next(requests) == number else None
        proxy = check(s3_server, unused_address(), choose)
        if not proxy.faults[fault]:
            assert number > 30
            return


@pytest.mark.parametrize("fault", ["500", "503", "expired", "lost"])
def test_a_message_has_the_reason_and_neither_address_nor_key(s3_server, fault, caplog):
    caplog.set_level(logging.DEBUG)
    with proxied(s3_server, lambda method, path: fault) as proxy, closing(ObjectStore(f"s3://{BUCKET}/x")) as store:
        with pytest.raises(OSError, match=fault[:3] if fault[0] == "5" else "ExpiredToken|does not answer") as failure:
            store.take()
        assert str(failure.value).startswith(f"s3://{BUCKET}/x: cannot ")
        for secret in (SECRET, "somebody", f"{proxy.server_address[1]}"):
            assert secret not in str(failure.value) + caplog.text


def test_a_missing_bucket_is_an_error(s3_server):
    with (
        proxied(s3_server),
        closing(ObjectStore("s3://nobody/x")) as store,
        pytest.raises(OSError, match="NoSuchBucket"),
    ):
        store.take()


def test_a_store_is_read_as_a_folder_is(store_address, tmp_path):
    with closing(Folder(tmp_path)) as folder, taken(store_address) as store:
        folder.take()
        for target in (folder, store):
            with closing(WaitingRows()) as waiting:
                for finals in waiting_rows([END, END - 10, END + 3_600]):
                    waiting.add(*finals)
                writer_of(target, waiting).write(
                    ReadProgress(time=END + 700, read_through=float("inf"), closed_through={"homepage": END + 600}),
                    SinkState("hubbub.", "day"),
                )
    table = hubbub.read(store_address, "homepage")
    assert table.equals(hubbub.read(tmp_path, "homepage"))
    assert contents(store_address, OPEN)
    assert table["end"].n_unique() == 3
    with pytest.raises(ParameterError, match="homepage"):
        hubbub.read(store_address, "hompage")
    with pytest.raises(TargetUnreachable, match="NoSuchBucket"):
        hubbub.read("s3://nobody/x", "homepage")


def test_polars_reads_the_store(store_address):
    with taken(store_address) as store, closing(WaitingRows()) as waiting:
        for finals in waiting_rows([END, END - 10]):
            waiting.add(*finals)
        writer_of(store, waiting).write(progress(), SinkState("hubbub.", "day"))
    rows = pl.scan_parquet(f"{store_address}/finals/**/*.parquet", hive_partitioning=True, missing_columns="insert")
    shares = rows.filter(pl.col("query") == "homepage", pl.col("kind") == "tumbling").collect()
    assert set(shares["end"]) == {END, END - 10}
    assert set(shares.columns) - set(row_file.SCHEMA) == {"day"}
