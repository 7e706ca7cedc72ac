"""Liveness: the beat that a worker's main loop publishes, and the parts of the worker that stand still.

A beat has plain values only, so that another thread can read it even if the main loop hangs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PATIENCE = 25.0
"""Seconds without a beat, or at one offset of a log with more records, after which a part counts as hung."""
PATIENCE_STARTING = 120.0
PATIENCE_SHARING = 60.0
"""Seconds for a rebalance with recovery. One took 33 s on a busy machine."""
PATIENCE_MERGING = 60.0
"""Seconds for a round of the merger. One record of millions of values takes seconds."""
SILENT = 15.0
"""Seconds without an answer of any broker until a worker is not ready."""
GONE = 300.0
"""Seconds without an answer of any broker until a worker exits."""


class Stage(StrEnum):
    """A part of a worker that may hang."""

    START = "the start"
    LOOP = "the event loop"
    SHARING = "the assignment of partitions, or their recovery"
    MERGER = "the merger"
    REPORTS = "reports"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Beat:
    """The state of a worker, as its main loop publishes it."""

    number: int = 0
    """The number of the beat, or 0 while the worker starts."""
    counting: bool = False
    """Whether the partitions are recovered."""
    steps: int = 0
    """A number that grows while a rebalance or a recovery makes progress."""
    reports: Mapping[int, int] = field(default_factory=dict)
    """The acknowledged next offset of each owned partition."""
    more: frozenset[int] = frozenset()
    """The owned partitions with unread records."""
    snapshots: Mapping[int, int] = field(default_factory=dict)
    """The next offset of each snapshot partition."""
    rounds: int = 0
    """A number that grows with each round and each write of the merger."""
    pause: float = 0.0
    """Seconds between two checkpoints of a healthy worker."""


@dataclass(frozen=True)
class Standstill:
    """A part that makes no progress, with the time since its last progress."""

    part: Stage
    seconds: float
    partition: int = -1
    offset: int = -1

    @property
    def needs_broker(self) -> bool:
        """Whether the part hangs only if the broker has more records of the partition."""
        return self.part in (Stage.REPORTS, Stage.SNAPSHOTS)

    def __str__(self) -> str:
        place = f"partition {self.partition} of {self.part} at offset {self.offset}" if self.needs_broker else self.part
        return f"{place} for {self.seconds:.0f} s"


class Liveness:
    """The time since when each part has made no progress."""

    def __init__(self, haste: float = 1.0) -> None:
        self._haste = haste
        self._marks: dict[tuple[Stage, int], tuple[int, float]] = {}
        self._beat = Beat()

    def find_hung(self, beat: Beat, time: float) -> list[Standstill]:
        """Return the parts that have stood still for too long. A part that the last beat lacked starts at 0."""
        marks = self._marks
        self._beat = beat
        self._marks = {}
        for part, partition, value in _parts(beat):
            mark = marks.get((part, partition))
            self._marks[part, partition] = mark if mark is not None and mark[0] == value else (value, time)
        return [stop for stop in self._standstills(time) if stop.seconds > self._patience(stop.part)]

    def find_slow(self, time: float) -> Standstill | None:
        """Return a part that stands still so long that the worker is not ready, or None. It need not hang."""
        for standstill in self._standstills(time):
            # Offsets may rest if nothing is unread, and during a recovery. These parts never rest.
            is_certain = standstill.part in (Stage.MERGER, Stage.LOOP) or (
                standstill.part is Stage.REPORTS and standstill.partition in self._beat.more
            )
            if is_certain and standstill.seconds > SILENT + self._beat.pause:
                return standstill
        return None

    def restart(self, standstill: Standstill, time: float) -> None:
        """Restart the time of a part that stands still for a good reason."""
        mark = self._marks.get((standstill.part, standstill.partition))
        if mark is not None:
            self._marks[standstill.part, standstill.partition] = mark[0], time

    def restart_all(self) -> None:
        """Restart the time of all parts, because no part can move while no broker answers."""
        self._marks.clear()

    def _standstills(self, time: float) -> Iterator[Standstill]:
        for (part, partition), (value, start) in list(self._marks.items()):
            yield Standstill(part, time - start, partition, value)

    def _patience(self, part: Stage) -> float:
        patience = _PATIENCE.get(part, PATIENCE) * self._haste
        # Progress moves with each checkpoint only, and a large one makes the next wait.
        return patience + self._beat.pause if part is Stage.REPORTS else patience


_PATIENCE = {
    Stage.START: PATIENCE_STARTING,
    Stage.SHARING: PATIENCE_SHARING,
    Stage.MERGER: PATIENCE_MERGING,
    Stage.SNAPSHOTS: PATIENCE_MERGING,
}


def _parts(beat: Beat) -> Iterator[tuple[Stage, int, int]]:
    """Yield stage, partition, and a number that should change, for each watched part."""
    if not beat.number:
        yield Stage.START, -1, beat.steps
        return

    yield Stage.LOOP, -1, beat.number
    if not beat.counting:
        # Offsets stand still during a recovery, which may take longer than their patience.
        yield Stage.SHARING, -1, beat.steps
        return

    yield Stage.MERGER, -1, beat.rounds
    for partition, offset in beat.reports.items():
        yield Stage.REPORTS, partition, offset
    for partition, offset in beat.snapshots.items():
        yield Stage.SNAPSHOTS, partition, offset
