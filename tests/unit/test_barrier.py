"""The barrier. No report is counted before the worker has read all versions that can apply to it."""

import asyncio
from random import Random

import pytest

from hubbub.definitions import follower
from hubbub.definitions.catalog import MARGIN, TopicRecord, changes, read
from hubbub.definitions.follower import Follower
from hubbub.kafka.settings import Kafka
from oracles.query import File
from tests.queries import make_queries, make_table

START = 1_700_000_000_000
APART = 900
"""Milliseconds that two brokers' clocks differ, at most."""


def page(number):
    table = make_table(domain=3, pane="1s", skew="0s", lateness=f"{number}s")
    return File(make_queries({"page": table}))


class World:
    """The topic of definitions, to which somebody appends at any moment, between any two answers of the broker."""

    def __init__(self, random):
        self.random, self.now, self.records, self.at = random, START, [], 0
        self.fetched = False

    def goes_on(self):
        self.now += self.random.choice([0, 1, 50, 700])
        if self.random.random() < 0.03:
            update = changes(page(len(self.records)), read(self.records), (), f"{len(self.records):016x}")
            moment = self.now - self.random.choice([0, APART])
            self.records += [TopicRecord(*write, moment) for write in update.writes]

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
        records = self.records[self.at : self.at + self.random.randint(1, 3)]
        self.at += len(records)
        return {tp: records} if records else {}

    async def seek_to_beginning(self, _):
        self.at = 0

    def resume(self, _):
        self.fetched = True

    def pause(self, _):
        self.fetched = False


async def simulate(seed):
    """Return how many reports were counted, how many of them too early, and how often the topic was read."""
    world = World(Random(seed))
    follower = Follower(Kafka("nowhere:1", "p."))
    follower._consumer = world
    reads, read_topic = 0, follower.read

    async def counting():
        nonlocal reads
        reads += 1
        await read_topic()

    follower.read = counting
    early = 0
    for _ in range(80):
        world.goes_on()
        log_time = world.now - world.random.randint(0, 1000)
        await follower.cover(log_time, world.now if world.random.random() < 0.5 else 0)
        due = sum(record.timestamp + 1000 * MARGIN <= log_time for record in world.records)
        early += len(follower._log._contents) < due or follower.definitions is not follower._log.definitions
    assert follower.definitions == read(world.records[: world.at])
    return early, reads


@pytest.mark.parametrize("seed", range(8))
def test_a_report_waits_for_every_version_that_can_apply_to_it(seed):
    early, reads = asyncio.run(simulate(seed))
    assert early == 0
    assert reads < 80, "one look does for a second of reports"


def test_many_waiting_reports_share_one_read():
    async def run():
        reads = 0
        follower = Follower(Kafka("nowhere:1", "p."))
        world = follower._consumer = World(Random(1))
        end_offsets = world.end_offsets

        async def slowly(tps):
            nonlocal reads
            reads += 1
            await asyncio.sleep(0.01)
            return await end_offsets(tps)

        world.end_offsets = slowly
        waiting = [follower.within(1.0) for _ in range(50)] + [follower.cover(world.now, world.now) for _ in range(50)]
        await asyncio.gather(*waiting)
        assert reads <= 3

    asyncio.run(run())


def test_the_test_finds_a_barrier_that_trusts_beyond_the_margin(monkeypatch):
    monkeypatch.setattr(follower, "AHEAD", MARGIN + 1.0)
    assert sum(asyncio.run(simulate(seed))[0] for seed in range(8)) > 0


@pytest.mark.parametrize("seed", range(8))
def test_records_from_before_a_silence_of_the_broker_are_kept(seed):
    async def run():
        world = World(Random(seed))
        follower = Follower(Kafka("nowhere:1", "p."))
        follower._consumer = world
        read_on = world.getmany

        async def getmany(tp, **options):
            records = await read_on(tp, **options)
            if world.random.random() < 0.3:
                world.getmany = silent
            return records

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
