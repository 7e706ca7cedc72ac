"""The slot of one query on a shelf: its merger, what stands of it in the topic, and what its next finals go on from.

A pane that is closed on all partitions is needed for as long as windows hold it. Its merged snapshot takes the
place of those of its partitions, which are deleted once it is acknowledged: of a day of panes on 64 partitions
there stands a 64th.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from aggregator.merging.crowd import Foretelling, Shown
from aggregator.merging.merge import Merger, encode_state
from aggregator.merging.windows import ClosedWindow, Position, Span
from aggregator.topics.keys import PaneKey, StateKey, Write
from hubbub.definitions.versions import FOR_EVER, Tenure, Versions
from oracles.query import Query
from oracles.query.settings import Window


class Present:
    """The snapshots of a query that stand in the topic: by pane a bit for each, merged, closed and open."""

    def __init__(self) -> None:
        self._panes: dict[int, int] = {}

    def __len__(self) -> int:
        """How many panes have any."""
        return len(self._panes)

    def add(self, key: PaneKey) -> None:
        self._panes[key.pane] = self._panes.get(key.pane, 0) | 1 << bit(key)

    def discard(self, key: PaneKey) -> None:
        rest = self._panes.get(key.pane, 0) & ~(1 << bit(key))
        if rest:
            self._panes[key.pane] = rest
        else:
            self._panes.pop(key.pane, None)

    def take(self, digest: bytes, before: int | None = None) -> Iterator[bytes]:
        """The keys of all, or of panes that start before; they are gone."""
        for pane in sorted(pane for pane in self._panes if before is None or pane < before):
            yield from _keys(digest, pane, self._panes.pop(pane))

    def take_parts(self, digest: bytes, pane: int) -> Iterator[bytes]:
        """The keys of those of a pane that its merged one stands for; they are gone."""
        parts = self._panes.get(pane, 0) & ~_MERGED
        if parts:
            self._panes[pane] &= _MERGED
            if not self._panes[pane]:
                del self._panes[pane]
            yield from _keys(digest, pane, parts)


_MERGED = 1
"""The bit of a merged snapshot."""


def bit(key: PaneKey) -> int:
    """The number of a pane's snapshot, among all of the pane."""
    return 0 if key.kind == "merged" else 1 + 2 * key.partition + (key.kind == "open")


def key_of(digest: bytes, pane: int, number: int) -> PaneKey:
    """The key of the snapshot that has this number."""
    if not number:
        return PaneKey("merged", digest, pane, 0)
    return PaneKey("closed" if number % 2 else "open", digest, pane, (number - 1) // 2)


def _keys(digest: bytes, pane: int, bits: int) -> list[bytes]:
    return sorted(key_of(digest, pane, each).encode() for each in range(bits.bit_length()) if bits >> each & 1)


@dataclass(eq=False)
class Slot:
    """The slot of one query on a shelf."""

    merger: Merger
    alerts: dict[Window, list[bytes]] = field(default_factory=dict)
    """The states of the alerts of each kind of window."""
    shown: dict[Window, list[Shown | None]] = field(default_factory=dict)
    """Of each kind of window and attribute, the last one that showed values."""
    foretelling: Foretelling = field(default_factory=Foretelling)
    written: dict[Window, Position] = field(default_factory=dict)
    """The positions that are acknowledged."""
    snapshots: Present = field(default_factory=Present)
    states: dict[Window, set[bytes]] = field(default_factory=dict)
    """The keys of states."""
    repeated: set[Window] = field(default_factory=set)
    """Kinds of windows whose newest state was too large to be written: their snapshots stay, for a restart."""
    older: set[Window] = field(default_factory=set)
    """Kinds of windows whose newest state is of a writer who knew of no merged snapshots."""
    finished: int | None = None
    """All windows that end here or before are published, and acknowledged."""
    _owed: Iterator[ClosedWindow] | None = None
    _totals: deque[int] = field(default_factory=deque)
    """The panes whose merged snapshots were handed out to be written."""

    def collect(self) -> None:
        """All that stood in the log is taken in: what has become final by now is owed."""
        if self._owed is None and self.merger.owes:
            self._owed = self.merger.finals()

    def owed(self) -> Iterator[ClosedWindow]:
        """The finals that are owed; whoever leaves off goes on there the next time."""
        if self._owed is not None:
            for final in self._owed:  # noqa: UP028 - `from` would end it with whoever leaves off
                yield final
            self._owed = None

    def finals(self) -> Iterator[ClosedWindow]:
        """Those that are owed where nothing more is to come."""
        self.collect()
        yield from self.owed()

    def totals(self) -> list[Write]:
        """The merged snapshots that are to be written, which is acknowledged before anything is `settled`."""
        digest, totals, self.merger.totals = self.versions.query.digest, self.merger.totals, []
        self._totals.extend(pane for pane, _ in totals)
        return [(PaneKey("merged", digest, pane, 0).encode(), total) for pane, total in totals]

    @property
    def owes(self) -> bool:
        """Whether there are finals that nobody has taken yet."""
        return self._owed is not None or self.merger.owes

    @property
    def versions(self) -> Versions:
        return self.merger.versions

    def speaking(self, span: Span) -> Query:
        """The version that speaks for a window: that of its last pane."""
        return self.versions.at(span.end - self.versions.query.pane).query

    @property
    def end(self) -> int | None:
        """That of the newest final that is acknowledged."""
        return max((position.end for position in self.written.values()), default=None)

    def is_over(self, end: int) -> bool:
        """Whether all windows up to that end are published and acknowledged, and no state is missing."""
        return self.finished is not None and self.finished >= end and not self.repeated

    def remains(self) -> list[bytes]:
        """The keys of all its snapshots, once it is retired and over: no window to come holds them."""
        end = self.versions.owed_until
        if end is None or not self.is_over(end):
            return []
        return list(self.snapshots.take(self.versions.query.digest))

    def state(self, window: Window, position: Position) -> tuple[bytes, bytes]:
        """The record to go on from."""
        name = StateKey(self.versions.query.digest, window, position.end).encode()
        return name, encode_state(position, self.alerts.get(window, []), self.shown.get(window, []))

    def settled(self, window: Window, position: Position) -> Iterator[bytes]:
        """The state is acknowledged: the keys that nobody needs any more."""
        self.written[window] = position
        self.repeated.discard(window)
        self.older.discard(window)
        kept = StateKey(self.versions.query.digest, window, position.end).encode()
        yield from sorted(self.states.get(window, set()) - {kept})
        self.states[window] = {kept}
        needed = self._needed_from()
        if needed is not None:
            yield from self.snapshots.take(self.versions.query.digest, needed)

    def replaced(self) -> Iterator[bytes]:
        """The keys of snapshots that merged ones stand for by now.

        They stay while a worker that knows of no merged ones could take what is left for all. Where it cannot read
        the state of a kind of window, it begins anew behind that: so it misses no pane that ends before all of them.
        """
        kinds = [tenure.window for tenure in self._tenures()]
        if any(window not in self.written or window in self.older for window in kinds):
            return
        before = min((self.written[window].end for window in kinds), default=0) - self.versions.query.pane
        while self._totals and self._totals[0] <= before:
            yield from self.snapshots.take_parts(self.versions.query.digest, self._totals.popleft())

    def _tenures(self) -> Iterator[Tenure]:
        """Those of which windows are still to come."""
        for tenure in self.versions.tenures:
            if self.finished is None or tenure.until > self.finished or tenure.window in self.repeated:
                yield tenure

    def _needed_from(self) -> int | None:
        """No window to come needs a snapshot of a pane before; None while some kind has no state."""
        starts = []
        for window, since, _ in self._tenures():
            written = self.written.get(window)
            if written is None and since == -FOR_EVER:
                return None
            first = -FOR_EVER if written is None else written.end + window.step - window.size
            starts.append(max(since, first))
        return min(starts, default=None)
