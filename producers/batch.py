"""Reports gathered into frames, full ones by count and bytes, others by time; each frame with a random id.

A frame with an id is counted once and belongs to one partition, so whoever sends it again, after
whatever failure, changes nothing. Time is told, not read: any clock will do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from oracles.errors import ParameterError
from oracles.frame import HEADER_SIZE, encode
from oracles.mechanisms.entropy import System
from oracles.query import Query
from oracles.types import Reports

REPORTS = 1000
"""The most reports of a frame, unless one says otherwise."""
BYTES = 128 << 10
"""The most bytes of a frame, unless one says otherwise; from there on nothing gets faster."""
LINGER = 1.0
"""Seconds that a report waits for others, unless one says otherwise."""
COST = 4096
"""Bytes that a frame takes in memory beside its reports, at most."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A frame as it is sent, however often."""

    id: bytes
    pane: int
    n: int
    data: bytes | memoryview = field(repr=False)

    @property
    def weight(self) -> int:
        return len(self.data) - HEADER_SIZE + COST


@dataclass(slots=True)
class _Open:
    """A frame that takes more reports until a time."""

    digest: bytes
    pane: int
    width: int
    until: float
    n: int = 0
    rows: bytearray = field(default_factory=bytearray)

    def seal(self) -> Sealed:
        reports = np.frombuffer(self.rows, np.uint8).reshape(self.n, self.width)
        name = random_id()
        return Sealed(name, self.pane, self.n, encode(self.digest, self.pane, reports, name))


class Batches:
    """The open frames, one a query and pane, of at most so many reports and bytes each."""

    def __init__(self, reports: int = REPORTS, size: int = BYTES) -> None:
        if reports < 1 or size <= HEADER_SIZE:
            raise ParameterError(
                f"a frame has at least 1 report and more than {HEADER_SIZE} bytes, got {reports} and {size}"
            )
        self._reports = reports
        self._size = size
        self._open: dict[tuple[bytes, int], _Open] = {}

    def capacity(self, width: int) -> int:
        """How many reports of `width` bytes a frame takes; at least one."""
        return max(1, min(self._reports, (self._size - HEADER_SIZE) // width))

    @property
    def weight(self) -> int:
        """Bytes of memory that the open frames take."""
        return sum(len(frame.rows) + COST for frame in self._open.values())

    @property
    def until(self) -> float | None:
        """When the next frame has waited long enough; None where none is open."""
        return min((frame.until for frame in self._open.values()), default=None)

    def add(self, query: Query, pane: int, reports: Reports, until: float) -> Iterator[Sealed]:
        """Add reports that wait until then; the frames that are full now."""
        key, width = (query.digest, pane), query.oracle.width
        most = self.capacity(width)
        start = 0
        while start < len(reports):
            frame = self._open.setdefault(key, _Open(query.digest, pane, width, until))
            part = reports[start : start + most - frame.n]
            frame.rows += part.tobytes()
            frame.n += len(part)
            start += len(part)
            if frame.n == most:
                yield self._open.pop(key).seal()

    def overdue(self, now: float) -> list[Sealed]:
        """The frames that have waited long enough."""
        keys = [key for key, frame in self._open.items() if frame.until <= now]
        return [self._open.pop(key).seal() for key in keys]

    def rest(self) -> list[Sealed]:
        """All open frames."""
        return self.overdue(float("inf"))


def pane_of(query: Query, at: float) -> int:
    """The start of the pane that a time falls in: all that a frame says of it."""
    return int(at // query.pane) * query.pane


def wait(query: Query, at: float, linger: float) -> float:
    """How long a report given at a time waits for others: not beyond its pane's end, lest it be late."""
    left = pane_of(query, at) + query.pane - at
    return min(linger, left)


def random_id() -> bytes:
    name = bytes(8)
    while not any(name):
        name = System().raw(8).tobytes()
    return name
