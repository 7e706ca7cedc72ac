"""The turns of requests on the core of a port: who waits, in which order, and who pays."""

import asyncio

import pytest

from hubbub.http.cpu_turns import REQUEST_COST, SLICE, SLICE_COST, CpuTurns, MeteredWork


class Payer:
    def __init__(self, name, unpaid_seconds=0.0):
        self.path = (name, "address")
        self.unpaid_seconds = unpaid_seconds


class Steps:
    """Work in turns, which notes its order."""

    def __init__(self, turns):
        self.turns = turns
        self.order = []

    async def work(self, name, seconds=0.002, cost=REQUEST_COST):
        payer = Payer(name)
        await self.turns.take(payer, cost)
        self.order.append(name)
        self.turns.spend(payer, seconds)


def test_work_begins_at_once_while_a_caller_is_alone_or_a_round_has_time_left():
    async def run():
        turns = CpuTurns()
        steps = Steps(turns)
        alone, other = Payer("alone"), Payer("other")
        assert not turns.must_wait(alone.path, SLICE_COST)
        for _ in range(5):
            assert not turns.must_wait(alone.path)
            await steps.work("alone", SLICE)
        assert turns.must_wait(alone.path, SLICE_COST)
        assert turns.must_wait(other.path)
        await asyncio.sleep(0)  # the round ends
        assert not turns.must_wait(other.path)

    asyncio.run(run())


def test_the_work_of_others_comes_before_that_of_a_caller_who_has_used_more():
    async def run():
        turns = CpuTurns()
        steps = Steps(turns)
        turns.spend(Payer("attacker"), 1.0)
        await asyncio.sleep(0)
        attackers = [steps.work("attacker") for _ in range(20)]
        homes = [steps.work(f"home {number}") for number in range(10)]
        await asyncio.gather(steps.work("another", SLICE), *attackers, *homes)
        assert steps.order[11:] == ["attacker"] * 20

    asyncio.run(run())


def test_a_round_takes_one_long_piece_of_work():
    async def run():
        turns = CpuTurns()
        steps = Steps(turns)
        rounds = []

        async def count_rounds():
            while len(steps.order) < 5:
                rounds.append(len(steps.order))
                await asyncio.sleep(0)

        await asyncio.gather(*(steps.work("alone", SLICE, SLICE_COST) for _ in range(5)), count_rounds())
        assert set(rounds) >= {1, 2, 3, 4}

    asyncio.run(run())


def test_work_that_ends_while_it_waits_gives_its_turn_to_others():
    async def run():
        turns = CpuTurns()
        steps = Steps(turns)
        tasks = [asyncio.create_task(steps.work("another", SLICE))]
        tasks += [asyncio.create_task(steps.work(name)) for name in ("gone", "here")]

        async def end():
            tasks[1].cancel()

        await asyncio.gather(*tasks, end(), return_exceptions=True)
        assert steps.order == ["another", "here"]
        assert not turns.must_wait(("gone", "address"))

    asyncio.run(run())


def test_a_payer_pays_for_the_steps_of_its_work_and_not_for_its_waits():
    async def work():
        for _ in range(3):
            await asyncio.sleep(0.01)
        return "answer"

    async def broken():
        raise ZeroDivisionError

    async def run():
        turns = CpuTurns()
        payer = Payer("home", unpaid_seconds=0.0005)
        assert await MeteredWork(work(), turns, payer) == "answer"
        assert 500 <= turns.use.used(payer.path) < 10_000
        turns.settle(payer)
        assert payer.unpaid_seconds == 0
        with pytest.raises(ZeroDivisionError):
            await MeteredWork(broken(), turns, payer)
        task = asyncio.create_task(canceled(turns, payer))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def canceled(turns, payer):
        await MeteredWork(asyncio.sleep(3_600), turns, payer)

    asyncio.run(run())
