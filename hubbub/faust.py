"""Tallies in a Faust app of your own: a windowed table, and an agent that counts frames into it.

This is for a modest load, up to about a thousand frames a second and partition. It uses Faust's public interface alone.
It never counts a frame twice. After a failure it may have fewer, because Faust can commit offsets whose write to the
changelog failed. For exact counts, and for admission rules, small crowds, groups, alerts and records, use the daemon.
"""

import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import faust
import numpy as np

from hubbub import outside
from oracles import Oracle
from oracles.errors import HubbubError, ParameterError
from oracles.estimate import Estimate
from oracles.frame import Frame, decode
from oracles.query import Query
from oracles.types import Ints


@dataclass(eq=False)
class Tallies:
    """The counts of a query in the windows of a table, and the agent that makes them."""

    app: faust.App
    query: Query
    oracle: Oracle
    topic: Any
    window: int
    expires: int
    table: Any = None
    """The windowed table. A value holds the next offset of a partition, the reports, and the support counts."""
    agent: Any = None
    refused: Counter[str] = field(default_factory=Counter)
    """Frames that were not counted, by reason: `malformed`, `digest` (of another query) or `late`."""
    pane: int = 0
    """Pane of the present frame, by which the table chooses its window."""

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that this worker has now. With several workers its estimates are a part of the whole."""
        return frozenset(tp.partition for tp in self.app.consumer.assignment() if tp.topic in self.topic.topics)

    def estimate(self, start: int) -> Estimate | None:
        """Return the estimate of the window that starts at this time, or None without reports."""
        window = self.table.relative_to(float(start))
        state = self.oracle.zeros()
        n = 0
        for partition in self.partitions:
            with suppress(KeyError):
                _, reports, own_state = _unpacked(window[self._key(partition)].value())
                state += own_state
                n += reports
        return self.oracle.estimate(state, n) if n else None

    def count(self, event: Any) -> int | None:
        """Count the frame of an event. Return the start of its window, or None if it is refused or counted already."""
        partition = event.message.partition
        try:
            frame = decode(event.value)
            reason = self._reason(frame)
            if reason is not None:
                self.refused[reason] += 1
                return None
            reports = frame.shaped(self.oracle.width).reports
            self.pane = frame.pane
            next_offset, n, state = self._counts(partition)
            # A replay after a failure reads frames again whose counts the table has.
            if event.message.offset < next_offset:
                return None
            left_out = self.oracle.add(state, reports)
        except HubbubError:
            self.refused["malformed"] += 1
            return None

        value = np.concatenate([[event.message.offset + 1, n + len(reports) - left_out], state])
        self.table[self._key(partition)] = value.astype("<i8").tobytes()
        return frame.pane - frame.pane % self.window

    def _reason(self, frame: Frame) -> str | None:
        if frame.digest != self.query.digest:
            return "digest"
        if frame.pane % self.query.pane:
            return "malformed"
        # Faust removes windows by the clock of the machine. A late frame would begin such a window again.
        end = frame.pane - frame.pane % self.window + self.window
        return "late" if end <= outside.wall() - self.expires else None

    def _counts(self, partition: int) -> tuple[int, int, Ints]:
        with suppress(KeyError):  # a table without a default raises, so that reading writes nothing
            return _unpacked(self.table[self._key(partition)].value())
        return 0, 0, self.oracle.zeros()

    def _key(self, partition: int) -> str:
        # All partitions of a worker share one dictionary, and the keys of windows cannot be raw bytes.
        return f"{self.query.name}|{partition}"


def tallies(
    app: faust.App,
    query: Query,
    topic: Any,
    *,
    window: int = 60,
    expires: int = 86_400,
    on_estimate: Callable[[int, Estimate], Awaitable[None] | None] | None = None,
) -> Tallies:
    """Add a windowed table and an agent to the app, which count the frames of a topic.

    `topic` is a name, or a Faust topic of raw bytes. `window` is the size of a window in seconds, a multiple of the
    query's pane. The window of a frame is that of its pane, and leaves the table `expires` seconds after its end. Set
    `topic_partitions` of the app to the partitions of the topic, because the table has as many. `on_estimate` gets
    the start of a window and its estimate after each frame that was counted.
    """
    if query.only_oracle is None:
        raise ParameterError(f"{query.name} has several attributes or unknown strings; this table counts one answer")
    if window <= 0 or window % query.pane:
        raise ParameterError(f"window must be a multiple of the pane, {query.pane} s; got {window!r}")
    if isinstance(topic, str):
        topic = app.topic(topic, key_serializer="raw", value_serializer="raw", value_type=bytes)

    counts = Tallies(app, query, query.only_oracle, topic, window, expires)
    name = f"{app.conf.id}-{query.name}-tallies"
    table: Any = app.Table(name, key_type=str, value_type=bytes)
    counts.table = table.tumbling(window, expires=expires).relative_to(lambda _: float(counts.pane))

    async def count_frames(stream: Any) -> AsyncIterator[None]:
        async for event in stream.events():
            start = counts.count(event)
            if start is not None and on_estimate is not None:
                estimate = counts.estimate(start)
                result = None if estimate is None else on_estimate(start, estimate)
                if inspect.isawaitable(result):
                    await result
            yield

    counts.agent = app.agent(topic, name=f"{query.name}-tallies")(count_frames)
    return counts


def _unpacked(value: bytes) -> tuple[int, int, Ints]:
    numbers = np.frombuffer(value, "<i8").astype(np.int64)
    return int(numbers[0]), int(numbers[1]), numbers[2:]
