"""The barrier: no report is counted before all versions are read that can concern it, whenever they were appended."""

import asyncio
from random import Random

import pytest

from hubbub.definitions import follower
from hubbub.definitions.catalog import MARGIN, TopicRecord, changes, read
from hubbub.definitions.follower import Follower
from hubbub.kafka.settings import Kafka
from oracles.query import File, parse

START = 1_700_000_000_000
APART = 900
"""Milliseconds that two brokers' clocks differ, at most."""


def page(number):
    table = {"domain": 3, "epsilon": 1.0, "pane": "1s", "skew": "0s", "lateness": f"{number}s"}
    return File(parse({"queries": {"page": table}}, "test", "."))


class World:
    """The topic of definitions, to which somebody appends at any moment: between any two answers of the broker."""

    def __init__(self, random):
        self.random, self.now, self.records, self.at = random, START, [], 0
        self.fetched = False

    def goes_on(self):
        self.now += self.random.choice([0, 1, 50, 700])
        if self.random.random() < 0.03:
            asked = changes(page(len(self.records)), read(self.records), (), f"{len(self.records):016x}")
            at = self.now - self.random.choice([0, APART])
            self.records += [TopicRecord(*write, at) for write in asked.writes]

    async def end_offsets(self, tps):
        assert not self.fetched, "a look would stand behind a fetch that waits for more"
        self.goes_on()
        end = len(self.records)
        self.goes_on()
        return dict.fromkeys(tps, end)

    async def position(self, _):
        self.goes_on()
        return self.at

    async def getmany(self, tp, **_):
        assert self.fetched
        self.goes_on()
        found = self.records[self.at : self.at + self.random.randint(1, 3)]
        self.at += len(found)
        return {tp: found} if found else {}

    async def seek_to_beginning(self, _):
        self.at = 0

    def resume(self, _):
        self.fetched = True

    def pause(self, _):
        self.fetched = False


async def passed(seed):
    """How many reports were counted, how many before a version that concerns them was read, and how often was asked."""
    world = World(Random(seed))
    follower = Follower(Kafka("nowhere:1", "p."))
    follower._consumer = world
    asked, read_topic = 0, follower.read

    async def counting():
        nonlocal asked
        asked += 1
        await read_topic()

    follower.read = counting
    early = 0
    for _ in range(80):
        world.goes_on()
        logged = world.now - world.random.randint(0, 1000)
        await follower.cover(logged, world.now if world.random.random() < 0.5 else 0)
        due = sum(record.timestamp + 1000 * MARGIN <= logged for record in world.records)
        early += len(follower._log._contents) < due or follower.definitions is not follower._log.definitions
    assert follower.definitions == read(world.records[: world.at])
    return early, asked


@pytest.mark.parametrize("seed", range(8))
def test_a_report_waits_for_every_version_that_can_concern_it(seed):
    early, asked = asyncio.run(passed(seed))
    assert early == 0
    assert asked < 80, "one look does for a second of reports"


def test_many_who_wait_share_one_look():
    async def run():
        asked, follower = 0, Follower(Kafka("nowhere:1", "p."))
        world = follower._consumer = World(Random(1))
        end_offsets = world.end_offsets

        async def slowly(tps):
            nonlocal asked
            asked += 1
            await asyncio.sleep(0.01)
            return await end_offsets(tps)

        world.end_offsets = slowly
        waiting = [follower.within(1.0) for _ in range(50)] + [follower.cover(world.now, world.now) for _ in range(50)]
        await asyncio.gather(*waiting)
        assert asked <= 3

    asyncio.run(run())


def test_a_barrier_that_trusts_further_ahead_than_the_margin_is_found_out(monkeypatch):
    monkeypatch.setattr(follower, "AHEAD", MARGIN + 1.0)
    assert sum(asyncio.run(passed(seed))[0] for seed in range(8)) > 0


@pytest.mark.parametrize("seed", range(8))
def test_what_was_read_before_a_broker_fell_silent_is_not_forgotten(seed):
    async def run():
        world = World(Random(seed))
        follower = Follower(Kafka("nowhere:1", "p."))
        follower._consumer, read_on = world, world.getmany

        async def getmany(tp, **options):
            found = await read_on(tp, **options)
            if world.random.random() < 0.3:
                world.getmany = silent
            return found

        async def silent(*_, **__):
            world.getmany = getmany
            raise TimeoutError

        world.getmany = getmany
        for _ in range(60):
            world.goes_on()
            try:
                await follower.read()
            except TimeoutError:
                continue
        world.getmany = read_on
        await follower.read()
        assert follower.definitions == read(world.records[: world.at])
        assert world.at > 1

    asyncio.run(run())
