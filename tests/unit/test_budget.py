"""Large records in flight come to no more than the budget, whoever waits, fails or is cancelled."""

import asyncio
from random import Random

import pytest

from aggregator.topics.budget import SMALL, Budget

MIB = 1 << 20


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


def test_what_does_not_fit_waits_its_turn_until_something_is_acknowledged():
    async def run():
        budget, sent, began = Budget(64 * MIB), [], []

        async def send(number, size):
            taken = await budget.take(size)
            began.append(number)
            sent.append(asyncio.get_running_loop().create_future())
            budget.hold(taken, sent[-1])

        tasks = [asyncio.create_task(send(*one)) for one in enumerate([40 * MIB, 40 * MIB, 16 * MIB, 200 * MIB, 10])]
        await turns()
        assert began == [0, 4], "a small one waits for none, and nobody overtakes a large one"
        sent[0].set_result(None)
        await turns()
        assert began == [0, 4, 1, 2]
        sent[2].set_result(None)
        await turns()
        assert began == [0, 4, 1, 2], "what is larger than the budget goes alone"
        sent[3].set_exception(OSError())
        sent[3].exception()
        await turns()
        assert began == [0, 4, 1, 2, 3]
        await asyncio.gather(*tasks)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(5))
def test_it_is_never_exceeded_and_never_forgotten(seed):
    async def run():
        random, budget, flying, most = Random(seed), Budget(10 * SMALL), {}, 0

        async def send(number):
            size = random.randint(SMALL, 12 * SMALL)
            taken = await budget.take(size)
            flying[number] = taken
            await asyncio.sleep(0)
            del flying[number]
            budget.give_back(taken)

        tasks = [asyncio.create_task(send(number)) for number in range(100)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            most = max(most, sum(flying.values()))
            waiting = [number for number, task in enumerate(tasks) if number not in flying and not task.done()]
            if waiting and random.random() < 0.3:
                tasks[random.choice(waiting)].cancel()
        assert most <= 10 * SMALL
        assert await asyncio.wait_for(budget.take(10 * SMALL), 1) == 10 * SMALL, "all was given back"

    asyncio.run(run())
