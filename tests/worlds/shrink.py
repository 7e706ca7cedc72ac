"""Make a failed world small: without the faults, processes, partitions, queries and records that its failure spares."""

from dataclasses import replace

from tests.worlds.mix import CHANCES
from tests.worlds.plan import with_end
from tests.worlds.run import run_plan

MOST_RUNS = 400
"""Worlds that are tried at most."""


def failing(check, *, mutant=None):
    """Return a function that says whether the world of a plan fails this check."""

    def fails(plan):
        result = run_plan(plan, mutant=mutant)
        return any(violation.check == check for violation in result.violations)

    return fails


class Shrinker:
    """The search for a small plan that still fails."""

    def __init__(self, fails, *, most_runs=MOST_RUNS):
        self._world_fails = fails
        self._most_runs = most_runs
        self.runs = 0

    def shrink(self, plan):
        """Return a plan that fails the same check and in which nothing can be left out alone.

        The seconds after the last fault stay as they are, because a world that ends too early lacks finals.
        """
        last_plan = None
        while plan != last_plan and self.runs < self._most_runs:
            last_plan = plan
            plan = self._shorter(plan)
            plan = self._calmer(plan)
            plan = self._with_fewer(plan, "faults")
            plan = self._with_fewer(plan, "frames")
            plan = self._with_fewer_queries(plan)
            plan = self._with_fewer_processes(plan)
            plan = self._with_round_times(plan)
        return plan

    def _fails(self, plan):
        if self.runs >= self._most_runs:
            return False
        self.runs += 1
        return self._world_fails(plan)

    def _first(self, plan, candidates):
        """Return the first candidate that fails, or else the plan."""
        return next((candidate for candidate in candidates if candidate != plan and self._fails(candidate)), plan)

    def _shorter(self, plan):
        seconds = plan.mix.seconds
        return self._first(plan, [with_end(plan, round(share * seconds, 1)) for share in (0.3, 0.5, 0.7, 0.85)])

    def _calmer(self, plan):
        """Set the small chances to 0: all of them, or one after the other."""
        calm = replace(plan, mix=replace(plan.mix, **dict.fromkeys(CHANCES, 0.0)))
        if plan == calm or self._fails(calm):
            return calm
        for name in CHANCES:
            plan = self._first(plan, [replace(plan, mix=replace(plan.mix, **{name: 0.0}))])
        return plan

    def _with_fewer(self, plan, name):
        """Leave out items of a field: large parts first, then smaller ones, at last single items."""
        size = len(getattr(plan, name))
        while size:
            place = 0
            while place < len(items := getattr(plan, name)):
                candidate = replace(plan, **{name: items[:place] + items[place + size :]})
                if self._fails(candidate):
                    plan = candidate
                else:
                    place += size
            size //= 2
        return plan

    def _with_fewer_queries(self, plan):
        for query in plan.queries if len(plan.queries) > 1 else ():
            queries = tuple(name for name in plan.queries if name != query)
            frames = tuple(frame for frame in plan.frames if frame.query != query)
            if queries:
                plan = self._first(plan, [replace(plan, queries=queries, frames=frames)])
        return plan

    def _with_fewer_processes(self, plan):
        for workers in range(1, plan.mix.workers):
            plan = self._first(plan, [replace(plan, mix=replace(plan.mix, workers=workers))])
        for partitions in range(1, plan.mix.partitions):
            frames = tuple(frame for frame in plan.frames if frame.partition < partitions)
            mix = replace(plan.mix, partitions=partitions)
            plan = self._first(plan, [replace(plan, mix=mix, frames=frames)])
        return plan

    def _with_round_times(self, plan):
        """Let things happen at whole seconds, or at tenths."""
        for digits in (0, 1):
            frames = tuple(frame._replace(at=round(frame.at, digits)) for frame in plan.frames)
            plan = self._first(plan, [replace(plan, frames=frames)])
            for place, fault in enumerate(plan.faults):
                round_fault = replace(fault, at=round(fault.at, digits))
                faults = (*plan.faults[:place], round_fault, *plan.faults[place + 1 :])
                plan = self._first(plan, [replace(plan, faults=faults)])
        return plan
