"""Upgrades and rolls under load, between real builds on a real Kafka. Nothing is lost, and all finals are right."""

import asyncio
import signal
import subprocess
import time
import uuid

import orjson
import pytest

from aggregator.reading import doctor
from aggregator.topics import command as topics
from aggregator.topics.layout import MIB, layout
from hubbub.definitions import formats, formats_record
from hubbub.definitions.formats import NEWEST, Formats, release
from tests.brokers import Unavailable, skip
from tests.integration.admin import delete
from tests.integration.loads import load
from tests.integration.workers import HUBBUB, Place, environment, until
from tests.queries import LIVE, make_text
from tests.upgrade.releases import RELEASES, other_build, released

COMMON = LIVE | {"lateness": "10s", "skew": "3s", "windows": ["1s", "3s/1s", "all"], "emit_every": "1s"}
PAGE = make_text("page", COMMON, domain=["a", "b", "c"], oracle="grr", epsilon=2.0, sets={"most": ["a", "b"]})
OTHERS = make_text("site", COMMON, domain=50) + make_text(
    "both", COMMON, attributes={"sex": ["f", "m"], "age": 16}, solution="smp", epsilon=2.0
)
NUMBERS = make_text("wait", COMMON, domain={"low": 0, "high": 60, "bins": 16}, epsilon=2.0)
NEW = make_text("new", COMMON, domain=8, oracle="oue")


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def installed(build):
    """Return the folder of a build, or skip the test if the repository's history lacks it."""
    try:
        return build()
    except Unavailable as error:
        pytest.skip(str(error))  # in CI too: a shallow clone has no history
    except subprocess.SubprocessError as error:
        skip(error)


def definition_records(place):
    return [(r.key, r.value) for r in place.read("queries", 1) if r.key != formats.KEY]


def numbers(record):
    """Return what a final says of its reports: their number, the unbiased shares and the lasting flags."""
    shares = record["shares"].get("unbiased") if "shares" in record else None
    flags = {"partial", "incomplete", "ids_overflow"} & {*record["quality"]["flags"]}
    return record["n"], record.get("values"), shares, flags


def check_numbers(place):
    """Check that every final that the log requires is published, with the same numbers, once or again."""
    place.verdict_window()
    expected = {key: value for key, value in place.expected().items() if b"kind" not in orjson.loads(value)}
    expected = {key: value for key, value in expected.items() if "quality" in orjson.loads(value)}
    until(lambda: expected.keys() <= place.finals().keys())
    finals = place.finals()
    wrong = [
        (key, numbers(orjson.loads(value)), numbers(orjson.loads(version)))
        for key, value in expected.items()
        for version in finals[key]
        if numbers(orjson.loads(version)) != numbers(orjson.loads(value))
    ]
    assert not wrong, (len(wrong), len(expected), wrong[:3])
    return expected


class Upgraded(Place):
    """A prefix whose topics an older release created."""

    def verdict_window(self):
        time.sleep(max(0.0, self.sent_at + 3 + 10 + 0.5 - time.time()))


def run_old(folder, place, *arguments):
    """Run a command of an installed release, and return its exit code and output."""
    env = {**environment(place.kafka, place.file), "PYTHONPATH": str(folder)}
    result = subprocess.run([HUBBUB, *arguments], env=env, capture_output=True, text=True, timeout=120, check=False)
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize("name", [name for name, release in RELEASES.items() if release["formats"] < NEWEST])
def test_an_upgrade_under_load_loses_nothing_and_appends_no_version(name, kafka, tmp_path, capsys):
    folder = installed(lambda: released(name))
    old = {"PYTHONPATH": str(folder)}
    target = kafka.kafka(f"u{uuid.uuid4().hex}.")
    with Upgraded(kafka, tmp_path, PAGE + OTHERS, kafka=target) as place:
        code, output = run_old(folder, place, "topics", "--partitions", "2")
        assert code == 0, output
        arguments = ["--kafka", target.servers, "--prefix", target.prefix, "--partitions", "2"]
        arguments += ["--queries", str(place.file)]
        with load(place, place.queries.values()):
            workers = [place.start(**old).ready() for _ in range(2)]
            time.sleep(4)
            earlier_records = definition_records(place)
            assert topics.main([*arguments, "--raise-formats"]) == 4
            member = "faust-" if RELEASES[name]["formats"] == 1 else f"hubbub-worker/{name}"
            assert f"Stop all workers first (2 in the group: {member}" in capsys.readouterr().err
            workers[0].stop()
            workers[1].kill()
            time.sleep(2)
            assert topics.main(arguments) == 4, "a newer command that is run by mistake"
            assert asyncio.run(formats_record.look_up(target)).version == RELEASES[name]["formats"]
            until(lambda: topics.main([*arguments, "--raise-formats"]) == 0)
            assert asyncio.run(formats_record.look_up(target)) == Formats(NEWEST, release())
            new = [place.start().ready() for _ in range(2)]
            time.sleep(4)
        finals = check_numbers(place)
        assert definition_records(place) == earlier_records
        assert len(finals) > 60
        flags = {flag for final in finals.values() for flag in orjson.loads(final)["quality"]["flags"]}
        assert not {"partial", "incomplete"} & flags
        assert all(worker.running for worker in new)


@pytest.mark.long
def test_two_builds_of_one_formats_version_roll_both_ways_under_load_with_a_changed_file(place):
    """Each roll replaces one worker after the other. In one of them a worker is killed in the middle."""
    other = installed(lambda: other_build("other", f"{release()}+other"))
    texts = [PAGE, PAGE + NEW, PAGE.replace('"3s/1s"', '"2s"') + NEW]
    queries = {}
    for text in texts:
        place.define(text)
        queries |= {query.digest: query for query in place.queries.values()}
    number = 0

    def roll(text, victim=None, **env):
        nonlocal number
        number += 1
        place.define(f"revision = {number}\n{text}")
        for index, worker in enumerate(workers):
            worker.kill() if index == victim else worker.stop()
            workers[index] = place.start(**env).ready()

    place.define(PAGE)
    with load(place, queries.values()):
        workers = [place.start().ready() for _ in range(2)]
        place.wait_for_ticks()
        roll(texts[1], PYTHONPATH=str(other))
        time.sleep(8)  # until the new query is counted
        roll(texts[1])
        roll(texts[2], victim=1, PYTHONPATH=str(other))
        time.sleep(8)
        roll(texts[1], victim=0)
        time.sleep(4)
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert verdict.reports > 500
    assert {key.partition(b"|")[0] for key in place.finals()} == {b"page", b"new"}


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, release in RELEASES.items() if release["formats"] < NEWEST])
def test_the_way_back_to_a_lower_formats_version_is_a_count_from_nothing(name, kafka, tmp_path):
    """The steps of docs/life.md. The older release counts every report of the log."""
    folder = installed(lambda: released(name))
    with Upgraded(kafka, tmp_path, PAGE + OTHERS) as place:
        with load(place, place.queries.values()):
            worker = place.start().ready()
            time.sleep(5)
            worker.stop()
            names = {place.kafka.topic(name) for name in topic_names() if name != "reports"}
            delete(place.kafka, names)
            code, output = run_old(folder, place, "topics", "--partitions", "2")
            assert code == 0, output
            worker = place.start(PYTHONPATH=str(folder)).ready()
            time.sleep(3)
        finals = check_numbers(place)
        assert len(finals) > 60
        assert worker.running


def topic_names():
    return [topic.name for topic in layout("", 1, 1, MIB)]


@pytest.mark.parametrize("has_fence", [True, False])
@pytest.mark.parametrize("name", [name for name, release in RELEASES.items() if release["formats"] < NEWEST])
def test_a_stray_worker_of_an_older_release_is_shut_out_by_the_fence(name, has_fence, kafka, tmp_path):
    """It comes after the rise. A release that knows formats versions exits without a fence too."""
    folder = installed(lambda: released(name))
    target = kafka.kafka(f"f{uuid.uuid4().hex}.")
    with Upgraded(kafka, tmp_path, PAGE, kafka=target) as place:
        code, output = run_old(folder, place, "topics", "--partitions", "2")
        assert code == 0, output
        at = ["--kafka", target.servers, "--prefix", target.prefix]
        assert topics.main([*at, "--raise-formats", *(["--fence"] if has_fence else [])]) == 0
        worker = place.start().ready()
        stray = place.start(PYTHONPATH=str(folder))
        knows_formats = RELEASES[name]["formats"] > 1
        if has_fence or knows_formats:
            assert stray.wait() == 4, stray.log_text
            assert worker.running
        else:
            # The newer worker notices it at the rebalance, and waits until it is gone.
            until(lambda: "workers of an older release are in the group" in worker.log_text)
            stray.kill()
            worker.ready()
        if has_fence or knows_formats:
            code, output = run_old(folder, place, "topics", "--partitions", "2")
            assert code == 4, output
        place.send((0, place.frame("page", [0, 1])))
        check_numbers(place)


@pytest.mark.parametrize("has_fence", [True, False])
@pytest.mark.parametrize("name", [name for name, release in RELEASES.items() if release["formats"] < NEWEST])
def test_a_stray_worker_from_before_the_rise_stops_it_and_wakes_behind_it(name, has_fence, kafka, tmp_path, capsys):
    """While it runs, nothing rises. Frozen, it is no member for the brokers, and sleeps through the rise."""
    folder = installed(lambda: released(name))
    target = kafka.kafka(f"s{uuid.uuid4().hex}.")
    with Upgraded(kafka, tmp_path, PAGE, kafka=target) as place:
        code, output = run_old(folder, place, "topics", "--partitions", "2")
        assert code == 0, output
        at = ["--kafka", target.servers, "--prefix", target.prefix]
        rise = [*at, "--raise-formats", *(["--fence"] if has_fence else [])]
        stray = place.start(PYTHONPATH=str(folder)).ready()
        assert topics.main(rise) == 4
        assert "Stop all workers first (1 in the group" in capsys.readouterr().err
        assert asyncio.run(formats_record.look_up(target)).version == RELEASES[name]["formats"]
        place.send((0, place.frame("page", [0, 1])))

        stray.signal(signal.SIGSTOP)
        until(lambda: topics.main(rise) == 0)
        worker = place.start().ready()
        stray.signal(signal.SIGCONT)
        if has_fence or RELEASES[name]["formats"] > 1:
            assert stray.wait() == 4, stray.log_text
        else:
            until(lambda: "workers of an older release are in the group" in worker.log_text)
            stray.kill()
        worker.ready()
        place.send((1, place.frame("page", [1, 2])))
        check_numbers(place)
        assert worker.running


@pytest.mark.long
def test_a_prefix_that_an_older_worker_has_ruined_is_found_and_repaired(kafka, tmp_path, capsys):
    """The steps of docs/life.md. A stray worker of release 0.1.0 counts alone after the rise."""
    folder = installed(lambda: released("0.1.0"))
    target = kafka.kafka(f"r{uuid.uuid4().hex}.")
    with Upgraded(kafka, tmp_path, PAGE, kafka=target) as place:
        code, output = run_old(folder, place, "topics", "--partitions", "2")
        assert code == 0, output
        at = ["--kafka", target.servers, "--prefix", target.prefix]
        assert topics.main([*at, "--raise-formats"]) == 0
        with load(place, place.queries.values()):
            worker = place.start().ready()
            until(lambda: any(b"|all|" in key for key in place.finals()))
            assert doctor.main(at) == 0
            stray = place.start(PYTHONPATH=str(folder))
            until(lambda: "workers of an older release are in the group" in worker.log_text)
            worker.kill()
            capsys.readouterr()
            until(lambda: doctor.main(at) == 4)
            assert "states: of an older form in snapshots, partition" in capsys.readouterr().out
            stray.kill()

        until(lambda: topics.main([*at, "--fence"]) == 0)
        names = {"snapshots", "worker-tallies-changelog", "estimates", "maps", "alerts", "status"}
        delete(target, {target.topic(name) for name in names})
        assert topics.main(at) == 0
        worker = place.start().ready()
        finals = check_numbers(place)
        assert doctor.main(at) == 0
        assert any(b"|all|" in key for key in finals)
        assert worker.running


def test_a_return_under_load_loses_nothing_and_needs_no_count_from_nothing(kafka, tmp_path, capsys):
    """A prefix of release 0.2.0 is raised, and the return ends at that release."""
    folder = installed(lambda: released("0.2.0"))
    old = {"PYTHONPATH": str(folder)}
    target = kafka.kafka(f"b{uuid.uuid4().hex}.")
    with Upgraded(kafka, tmp_path, PAGE + NUMBERS, kafka=target) as place:
        code, output = run_old(folder, place, "topics", "--partitions", "2")
        assert code == 0, output
        at = ["--kafka", target.servers, "--prefix", target.prefix]
        assert topics.main([*at, "--raise-formats"]) == 0
        with load(place, place.queries.values()):
            worker = place.start().ready()
            time.sleep(4)
            assert topics.main([*at, "--lower-formats"]) == 4
            assert "stop all workers first (1 in the group" in capsys.readouterr().err
            worker.kill()
            until(lambda: topics.main([*at, "--lower-formats"]) == 0)
            assert "formats from version 3 to 2" in capsys.readouterr().out
            assert asyncio.run(formats_record.look_up(target)).version == 2
            assert topics.main([*at, "--lower-formats"]) == 0, "a second run changes nothing"
            older = place.start(**old).ready()
            time.sleep(4)
        finals = check_numbers(place)
        assert len(finals) > 40
        flags = {flag for final in finals.values() for flag in orjson.loads(final)["quality"]["flags"]}
        assert not {"partial", "incomplete"} & flags
        assert older.running
