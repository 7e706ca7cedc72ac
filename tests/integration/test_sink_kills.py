"""A sink that is killed again and again loses no final, repeats none, and changes no file."""

import hashlib
import random
import signal
import threading
import time
from itertools import count

import polars as pl
import pytest

from tests.boards import START, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.sinks import Sink, contents, final, keys, kill_at_each_step, status_message, view
from tests.slowness import patience


class Reader(threading.Thread):
    """Reads all files all the time, and stops with the first fault."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.done, self.fault, self.looks = folder, threading.Event(), None, 0
        self.hashes, self.keys = {}, set()

    def run(self):
        while not self.done.is_set():
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - the test raises it again
                self.fault = error
                return
            self.looks += 1
            time.sleep(0.05)

    def look(self):
        files = {path: hashlib.sha256(content).digest() for path, content in contents(self.folder).items()}
        assert self.hashes.items() <= files.items(), "a file of finals has changed or vanished"
        self.hashes = files
        finals, open_rows = view(self.folder)
        keys_of_finals, keys_of_open = keys(finals), keys(open_rows)
        assert keys_of_finals.isdisjoint(keys_of_open), "a row is twice in the view"
        present = keys_of_finals | keys_of_open
        assert self.keys <= present, "a row of the view has vanished"
        self.keys = present


def run(kafka, folder, kills, rng):
    """Kill a sink at random moments, while finals come in order, late and twice. Return all messages."""
    publish(kafka, definition_messages())
    reader = Reader(folder)
    reader.start()
    now = int(time.time()) // 10 * 10
    ends = [*range(START, START + 20_000, 3_590), *range(now - 9_000, now, 1_790)]
    messages = []
    numbers = count()
    for number in range(kills):
        # Some windows are of years ago and due at once, others of this hour. The status makes hours due one by one.
        new = [final(end + 10 * next(numbers)) for end in rng.sample(ends, 4)]
        publish(kafka, [*new, *rng.sample(messages, min(2, len(messages)))])
        messages += new
        publish(kafka, [status_message("homepage", now - 7_200 + 7_200 * number // kills)])
        sink = Sink(kafka, folder, "--every", "1s", "--settle", "1s")
        start = time.monotonic()
        # A process takes a second or more to start, so most kills meet one that writes.
        pause = rng.uniform(0.3, 4.0)
        while time.monotonic() - start < patience(pause) and reader.fault is None:
            time.sleep(0.02)
        code, stderr = sink.stop(signal.SIGKILL)
        assert code == -signal.SIGKILL, stderr

    code, stderr = Sink(kafka, folder, "--once", "--every", "1s", "--settle", "1s").wait()
    assert code == 0, stderr
    looks = reader.looks
    while reader.fault is None and reader.looks < looks + 2:
        time.sleep(0.02)
    reader.done.set()
    reader.join()
    if reader.fault is not None:
        raise reader.fault
    return messages


def check(kafka, folder, kills, seed):
    messages = run(kafka, folder, kills, random.Random(seed))
    finals, open_rows = view(folder)
    ends = {time_ms // 1000 for *_, time_ms in messages}
    everything = pl.concat([table for table in (finals, open_rows) if not table.is_empty()])
    assert set(everything["end"]) == ends
    assert everything.height == len(keys(everything))


@pytest.fixture
def kafka(tansu):
    return in_thread(lambda: create_topics(tansu, partitions=2))


def test_five_kills_lose_and_repeat_nothing(kafka, tmp_path):
    check(kafka, tmp_path, 5, 1)


@pytest.mark.long
def test_a_hundred_kills_lose_and_repeat_nothing(kafka, tmp_path):
    check(kafka, tmp_path, 100, 2)


def check_steps_on_a_folder(tmp_path, times):
    place = tmp_path / "target"
    reader = Reader(place)
    ends = kill_at_each_step("folder", place, tmp_path, times, reader.look)
    finals, open_rows = view(place)
    assert {*finals["end"], *open_rows["end"]} == ends
    assert any("late" in path for path in contents(place))


def test_a_kill_at_each_step_loses_and_repeats_nothing(tmp_path):
    check_steps_on_a_folder(tmp_path, None)


@pytest.mark.long
def test_nine_kills_before_and_after_each_step_lose_and_repeat_nothing(tmp_path):
    check_steps_on_a_folder(tmp_path, 9)
