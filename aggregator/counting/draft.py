"""A partition's drafts: what became of a run of records, and what is to be written down in which order."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.counting.clock import Progress
from aggregator.topics.keys import PaneKey, Write
from aggregator.topics.rejects import Reject


@dataclass(slots=True)
class Taken:
    """The fate of a run of records, by the query's name."""

    frames: Counter[str] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    implausible: Counter[str] = field(default_factory=Counter)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Reports, by query and reason."""


Marks = Mapping[int, Mapping[bytes, int]]
"""By partition of the snapshots, how far its queries are closed."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Writes that go out together, once all of the phase before are acknowledged."""

    changelog: list[Write]
    snapshots: list[tuple[PaneKey, bytes]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draft:
    """The writes of one checkpoint of a partition."""

    ids: list[Write]
    """To the changelog."""
    tallies: list[Write]
    """To the changelog."""
    closed: list[tuple[PaneKey, bytes]]
    """To the snapshots."""
    rejects: list[Reject]
    progress: Progress
    """To the changelog."""
    quiet: bool = False
    """Nothing of it has to be written but watermarks: a restart reads the ticks in between once more."""

    def phases(self, progress: Callable[["Draft"], Write], marks: Callable[["Draft"], Marks]) -> Iterator[Phase]:
        """In their order: ids before the tallies whose frames they are of; what relies on all of these last."""
        yield Phase(self.ids)
        yield Phase(self.tallies, self.closed, self.rejects)
        yield Phase([] if self.quiet else [progress(self)], marks=marks(self))
