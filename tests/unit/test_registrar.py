"""The query file of a running worker. No fault of the file or of a broker ends the worker, and it tries again later."""

import asyncio
from contextlib import suppress

import pytest
from aiokafka.errors import KafkaTimeoutError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from aggregator.process.state_limit import StateLimit
from hubbub.definitions import registrar
from hubbub.definitions.catalog import Definitions, DefinitionsError
from hubbub.definitions.registrar import Registrar
from hubbub.kafka.errors import KafkaUnreachable
from oracles.query import load_file
from tests.queries import make_text

ONE = make_text("one", domain=4, budget=1e9, pane="1s")


class Follower:
    """A follower whose appends fail with each of these errors first."""

    def __init__(self, *errors):
        self.definitions, self.errors, self.appended = Definitions(), list(errors), []

    async def append(self, writes):
        if self.errors:
            raise self.errors.pop(0)
        self.appended.append(writes)


@pytest.mark.parametrize(
    "error", [KafkaUnreachable("a:1", "refused"), KafkaTimeoutError("slow"), TimeoutError(), OSError("reset")], ids=repr
)
def test_a_change_without_an_answer_of_the_broker_is_appended_later(error, tmp_path, monkeypatch):
    mine, _ = asyncio.run(follow_change(tmp_path / "hubbub.toml", monkeypatch, error, lambda of: of.appended))
    assert not mine.refused


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError("queries"), MessageSizeTooLargeError()], ids=repr)
def test_a_definition_that_no_broker_accepts_is_logged_and_ends_nothing(error, tmp_path, monkeypatch):
    file = tmp_path / "hubbub.toml"
    mine, follower = asyncio.run(follow_change(file, monkeypatch, error, lambda of: len(of.errors) < 2))
    assert mine.refused
    assert not follower.appended


async def follow_change(file, monkeypatch, error, enough):
    """Return the registrar of a file that changes, and its follower, as soon as `enough` is true."""
    monkeypatch.setattr(registrar, "PAUSE", 0.01)
    file.write_text(ONE)
    follower = Follower()
    mine = Registrar(file, follower)
    await mine.register(load_file(file))
    follower.appended = []
    follower.errors = [error, error]
    file.write_text(ONE + 'lateness = "7s"\n')
    running = asyncio.create_task(mine.run())
    async with asyncio.timeout(60):
        while not enough(follower):
            await asyncio.sleep(0.01)
            assert not running.done(), running.exception()
    await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    return mine, follower


def large_file(folder):
    file = folder / "hubbub.toml"
    file.write_text(make_text("large", domain=1 << 22, budget=1e9, pane="10s", lateness="10s"))
    return file


def test_definitions_beyond_the_limit_of_memory_are_not_appended(tmp_path):
    file = large_file(tmp_path)
    follower = Follower()
    mine = Registrar(file, follower, StateLimit(12, 1 << 30).require)
    with pytest.raises(
        DefinitionsError, match=r"queries.large: a worker with 12 partitions .* above --max-state 1.0 GiB"
    ):
        asyncio.run(mine.register(load_file(file)))
    assert not follower.appended


@pytest.mark.parametrize(("partitions", "warns"), [(120, True), (1, False)])
def test_without_the_option_a_worker_only_warns(partitions, warns, tmp_path, caplog):
    """Of the limit that it will have, and of the release that refuses."""
    file = large_file(tmp_path)
    follower = Follower()
    asyncio.run(Registrar(file, follower, StateLimit(partitions).require).register(load_file(file)))
    assert len(follower.appended) == 1
    assert ("above --max-state 4.0 GiB" in caplog.text) == warns
    assert ("Release 0.4.0 will refuse this" in caplog.text) == warns
