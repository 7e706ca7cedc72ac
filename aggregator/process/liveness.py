"""Liveness: the beat that a worker's main loop publishes of itself, and which of its parts stand still.

Plain values only, so that another thread may read them whatever hangs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

PATIENCE = 25.0
"""Seconds without a beat, or at one offset of a log that goes on."""
PATIENCE_STARTING = 120.0
PATIENCE_SHARING = 60.0
"""A rebalance took 33 s on a busy machine."""
PATIENCE_MERGING = 60.0
"""One record of millions of values takes seconds."""
SILENT, GONE = 15.0, 300.0
"""Seconds without an answer of any broker until a worker is not ready, and until it ends."""


class Stage(StrEnum):
    """A part of a worker that may stand still."""

    START = "the start"
    LOOP = "the event loop"
    SHARING = "the sharing out of partitions, or their recovery"
    MERGER = "the merger"
    REPORTS = "reports"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class Beat:
    """One look at itself by the main loop."""

    number: int = 0
    """Of this beat; 0: the parts of the worker are not there yet."""
    counting: bool = False
    """Whether its partitions are recovered."""
    moved: int = 0
    """Sums up whatever moves while partitions are shared out and recovered."""
    reports: Mapping[int, int] = field(default_factory=dict)
    """By owned partition, the acknowledged offset."""
    more: frozenset[int] = frozenset()
    """The owned partitions that are known to hold more than was read."""
    snapshots: Mapping[int, int] = field(default_factory=dict)
    """By partition, the offset up to which they are merged."""
    rounds: int = 0
    """Rises whenever the merger comes round, or has written something."""
    pause: float = 0.0
    """Seconds between two acknowledgements where all is well."""


@dataclass(frozen=True)
class Still:
    """A part that stands still."""

    part: Stage
    seconds: float
    partition: int = -1
    offset: int = -1

    @property
    def asks(self) -> bool:
        """Whether it hangs only if the broker has more of this partition."""
        return self.part in (Stage.REPORTS, Stage.SNAPSHOTS)

    def __str__(self) -> str:
        where = f"partition {self.partition} of {self.part} at offset {self.offset}" if self.asks else self.part
        return f"{where} for {self.seconds:.0f} s"


class Liveness:
    """Since when each part stands where it is."""

    def __init__(self, haste: float = 1.0) -> None:
        self._haste = haste
        self._seen: dict[tuple[Stage, int], tuple[int, float]] = {}
        self._beat = Beat()

    def look(self, beat: Beat, now: float) -> list[Still]:
        """The parts that have stood still for too long; a part that comes anew begins anew."""
        seen, self._beat = self._seen, beat
        self._seen = {}
        for part, partition, value in _parts(beat):
            known = seen.get((part, partition))
            self._seen[part, partition] = known if known is not None and known[0] == value else (value, now)
        return [still for still in self._standing(now) if still.seconds > self._patience(still.part)]

    def unready(self, now: float) -> Still | None:
        """Stages that already stand still for so long that the worker is not ready, whether or not it hangs."""
        for still in self._standing(now):
            known = still.part in (Stage.MERGER, Stage.LOOP) or (
                still.part is Stage.REPORTS and still.partition in self._beat.more
            )
            if known and still.seconds > SILENT + self._beat.pause:
                return still
        return None

    def excuse(self, still: Still, now: float) -> None:
        """It stands still for a good reason: begin anew."""
        known = self._seen.get((still.part, still.partition))
        if known is not None:
            self._seen[still.part, still.partition] = known[0], now

    def excuse_all(self) -> None:
        """No broker answers: nothing of ours can move."""
        self._seen.clear()

    def _standing(self, now: float) -> Iterator[Still]:
        for (part, partition), (value, since) in list(self._seen.items()):
            yield Still(part, now - since, partition, value)

    def _patience(self, part: Stage) -> float:
        patience = _PATIENCE.get(part, PATIENCE) * self._haste
        return patience + self._beat.pause if part is Stage.REPORTS else patience


_PATIENCE = {
    Stage.START: PATIENCE_STARTING,
    Stage.SHARING: PATIENCE_SHARING,
    Stage.MERGER: PATIENCE_MERGING,
    Stage.SNAPSHOTS: PATIENCE_MERGING,
}


def _parts(beat: Beat) -> Iterator[tuple[Stage, int, int]]:
    """All that is watched now: stage, partition, and what should change."""
    if not beat.number:
        yield Stage.START, -1, 0
        return
    yield Stage.LOOP, -1, beat.number
    if not beat.counting:
        yield Stage.SHARING, -1, beat.moved
        return
    yield Stage.MERGER, -1, beat.rounds
    for partition, offset in beat.reports.items():
        yield Stage.REPORTS, partition, offset
    for partition, offset in beat.snapshots.items():
        yield Stage.SNAPSHOTS, partition, offset
