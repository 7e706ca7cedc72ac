"""Worlds one after the other, or on both cores, and the violations in them."""

import gc
import logging
import os
import sys
import time
import warnings
from asyncio import events
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from itertools import count, islice
from multiprocessing import get_context
from unittest.mock import patch

from hubbub.command import exit as command_exit
from tests.worlds import sums
from tests.worlds.checks import Violation, check
from tests.worlds.loop import WorldLoop
from tests.worlds.plan import draw
from tests.worlds.world import World

MIX = "3"
CHUNK = 16
"""Worlds that are given out together."""
FEW = 4
"""Worlds below which no further process starts."""


@dataclass
class Result:
    """One world."""

    seed: int
    mix: str
    violations: list
    faults: int
    finals: int
    trace: str
    cpu_seconds: float
    meetings: Counter = field(default_factory=Counter)
    """How often each fault met a process in each phase."""
    story: list = field(default_factory=list)

    @property
    def first_violation(self):
        return min(self.violations, key=lambda violation: violation.step)


def run_world(seed, mix=MIX, *, mutant=None, story=False):
    """Run the world of a seed and check it."""
    return run_plan(draw(seed, mix), mutant=mutant, story=story)


@cache
def _freeze():
    """Leave the modules out of each later look for garbage, which would cost as much as ten faults."""
    gc.freeze()


def run_plan(plan, *, mutant=None, story=False):
    """Run the world of a plan and check it."""
    _freeze()
    # A destructor of the world may wait for its event loop, and says so on standard error.
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        # What destructors of the world report must not end this process.
        with warnings.catch_warnings(), patch.object(command_exit, "_exit_after", lambda *_: None):
            # A killed process leaves coroutines behind that never began.
            warnings.simplefilter("ignore", RuntimeWarning)
            result = _run(plan, mutant=mutant, story=story)
            logging.disable(logging.CRITICAL)
            _free()
    finally:
        logging.disable(logging.NOTSET)
        sys.unraisablehook = hook
    return result


def _free():
    """Free the last world. The code that ends its coroutines starts tasks, which need a loop that runs."""
    loop = WorldLoop(lambda: 0.0)
    for _ in range(3):
        events._set_running_loop(loop)
        try:
            garbage = gc.collect()
        finally:
            events._set_running_loop(None)
        while loop.step(1 << 30):
            pass
        # What was freed may have held more.
        if not garbage:
            break


def _run(plan, *, mutant, story):
    start = time.process_time()
    world = World(plan)
    world.keep_story = story
    with sums.applied(plan.is_whole):
        with mutant.applied() if mutant is not None else nullcontext():
            world.run()

        try:
            violations, finals = check(world)
        except Exception as error:  # noqa: BLE001 - a record that no check can read is a finding
            violations = [Violation("unreadable", world.steps, repr(error))]
            finals = 0

    result = Result(
        seed=plan.seed,
        mix=plan.mix.name,
        violations=violations,
        faults=world.faults.count,
        finals=finals,
        trace=world.trace.hexdigest(),
        cpu_seconds=time.process_time() - start,
        meetings=world.faults.meetings,
        story=world.story,
    )
    world.close()
    return result


def results(seeds, mix=MIX, *, mutant=None, jobs=None):
    """Yield the results of worlds in the order of their seeds."""
    seeds = iter(seeds)
    few_seeds = list(islice(seeds, FEW))
    for seed in few_seeds:
        yield run_world(seed, mix, mutant=mutant)
    if len(few_seeds) < FEW:
        return
    jobs = jobs or os.cpu_count() or 1
    with get_context("fork").Pool(jobs, maxtasksperchild=4 * CHUNK) as pool:
        while chunk := list(islice(seeds, CHUNK)):
            yield from pool.starmap(_run_quietly, [(seed, mix, mutant) for seed in chunk], 1)


def _run_quietly(seed, mix, mutant):
    return run_world(seed, mix, mutant=mutant)


def all_seeds(start=0):
    return count(start)
