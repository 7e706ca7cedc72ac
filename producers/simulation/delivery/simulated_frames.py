"""Frames of simulated reports, built like a client's frames, with the true answers beside them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from oracles.errors import ParameterError
from oracles.frame import HEADER_SIZE, encode, partition_of
from oracles.mechanisms.entropy import Source, source
from oracles.query import Query
from oracles.types import Flags, Ints, Reports
from producers.publishers.frames import BYTES, LINGER, REPORTS, pane_of

SpreadAt = Callable[[int], int | None]
"""A function that returns the spread of the query for a pane."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedFrame:
    """A frame and its honest answers. Only the counts of the answers leave the simulation."""

    data: bytes
    partition: int
    pane: int
    n: int
    values: Ints


@dataclass(slots=True, eq=False)
class _OpenSimulatedFrame:
    """Reports of one pane and group that wait for more reports until a time, in milliseconds."""

    deadline: int
    n: int = 0
    pieces: list[tuple[Reports, Ints, Flags]] = field(default_factory=list)


class FrameBuilder:
    """A builder of one query's frames. Times are milliseconds since the Unix epoch.

    The frames are like those of `Batches`: the same limits of reports, bytes and waiting time, and a random id.
    """

    def __init__(
        self,
        query: Query,
        partitions: int,
        most: int = REPORTS,
        rng: np.random.Generator | Source | None = None,
        spread_at: SpreadAt | None = None,
    ) -> None:
        if most < 1:
            raise ParameterError(f"a frame holds at least 1 report, got {most}")
        self.query = query
        self.partitions = partitions
        self.most = max(1, min(most, (BYTES - HEADER_SIZE) // query.oracle.width))
        self._draw = source(rng)
        self._spread_at = spread_at or (lambda _pane: query.spread)
        self._open: dict[tuple[int, int], _OpenSimulatedFrame] = {}
        """The open frames by pane and group."""

    def pane(self, time_ms: int) -> int:
        """Return the start of the pane of a time, in seconds."""
        return pane_of(self.query, time_ms // 1000)

    def put(
        self, pane: int, reports: Reports, values: Ints, honest: Flags, time_ms: int, group: int = 0
    ) -> Iterator[SimulatedFrame]:
        """Add the reports of a time and a group, and yield the frames that are now full."""
        key = pane, group
        frame = self._open.get(key)
        if frame is None:
            deadline = time_ms + int(1000 * LINGER)
            end = 1000 * (pane + self.query.pane)
            # After the end of the pane the frame could be late. A client with a wrong clock does not know that.
            if time_ms < end:
                deadline = min(deadline, end)
            frame = _OpenSimulatedFrame(deadline)
            self._open[key] = frame

        frame.pieces.append((reports, values, honest))
        frame.n += len(reports)
        if frame.n >= self.most:
            yield from self._split(key, self._open.pop(key), time_ms)

    def overdue(self, time_ms: int) -> Iterator[SimulatedFrame]:
        """Yield the open frames that have waited long enough, or whose pane ends."""
        for key in [key for key, frame in self._open.items() if frame.deadline <= time_ms]:
            yield self._close(key, *_joined(self._open.pop(key)))

    def rest(self) -> Iterator[SimulatedFrame]:
        """Yield all open frames."""
        for key in list(self._open):
            yield self._close(key, *_joined(self._open.pop(key)))

    def _split(self, key: tuple[int, int], frame: _OpenSimulatedFrame, time_ms: int) -> Iterator[SimulatedFrame]:
        """Yield full frames; the remaining reports wait again."""
        reports, values, honest = _joined(frame)

        full_count = len(reports) // self.most * self.most
        for start in range(0, full_count, self.most):
            part = slice(start, start + self.most)
            yield self._close(key, reports[part], values[part], honest[part])

        if full_count < len(reports):
            pane, group = key
            yield from self.put(pane, reports[full_count:], values[full_count:], honest[full_count:], time_ms, group)

    def _close(self, key: tuple[int, int], reports: Reports, values: Ints, honest: Flags) -> SimulatedFrame:
        pane, group = key
        name = bytes(8)
        # An id of zeros stands for none.
        while not any(name):
            name = self._draw.raw(8).tobytes()
        data = encode(self.query.digest, pane, reports, name, group=group)
        partition = partition_of(name, self.partitions, self.query.digest, self._spread_at(pane))
        return SimulatedFrame(data, partition, pane, len(reports), values[honest])


def _joined(frame: _OpenSimulatedFrame) -> tuple[Reports, Ints, Flags]:
    reports, values, honest = zip(*frame.pieces, strict=True)
    return np.concatenate(reports), np.concatenate(values), np.concatenate(honest)
