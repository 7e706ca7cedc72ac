"""The end of a command by a signal, also if a library loses the cancellation."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from hubbub.command import exit as ending
from hubbub.command.exit import until_asked
from hubbub.kafka.clients import started
from hubbub.kafka.settings import Kafka

BOUND = 60.0
"""Seconds after which a task that must end counts as hung."""


@pytest.fixture(autouse=True)
def deadlines(monkeypatch):
    """Let no deadline end the process of the tests, and return the deadlines."""
    seconds = []
    monkeypatch.setattr(ending, "_exit_after", lambda number, _code: seconds.append(number))
    return seconds


async def run_until_sigterm(work):
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(BOUND):
        return await until_asked(work)


async def lose(cancellations):
    """Wait for ever, but lose so many cancellations."""
    for _ in range(cancellations):
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    await asyncio.Event().wait()


@pytest.mark.parametrize("cancellations", [0, 1, 3])
def test_work_that_loses_cancellations_ends(cancellations, monkeypatch):
    monkeypatch.setattr(ending, "AGAIN", 0.01)
    assert asyncio.run(run_until_sigterm(lose(cancellations))) is None


def test_a_signal_sets_a_deadline_for_the_process(deadlines):
    asyncio.run(run_until_sigterm(lose(0)))
    assert deadlines == [ending.ORDER]


def test_a_cancellation_without_a_signal_is_no_end():
    async def run():
        task = asyncio.create_task(until_asked(lose(0)))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=BOUND)
        assert task.cancelled()

    asyncio.run(run())


def test_the_result_of_work_that_ends_by_itself_is_returned(deadlines):
    async def work():
        return 4

    assert asyncio.run(until_asked(work())) == 4
    assert deadlines == []


def test_a_process_that_hangs_exits_at_its_deadline():
    code = "import time; from hubbub.command.exit import _exit_after; _exit_after(0.1, lambda: 3); time.sleep(60)"
    assert subprocess.run([sys.executable, "-c", code], timeout=BOUND, check=False).returncode == 3


LOSES_SIGTERM = """
import asyncio, signal, sys, types
from hubbub import __main__ as command
from hubbub.command.exit import until_asked

class Dying:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

def main(arguments):
    Dying()  # Python prints and drops what a destructor raises
    print("it goes on", flush=True)
    asyncio.run(until_asked(asyncio.Event().wait()))
    return 0

sys.modules["dying"] = types.SimpleNamespace(main=main)
command.COMMANDS["dying"] = ("dying", "all", "lose a signal")
sys.exit(command.main(["dying"]))
"""


def test_a_command_ends_after_a_signal_whose_exception_was_lost():
    process = subprocess.run(
        [sys.executable, "-c", LOSES_SIGTERM], capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "it goes on\n", process.stderr
    assert process.stderr == ""


INTERRUPTED_IMPORT = """
import signal, sys
from hubbub import __main__ as command

class Field:
    def __set_name__(self, owner, name):  # Python turns what it raises into a RuntimeError
        signal.raise_signal(signal.SIGTERM)

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "slow":
            type("Record", (), {"field": Field()})

sys.meta_path.insert(0, Finder())
command.COMMANDS["slow"] = ("slow", "all", "be interrupted during its import")
sys.exit(command.main(["slow"]))
"""


def test_a_command_ends_in_order_after_a_signal_during_its_imports():
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert process.returncode == 0
    assert process.stdout == ""
    assert process.stderr == ""


class Client:
    """A client that loses a cancellation while it stops, as those of aiokafka do."""

    def __init__(self):
        self.is_stopping = asyncio.Event()
        self.may_stop = asyncio.Event()
        self.has_stopped = asyncio.Event()

    async def start(self): ...

    async def stop(self):
        self.is_stopping.set()
        with suppress(asyncio.CancelledError):
            await self.may_stop.wait()
        self.has_stopped.set()


def test_a_cancellation_is_not_lost_while_a_client_stops():
    async def run():
        client = Client()

        async def use():
            async with started(client, Kafka("nowhere:1", "p.")):
                pass
            await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await client.is_stopping.wait()
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=BOUND)
        assert done
        assert task.cancelled()
        client.may_stop.set()
        async with asyncio.timeout(BOUND):
            await client.has_stopped.wait()

    asyncio.run(run())
