"""The processes of a world. The world can kill a process between any two steps, freeze it, wake it and slow it."""

import asyncio
import heapq
from itertools import count

from tests.worlds.loop import WorldLoop


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
        self.code = None
        """The exit code, once it has ended by itself."""
        self.error = None
        self.failure = None
        """The error for which a worker ends."""
        self._deliveries = []
        self._order = count()
        world.running = self
        self.main = self.loop.create_task(main())
        self.main.add_done_callback(self._end)

    def later(self, delay, work, *arguments):
        """Do something in this process after a while. A frozen process does it when it wakes, a dead one never."""
        if self.alive:
            heapq.heappush(self._deliveries, (self.world.now + delay, next(self._order), work, arguments))

    def soon(self, work, *arguments):
        self.later(0.0, work, *arguments)

    def due(self):
        """Return when the process has something to do."""
        due = self.loop.due()
        if self._deliveries and self._deliveries[0][0] < due:
            due = self._deliveries[0][0]
        due = max(due, self.frozen_until)
        return max(self.next_turn, due)

    def turn(self):
        """Run one turn of the loop."""
        world = self.world
        world.running = self
        while self._deliveries and self._deliveries[0][0] <= world.now + 1e-9:
            _, _, work, arguments = heapq.heappop(self._deliveries)
            self.loop.call_soon(work, *arguments)
        most = 1 << 30 if self.countdown is None else self.countdown
        steps = self.loop.step(most)
        if self.countdown is not None:
            self.countdown -= steps
            if self.countdown <= 0:
                world.kill(self, "between steps")
        if self.slowness:
            self.next_turn = world.now + self.slowness
        return steps

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
            self.code = None if self.error else task.result()
        self.world.note_end(self)
