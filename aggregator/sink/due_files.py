"""When a file is due, and how long an open file stays. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aggregator.sink.file_names import DAY, FileName, Period

LONGEST = 2 * DAY
"""Seconds after its end when a file is written, whatever is known of its query."""
PACE = 300
"""Seconds between two rounds of writing if no open files are written."""


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """The settings of a sink that decide what it writes."""

    interval: int | None
    """Longest seconds from a final to its row in `open`, or None for no open files."""
    files: Period = "day"
    settle: int = 600
    keep: int | None = None
    """Seconds after its day for which a file stays, or None for ever."""
    queries: frozenset[str] | None = None

    @property
    def pause(self) -> float:
        """The seconds from the start of one round of writing to the start of the next."""
        # A final that is read right after a start waits for the next round, and for its writing.
        return PACE if self.interval is None else 0.8 * self.interval

    @property
    def lag_limit(self) -> int:
        """The most seconds from a final to its row while all is well, with room for a slow target."""
        return DAY + self.settle if self.interval is None else 3 * self.interval

    def has_query(self, name: str) -> bool:
        return self.queries is None or name in self.queries

    def is_old(self, name: FileName, time: float) -> bool:
        """Whether the day of a name is older than the files to keep."""
        end = int(datetime.fromisoformat(name.day).replace(tzinfo=UTC).timestamp()) + DAY
        return self.keep is not None and end + self.keep <= time


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """What a sink knows of the topics at one moment."""

    time: float
    read_through: float
    """The end of the windows up to which all partitions are read: infinity if they are read to the end."""
    closed_through: Mapping[str, int] = field(default_factory=dict)
    """The newest closed pane of each query, read before the ends of the partitions."""
    retired: Collection[str] = ()

    @property
    def is_at_end(self) -> bool:
        return self.read_through == float("inf")


def is_due(name: FileName, progress: ReadProgress, settle: int) -> bool:
    """Whether all finals of a name should be there, so that its file can be written."""
    if progress.is_at_end:
        return _is_due_at_end(name, progress, settle)
    # A late final only costs a file more, so the first reading of a month does not keep all days waiting.
    return progress.read_through >= name.end + LONGEST


def _is_due_at_end(name: FileName, progress: ReadProgress, settle: int) -> bool:
    if name.query in progress.retired or progress.time >= name.end + LONGEST:
        return True
    return progress.closed_through.get(name.query, 0) >= name.end + settle


def open_file_ends(name: FileName, file_time: float) -> float:
    """Return until when an open file stays, if its file in `finals` has this time of its last change.

    A reader that has listed `finals` before that still finds the rows.
    """
    return (file_time // name.period + 2) * name.period
