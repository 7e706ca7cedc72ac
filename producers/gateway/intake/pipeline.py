"""The intake, which brings submissions into the log, mixed or as keyed frames, and checks that they count."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hubbub.http.problem import Problem
from producers.gateway.intake.active_definitions import ActiveDefinitions
from producers.gateway.intake.appender import PATIENCE, Appender, NoLogTime, Unacknowledged
from producers.gateway.intake.mix_buffer import MixBuffer
from producers.gateway.intake.submission import Submission
from producers.gateway.intake.timeliness import STOP, stop_refusal, untimely
from producers.publishers.frames import OutgoingFrame

LINGER = 50
"""Default milliseconds that a mix buffer waits for more requests."""
LONGEST = 10.0
"""Limit of the seconds that a mix buffer waits for its least number of reports."""
_UNAVAILABLE = "unavailable"

_Key = tuple[bytes, int, int]
"""The digest, the pane and the group of a buffer."""
Outcome = tuple[str, str] | None
"""The reason why reports do not count, or may not, and a sentence about it. None if they count."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A mix buffer that waits, first for `linger` and then for its least number of reports."""

    buffer: MixBuffer
    deadline: float
    """The time of the loop at which the buffer is sent, however small it is."""
    timer: asyncio.TimerHandle
    has_lingered: bool = False
    outcomes: list[asyncio.Future[Outcome]] = field(default_factory=list)
    """The outcome for each request in the buffer."""


class Intake:
    """The way into the log. When `mix` or `send` returns, Kafka has acknowledged the reports, and they are in time.

    If that fails, a Problem is raised.
    """

    def __init__(
        self,
        appender: Appender,
        definitions: ActiveDefinitions,
        limit: int,
        linger: float = LINGER / 1000,
        clock: Callable[[], float] = time.time,
        least: int = 1,
    ) -> None:
        self._appender = appender
        self._definitions = definitions
        self._limit = limit
        self._linger = linger
        self._least = least
        self._draining = False
        self._clock = clock
        self._loop = asyncio.get_running_loop()

        self._buffers: dict[_Key, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_small_mix: Callable[[], None] = lambda: None
        """The listener to buffers that are sent with fewer reports than `least`."""

    async def mix(self, submissions: Iterable[Submission]) -> None:
        """Mix submissions with those of other requests, and send them."""
        # All join before the first wait, or each buffer would linger after the one before.
        futures = [self._join(submission) for submission in submissions]
        for outcome in [await future for future in futures]:
            _raise_refusal(outcome)

    async def send(self, frames: list[tuple[Submission, OutgoingFrame]]) -> None:
        """Send keyed frames unchanged."""
        _raise_refusal(await self._append(frames))

    def flush(self) -> None:
        """Send all buffers now, and later ones without waiting."""
        self._draining = True
        for key in list(self._buffers):
            self._start(key)

    def _join(self, submission: Submission) -> asyncio.Future[Outcome]:
        """Add a submission to the buffer of its query, pane and group, and return the future of its outcome."""
        key = submission.query.digest, submission.pane, submission.group
        waiting = self._buffers.get(key)
        if waiting is None:
            # Half of the time that is left: the other half is for the way into the log.
            time_left = max(0.0, (submission.closes / 1000 - self._clock()) / 2)
            patience = min(time_left, max(self._linger, min(submission.query.lateness / 2, LONGEST)))
            linger = 0.0 if self._draining else min(time_left, self._linger)
            timer = self._loop.call_later(linger, self._linger_over, key)
            waiting = _Waiting(MixBuffer(submission), self._loop.time() + patience, timer)
            self._buffers[key] = waiting

        waiting.buffer.add(submission.reports)
        future: asyncio.Future[Outcome] = self._loop.create_future()
        waiting.outcomes.append(future)

        if waiting.buffer.full or (waiting.has_lingered and waiting.buffer.n >= self._least):
            self._start(key)
        return future

    def _linger_over(self, key: _Key) -> None:
        """Send a buffer that has its least number of reports, or let it wait for more."""
        waiting = self._buffers[key]
        if self._draining or waiting.buffer.n >= self._least:
            self._start(key)
            return
        waiting.has_lingered = True
        waiting.timer = self._loop.call_at(waiting.deadline, self._start, key)

    def _start(self, key: _Key) -> None:
        """Start to send a buffer."""
        waiting = self._buffers.pop(key)
        waiting.timer.cancel()
        if waiting.buffer.n < self._least:
            self.on_small_mix()
        task = self._loop.create_task(self._send_buffer(waiting.buffer, waiting.outcomes))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_buffer(self, buffer: MixBuffer, outcomes: list[asyncio.Future[Outcome]]) -> None:
        outcome: Outcome = (_UNAVAILABLE, "The gateway is shutting down. Try again.")
        try:
            outcome = await self._append([(buffer.first_submission, frame) for frame in buffer.frames(self._limit)])
        finally:
            for future in outcomes:
                if not future.done():
                    future.set_result(outcome)

    async def _append(self, frames: list[tuple[Submission, OutgoingFrame]]) -> Outcome:
        # A stop may have come while a mix buffer waited.
        for submission, _ in frames:
            if submission.query.name in self._definitions.value.stops:
                return stop_refusal(submission.query)

        try:
            times = await self._appender.append(frame for _, frame in frames)
            # The log times may lie after the change of a definition that this gateway has not read.
            await self._definitions.read_lately()
        except (Unacknowledged, NoLogTime) as error:
            return _UNAVAILABLE, str(error)
        except TimeoutError:
            return _UNAVAILABLE, f"Kafka did not return the definitions within {PATIENCE:g} s. Try again."

        versions = self._definitions.value.versions
        refusals = (
            untimely(versions.get(submission.query.digest), submission.pane, time_ms)
            for (submission, _), time_ms in zip(frames, times, strict=True)
        )
        return next(filter(None, refusals), None)


def _raise_refusal(outcome: Outcome) -> None:
    if outcome is None:
        return
    reason, detail = outcome
    if reason == _UNAVAILABLE:
        raise unavailable(detail, counted="unknown")
    raise Problem(409, detail, reason=reason, counted="none" if reason == STOP else "unknown")


def unavailable(detail: str, counted: str) -> Problem:
    """Return the Problem of a request that may be tried again. `counted` is "none" or "unknown"."""
    return Problem(503, detail, retry_after=1.0, counted=counted)
