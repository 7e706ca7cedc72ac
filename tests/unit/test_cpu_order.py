"""The order of work by used CPU, against a model that scans everything."""

import random

import pytest

from hubbub.http import cpu_use
from hubbub.http.cpu_order import CpuOrder
from hubbub.http.cpu_use import CpuUse


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Model:
    """All charges and waiters in lists."""

    def __init__(self):
        self.charges, self.waiters = [], []

    def used(self, prefix, second):
        sizes = [size for time, path, size in self.charges if time > second - 10 and path[: len(prefix)] == prefix]
        return sum(sizes)

    def candidates(self, second):
        """Return all waiters whose turn it may be, because any of equal children will do."""
        prefixes = {()}
        while True:
            narrower = set()
            for prefix in prefixes:
                children = {path[: len(prefix) + 1] for _, path in self.waiters if path[: len(prefix)] == prefix}
                least = min((self.used(child, second) for child in children), default=0)
                narrower |= {child for child in children if self.used(child, second) == least}
            if narrower == prefixes:
                return {next(number for number, path in self.waiters if path == last) for last in prefixes}
            prefixes = narrower


def paths(draw):
    if draw.random() < 0.3:
        return "/32", f"/48 {draw.randrange(2)}", f"/64 {draw.randrange(4)}"
    return f"/24 {draw.randrange(3)}", f"address {draw.randrange(3)}"


@pytest.mark.parametrize("steps", [2_000, pytest.param(50_000, marks=pytest.mark.long)])
def test_the_next_work_is_of_the_caller_with_least_cpu_on_each_level(steps):
    draw = random.Random(48)
    clock = Clock()
    use = CpuUse(clock)
    order, model = CpuOrder(use), Model()
    waiters = {}
    for number in range(steps):
        second = int(clock.now)
        path = paths(draw)
        act = draw.random()
        if act < 0.3:
            size = draw.randrange(1, 100)
            use.charge(path, size)
            model.charges.append((second, path, size))
        elif act < 0.6:
            waiters[number] = order.wait(path, 50, lambda: None)
            model.waiters.append((number, path))
        elif act < 0.7 and model.waiters:
            gone, _ = entry = draw.choice(model.waiters)
            order.leave(waiters[gone])
            model.waiters.remove(entry)
        elif act < 0.95:
            candidates = model.candidates(second) if model.waiters else {None}
            waiter = order.next()
            chosen = next((key for key, other in waiters.items() if other is waiter), None)
            assert chosen in candidates
            if chosen is not None:
                model.waiters = [entry for entry in model.waiters if entry[0] != chosen]
                model.charges.append((second, waiter.path, 50))
        else:
            clock.now += draw.choice([0.2, 1.0, 3.0])
        assert order.is_waiting == bool(model.waiters)
        model.charges = [charge for charge in model.charges if charge[0] > int(clock.now) - 10]


def test_cpu_counts_for_ten_seconds_and_the_groups_have_a_limit(monkeypatch):
    monkeypatch.setattr(cpu_use, "NODES", 100)
    monkeypatch.setattr(cpu_use, "_FORGOTTEN", 20)
    clock = Clock()
    use = CpuUse(clock)
    use.charge(("a", "b"), 7)
    clock.now = 9.5
    assert use.used(("a", "b")) == 7
    for number in range(1_000):
        use.charge((f"network {number}", "address"), 1)
        assert use.groups <= 102
    assert use.used(("a", "b")) == 0
    assert use.used(("network 999", "address")) == 1
