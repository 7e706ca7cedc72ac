"""The plan of a checkpoint: the writes of one partition, their order, and the budget that limits them."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from aggregator.counting.admission.gate import Data, Refusal
from aggregator.tallies.clock import Clock
from aggregator.tallies.keys import PaneKey, Write
from aggregator.tallies.progress import Progress
from hubbub.kafka.columns import UnreadableBatch

INTERVAL = 2.0
"""Seconds between two whole checkpoints. A worker that starts reads at most the reports of this time again."""
BYTES_PER_S = 32 << 20
"""Default maximum bytes of checkpoints per second of a worker."""
REJECT_BYTES = 32
"""The number of bytes of a refused record in `rejects`: the header of a frame up to its id, but no report."""
RECORDS_PER_S = 20_000
"""The most records per second. Each costs some microseconds of a core, in the writer and in each reader."""


@dataclass(slots=True)
class WriteBudget:
    """The budget that all writes of a worker share. It turns bytes and records into seconds of pause."""

    bytes_per_s: float
    records_per_s: float = RECORDS_PER_S
    _regular: float = 0.0
    """The seconds of regular writes since the last pause."""
    _urgent: float = 0.0
    """The seconds of urgent writes since the last pause."""

    def spend(self, size: int, records: int, *, urgent: bool = False) -> None:
        """Charge a write. An urgent write is one that did not wait for its turn."""
        seconds = max(size / self.bytes_per_s, records / self.records_per_s)
        if urgent:
            self._urgent += seconds
        else:
            self._regular += seconds

    def pause(self) -> float:
        """Return the seconds from the last turn to the next, and reset the budget.

        Urgent writes lengthen the pause at most to twice the seconds of the turn itself, because closed
        panes alone could delay the checkpoints that a restart reads.
        """
        pause = self._regular + min(self._urgent, self._regular)

        self._regular = 0.0
        self._urgent = 0.0
        return pause


@dataclass(frozen=True, slots=True)
class Reject:
    """A refused record of the topic `reports`, for the topic `rejects`."""

    offset: int
    start: bytes
    """The first bytes of the record."""
    reason: str
    detail: str

    @classmethod
    def of(cls, refusal: Refusal, offset: int, data: Data) -> "Reject":
        """Return the refused record. An unreadable batch is at the offset of its first record."""
        if isinstance(data, UnreadableBatch):
            return cls(data.first, b"", refusal.reason, refusal.detail)
        return cls(offset, (data or b"")[:REJECT_BYTES], refusal.reason, refusal.detail)

    def key(self, topic: str, partition: int) -> bytes:
        return f"{topic}|{partition}|{self.offset}".encode()

    def headers(self, topic: str, partition: int) -> list[tuple[str, bytes]]:
        place = {"topic": topic, "partition": partition, "offset": self.offset}
        headers = {**place, "reason": self.reason, "detail": self.detail}
        return [(name, str(value).encode()) for name, value in headers.items()]


@dataclass(slots=True)
class RunOutcome:
    """The counts of a run of records by the name of the query."""

    frames: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    implausible: Counter[str] = field(default_factory=Counter)
    rejects: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of refused reports by query and reason."""
    rejected_frames: Counter[str] = field(default_factory=Counter)
    """The number of refused frames by reason."""

    def count_refusal(self, refusal: Refusal) -> None:
        self.rejects[refusal.query or "", refusal.reason] += refusal.reports
        self.rejected_frames[refusal.reason] += 1


@dataclass(frozen=True, slots=True)
class WritePhase:
    """Writes that go out together, after Kafka has acknowledged those of the phase before."""

    changelog: list[Write]
    snapshots: list[tuple[PaneKey, bytes]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    clock: Clock = None
    """The clock for the clock record, or None if the phase has none."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """The writes of one checkpoint of a partition."""

    ids: list[Write]
    """Segments of ids for the changelog."""
    tallies: list[Write]
    """Tallies for the changelog."""
    snapshots: list[tuple[PaneKey, bytes]]
    """Snapshots of closed panes for the topic `snapshots`."""
    rejects: list[Reject]
    progress: Progress
    """The progress for the changelog."""
    clock: Clock = None
    """The clock for the clock record, or None if the checkpoint writes none."""
    quiet: bool = False
    """Whether only the clock has to be written, because a restart can read the few ticks since again."""

    def phases(self, progress: Callable[["CheckpointPlan"], Write]) -> Iterator[WritePhase]:
        """Yield the phases in order: ids before their tallies, and the progress after everything that it covers.

        Rejects come before the tallies, because a successor does not look again at frames that a tally covers. The
        clock record comes before the progress. A kill between the two must leave no closed clock whose offsets nobody
        knows.
        """
        yield WritePhase(self.ids, rejects=self.rejects)
        yield WritePhase(self.tallies, self.snapshots)
        yield WritePhase([], clock=self.clock)
        yield WritePhase([] if self.quiet else [progress(self)])
