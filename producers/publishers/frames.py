"""Frames with random ids, and the batches that collect reports for them.

Workers count a frame with an id once, and the id determines its partition. A frame may therefore be sent again after
any failure. This module reads no clock. Callers pass the time of any clock.
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
"""Default limit of reports per frame."""
BYTES = 128 << 10
"""Default limit of bytes per frame. Larger frames are not faster."""
LINGER = 1.0
"""Default seconds that a report waits for others."""
COST = 4096
"""Upper limit of the memory of a frame in addition to its reports, in bytes."""

_DIGEST = slice(8, 16)
"""The bytes of the digest in a header (docs/wire-format.md)."""


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """A frame as it is sent, once or several times."""

    id: bytes
    pane: int
    n: int
    data: bytes | memoryview = field(repr=False)

    @classmethod
    def of(cls, digest: bytes, pane: int, reports: Reports, group: int = 0) -> "OutgoingFrame":
        """Encode reports under a random id."""
        name = random_id()
        return cls(name, pane, len(reports), encode(digest, pane, reports, name, group=group))

    @property
    def digest(self) -> bytes:
        """The digest in the header of the frame."""
        return bytes(self.data[_DIGEST])

    @property
    def weight(self) -> int:
        """The memory that the frame takes, in bytes."""
        return len(self.data) - HEADER_SIZE + COST


@dataclass(slots=True)
class _OpenFrame:
    """A frame that accepts more reports until a time."""

    digest: bytes
    pane: int
    group: int
    width: int
    deadline: float
    n: int = 0
    rows: bytearray = field(default_factory=bytearray)

    def close(self) -> OutgoingFrame:
        reports = np.frombuffer(self.rows, np.uint8).reshape(self.n, self.width)
        return OutgoingFrame.of(self.digest, self.pane, reports, self.group)


def capacity(width: int, reports: int = REPORTS, size: int = BYTES) -> int:
    """Return how many reports of `width` bytes, at least one, a frame of at most `size` bytes holds."""
    return max(1, min(reports, (size - HEADER_SIZE) // width))


class Batches:
    """The open frames, one for each query, pane and group."""

    def __init__(self, reports: int = REPORTS, size: int = BYTES) -> None:
        if reports < 1 or size <= HEADER_SIZE:
            raise ParameterError(
                f"a frame has at least 1 report and more than {HEADER_SIZE} bytes, got {reports} and {size}"
            )
        self._reports = reports
        self._size = size
        self._open: dict[tuple[bytes, int, int], _OpenFrame] = {}

    def capacity(self, width: int) -> int:
        """Return how many reports of `width` bytes a frame holds."""
        return capacity(width, self._reports, self._size)

    @property
    def weight(self) -> int:
        """The memory of the open frames, in bytes."""
        return sum(len(frame.rows) + COST for frame in self._open.values())

    @property
    def until(self) -> float | None:
        """The time at which the next open frame must be sent, or None if no frame is open."""
        return min((frame.deadline for frame in self._open.values()), default=None)

    def add(self, query: Query, pane: int, reports: Reports, limit: float, group: int = 0) -> Iterator[OutgoingFrame]:
        """Add reports that may wait until `limit`, and yield the frames that are now full."""
        key = query.digest, pane, group
        width = query.oracle.width
        most_reports = self.capacity(width)
        start = 0
        while start < len(reports):
            frame = self._open.setdefault(key, _OpenFrame(*key, width, limit))
            part = reports[start : start + most_reports - frame.n]
            frame.rows += part.tobytes()
            frame.n += len(part)
            start += len(part)
            # A full frame leaves at once, since one that waits on would only take memory.
            if frame.n == most_reports:
                yield self._open.pop(key).close()

    def overdue(self, time: float) -> list[OutgoingFrame]:
        """Close and return the frames that must be sent by a time."""
        keys = [key for key, frame in self._open.items() if frame.deadline <= time]
        return [self._open.pop(key).close() for key in keys]

    def rest(self) -> list[OutgoingFrame]:
        """Close and return all open frames."""
        return self.overdue(float("inf"))


def pane_of(query: Query, time_s: float) -> int:
    """Return the start of the pane of a time. A frame states no finer time."""
    return int(time_s // query.pane) * query.pane


def wait(query: Query, time_s: float, linger: float) -> float:
    """Return how many seconds a report may wait. After its pane's end it could be late."""
    return min(linger, pane_of(query, time_s) + query.pane - time_s)


def random_id() -> bytes:
    """Return 8 random bytes that are not all zero."""
    name = bytes(8)
    # An id of zeros stands for none.
    while not any(name):
        name = System().raw(8).tobytes()
    return name
