"""Repeats: what simulated clients that answer for life say, made again from the seed.

Few classes: the client's own code, all clients of a block at once, with a seeded source in place of the
key. Many: a client's report of a value is the one drawn when it first held that value in the round. The
records of several attributes with many classes go through the client's code one by one.
"""

import hashlib
from collections.abc import Callable

import numpy as np

from oracles.mechanisms.entropy import Seeded, Source
from oracles.mechanisms.protocol import Oracle
from oracles.multi.attributes import Multi
from oracles.types import Ints, Reports
from producers.entropy import Keyed, Purpose
from producers.respondents import Respondents

MANY = 16
"""Classes above which not all of them are drawn for all clients."""

Draw = Callable[..., np.random.Generator]
"""A generator of these clients and this round, for further numbers."""


def few(oracle: Oracle | Multi) -> bool:
    return oracle.life is not None and oracle.life.times <= MANY


def respondents(oracle: Oracle | Multi, count: int, draw: Draw) -> Respondents:
    """`count` clients in one round, of a seed."""

    def stream(attribute: int, purpose: Purpose, classes: tuple[int, ...]) -> Source:
        return Seeded(draw(attribute, purpose, *classes))

    return Respondents(oracle, count, stream)


def one_by_one(oracle: Multi, values: Ints, clients: Ints, seed: int, begun: int) -> Reports:
    """Records of single clients, each with a key of its own."""
    reports = np.empty((len(values), oracle.width), np.uint8)
    for row, client in enumerate(clients):
        key = hashlib.sha256(f"{seed} {client}".encode()).digest()

        def stream(attribute: int, purpose: Purpose, classes: tuple[int, ...], key: bytes = key) -> Source:
            return Keyed(key, bytes(8), attribute, 0, purpose, begun, classes)

        reports[row] = Respondents(oracle, 1, stream).reports(values[row : row + 1])[0]
    return reports


class Histories:
    """Values that clients of a block held in a round, in their order, and the reports drawn for each."""

    def __init__(self, oracle: Oracle, held: Callable[[int], Ints], draw: Draw, first: Ints, now: Ints) -> None:
        self._oracle, self._held, self._draw = oracle, held, draw
        self._first, self._now = first, now
        """The index of each client's value at its first answer of the round, and of its present one."""
        self._said: dict[int, Reports] = {}

    def reports(self, values: Ints, part: slice) -> tuple[Reports, Ints]:
        """The answers of the clients of a part who hold these values; and which rows held no such value before."""
        first, now = self._first[part], self._now[part]
        reports = np.empty((len(values), self._oracle.width), np.uint8)
        todo = np.arange(len(values))
        for index in range(int(first.min()), int(now.max()) + 1):
            held = self._held(index)[part][todo]
            same = (held == values[todo]) & (first[todo] <= index) & (index <= now[todo])
            rows = todo[same]
            if len(rows):
                reports[rows] = self._drawn(index)[part][rows]
                todo = todo[~same]
        return reports, todo

    def _drawn(self, index: int) -> Reports:
        if index not in self._said:
            self._said[index] = self._oracle.perturb(self._held(index), self._draw(index))
        return self._said[index]
