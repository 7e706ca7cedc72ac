"""The intake, which brings submissions into the log, mixed or as keyed frames, and checks that they count."""

import asyncio
import time
from collections.abc import Callable, Iterable

from hubbub.http.problem import Problem
from producers.gateway.intake.active_definitions import ActiveDefinitions
from producers.gateway.intake.appender import PATIENCE, Appender, NoLogTime, Unacknowledged
from producers.gateway.intake.mix_buffer import MixBuffer
from producers.gateway.intake.submission import Submission
from producers.gateway.intake.timeliness import untimely
from producers.publishers.frames import OutgoingFrame

LINGER = 50
"""Default milliseconds that a mix buffer waits for more requests."""
_UNAVAILABLE = "unavailable"

Outcome = tuple[str, str] | None
"""The reason why reports do not count, or may not, and a sentence about it. None if they count."""


class Intake:
    """The way into the log. When `mix` or `send` returns, Kafka has acknowledged the reports, and they are in time.

    Otherwise a Problem is raised.
    """

    def __init__(
        self,
        appender: Appender,
        definitions: ActiveDefinitions,
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
        self._buffers: dict[
            tuple[bytes, int], tuple[MixBuffer, list[asyncio.Future[Outcome]], asyncio.TimerHandle]
        ] = {}
        """The buffers by digest and pane, each with its waiting requests and its timer."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def mix(self, submissions: Iterable[Submission]) -> None:
        """Mix submissions with those of other requests, and send them."""
        for outcome in [await future for future in [self._join(submission) for submission in submissions]]:
            _raise_refusal(outcome)

    async def send(self, frames: list[tuple[Submission, OutgoingFrame]]) -> None:
        """Send keyed frames unchanged."""
        _raise_refusal(await self._append(frames))

    def flush(self) -> None:
        """Send all buffers now, and later ones without waiting."""
        self._linger = 0.0
        for key in list(self._buffers):
            self._start(key)

    def _join(self, submission: Submission) -> asyncio.Future[Outcome]:
        """Add a submission to the buffer of its query and pane, and return the future of its outcome."""
        key = submission.query.digest, submission.pane
        if key not in self._buffers:
            wait = min(self._linger, max(0.0, (submission.closes / 1000 - self._clock()) / 2))
            timer = self._loop.call_later(wait, self._start, key)
            self._buffers[key] = MixBuffer(submission), [], timer
        buffer, waiting, _ = self._buffers[key]
        buffer.add(submission.reports)
        future: asyncio.Future[Outcome] = self._loop.create_future()
        waiting.append(future)
        if buffer.full:
            self._start(key)
        return future

    def _start(self, key: tuple[bytes, int]) -> None:
        """Start to send a buffer."""
        buffer, waiting, timer = self._buffers.pop(key)
        timer.cancel()
        task = self._loop.create_task(self._send_buffer(buffer, waiting))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_buffer(self, buffer: MixBuffer, waiting: list[asyncio.Future[Outcome]]) -> None:
        outcome: Outcome = (_UNAVAILABLE, "The gateway is shutting down. Try again.")
        try:
            outcome = await self._append([(buffer.first, frame) for frame in buffer.frames(self._limit)])
        finally:
            for future in waiting:
                if not future.done():
                    future.set_result(outcome)

    async def _append(self, frames: list[tuple[Submission, OutgoingFrame]]) -> Outcome:
        try:
            times = await self._appender.append(frame for _, frame in frames)
            async with asyncio.timeout(PATIENCE):
                await self._definitions.read_lately()
        except (Unacknowledged, NoLogTime) as error:
            return _UNAVAILABLE, str(error)
        except TimeoutError:
            return _UNAVAILABLE, f"Kafka did not return the definitions within {PATIENCE:g} s. Try again."
        versions = self._definitions.value.versions
        refusals = (
            untimely(versions.get(submission.query.digest), submission.pane, at)
            for (submission, _), at in zip(frames, times, strict=True)
        )
        return next(filter(None, refusals), None)


def _raise_refusal(outcome: Outcome) -> None:
    if outcome is None:
        return
    reason, detail = outcome
    if reason == _UNAVAILABLE:
        raise unavailable(detail, counted="unknown")
    raise Problem(409, detail, reason=reason, counted="unknown")


def unavailable(detail: str, counted: str) -> Problem:
    """Return the Problem of a request that may be tried again. `counted` is "none" or "unknown"."""
    return Problem(503, detail, retry_after=1.0, counted=counted)
