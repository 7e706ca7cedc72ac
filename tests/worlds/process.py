"""The processes of a world. The world can kill a process between any two steps, freeze it, wake it and slow it."""

import asyncio
import heapq
from itertools import count
from random import Random

from hubbub.command.options import failure
from tests.worlds.loop import WorldLoop

MOST_STEPS = 10_000
"""Steps after which other processes have their turn."""


STARTING = "start"
RECOVERING = "recovery"
RECOVERED = "recovered"


class Process:
    """One process: its event loop, its main task, and the answers of brokers on their way to it."""

    def __init__(self, world, name, main):
        self.world = world
        self.name = name
        self.loop = WorldLoop(lambda: world.now)
        self.alive = True
        self.frozen_until = 0.0
        self.offline_until = 0.0
        self.slowness = 0.0
        """Seconds that each turn of the loop takes."""
        self.next_turn = 0.0
        self.countdown = None
        """The number of steps after which the process is killed, or None."""
        self.phase = STARTING
        """The newest write of the process, or its present task."""
        self.code = None
        """The exit code, once it has ended by itself. None is an unknown error."""
        self.end = None
        """The time at which it ended by itself."""
        self.worker = None
        """The worker, as soon as it is built."""
        self.error = None
        self.failure = None
        """The error for which a worker ends."""
        self.random = Random(f"{world.plan.seed}/{name}")
        """The small chances of this process. They do not depend on other processes."""
        self._due = world.now
        self._deliveries = []
        self._order = count()
        world.running = self
        self.main = self.loop.create_task(main())
        self.main.add_done_callback(self._end)

    def later(self, delay, work, *arguments):
        """Do something in this process after a while. A frozen process does it when it wakes, a dead one never."""
        if self.alive:
            moment = self.world.now + delay
            heapq.heappush(self._deliveries, (moment, next(self._order), work, arguments))
            self._due = min(self._due, moment)

    def soon(self, work, *arguments):
        self.later(0.0, work, *arguments)

    def due(self):
        """Return when the process has something to do."""
        return max(self._due, self.frozen_until, self.next_turn)

    def turn(self):
        """Run one turn of the loop."""
        world = self.world
        world.running = self
        world.random = self.random
        while self._deliveries and self._deliveries[0][0] <= world.now + 1e-9:
            _, _, work, arguments = heapq.heappop(self._deliveries)
            self.loop.call_soon(work, *arguments)
        most = MOST_STEPS if self.countdown is None else self.countdown
        steps = self.loop.step(most, is_slow=bool(self.slowness))
        world.random = world.own_random
        if self.countdown is not None:
            self.countdown -= steps
            if self.countdown <= 0:
                world.kill(self, "between steps")
        if self.slowness:
            self.next_turn = world.now + self.slowness
        self._due = self.loop.due()
        if self._deliveries:
            self._due = min(self._due, self._deliveries[0][0])

    def stop(self):
        """Ask the process to stop in order, as SIGTERM does."""
        handlers = list(self.loop.signals.values())
        if handlers:
            self.soon(handlers[0])

    def _end(self, task):
        if not self.alive:
            return
        self.alive = False
        if task.cancelled():
            self.error = asyncio.CancelledError()
        else:
            self.error = task.exception()
            self.code = code_of(self.error) if self.error else task.result()
        self.end = self.world.now
        self.world.note_end(self)


def code_of(error):
    """Return the exit code that the command `hubbub worker` has for an error, or None for an unknown one."""
    answer = failure("worker", error)
    return answer and answer[0]
