"""A crash anywhere, and any order of two processes, leave no report without its charge and no two reports of a period.

Each run is a schedule: which of two processes makes its next step, and which one ends before it. A process that ended
starts again. The wrong orders of a commit must be found, or the runs would show nothing.
"""

from dataclasses import dataclass, replace

import pytest

from tests.core.device import Device, query_of
from tests.core.test_definitions import good

KEY = bytes(range(32))
DAY = 86_400
VALUES = (3, 0)
"""The values of the two processes. They differ, so equal noise for both would tell a change."""
ORDERS = {
    "joint": ("read", "commit", "send"),
    "state first": ("read", "commit state", "queue", "send"),
    "frame first": ("read", "queue", "commit state", "send"),
    "no comparison": ("read", "overwrite", "send"),
}
MOST_CRASHES = 2


@dataclass(frozen=True)
class Process:
    """A process: its next step, and what it read and answered."""

    value: int
    step: int = 0
    state: bytes = b""
    new_state: bytes = b""
    frame: bytes = b""


@dataclass(frozen=True)
class World:
    """The store of a device, the frames that left it, and its processes."""

    state: bytes
    queue: tuple = ()
    outside: frozenset = frozenset()
    processes: tuple = ()
    crashes: int = 0


class Enumeration:
    """All schedules of an order of steps."""

    def __init__(self, order, answers, now=DAY):
        definition = {**good("a table"), "answers": answers, "budget": 99.0}
        # The digest does not cover how often a client answers.
        code, self.query = query_of(definition)
        assert code == "OK"
        self.steps = ORDERS[order]
        self.now = now
        self.answers = {}
        self.ends = set()

    def answer(self, state, value):
        """Return what the core answers to a state."""
        if (state, value) not in self.answers:
            device = Device(KEY, max_epsilon=99.0, state=state)
            code, frame = device.answer(self.query, value, self.now)
            self.answers[state, value] = device.state, frame if code == "OK" else None
        return self.answers[state, value]

    def advance(self, world, number):
        """Return the world after the next step of a process."""
        process = world.processes[number]
        name = self.steps[process.step]
        next_process = replace(process, step=process.step + 1)
        if name == "read":
            new_state, frame = self.answer(world.state, process.value)
            next_process = replace(next_process, state=world.state, new_state=new_state, frame=frame or b"")
            if frame is None:
                next_process = replace(next_process, step=len(self.steps))
        elif name in ("commit", "commit state", "overwrite"):
            if name != "overwrite" and world.state != process.state:
                next_process = Process(process.value)
            else:
                queue = world.queue if name == "commit state" else (*world.queue, process.frame)
                world = replace(world, state=process.new_state, queue=queue)
        elif name == "queue":
            world = replace(world, queue=(*world.queue, process.frame))
        else:
            world = replace(world, queue=(), outside=world.outside | set(world.queue))
        return replace(world, processes=_put(world.processes, number, next_process))

    def run(self):
        """Visit every world that some schedule reaches, and return those in which all processes are done."""
        device = Device(KEY, max_epsilon=99.0)
        assert device.bind() == "OK"
        start = World(device.state, processes=tuple(Process(value) for value in VALUES))
        waiting, worlds = [start], {start}
        while waiting:
            world = waiting.pop()
            nexts = []
            for number, process in enumerate(world.processes):
                if process.step < len(self.steps):
                    nexts.append(self.advance(world, number))
                    if world.crashes < MOST_CRASHES:
                        processes = _put(world.processes, number, Process(process.value))
                        nexts.append(replace(world, processes=processes, crashes=world.crashes + 1))
            if not nexts:
                # What waits is sent by the next start.
                self.ends.add(replace(world, outside=world.outside | set(world.queue), queue=()))
            for candidate in nexts:
                if candidate not in worlds:
                    worlds.add(candidate)
                    waiting.append(candidate)
        return self.ends, len(worlds)

    def is_good(self, world):
        """Whether at most one report left, and its charge is stored."""
        device = Device(KEY, max_epsilon=99.0, state=world.state)
        charge = device.account(self.query, self.now).life
        return len(world.outside) <= 1 and (not world.outside or charge > 0)


def _put(processes, number, process):
    return (*processes[:number], process, *processes[number + 1 :])


@pytest.mark.parametrize("answers", ["life", "once", "fresh"])
@pytest.mark.parametrize("order", ["joint", "state first"])
def test_no_crash_and_no_race_breaks_an_allowed_order(order, answers):
    enumeration = Enumeration(order, answers)
    worlds, count = enumeration.run()
    assert count > 50
    assert len(worlds) > 3
    assert all(map(enumeration.is_good, worlds))


@pytest.mark.parametrize("answers", ["life", "fresh"])
@pytest.mark.parametrize("order", ["frame first", "no comparison"])
def test_the_wrong_orders_are_found(order, answers):
    enumeration = Enumeration(order, answers)
    worlds, _ = enumeration.run()
    assert any(not enumeration.is_good(world) for world in worlds)


def test_a_state_is_refused_if_it_is_not_whole():
    _, query = query_of(good("a table"))
    device = Device(KEY)
    assert device.bind() == "OK"
    assert device.answer(query, 3, DAY)[0] == "OK"
    state = device.state

    for size in range(1, len(state)):
        assert Device(KEY, state=state[:size]).bind() == "StoreError"
    for place in range(len(state)):
        corrupt = bytearray(state)
        corrupt[place] ^= 1 << place % 8
        assert Device(KEY, state=bytes(corrupt)).bind() == "StoreError"
    assert Device(bytes(32), state=state).bind() == "StoreError"
    assert Device(KEY, first=False).bind() == "StoreError"
    assert Device(KEY, state=state).bind() == "OK"


@pytest.mark.parametrize(
    "item", [b'{"rounds', b'"', b"[]", b"{}", b'{"version":1,"newest":0,"rounds":{},"fresh":{}}', b"9"]
)
def test_an_item_that_cannot_be_read_is_refused(item):
    assert Device(KEY, item=item).bind() == "StoreError"
    assert Device(KEY, item=b'{"fresh":{},"life":"0","newest":0,"rounds":{},"version":1}').bind() == "OK"


def test_a_state_of_another_machine_is_refused_once_it_has_a_history():
    _, query = query_of(good("a table"))
    device = Device(KEY, machine=b"first")
    assert device.bind() == "OK"
    assert Device(KEY, machine=b"second", state=device.state).bind() == "NewKey"

    assert device.answer(query, 3, DAY)[0] == "OK"
    copy = Device(KEY, machine=b"second", state=device.state)
    assert copy.bind() == "StoreError"
    assert copy.answer(query, 3, 2 * DAY)[0] == "StoreError"
    copy.has_moved = True
    assert copy.bind() == "OK"
    copy.has_moved = False
    assert copy.answer(query, 3, 2 * DAY)[0] == "OK"
    assert Device(KEY, machine=b"first", state=copy.state).bind() == "StoreError"
    assert Device(KEY, state=copy.state).bind() == "OK"
