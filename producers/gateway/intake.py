"""The intake: lots on their way through piles, or as parts, into the log, until it is known that they count."""

import asyncio
import time
from collections.abc import Callable, Iterable

from hubbub.problem import Problem
from producers.batch import Sealed
from producers.gateway.appender import PATIENCE, Appender, NoLogTime, Unacknowledged
from producers.gateway.definitions import Standing
from producers.gateway.piles import Pile
from producers.gateway.submission import Lot
from producers.gateway.timing import untimely

LINGER = 50
"""Milliseconds that a pile waits for more requests, unless one says otherwise."""
_AWAY = "away"

Refusal = tuple[str, str] | None
"""Why reports do not count, or may not, and the sentence that says it. None where they do."""


class Intake:
    """Once `mix` or `pass_on` returns, its reports are acknowledged, and in time; a Problem says which may not be."""

    def __init__(
        self,
        appender: Appender,
        definitions: Standing,
        limit: int,
        linger: float = LINGER / 1000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._appender = appender
        self._definitions = definitions
        self._limit = limit
        self._linger = linger
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._piles: dict[tuple[bytes, int], tuple[Pile, list[asyncio.Future[Refusal]], asyncio.TimerHandle]] = {}
        """With who waits for each, and when it goes at the latest."""
        self._shipping: set[asyncio.Task[None]] = set()

    async def mix(self, lots: Iterable[Lot]) -> None:
        """Put lots on piles with those of others."""
        for outcome in [await future for future in [self._join(lot) for lot in lots]]:
            _tell(outcome)

    async def pass_on(self, parts: list[tuple[Lot, Sealed]]) -> None:
        """Send parts as they are."""
        _tell(await self._append([(lot, frame) for lot, frame in parts]))

    def flush(self) -> None:
        """Nothing waits for more from now on."""
        self._linger = 0.0
        for key in list(self._piles):
            self._ship(key)

    def _join(self, lot: Lot) -> asyncio.Future[Refusal]:
        """The outcome of a lot on the pile of its query and pane."""
        key = lot.query.digest, lot.pane
        if key not in self._piles:
            wait = min(self._linger, max(0.0, (lot.closes / 1000 - self._clock()) / 2))
            timer = self._loop.call_later(wait, self._ship, key)
            self._piles[key] = Pile(lot), [], timer
        pile, waiting, _ = self._piles[key]
        pile.add(lot.reports)
        future: asyncio.Future[Refusal] = self._loop.create_future()
        waiting.append(future)
        if pile.full:
            self._ship(key)
        return future

    def _ship(self, key: tuple[bytes, int]) -> None:
        pile, waiting, timer = self._piles.pop(key)
        timer.cancel()
        task = self._loop.create_task(self._bring(pile, waiting))
        self._shipping.add(task)
        task.add_done_callback(self._shipping.discard)

    async def _bring(self, pile: Pile, waiting: list[asyncio.Future[Refusal]]) -> None:
        outcome: Refusal = (_AWAY, "the gateway ends")
        try:
            outcome = await self._append([(pile.lot, frame) for frame in pile.frames(self._limit)])
        finally:
            for future in waiting:
                if not future.done():
                    future.set_result(outcome)

    async def _append(self, frames: list[tuple[Lot, Sealed]]) -> Refusal:
        try:
            times = await self._appender.append(frame for _, frame in frames)
            async with asyncio.timeout(PATIENCE):
                await self._definitions.read_lately()
        except (Unacknowledged, NoLogTime) as error:
            return _AWAY, str(error)
        except TimeoutError:
            return _AWAY, "Kafka does not say which definitions are in force"
        versions = self._definitions.value.versions
        refusals = (
            untimely(versions.get(lot.query.digest), lot.pane, at) for (lot, _), at in zip(frames, times, strict=True)
        )
        return next(filter(None, refusals), None)


def _tell(outcome: Refusal) -> None:
    if outcome is None:
        return
    reason, detail = outcome
    if reason == _AWAY:
        raise away(detail, counted="unknown")
    raise Problem(409, detail, reason=reason, counted="unknown")


def away(detail: str, counted: str) -> Problem:
    """Kafka is: `counted` says what is known of the request's reports."""
    return Problem(503, detail, retry_after=1.0, counted=counted)
