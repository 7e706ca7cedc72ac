"""The event loop of one process of a world. The world moves its time and runs its steps."""

import asyncio
import heapq
import math
from asyncio import events


class WorldLoop(asyncio.BaseEventLoop):
    """An event loop that waits for nothing. All times are simulated seconds."""

    def __init__(self, now):
        super().__init__()
        self._now = now
        self.signals = {}
        """The handlers of signals by number."""
        self.errors = []
        """Errors that no task awaited."""

    def __del__(self):
        """Do nothing: a killed process closes nothing."""

    def time(self):
        return self._now()

    # The next two are those of asyncio without its looks at closed loops and other threads, a tenth of a world's time.

    def call_soon(self, callback, *args, context=None):
        handle = events.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when, callback, *args, context=None):
        timer = events.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def call_soon_threadsafe(self, callback, *args, context=None):
        return self.call_soon(callback, *args, context=context)

    def add_signal_handler(self, number, callback, *args):
        self.signals[number] = lambda: callback(*args)

    def run_in_executor(self, executor, work, *args):
        """Do the work at once, and return its result in a later step."""
        future = self.create_future()
        try:
            self.call_soon(future.set_result, work(*args))
        except Exception as error:  # noqa: BLE001 - the caller awaits it
            self.call_soon(future.set_exception, error)
        return future

    def call_exception_handler(self, context):
        self.errors.append(context)

    def due(self):
        """Return when the next step is due."""
        if self._ready:
            return self._now()
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        return self._scheduled[0]._when if self._scheduled else math.inf

    def step(self, most, *, is_slow=False):
        """Run the steps that are due now, at most so many. Return how many ran.

        No process sees what another one does at the same moment, because each message takes time. So the steps that
        follow at once run in the same turn, unless the process is slow.
        """
        limit = self.time() + 1e-9
        while self._scheduled and self._scheduled[0]._when <= limit:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                self._ready.append(handle)

        ready = self._ready
        most = min(most, len(ready)) if is_slow else most
        count = 0
        events._set_running_loop(self)
        try:
            while ready and count < most:
                count += 1
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            events._set_running_loop(None)
        return count
