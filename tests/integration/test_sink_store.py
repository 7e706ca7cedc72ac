"""Processes of `hubbub sink` on one store: one of them owns it, also if it sleeps and wakes up."""

import signal
import time
from functools import partial

import orjson
import pytest

from aggregator.sink.file_names import FINALS, OPEN, parse
from aggregator.sink.lease import PATH as OWNER
from aggregator.sink.objects import Objects
from tests.boards import START, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.sinks import Sink, final, keys, kill_at_each_step, rows_of
from tests.slowness import patience

SHORT = 0.2, 1.5
"""Seconds of a lease that ends soon."""


@pytest.fixture
def kafka(tansu):
    kafka = in_thread(lambda: create_topics(tansu, partitions=2))
    publish(kafka, definition_messages())
    return kafka


def wait_for(state, *sinks):
    """Wait until a state is reached, while these sinks run."""
    deadline = time.monotonic() + patience(120)
    while not state():
        for sink in sinks:
            assert sink.process.poll() is None, sink.wait()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def contents(address, part=FINALS):
    source = Objects(address)
    return {path: source.get(path)[0] for path in sorted(source.times(part))}


def owner(address):
    """Return the owner of the store, or nothing."""
    present = Objects(address).get(OWNER)
    document = {} if present is None else orjson.loads(present[0])
    return "" if document.get("released", True) else document["owner"]


def view(address):
    """Return the ends of the windows in the view of all files. Fail if a row is there twice."""
    finals = contents(address)
    names = {parse(path)[0] for path in finals}
    open_files = {path: content for path, content in contents(address, OPEN).items() if parse(path)[0] not in names}
    rows = [rows_of(finals), rows_of(open_files)]
    assert keys(rows[0]).isdisjoint(keys(rows[1]))
    return {end for table in rows if not table.is_empty() for end in table["end"]}


def test_a_sink_writes_to_a_store_each_final_once(kafka, store_address):
    ends = [*range(START + 10, START + 100, 10)]
    messages = [final(end) for end in ends]
    publish(kafka, [*messages, *messages[:3]])
    for more in ([], [START + 100]):
        publish(kafka, [final(end) for end in more])
        code, stderr = Sink(kafka, store_address, "--once", "--every", "1s", "--settle", "1s").wait()
        assert code == 0, stderr
        assert view(store_address) == {*ends, *more}
    assert [path for path in contents(store_address) if "late" in path]
    assert owner(store_address) == ""


def has_ended_or_owns(sink, address):
    return sink.process.poll() is not None or owner(address).startswith(f"process {sink.process.pid} ")


def successor(kafka, address, lease):
    """Start sinks until one has the store. A renewal that was on its way may refuse the first."""
    while True:
        sink = Sink(kafka, address, "--every", "1s", lease=lease)
        wait_for(partial(has_ended_or_owns, sink, address))
        if sink.process.poll() is None:
            return sink
        code, stderr = sink.wait()
        assert code == 4, stderr


def rounds(kafka, address, count, lease):
    """Let a sink sleep until another one has its store, and wake up. It must fail. No final is lost or twice."""
    now = int(time.time()) // 10 * 10
    ends = []

    def publish_one():
        ends.append(now - 10 * len(ends))
        publish(kafka, [final(ends[-1])])

    publish_one()
    sleeper = successor(kafka, address, lease)
    try:
        for _ in range(count):
            wait_for(lambda: view(address) == {*ends}, sleeper)
            sleeper.process.send_signal(signal.SIGSTOP)
            publish_one()
            sink = successor(kafka, address, lease)
            try:
                wait_for(lambda: view(address) == {*ends}, sink)
                before = contents(address)
                sleeper.process.send_signal(signal.SIGCONT)
                code, stderr = sleeper.wait()
                assert code == 4, stderr
                assert f"process {sink.process.pid}" in stderr
                assert before.items() <= contents(address).items()
            finally:
                sleeper.stop(signal.SIGKILL)
                sleeper = sink
            publish_one()
        wait_for(lambda: view(address) == {*ends}, sleeper)
        code, stderr = sleeper.stop()
        assert code == 0, stderr
    finally:
        sleeper.stop(signal.SIGKILL)
    assert view(address) == {*ends}
    assert owner(address) == ""


def test_a_sink_that_slept_fails_when_it_wakes_up(kafka, store_address):
    rounds(kafka, store_address, 1, SHORT)


@pytest.mark.long
def test_sinks_that_slept_fail_twenty_times(kafka, store_address):
    rounds(kafka, store_address, 20, SHORT)


@pytest.mark.long
def test_a_sink_that_slept_for_more_than_a_minute_fails(kafka, store_address):
    rounds(kafka, store_address, 1, None)


def starts_at_once(kafka, address):
    """Start two sinks at once. One must fail with code 4, and the other must write."""
    now = int(time.time()) // 10 * 10
    publish(kafka, [final(now)])
    sinks = [Sink(kafka, address, "--every", "1s", lease=SHORT) for _ in range(2)]
    try:
        wait_for(lambda: any(sink.process.poll() is not None for sink in sinks))
        (loser,) = (sink for sink in sinks if sink.process.poll() is not None)
        (winner,) = (sink for sink in sinks if sink is not loser)
        code, stderr = loser.wait()
        assert code == 4, stderr
        wait_for(lambda: now in view(address), winner)
        code, stderr = winner.stop()
        assert code == 0, stderr
    finally:
        for sink in sinks:
            sink.stop(signal.SIGKILL)


def test_of_two_sinks_that_start_at_once_one_fails(kafka, store_address):
    starts_at_once(kafka, store_address)


@pytest.mark.long
def test_of_two_sinks_that_start_at_once_one_fails_twenty_times(kafka, store_address):
    for _ in range(20):
        starts_at_once(kafka, store_address)


@pytest.mark.long
def test_a_sink_on_a_store_that_is_killed_thirty_times_loses_and_repeats_nothing(kafka, store_address):
    ends = [START + 10 * number for number in range(60)]
    for number in range(30):
        publish(kafka, [final(end) for end in ends[2 * number : 2 * number + 2]])
        sink = Sink(kafka, store_address, "--every", "1s", "--settle", "1s", lease=(0.1, 0.5))
        deadline = time.monotonic() + patience(0.2 * number)
        while time.monotonic() < deadline:
            before = contents(store_address)
            time.sleep(0.05)
            assert before.items() <= contents(store_address).items()
            view(store_address)
        sink.stop(signal.SIGKILL)
    code, stderr = Sink(kafka, store_address, "--once", "--every", "1s", "--settle", "1s", lease=SHORT).wait()
    assert code == 0, stderr
    assert view(store_address) == {*ends}


def check_steps(address, folder, times):
    """Kill a writer at each step. Fail if a row is twice, or a file of `finals` has changed or vanished."""
    files = {}

    def look():
        present = contents(address)
        assert files.items() <= present.items()
        files.update(present)
        view(address)

    ends = kill_at_each_step("store", address, folder, times, look)
    assert view(address) == ends
    assert any("late" in path for path in files)


def test_a_kill_at_each_step_of_a_store_loses_and_repeats_nothing(store_address, tmp_path):
    check_steps(store_address, tmp_path, None)


@pytest.mark.long
def test_ten_kills_before_and_after_each_step_of_a_store_lose_and_repeat_nothing(store_address, tmp_path):
    check_steps(store_address, tmp_path, 10)
