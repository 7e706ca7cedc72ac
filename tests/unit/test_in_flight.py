"""Records in flight take no more bytes than they may, even if senders wait, fail or are cancelled."""

import asyncio
from random import Random

import pytest

from hubbub.in_flight import InFlight
from oracles.errors import HubbubError

SMALL = 32 << 10
MIB = 1 << 20


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


def future():
    return asyncio.get_running_loop().create_future()


def test_a_record_without_room_waits_until_another_is_acknowledged():
    async def run():
        in_flight, acks, numbers = InFlight(64 * MIB, least=SMALL), [], []

        async def send(number, size):
            async with in_flight.room(size):
                numbers.append(number)
                acks.append(future())
                in_flight.add(acks[-1], size)

        tasks = [asyncio.create_task(send(*one)) for one in enumerate([40 * MIB, 40 * MIB, 16 * MIB, 200 * MIB, 10])]
        await turns()
        assert numbers == [0, 4], "a small record does not wait, and no record overtakes a large one"
        acks[0].set_result(None)
        await turns()
        assert numbers == [0, 4, 1, 2]
        acks[2].set_result(None)
        await turns()
        assert numbers == [0, 4, 1, 2], "a record larger than the limit goes alone"
        acks[3].set_exception(OSError())
        await turns()
        assert numbers == [0, 4, 1, 2, 3]
        await asyncio.gather(*tasks)

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(5))
def test_the_limit_holds_and_no_reserved_room_is_lost(seed):
    async def run():
        random, in_flight, sizes, maximum = Random(seed), InFlight(10 * SMALL), {}, 0

        async def send(number):
            size = random.randint(SMALL, 10 * SMALL)
            async with in_flight.room(size, random.choice([None, None, 0.001])):
                sizes[number] = size
                await asyncio.sleep(0)
                del sizes[number]

        tasks = [asyncio.create_task(send(number)) for number in range(100)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            maximum = max(maximum, sum(sizes.values()))
            waiting = [number for number, task in enumerate(tasks) if number not in sizes and not task.done()]
            if waiting and random.random() < 0.3:
                tasks[random.choice(waiting)].cancel()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert error is None or isinstance(error, TimeoutError | asyncio.CancelledError)
        assert maximum <= 10 * SMALL
        assert in_flight.bytes == 0
        async with asyncio.timeout(1), in_flight.room(10 * SMALL):
            pass

    asyncio.run(run())


def test_a_caller_that_stops_waiting_lets_the_next_one_in():
    async def run():
        in_flight = InFlight(10)
        in_flight.add(future(), 5)
        large_task = asyncio.create_task(in_flight.room(10, 0.01).__aenter__())
        await turns()
        small_task = asyncio.create_task(in_flight.room(5).__aenter__())
        await turns()
        assert not small_task.done(), "callers are served in their order"
        with pytest.raises(TimeoutError):
            await large_task
        await asyncio.wait_for(small_task, 1)

    asyncio.run(run())


def test_other_bytes_count_too():
    async def run():
        in_flight = InFlight(10, others=lambda: 6)
        async with in_flight.room(4):
            pass
        with pytest.raises(TimeoutError):
            async with in_flight.room(5, 0.01):
                pass

    asyncio.run(run())


def test_refused_reports_are_counted_until_they_are_taken_with_the_last_trouble():
    async def run():
        in_flight = InFlight(10)
        first_future, second_future, three = future(), future(), future()
        for ack in (first_future, second_future, three):
            in_flight.add(ack, 1, reports=7)
        start = in_flight.oldest
        first_future.set_exception(OSError("away"))
        await turns()
        assert in_flight.refused == 7
        assert in_flight.reason == ": OSError: away"
        second_future.set_result(None)
        await turns()
        assert in_flight.reason == ": OSError: away", "kept for the caller who takes the refused ones"
        assert in_flight.take_refused() == 7
        assert in_flight.take_refused() == 0
        in_flight.trouble = HubbubError("full")
        assert in_flight.reason == ": full"
        assert in_flight.oldest >= start
        assert await in_flight.flush(0.01) == 7
        three.set_result(None)
        assert await in_flight.flush(0.01) == 0
        assert in_flight.oldest is None
        assert in_flight.bytes == 0
        assert in_flight.reason == ""
        assert in_flight.progress >= start

    asyncio.run(run())


def test_cancelled_records_have_ended_and_are_not_refused():
    async def run():
        in_flight = InFlight(10)
        assert not await in_flight.cancel()
        in_flight.add(asyncio.create_task(asyncio.sleep(100)), 5, reports=3)
        assert await in_flight.cancel()
        assert in_flight.bytes == 0
        assert in_flight.refused == 0

    asyncio.run(run())


def test_records_that_share_a_future_count_together_from_the_first_one():
    async def run():
        in_flight, ack = InFlight(10), future()
        in_flight.add(ack, 3, reports=1)
        start = in_flight.oldest
        in_flight.add(ack, 4, reports=2)
        assert in_flight.bytes == 7
        assert in_flight.oldest == start
        ack.set_exception(OSError("away"))
        await turns()
        assert in_flight.bytes == 0
        assert in_flight.oldest is None
        assert in_flight.refused == 3

    asyncio.run(run())
