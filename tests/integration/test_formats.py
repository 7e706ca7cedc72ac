"""The formats version on a real Kafka: who raises it, who waits, and who refuses to work."""

import asyncio
import json
import sys

import pytest
from aiokafka.admin import AIOKafkaAdminClient

import hubbub
from aggregator.merging import snapshot_records
from aggregator.plan import check
from aggregator.reading import doctor
from aggregator.reading.audit import command as audit
from aggregator.reading.export import command as export
from aggregator.tallies.keys import StateKey
from aggregator.topics import command as topics
from hubbub.definitions import formats, formats_record
from hubbub.definitions.formats import NEWEST, Formats, FormatsError, release
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.group import members
from oracles.query.settings import Window
from producers.gateway import command as gateway
from producers.simulation import replay
from tests.brokers import create_topics
from tests.integration.admin import change_settings, recreate
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until
from tests.queries import make_text

HIGHER = json.dumps({"version": NEWEST + 1, "release": "9.1.0"}).encode()


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def where(kafka, *more):
    return ["--kafka", kafka.servers, "--prefix", kafka.prefix, *more]


def set_formats(place, value):
    """Write the record of the formats version, or remove it."""
    place.send((0, value, formats.KEY), topic="queries")


def present(place):
    return asyncio.run(formats_record.look_up(place.kafka))


def group(place):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(place.kafka)), place.kafka) as admin:
            return await members(admin, place.kafka)

    return asyncio.run(run())


def older_worker(place):
    """Start a worker that has the client id of Faust, as workers of older releases have. It stays in the group."""
    patch = "from aggregator.counting import faust_app; faust_app.CLIENT = 'faust-'"
    worker = place.start("--upgrade-patience", "max", patch=patch)
    until(lambda: any(not member.knows_formats for member in group(place)))
    return worker


def raise_formats(place, *more):
    return topics.main(where(place.kafka, "--partitions", "2", "--raise-formats", *more))


def test_a_new_prefix_gets_the_newest_version_and_a_second_run_keeps_it(broker):
    kafka = create_topics(broker, 2)
    assert asyncio.run(formats_record.look_up(kafka)) == Formats(NEWEST, release())


def test_topics_raises_a_lower_version_only_if_asked_and_changes_nothing_else(place, capsys):
    set_formats(place, None)
    earlier_records = place.read("queries", 1)
    for more in ([], ["--dry-run"]):
        assert topics.main(where(place.kafka, "--partitions", "2", *more)) == 4
        output = capsys.readouterr()
        assert "version 1" in output.err
        assert f"release {release()} writes version {NEWEST}. Stop all workers first" in output.err
        assert output.out == ""
    assert raise_formats(place, "--dry-run") == 0
    assert "would raise" in capsys.readouterr().out
    assert len(place.read("queries", 1)) == len(earlier_records)
    assert raise_formats(place) == 0
    assert f"raised {place.kafka.topic('queries')}: formats from version 1 to {NEWEST}" in capsys.readouterr().out
    assert present(place) == Formats(NEWEST, release())
    assert raise_formats(place) == 0
    assert "raised" not in capsys.readouterr().out


def test_the_fence_needs_the_newest_version_and_no_older_worker_and_is_set_once(place, capsys):
    recreate(place.kafka, "queries", 1)
    fence = where(place.kafka, "--fence")
    set_formats(place, None)
    assert topics.main(fence) == 4
    assert "formats version 1" in capsys.readouterr().err
    assert raise_formats(place) == 0
    capsys.readouterr()
    older = older_worker(place)
    assert topics.main(fence) == 4
    assert f"workers of an older release are in the group (1): faust-{release()}" in capsys.readouterr().err
    assert doctor.main(where(place.kafka, "--strict")) == 0, "a missing fence alone is no fault"
    assert "fence: none" in capsys.readouterr().out
    older.kill()
    until(lambda: not group(place))
    worker = place.start().ready()
    topic = place.kafka.topic("queries")
    assert topics.main([*fence, "--dry-run"]) == 0
    assert f"would fence {topic}: 2 partitions" in capsys.readouterr().out
    assert topics.main(fence) == 0
    assert f"fenced {topic}: 2 partitions" in capsys.readouterr().out
    assert topics.main(fence) == 0
    assert f"right {topic}: the fence is set" in capsys.readouterr().out
    assert doctor.main(where(place.kafka)) == 0
    assert "fence: set" in capsys.readouterr().out
    place.start().ready()
    place.send((0, place.frame("page", [0, 1])))
    assert place.verdict().exact
    assert worker.running
    assert not place.read("queries", 2)[len(place.read("queries", 1)) :], "the second partition stays empty"


def test_the_doctor_finds_states_of_an_older_form_that_are_newer_than_the_rise(place, capsys):
    state = StateKey(bytes(8), Window("tumbling", 10, 10), 10).encode()
    place.send((1, b"\x05" + bytes(40), state), topic="snapshots")
    assert doctor.main(where(place.kafka)) == 0
    place.send((1, b"\x03" + bytes(40), state), (1, b"\x03", b"rubbish"), topic="snapshots")
    capsys.readouterr()
    for more in ([], ["--strict"]):
        assert doctor.main(where(place.kafka, *more)) == 4
        assert "states: of an older form in snapshots, partition 1: 1 from 20" in capsys.readouterr().out
    assert raise_formats(place) == 0
    set_formats(place, formats.newest_value())
    assert doctor.main(where(place.kafka)) == 0, "they are older than the rise"


def test_the_return_needs_no_fence_and_takes_the_marks_of_numbers_alone(place, capsys, monkeypatch):
    lower = where(place.kafka, "--lower-formats")
    assert topics.main(lower) == 4
    assert "has a fence, which Kafka cannot take back" in capsys.readouterr().err
    recreate(place.kafka, "queries", 1)
    set_formats(place, formats.newest_value())
    place.define(PAGE + make_text("wait", domain={"low": 0, "high": 60, "bins": 16}))
    place.define_in_topic(place.queries)
    keys = [StateKey(place.queries[name].digest, Window("tumbling", 10, 10), 10).encode() for name in ("page", "wait")]
    place.send(*((0, b"\x05" + bytes(40), key) for key in keys), topic="snapshots")
    monkeypatch.setattr(snapshot_records, "PART", 40)
    large = StateKey(place.queries["wait"].digest, Window("tumbling", 10, 10), 20)
    parts = snapshot_records.split_state(large, b"\x05" + bytes(90))
    place.send(*((0, value, key) for key, value in parts), topic="snapshots")
    assert topics.main([*lower, "--dry-run"]) == 0
    assert "formats from version 3 to 2, 2 states of numbers lose their marks" in capsys.readouterr().out
    assert present(place).version == 3
    for _ in range(2):
        assert topics.main(lower) == 0
        assert present(place) == Formats(2, release())
        records = [(record.key, record.value) for record in place.read("snapshots")][2 + len(parts) :]
        assert records[0] == (keys[1], b"\x03" + bytes(40))
        first, *_, head = snapshot_records.split_state(large, b"\x03" + bytes(90))
        assert records[1:] == [first, head]


@pytest.mark.parametrize("option", ["--raise-formats", "--fence"])
def test_a_return_goes_with_no_step_that_forbids_it(option, capsys):
    with pytest.raises(SystemExit) as error_info:
        topics.main(["--kafka", "127.0.0.1:1", "--lower-formats", option])
    assert error_info.value.code == 2
    assert "--lower-formats returns to an older release" in capsys.readouterr().err


def test_topics_never_lowers_a_higher_version(place, capsys):
    set_formats(place, HIGHER)
    for more in ([], ["--raise-formats"]):
        assert topics.main(where(place.kafka, "--partitions", "2", *more)) == 4
        assert "raised by release 9.1.0" in capsys.readouterr().err
    assert present(place) == Formats(NEWEST + 1, "9.1.0")


def test_topics_raises_nothing_while_a_worker_runs_and_stops_them_by_the_given_command(place, capsys, tmp_path):
    worker = place.start().ready()
    assert [member.client_id for member in group(place)] == [f"hubbub-worker/{release()}"]
    set_formats(place, None)
    hint = "kubectl -n here scale deployment/there-worker --replicas=0"
    assert raise_formats(place, "--stop-hint", hint) == 4
    output = capsys.readouterr().err
    assert f"1 in the group: hubbub-worker/{release()} at 127.0.0.1" in output
    assert hint in output
    assert present(place) == Formats()
    assert doctor.main(where(place.kafka)) == 0
    output = capsys.readouterr().out
    assert f"formats: version 1; this release is {release()} and writes version {NEWEST}" in output
    assert "workers: 1 in the group" in output
    assert raise_formats(place, "--stop-workers", f"{sys.executable} -c 'raise SystemExit(3)'") == 4
    assert "exited with code 3" in capsys.readouterr().err
    script = tmp_path / "stop.py"
    script.write_text(f"import os, signal\nos.kill({worker.process.pid}, signal.SIGTERM)\n")
    assert raise_formats(place, "--stop-workers", f"{sys.executable} {script}") == 0
    assert worker.wait() == 0
    assert present(place) == Formats(NEWEST, release())


def test_a_worker_waits_for_the_version_and_exits_with_4_if_it_does_not_come(place):
    set_formats(place, None)
    late = place.start("--upgrade-patience", "2")
    assert late.wait() == 4
    assert "run `hubbub topics --raise-formats`" in late.log_text
    assert not place.definitions().versions, "it has written nothing"
    patient = place.start()
    until(lambda: "waiting: the topics have formats version 1" in patient.log_text)
    assert raise_formats(place) == 0
    patient.ready()
    place.send((0, place.frame("page", [0, 1])))
    verdict = place.verdict()
    assert verdict.exact, verdict


def test_a_running_worker_exits_with_4_once_the_version_is_higher_and_names_the_release(place):
    worker = place.start().ready()
    set_formats(place, HIGHER)
    assert worker.wait() == 4
    assert "install release 9.1.0" in worker.log_text
    two = place.start()
    assert two.wait() == 4
    assert "install release 9.1.0" in two.log_text


def test_a_worker_waits_for_older_workers_at_the_start(place):
    older = older_worker(place)
    hasty = place.start("--upgrade-patience", "1")
    patient = place.start()
    assert hasty.wait() == 4
    assert f"workers of an older release are in the group (1): faust-{release()} at 127.0.0.1" in hasty.log_text
    until(lambda: "waiting: workers of an older release" in patient.log_text)
    older.kill()
    patient.ready()


def test_a_running_worker_looks_at_the_group_at_each_rebalance(place):
    worker = place.start("--upgrade-patience", "2").ready()
    older_worker(place)
    assert worker.wait() == 4
    assert "Stop them first" in worker.log_text


def test_readers_exit_with_4_at_a_higher_version(place, capsys, tmp_path):
    set_formats(place, HIGHER)
    (tmp_path / "values.csv").write_text("value\na\n")
    queries = ["--queries", str(place.file)]
    for main, arguments in (
        (audit.main, []),
        (export.main, ["--query", "page"]),
        (replay.main, [str(tmp_path / "values.csv"), "--port", "0", *queries]),
        (gateway.main, ["--port", "0", *queries]),
        (doctor.main, []),
    ):
        assert main(where(place.kafka, *arguments)) == 4, main
        output = capsys.readouterr()
        assert "raised by release 9.1.0" in output.err + output.out, main
    with pytest.raises(FormatsError, match=r"install release 9\.1\.0"):
        hubbub.read(place.kafka.servers, "page", prefix=place.kafka.prefix)


def test_the_doctor_names_the_topics_that_it_would_create(kafka, capsys):
    assert doctor.main(where(kafka.kafka("nobody."))) == 0
    output = capsys.readouterr().out
    assert "topics: would create nobody.reports: 12 partitions" in output
    assert "formats: the prefix is new" in output
    created = create_topics(kafka, 2)
    assert doctor.main(where(created)) == 0
    output = capsys.readouterr().out
    assert "topics: all are right" in output
    assert f"way back: every release that writes formats version {NEWEST} may replace this one" in output


def test_the_doctor_names_the_steps_without_which_a_new_worker_exits(kafka, capsys):
    prefix = create_topics(kafka, 2)
    change_settings(prefix, "reports", {"message.timestamp.type": "CreateTime"})
    assert doctor.main(where(prefix)) == 0
    output = capsys.readouterr().out
    assert "topics: would set" in output
    assert "upgrade: run `hubbub topics --partitions 2 --replication 1`, then replace one worker" in output
    assert topics.main(where(prefix, "--partitions", "2", "--replication", "1")) == 0
    capsys.readouterr()
    assert doctor.main(where(prefix)) == 0
    assert "upgrade: replace one worker after the other" in capsys.readouterr().out
    recreate(prefix, "snapshots", 3)
    assert doctor.main(where(prefix)) == 4
    output = capsys.readouterr().out
    assert "cannot be made right" in output
    assert "upgrade: make the topics right, then replace one worker" in output


def test_the_doctor_names_the_options_with_which_the_version_rises(place, capsys):
    set_formats(place, None)
    assert doctor.main(where(place.kafka)) == 0
    assert "run `hubbub topics --raise-formats --partitions 2 --replication 1`" in capsys.readouterr().out
    assert raise_formats(place, "--replication", "1") == 0


def object_of(capsys, main, *arguments):
    """Return the exit code and the JSON object of a command."""
    capsys.readouterr()
    code = main([*arguments, "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert (document["code"], document["ok"]) == (code, code == 0)
    return code, document


def test_four_commands_answer_a_pipeline(place, capsys):
    at = where(place.kafka)
    place.define_in_topic(place.queries)
    code, document = object_of(capsys, doctor.main, *at, "--strict")
    assert (code, document["topics"], document["workers"], document["faults"]) == (0, [], [], [])
    assert document["formats"] == {"version": NEWEST, "release": release(), "needed": NEWEST}
    code, document = object_of(capsys, topics.main, *at)
    assert code == 0
    assert document["changes"] == []
    assert f"{place.kafka.topic('reports')}: 2 partitions" in document["right"]
    code, document = object_of(capsys, audit.main, *at)
    assert (code, document["records"], document["matching"], document["wrong"]) == (0, 0, 0, [])
    assert object_of(capsys, check.main, str(place.file), "--topic", *at)[0] == 0

    other_file = place.folder / "other.toml"
    other_file.write_text(PAGE.replace("queries.page", "queries.other"))
    code, document = object_of(capsys, check.main, str(other_file), "--topic", *at)
    assert code == 4
    assert any("lacks active queries: page" in fault for fault in document["faults"])
    change_settings(place.kafka, "reports", {"message.timestamp.type": "CreateTime"})
    code, document = object_of(capsys, doctor.main, *at, "--strict")
    assert code == 4
    assert "message.timestamp.type from CreateTime to LogAppendTime" in document["faults"][0]
    assert object_of(capsys, topics.main, *at, "--partitions", "3")[1]["faults"][0].endswith("--partitions 2`")


def test_a_check_against_a_new_prefix_names_the_missing_topic(place, capsys):
    """Nothing says that Kafka does not answer. It does."""
    at = ("--kafka", place.kafka.servers, "--prefix", f"{place.kafka.prefix}new.")
    code, document = object_of(capsys, check.main, str(place.file), "--topic", *at)
    assert code == 4
    assert document["faults"] == [f"{place.kafka.prefix}new.queries: there is no such topic; run `hubbub topics`"]


def test_a_strict_doctor_fails_while_a_step_is_left(place, capsys):
    assert doctor.main(where(place.kafka, "--strict")) == 0
    set_formats(place, None)
    assert doctor.main(where(place.kafka)) == 0
    assert doctor.main(where(place.kafka, "--strict")) == 4
    assert "formats: the topics have version 1" in capsys.readouterr().err
