"""An estimator that computes in the process of the worker, with the functions of the real one."""

import asyncio
from collections import deque

from aggregator.publishing.finals.estimator_process import answers


class EstimatorInPlace:
    """It has the methods of the product's Estimator. It may die, and begins the open request again then."""

    world = None

    def __init__(self, name):
        self.name = name
        self.is_stuck = False
        self._tasks = deque()
        self._runner = None
        self._withdrawn = set()

    def start(self):
        pass

    def ask(self, *tasks):
        self._tasks.extend(tasks)
        if tasks and (self._runner is None or self._runner.done()):
            self._runner = asyncio.ensure_future(self._run())

    def withdraw(self):
        self._withdrawn = set(map(id, self._tasks))

    def close(self):
        if self._runner is not None:
            self._runner.cancel()

    async def _run(self):
        while self._tasks:
            task = self._tasks[0]
            try:
                await self._answer(task)
            except Exception as error:  # noqa: BLE001 - the worker raises it
                task.end(error)
            else:
                task.end()
            self._tasks.popleft()
            self._withdrawn.discard(id(task))

    async def _answer(self, task):
        world = self.world
        while True:
            request = task.request(0)
            for answer in answers(task.query, request.questions, request.states, request.blocks, request.history):
                await asyncio.sleep(world.latency())
                if world.chance("estimator dies", world.mix.estimator_deaths):
                    world.mark("estimator death")
                    await asyncio.sleep(0.5)
                    break
                task.take([answer])
                if id(task) in self._withdrawn:
                    return
            else:
                return
