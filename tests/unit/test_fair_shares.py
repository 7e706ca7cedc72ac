"""The rule of fair shares against a model that is written straight from its description and scans everything."""

import random
from itertools import pairwise

import pytest

from hubbub.http.fair_shares import FairShares
from hubbub.http.share_groups import RATE

STEPS = [3_000, pytest.param(100_000, marks=pytest.mark.long)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class ModelHolder:
    def __init__(self, name, path, size, age):
        self.name, self.path, self.size, self.age = name, path, size, age
        self.owes, self.lag = False, 0.0


class Model:
    """The holders in a list, with a lag that grows at each step of the clock."""

    def __init__(self, capacity, limit):
        self.capacity, self.limit = capacity, limit
        self.holders = []

    def pass_time(self, seconds):
        for holder in self.holders:
            holder.lag += seconds if holder.owes else 0

    def held(self, prefix):
        return sum(holder.size for holder in self.holders if holder.path[: len(prefix)] == prefix)

    def victims(self, path, size):
        """Return all holders that may give way, because any of equal children will do. None stands for a refusal."""
        group = self.full_prefix(path, size)
        if not self.held(group):
            return {None}
        while group != path:
            largest = self.largest(group)
            if path[: len(group) + 1] not in largest:
                return {self.give_way(path, size, child, worst) for child in largest for worst in self.worst(child)}
            group = path[: len(group) + 1]
        return {worst if worst.lag > 0 else None for worst in self.worst(path)}

    def give_way(self, path, size, child, worst):
        """Return the holder if its child of a group still holds as much as the newcomer's, and else None."""
        own = self.held(path[: len(child)]) + size
        return worst if own <= self.held(child) - worst.size else None

    def largest(self, group):
        children = {holder.path[: len(group) + 1] for holder in self.holders if holder.path[: len(group)] == group}
        most = max(map(self.held, children))
        return [child for child in children if self.held(child) == most]

    def worst(self, group):
        """Yield the holder that each way down from a group leads to."""
        members = [holder for holder in self.holders if holder.path == group]
        if members:
            yield max(members, key=lambda holder: (holder.lag, -holder.age))
            return
        for child in self.largest(group):
            yield from self.worst(child)

    def full_prefix(self, path, size):
        """Return the narrowest group without room, or None."""
        for depth in range(len(path), -1, -1):
            limit = self.limit(path[:depth]) if depth else self.capacity
            if self.held(path[:depth]) + size > limit:
                return path[:depth]
        return None


def any_path(draw):
    kind = draw.random()
    if kind < 0.1:
        return ("proxies",)
    if kind < 0.5:
        return (f"24 {draw.randrange(3)}", f"address {draw.randrange(4)}")
    return tuple(f"{bits} {draw.randrange(2)}" for bits in (32, 48, 56, 64))


class Trial:
    """Holders and their model, which judges each that gives way and each refusal."""

    def __init__(self, draw, capacity, largest, limit):
        self.draw, self.largest = draw, largest
        self.clock = Clock()
        self.shares = FairShares(capacity, self.clock, limit)
        self.model = Model(capacity, limit)
        self.real, self.departures = {}, []

    @property
    def size(self):
        return 1 if self.largest == 1 else self.draw.randrange(1, self.largest)

    def enter(self, step, path):
        size = self.size
        holder = self.judge(path, size, lambda: self.shares.enter(path, size, lambda: self.departures.append(step)))
        if holder:
            self.real[step] = holder
            self.model.holders.append(ModelHolder(step, path, size, step))

    def grow(self, twin):
        size = self.size
        if self.judge(twin.path, size, lambda: self.shares.grow(self.real[twin.name], size), twin):
            twin.size += size

    def judge(self, path, size, act, grows=None):
        model = self.model
        twins = {twin.name: twin for twin in model.holders}
        self.departures.clear()
        outcome = act()
        for name in self.departures:
            assert model.full_prefix(path, size) is not None
            assert twins[name] in model.victims(path, size)
            model.holders.remove(twins[name])
            del self.real[name]

        assert (model.full_prefix(path, size) is None) == bool(outcome)
        if not outcome:
            assert model.victims(path, size) & {None, grows}
        return outcome

    def change(self, step, act, path):
        twin = self.draw.choice(self.model.holders)
        holder = self.real[twin.name]
        now = self.clock.now
        if act < 0.2:
            self.model.holders.remove(twin)
            self.shares.leave(self.real.pop(twin.name))
        elif act < 0.5:
            holder.owe(now)
            twin.owes, twin.lag = True, 0.0
        elif act < 0.6:
            holder.rest()
            twin.owes, twin.lag = False, 0.0
        elif act < 0.8:
            # Quarters are exact in binary, so both sides have the same lags.
            progress = self.draw.randrange(8) * RATE // 4
            holder.progress(progress, now)
            twin.lag = max(0.0, twin.lag - progress / RATE)
        elif act < 0.9:
            self.grow(twin)
        else:
            self.shares.move(holder, path)
            twin.path, twin.age = path, step

    def compare(self):
        model = self.model
        assert self.shares.held == model.held(())
        assert self.real.keys() == {twin.name for twin in model.holders}
        assert all(self.real[twin.name].lag(self.clock.now) == twin.lag for twin in model.holders)
        wide = {twin.path[:1] for twin in model.holders}
        assert self.shares.most == max(map(model.held, wide), default=0)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(("capacity", "largest"), [(20, 1), (400, 60)], ids=["places", "bytes"])
@pytest.mark.parametrize("levels", [1, 2], ids=["one limit", "limits on levels"])
def test_the_rule_agrees_with_a_model_that_scans(steps, capacity, largest, levels):
    draw = random.Random(f"{steps} {capacity} {levels}")
    trial = Trial(draw, capacity, largest, lambda path: capacity / 2 if len(path) == levels == 2 else capacity)
    for step in range(steps):
        path = any_path(draw)
        if draw.random() < 0.5:
            trial.enter(step, path)
        elif trial.model.holders:
            trial.change(step, draw.random(), path)
        if draw.random() < 0.3:
            seconds = draw.randrange(1, 9) / 4
            trial.clock.now += seconds
            trial.model.pass_time(seconds)
        trial.compare()
    assert trial.model.holders


def test_who_holds_less_than_a_part_of_k_never_gives_way():
    draw = random.Random("less than C/K")
    shares = FairShares(1_000, Clock())
    honest = [shares.enter(("honest", f"{i}"), 1, pytest.fail) for i in range(90)]
    attackers = [(f"network {i}", f"{j}") for i in range(10) for j in range(40)]
    for _ in range(20_000):
        shares.enter(draw.choice(attackers), 1, lambda: None)
    assert all(holder.is_held for holder in honest)
    assert shares.held == 1_000
    assert shares.enter(("late", "one"), 1, pytest.fail) is not None


def test_callers_that_come_again_at_once_replace_nobody_in_a_circle():
    """300 callers of one address and 200 places: each that is refused waits, and no place changes hands."""
    shares = FairShares(200, Clock())
    departures = []
    places = [shares.enter(("net", "office"), 1, lambda: departures.append(1)) for _ in range(300)]
    assert sum(place is not None for place in places) == 200
    assert not departures
    for _ in range(100):
        assert shares.enter(("net", "office"), 1, lambda: None) is None
    assert not departures


def test_equal_callers_do_not_replace_each_other():
    shares = FairShares(100, Clock())
    holders = [shares.enter((f"{i % 10}",), 1, pytest.fail) for i in range(100)]
    assert all(shares.enter((f"{i}",), 1, pytest.fail) is None for i in range(10))
    assert all(holder.is_held for holder in holders)


def test_the_lag_keeps_no_credit_and_a_new_debt_begins_at_0():
    shares = FairShares(10, Clock())
    holder = shares.enter(("a",), 1, pytest.fail)
    holder.progress(100 * RATE, 0.0)
    holder.owe(5.0)
    holder.progress(100 * RATE, 5.0)
    assert holder.lag(9.0) == 4
    holder.progress(3 * RATE, 9.0)
    assert holder.lag(9.0) == 1
    holder.progress(3 * RATE, 9.0)
    assert holder.lag(10.0) == 1
    holder.rest()
    assert holder.lag(100.0) == 0
    holder.owe(100.0)
    assert holder.lag(101.0) == 1


def test_groups_without_holders_are_forgotten():
    shares = FairShares(10, Clock())
    for i in range(20_000):
        shares.leave(shares.enter((f"{i % 5000}", "a", "b"), 1, pytest.fail))
    assert len(shares._last_groups) < 2_100
    assert len(shares.root.children) == len(shares._last_groups)
    assert len(shares.root._order) < 6_000
    assert shares.held == shares.most == 0


def test_an_order_does_not_grow_with_the_changes_of_one_holder():
    shares = FairShares(1 << 30, Clock())
    clock = 0.0
    holders = [shares.enter(("a", f"{i}"), 1, pytest.fail) for i in range(10)]
    for step in range(20_000):
        holder = holders[step % 10]
        clock += 0.25
        holder.owe(clock)
        shares.grow(holder, step % 97)
        shares.shrink(holder, holder.size - 1)
        holder.rest()
        shares.move(holder, ("a", f"{step % 10}"))
    group = shares.root.children["a"]
    last = [group.children[f"{i}"] for i in range(10)]
    assert max(map(len, [group._order, *(node.laggards for node in last)])) < 200
    numbers = [node.oldest.number for node in last]
    assert all(first != second for first, second in pairwise(numbers))
