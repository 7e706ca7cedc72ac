"""The turns of requests, handshakes and slices of decoding on the core of a port. Without contention nothing waits."""

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import Any, Protocol

from hubbub.http.cpu_order import CpuOrder
from hubbub.http.cpu_use import CpuUse
from hubbub.http.fair_shares import CallerPath

SLICE = 0.005
"""Seconds of work between two looks at the order, and of a slice of decoding."""
REQUEST_COST = 100
HANDSHAKE_COST = 1_000
SLICE_COST = 5_000
"""Microseconds that are charged when a turn comes. benchmarks/gateway.py measures a request at 70, a hello at 800."""
_LEAST_CHARGE = 500e-6
"""Seconds that are charged at once, because a charge of each step would add 4 us to a request of 70."""
_SEVERAL: CallerPath = ()


class Payer(Protocol):
    """Whoever pays for work, such as a connection."""

    path: CallerPath
    unpaid_seconds: float
    """Seconds of CPU that are not charged yet. They are below 0 if more is charged than was used."""


class CpuTurns:
    """The right to use the core. Work begins at once until a round of the event loop has had SLICE seconds of it.

    Then work waits, and each round takes a slice of it in the order of used CPU. A caller that is alone in a round
    waits for nobody.
    """

    def __init__(self) -> None:
        self.use = CpuUse(time.monotonic)
        self._order = CpuOrder(self.use)
        self._spent = 0.0
        """Seconds of work since the last round ended."""
        self._caller: CallerPath | None = None
        """The only caller since then, `_SEVERAL`, or None for nobody."""
        self._is_ending = False
        """Whether the event loop will end the round."""

    def must_wait(self, path: CallerPath, cost: int = REQUEST_COST) -> bool:
        """Whether the work of a caller has to wait for its turn."""
        if self._order.is_waiting:
            return True
        # A round that is only one caller's has no order, but many long pieces of work would hold the loop.
        return self._spent >= SLICE and (cost > REQUEST_COST or self._caller != path)

    async def take(self, payer: Payer, cost: int) -> None:
        """Wait for a turn if the core is busy. A turn that waited has a price, which is part of what the work costs."""
        if not self.must_wait(payer.path, cost):
            return
        turn = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not turn.done():
                turn.set_result(None)

        waiter = self._order.wait(payer.path, cost, wake)
        self._end_soon()
        try:
            await turn
        finally:
            self._order.leave(waiter)
        payer.unpaid_seconds -= cost / 1e6

    def spend(self, payer: Payer, seconds: float) -> None:
        """Charge work of the present round, and what is unpaid."""
        path = payer.path
        self._spent += seconds
        if self._caller is not path:
            self._caller = path if self._caller is None or self._caller == path else _SEVERAL
        if self._spent >= SLICE and not self._is_ending:
            self._end_soon()

        payer.unpaid_seconds += seconds
        if payer.unpaid_seconds >= _LEAST_CHARGE:
            self.settle(payer)

    def settle(self, payer: Payer) -> None:
        """Charge what is unpaid."""
        size = int(1e6 * payer.unpaid_seconds)
        if size > 0:
            self.use.charge(payer.path, size)
            payer.unpaid_seconds = 0.0

    def _end_soon(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            asyncio.get_running_loop().call_soon(self._end_round)

    def _end_round(self) -> None:
        """Begin a new round with a slice of the work that waits."""
        self._is_ending = False
        self._spent = 0.0
        self._caller = None
        round_cost = 0
        while round_cost < SLICE_COST:
            waiter = self._order.next()
            if waiter is None:
                return
            round_cost += waiter.cost
            waiter.wake()
        self._end_soon()


class MeteredWork(Generator[Any, None, Any]):
    """A coroutine whose CPU is measured and charged, step by step."""

    __slots__ = ("_coroutine", "_payer", "_turns")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], turns: CpuTurns, payer: Payer) -> None:
        self._coroutine = coroutine
        self._turns = turns
        self._payer = payer

    def __await__(self) -> Generator[Any, None, Any]:
        return self

    def __next__(self) -> Any:
        start = time.perf_counter()
        try:
            return self._coroutine.send(None)
        finally:
            self._turns.spend(self._payer, time.perf_counter() - start)

    def send(self, value: Any) -> Any:
        start = time.perf_counter()
        try:
            return self._coroutine.send(value)
        finally:
            self._turns.spend(self._payer, time.perf_counter() - start)

    def throw(self, *error: Any) -> Any:
        start = time.perf_counter()
        try:
            return self._coroutine.throw(*error)
        finally:
            self._turns.spend(self._payer, time.perf_counter() - start)
