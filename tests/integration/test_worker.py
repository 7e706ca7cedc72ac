"""`hubbub worker` on real brokers: what it publishes, refuses and says, and what it goes on from."""

import asyncio
import signal
import socket
import threading
import time
from unittest.mock import AsyncMock, Mock

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from aggregator import worker
from aggregator.counting.app import MANY, Counting
from aggregator.demo.embedded import free_port
from aggregator.topics.command import alter, describe, ensure
from aggregator.topics.settings import TIMESTAMP, layout
from hubbub import logs
from hubbub.kafka import started
from hubbub.names import QUERIES, REPORTS, SNAPSHOTS
from oracles.frame import MAX_FRAME, TICK, encode, encode_json
from tests.brokers import prepared
from tests.integration.workers import Place, until

PAGE = """\
[queries.page]
crowd = 1
domain = ["a", "b", "c"]
oracle = "grr"
epsilon = 2.0
budget = 1e9
pane = "1s"
lateness = "1s"
skew = "3s"
windows = ["1s", "3s/1s", "all"]
emit_every = "1s"
sets = { most = ["a", "b"] }
"""
PATIENT = PAGE.replace('lateness = "1s"', 'lateness = "10s"')
"""Where workers are started again meanwhile."""
SITE = """
[queries.site]
crowd = 1
domain = 1000
oracle = "olh"
epsilon = 1.0
budget = 1e9
pane = "1s"
lateness = "0s"
skew = "3s"
windows = ["2s"]
methods = ["calibrate"]
"""
PROFILE = """
[queries.profile]
crowd = 1
attributes = { sex = ["f", "m"], age = 30 }
solution = "rsfd"
epsilon = 1.0
budget = 1e9
pane = "1s"
lateness = "1s"
skew = "3s"
windows = ["1s"]
"""
PAST = """
[queries.past]
crowd = 1
domain = 3
epsilon = 1.0
budget = 1e9
pane = "1s"
until = 2020-01-01
"""
GONE = """
[queries.gone]
crowd = 1
domain = 3
epsilon = 1.0
budget = 1e9
pane = "1s"
skew = "0s"
"""
LIMIT = 4096
METRICS = {
    "hubbub_reports_total": {"query"},
    "hubbub_frames_total": {"query"},
    "hubbub_rejected_total": {"query", "reason"},
    "hubbub_lag_records": {"partition"},
    "hubbub_lag_seconds": set(),
    "hubbub_close_to_record_seconds_bucket": {"le"},
    "hubbub_checkpoint_seconds_bucket": {"le"},
    "hubbub_detectable_share": {"query", "attribute"},
    "hubbub_sigma_share": {"query", "attribute"},
    "hubbub_newest_final_age_seconds": {"query"},
    "hubbub_alerts_total": {"query", "kind", "baseline"},
    "hubbub_flags_total": {"query", "flag"},
    "hubbub_build_info": {"version", "kernels"},
}
HASTE = "from aggregator.counting import configuration, quirks\nquirks.LONGEST_RUN = 3\nconfiguration.FETCH = 1000"


@pytest.fixture
def place(broker, tmp_path):
    with Place(broker, tmp_path, PAGE) as place:
        yield place


@pytest.fixture
def on_kafka(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


@pytest.fixture
def on_tansu(tansu, tmp_path):
    with Place(tansu, tmp_path, PAGE) as place:
        yield place


class Run:
    """A worker that was given a bit of everything, and all that came of it."""

    def __init__(self, place):
        self.place = place
        self.gone = self._retired()
        self.worker = place.start("--max-frame", str(LIMIT)).ready()
        place.ticked()  # before there is a clock nothing is late
        for turn in range(3):
            place.send(*[(p, frame) for p in range(place.partitions) for frame in self._good(p, turn)])
            if turn == 1:
                self.bad = self._bad(int(time.time()))
                self.offsets = place.send(*[(0, data) for _, data in self.bad])
            time.sleep(1)
        self.verdict = place.verdict(limit=LIMIT)
        self.pages = {path: self.worker.get(path) for path in ("/healthz", "/readyz", "/nothing")}
        self.metrics = self.worker.metrics()
        self.code = self.worker.stop()
        self.records = place.read("estimates")
        self.rejects = {(r.partition, r.offset): r for r in place.read("rejects")}.values()

    def _retired(self):
        """A query that was counted once, says the topic of definitions."""
        self.place.define(PAGE + SITE + PROFILE + PAST + GONE)
        gone = self.place.queries["gone"]
        self.place.say(self.place.queries)
        self.place.define(PAGE + SITE + PROFILE + PAST)
        self.place.say(self.place.queries, "gone")
        return gone

    def _good(self, partition, turn):
        """Frames of three queries, with ids and without, in binary and in JSON."""
        place, now = self.place, int(time.time())
        page = place.queries["page"]
        yield place.frame("page", [0] * 9 + [1] * turn)
        yield place.frame("page", [2, 2], number=(turn + 1) * place.partitions + partition)
        yield place.frame("page", [1], pane=now + 2)
        yield encode_json(page.digest, now, page.oracle.perturb([0, 2]))
        yield place.frame("site", [7] * 20)
        yield place.frame("profile", [[3, 0]] * 5 + [[4, 1]] * 5)

    def _bad(self, now):
        """What is refused on partition 0, with the reason; before the duplicate the one that it repeats."""
        place, past = self.place, self.place.queries["past"]
        assert place.definitions().versions[self.gone.digest].retired <= now
        name = 1000 * place.partitions
        return [
            ("too_large", b"x" * (LIMIT + 1)),
            ("malformed", b"rubbish " * 100),
            ("malformed", place.frame("page", [0], number=1001 * place.partitions + 1)),
            ("unknown_query", encode(b"nobody!!", now, past.oracle.perturb([0]))),
            ("stale_digest", encode(self.gone.digest, now, self.gone.oracle.perturb([0, 1, 2]))),
            ("expired", encode(past.digest, now, past.oracle.perturb([0]))),
            ("late", place.frame("page", [0] * 4, pane=now - 60)),
            ("future", place.frame("page", [0] * 5, pane=now + 60)),
            (None, place.frame("page", [0] * 6, pane=now, number=name)),
            ("duplicate", place.frame("page", [0] * 6, pane=now, number=name)),
        ]


@pytest.fixture(scope="module", params=["tansu", "kafka"])
def ran(request, tmp_path_factory):
    broker = request.getfixturevalue(request.param)
    with Place(broker, tmp_path_factory.mktemp("ran"), PAGE, max_frame=LIMIT) as place:
        yield Run(place)


def test_finals_are_byte_for_byte_those_of_a_fold_over_the_log(ran):
    assert ran.verdict.exact, ran.verdict
    finals = [key for key, value in ran.verdict.wanted.items() if orjson.loads(value).get("final")]
    kinds = {tuple(key.decode().split("|")[i] for i in (0, 2, 3, 4)) for key in finals}
    assert kinds == {
        ("page", "tumbling", "1", "1"),
        ("page", "hopping", "3", "1"),
        ("page", "all", "0", "0"),
        ("site", "tumbling", "2", "2"),
        ("profile", "tumbling", "1", "1"),
    }
    assert ran.verdict.reports == sum(value for _, value in ran.metrics["hubbub_reports_total"])


def test_each_refused_frame_is_set_aside_with_where_and_why(ran):

    told = {}
    for record in ran.rejects:
        headers = {name: value.decode() for name, value in record.headers}
        if headers["partition"] == "0":
            told[int(headers["offset"])] = record, headers
    for offset, (reason, data) in zip(ran.offsets, ran.bad, strict=True):
        if reason is None:
            assert offset not in told
            continue
        record, headers = told[offset]
        topic = ran.place.kafka.topic("reports")
        assert record.key.decode() == f"{topic}|0|{offset}"
        assert record.value == data[:32]
        detail = headers.pop("detail")
        assert detail
        assert headers == {"topic": topic, "partition": "0", "offset": str(offset), "reason": reason}


def test_refused_reports_are_counted_by_query_and_reason(ran):
    counted = {(has["query"], has["reason"]): value for has, value in ran.metrics["hubbub_rejected_total"] if value}
    assert counted.pop(("page", "late")) >= 4  # on a slow machine good ones may be late too
    assert counted == {
        ("", "too_large"): 1,
        ("", "malformed"): 1,
        ("page", "malformed"): 1,
        ("", "unknown_query"): 1,
        ("gone", "stale_digest"): 3,
        ("past", "expired"): 1,
        ("page", "future"): 5,
        ("page", "duplicate"): 6,
    }


def test_provisional_records_have_keys_of_their_own(ran):
    written = [record for record in ran.records if record.key.endswith(b"|p")]
    found = [record for record in written if record.value is not None]
    deleted = {record.key.removesuffix(b"|p") for record in written if record.value is None}
    finals = {record.key: orjson.loads(record.value) for record in ran.records if not record.key.endswith(b"|p")}
    assert b"page" in {record.key.partition(b"|")[0] for record in found}  # others as slow machines let them
    assert finals.keys() == deleted  # whether one was known or not
    for record in found:
        said, final = orjson.loads(record.value), finals.get(record.key[:-2])
        assert not said["final"]
        assert final is None or (final["final"] and said["window"] == final["window"] and said["n"] <= final["n"])


def test_a_worker_serves_its_health_and_the_metrics_of_the_contract(ran):
    assert ran.pages["/healthz"] == (200, "ok\n")
    assert ran.pages["/readyz"] == (200, "ready\n")
    assert ran.pages["/nothing"][0] == 404
    for name, labels in METRICS.items():
        assert ran.metrics[name], name
        assert all(has.keys() == labels for has, _ in ran.metrics[name]), name
    assert {has["partition"] for has, _ in ran.metrics["hubbub_lag_records"]} == {"0", "1"}
    assert {has["attribute"] for has, _ in ran.metrics["hubbub_sigma_share"]} == {"", "age", "sex"}


def test_its_log_is_json_line_by_line(ran):
    events = ran.worker.events()
    assert all({"time", "level", "logger", "message"} <= event.keys() for event in events)
    assert ran.worker.events("recovered")
    assert ran.worker.events("stopping")
    ours = {event["level"] for event in events if event["logger"].startswith("aggregator")}
    assert ours <= {"info", "warning"}


def test_sigterm_ends_it_with_0(ran):
    assert ran.code == 0


def test_a_replay_by_other_workers_in_other_runs_gives_the_same_bytes(ran):
    place = ran.place
    asyncio.run(count_again(place))
    several = [place.start("--max-frame", str(LIMIT), patch=HASTE) for _ in range(2)]
    for one in several:
        one.ready()
    before = {record.key: record.value for record in ran.records if not record.key.endswith(b"|p")}
    until(lambda: before.keys() <= place.finals().keys())
    after = place.finals()  # one may stand there twice: the first worker published it, and handed the query on
    assert {key: {value} for key, value in before.items()} == {key: set(after[key]) for key in before}


async def count_again(place):
    """As docs/topics.md says."""
    kafka = place.kafka
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        names = {topic.name for topic in layout(kafka.prefix, 1, 1, 1)}
        names -= {kafka.topic(REPORTS), kafka.topic(QUERIES)}
        await admin.delete_topics([*names])
        await gone(admin, names)
    await ensure(kafka, place.partitions, max_frame=LIMIT)


def test_a_frame_with_an_id_counts_once_also_over_crashes(place):
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    frame = place.frame("page", [0] * 5, pane, number=2)
    place.send((0, frame), (0, frame))
    until(lambda: one.total("hubbub_reports_total"))
    one.kill()  # most likely before a checkpoint
    place.send((0, frame))
    two = place.start().ready()
    until(lambda: two.total("hubbub_rejected_total"))
    time.sleep(1)  # and now after one
    two.kill()
    place.send((0, frame))
    three = place.start().ready()
    until(lambda: three.total("hubbub_rejected_total"))
    verdict = place.verdict(pane)
    assert verdict.exact, verdict
    assert verdict.reports == 5


def test_a_graceful_stop_writes_all_down_so_that_the_next_reads_nothing_twice(place):
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    place.send(*[(p, place.frame("page", [0, 1, 2], pane)) for p in range(2)] * 20)
    until(lambda: one.total("hubbub_frames_total") == 40)
    assert one.stop() == 0
    [offset] = place.send((0, b"nobody has read this"))
    two = place.start().ready()
    [recovered] = two.events("recovered")
    between = range(recovered["offsets"]["0"], offset)  # a tick may still have been on its way when the first one left
    assert all(r.value == TICK for r in place.read("reports") if r.partition == 0 and r.offset in between)
    until(lambda: two.total("hubbub_rejected_total"))
    assert not two.total("hubbub_reports_total")
    verdict = place.verdict(pane)
    assert verdict.exact, verdict
    assert verdict.reports == 120


def test_it_is_alive_before_it_is_ready(place):
    one = place.start()
    assert one.get("/healthz") == (200, "ok\n")
    status, said = one.get("/readyz")
    assert (status, said[:11]) == (503, "recovering:")
    assert one.get("/metrics")[0] == 200
    one.ready()


def test_sigterm_while_it_joins_ends_it_with_0(place):
    one = place.start()
    assert one.get("/readyz")[0] == 503
    assert one.stop() == 0


def test_sigterm_while_it_waits_for_a_broker_that_says_nothing_ends_it_with_0(tansu, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent, Place(tansu, tmp_path, PAGE) as place:
        one = place.start("--kafka", f"127.0.0.1:{silent.getsockname()[1]}")
        connection, _ = silent.accept()
        with connection:
            assert one.stop() == 0


def run(monkeypatch, *arguments):
    """The command, where it does not come to count."""
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    code = worker.main([*map(str, arguments)])
    until(lambda: "watchdog" not in [thread.name for thread in threading.enumerate()])  # it would end this process
    return code


def where(kafka, file):
    embedded = ["--embedded"] if kafka.embedded else []
    return ["--kafka", kafka.servers, "--prefix", kafka.prefix, "--queries", file, "--port", "0", *embedded]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(PAGE)
    return path


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--nonsense"], "--nonsense"),
        (["--port", "web"], "--port"),
        (["--kafka", "localhost"], "HOST:PORT"),
        (["--checkpoint-bytes-per-s", "0"], "--checkpoint-bytes-per-s must be above 0"),
        (["--log", "xml"], "must be one of json, console"),
    ],
)
def test_wrong_options_are_exit_code_2(given, said, capsys, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, *given)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("LOG", "xml"), ("LOG_LEVEL", "loud"), ("MAX_FRAME", "large")])
def test_so_is_a_wrong_environment(name, value, capsys, monkeypatch):
    monkeypatch.setenv(f"HUBBUB_{name}", value)
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch)
    assert ended.value.code == 2
    assert value in capsys.readouterr().err


def test_a_wrong_query_file_is_exit_code_2(file, capsys, monkeypatch):
    file.write_text(PAGE.replace("epsilon = 2.0", "epsilon = -1.0"))
    assert run(monkeypatch, "--queries", file) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "epsilon" in said


def test_a_port_that_is_taken_is_exit_code_2(on_tansu, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(monkeypatch, *where(on_tansu.kafka, on_tansu.file), "--port", port) == 2
    assert f"127.0.0.1:{port} cannot be listened on: " in (said := capsys.readouterr().err)
    assert "another --port" in said


def test_no_broker_is_exit_code_3(file, capsys, monkeypatch):
    assert run(monkeypatch, "--queries", file, "--kafka", f"127.0.0.1:{free_port()}") == 3
    assert "cannot be reached" in capsys.readouterr().err


def test_missing_topics_are_exit_code_4(broker, file, capsys, monkeypatch):
    assert run(monkeypatch, *where(broker.kafka("nobody."), file)) == 4
    assert "nobody.reports: there is no such topic; run `hubbub topics`" in capsys.readouterr().err


def test_topics_of_other_partitions_are_exit_code_4(broker, file, capsys, monkeypatch):
    kafka = prepared(broker, 2)
    asyncio.run(make_again(kafka, SNAPSHOTS, 3))
    assert run(monkeypatch, *where(kafka, file)) == 4
    said = capsys.readouterr().err
    assert "snapshots: has 3 partitions, not 2; " in said
    assert "run `hubbub topics`" in said


def test_a_time_that_clients_choose_is_exit_code_4(kafka, file, capsys, monkeypatch):
    where_it_is = prepared(kafka, 2)
    asyncio.run(spoil(where_it_is, REPORTS, {TIMESTAMP: "CreateTime"}))
    assert run(monkeypatch, *where(where_it_is, file)) == 4
    assert f"{TIMESTAMP} is CreateTime, but must be LogAppendTime; run `hubbub topics`" in capsys.readouterr().err


async def gone(admin, names):
    async def are():
        return not names & {*await admin.list_topics()}

    await become(are)


async def become(condition):
    """Brokers hear of a change a moment after it is made."""
    for _ in range(300):
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it does not come to pass")


async def make_again(kafka, name, partitions):
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        await admin.delete_topics([kafka.topic(name)])
        await gone(admin, {kafka.topic(name)})
        settings = {topic.name: topic.settings for topic in layout(kafka.prefix, 2, 1, MAX_FRAME)}[kafka.topic(name)]
        await admin.create_topics([NewTopic(kafka.topic(name), partitions, 1, topic_configs=settings)])

        async def there():
            return kafka.topic(name) in await describe(admin, [kafka.topic(name)])

        await become(there)


async def spoil(kafka, name, settings):
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        await alter(admin, await describe(admin, [kafka.topic(name)]), {kafka.topic(name): settings})

        async def heard():
            return settings.items() <= (await describe(admin, [kafka.topic(name)]))[kafka.topic(name)].settings.items()

        await become(heard)


async def delete_before(kafka, partition, offset):
    """As retention does."""
    async with started(AIOKafkaAdminClient(**kafka.client()), kafka) as admin:
        await admin.delete_records({TopicPartition(kafka.topic("reports"), partition): RecordsToDelete(offset)})


def flags(place):
    """By the end of the shortest windows, what their records are flagged with."""
    records = [orjson.loads(value) for versions in place.finals().values() for value in versions]
    short = [record for record in records if record["window"]["kind"] == "tumbling"]
    return {record["window"]["end"]: record["quality"]["flags"] for record in short}


def test_reports_that_were_deleted_while_nobody_read_are_told_and_counting_goes_on(on_kafka):
    place = on_kafka
    place.define(PATIENT.replace("10s", "20s"))
    one = place.start().ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: one.total("hubbub_reports_total"))
    assert one.stop() == 0
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 5)
    asyncio.run(delete_before(place.kafka, 0, offsets[3]))
    two = place.start().ready()
    until(lambda: two.total("hubbub_reports_total") == 2)
    assert two.total("hubbub_lost_records_total") == 3
    [lost] = two.events("lost: the log was deleted before it was read")
    assert (lost["partition"], lost["lost"]) == (0, 3)
    later = int(time.time()) + 5  # it might not have held what was lost
    until(lambda: time.time() > later)
    place.send((0, place.frame("page", [2], later)))
    said = until(lambda: (said := flags(place)) and later + 1 in said and said)
    assert said == {pane + 1: ["incomplete"], later + 1: []}


def test_so_are_those_that_a_slow_worker_has_not_come_to(on_kafka):
    place = on_kafka
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: one.total("hubbub_reports_total"))
    one.signal(signal.SIGSTOP)  # for less than the session
    place.send((0, place.frame("page", [1], pane)))  # the fetch that is under way may bring it
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 9)
    asyncio.run(delete_before(place.kafka, 0, offsets[-1]))
    one.signal(signal.SIGCONT)
    until(lambda: one.total("hubbub_lost_records_total") >= 8)
    assert len(one.events("recovered")) == 1, "it was frozen for too long to show anything"
    until(lambda: one.total("hubbub_reports_total") >= 2)


def test_what_was_deleted_before_anybody_read_is_not_lost(on_kafka):
    place = on_kafka
    place.define(PATIENT)
    for partition in range(place.partitions):
        offsets = place.send(*[(partition, place.frame("page", [0]))] * 5)
        asyncio.run(delete_before(place.kafka, partition, offsets[3]))
    several = [place.start() for _ in range(2)]
    for one in several:
        one.ready()
    until(lambda: sum(one.total("hubbub_reports_total") for one in several) >= 4)
    assert not sum(one.total("hubbub_lost_records_total") for one in several)


def test_a_worker_that_cannot_tick_ends_rather_than_let_idle_partitions_stand(on_tansu):
    break_it = (
        "async def tick(*_): raise OSError('no tick')\nfrom aggregator.topics.outbox import Outbox\nOutbox.tick = tick"
    )
    one = on_tansu.start(patch=break_it)
    assert one.wait() == 1
    assert [event["message"] for event in one.events() if event["level"] == "critical"] == ["OSError('no tick')"]


def test_a_flood_of_rubbish_does_not_wait_for_a_partition_that_others_own():
    """What there is of it is written only by who owns the partition."""
    source = Mock(next_offset=0, rejects=[None] * (MANY + 1))
    counting = Mock(sources={0: source}, stopping=False)
    counting.on_closing = counting.sources.clear  # a rebalance
    counting.follower.cover = counting._bind = AsyncMock()

    async def events():
        yield Mock(value=Mock(first=0), message=Mock(partition=0))

    stream = Mock()
    stream.noack().events = events
    asyncio.run(asyncio.wait_for(Counting._count(counting, stream), 30))
    counting._take.assert_called_once()
