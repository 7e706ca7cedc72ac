"""The state of one query in a snapshot partition: its merger, its keys in the topic, and the states of its windows.

Windows need the panes that they hold, even after all partitions have closed them. The worker writes one
merged snapshot of such a pane. Once the broker acknowledges it, the worker deletes the snapshots of the
source partitions. So with 64 partitions the topic keeps one 64th of the records of a pane.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.merger import Merger
from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.merging.snapshot_records import encode_state, split_state
from aggregator.merging.stored_records import StoredPanes
from aggregator.merging.windows import ClosedWindow, Position
from aggregator.records.span import Span
from aggregator.tallies.keys import BlockKey, PaneKey, StateKey, Write
from hubbub.definitions.versions import FOR_EVER, PublicationInterval, Versions
from oracles.query import Query
from oracles.query.settings import Window


class OwedFinal(NamedTuple):
    """A final that is due."""

    final: ClosedWindow
    query: Query
    """The version that applies to it."""


@dataclass(eq=False)
class QueryState:
    """The state of one query in a snapshot partition."""

    merger: Merger
    alerts: dict[Window, list[bytes]] = field(default_factory=dict)
    """The alert states of each attribute, by kind of window."""
    positions: dict[Window, Position] = field(default_factory=dict)
    """The acknowledged positions."""
    stored_keys: StoredPanes = field(init=False)
    states: dict[Window, set[bytes]] = field(default_factory=dict)
    """The keys of the states in the topic."""
    too_large: set[Window] = field(default_factory=set)
    """Kinds of windows whose newest state was too large to write. A restart needs their snapshots, so they stay."""
    watermark_ms: int | None = None
    """The time of the newest watermark record."""
    published_through: int | None = None
    """A time. All windows that end at it or before are published and acknowledged."""
    backlog: deque[OwedFinal] = field(default_factory=deque)
    """The next finals to publish, in their order. They stay here until they are answered."""
    settling: list[int] = field(default_factory=list)
    """The ends of the answered finals whose states are not acknowledged."""
    state_ends: dict[Window, int] = field(default_factory=dict)
    """The ends of the newest states that this worker has written or read."""
    _new_states: dict[Window, set[bytes]] = field(default_factory=dict)
    """The keys of the states that are not acknowledged."""
    blocks: dict[Window, dict[Place, bytes]] = field(default_factory=dict)
    """The blocks of each kind of window, also those that are not acknowledged."""
    _new_blocks: list[Write] = field(default_factory=list)
    """The blocks to write."""
    names: NameHistory = field(default_factory=NameHistory)
    """The names that searches have found, also those that are not acknowledged."""
    _finals: Iterator[ClosedWindow] | None = None
    _totals: deque[int] = field(default_factory=deque)
    """The panes whose merged snapshots went to the outbox."""

    def __post_init__(self) -> None:
        self.stored_keys = StoredPanes(self.versions.query.digest)

    def collect(self) -> None:
        """Note that the log is read to its end, so that finals are due up to the watermarks."""
        if self._finals is None and self.merger.has_due_finals:
            self._finals = self.merger.finals()

    def due_finals(self) -> Iterator[ClosedWindow]:
        """Yield the due finals. A caller that stops early continues there in its next call."""
        if self._finals is not None:
            for final in self._finals:  # noqa: UP028 - `yield from` would close it when the caller stops
                yield final
            self._finals = None

    def finals(self) -> Iterator[ClosedWindow]:
        """Yield the due finals at the end of the log."""
        self.collect()
        yield from self.due_finals()

    def owes(self, count: int) -> bool:
        """Whether at least this many finals are due. They are in `backlog` then."""
        while len(self.backlog) < count and (final := next(self.due_finals(), None)) is not None:
            self.backlog.append(OwedFinal(final, self.query_for(final.span)))
        return len(self.backlog) >= count

    def needed_blocks(self, finals: Iterable[OwedFinal]) -> dict[Window, dict[Place, bytes]]:
        """Return the blocks that these finals need, by kind of window."""
        result: dict[Window, dict[Place, bytes]] = {}
        for final, query in finals:
            window = final.span.window
            if final.blocks and (store := self.blocks.get(window)):
                places = blocks.needed(query, window, final.blocks, store)
                result.setdefault(window, {}).update((place, store[place]) for place in places)
        return result

    def answer(
        self, alerts: list[bytes], new_blocks: Mapping[Place, bytes], search: NameSearch | None = None
    ) -> OwedFinal:
        """Remove the next final, whose answer has these alert states, blocks and names, and return it."""
        due = self.backlog.popleft()
        window = due.final.span.window
        self.alerts[window] = alerts
        if new_blocks:
            self.blocks.setdefault(window, {}).update(new_blocks)
            self._new_blocks += [(self._block_name(window, place), value) for place, value in new_blocks.items()]
        self.names = self.names.with_search(search)
        self.settling.append(due.final.span.end)
        return due

    def count_owed(self) -> int:
        """Return the number of due finals that are not acknowledged with their states."""
        return len(self.settling) + len(self.backlog) + self.merger.count_due()

    def next_end(self) -> int | None:
        """Return the end of the oldest window with reports that has no acknowledged final, or None if there is none."""
        ends = [*self.settling, *(due.final.span.end for due in self.backlog), self.merger.next_end()]
        return min((end for end in ends if end is not None), default=None)

    def take_new_blocks(self) -> list[Write]:
        """Remove and return the blocks to write. They come before the states that pass them."""
        new, self._new_blocks = self._new_blocks, []
        return new

    def _block_name(self, window: Window, place: Place) -> bytes:
        return BlockKey(self.versions.query.digest, window, *place).encode()

    def totals(self) -> list[Write]:
        """Return the merged snapshots to write. The broker acknowledges them before any `acknowledge`."""
        digest, totals, self.merger.totals = self.versions.query.digest, self.merger.totals, []
        self._totals.extend(pane for pane, _ in totals)
        return [(PaneKey("merged", digest, pane, 0).encode(), total) for pane, total in totals]

    @property
    def has_due_finals(self) -> bool:
        return bool(self.backlog) or self._finals is not None or self.merger.has_due_finals

    @property
    def versions(self) -> Versions:
        return self.merger.versions

    def query_for(self, span: Span) -> Query:
        """Return the version that applies to a window: the version of its last pane."""
        return self.versions.at(span.end - self.versions.query.pane).query

    @property
    def end(self) -> int | None:
        """The end of the newest acknowledged final."""
        return max((position.end for position in self.positions.values()), default=None)

    def is_published(self, end: int) -> bool:
        """Whether all windows up to that end are published and acknowledged, with all their states."""
        return self.published_through is not None and self.published_through >= end and not self.too_large

    @property
    def is_over(self) -> bool:
        """Whether the query is retired and its last window is published."""
        end = self.versions.last_window_end
        return end is not None and self.is_published(end)

    def retired_keys(self) -> list[bytes]:
        """Remove and return the keys of all snapshots, if the query is retired and its last window is published."""
        if not self.is_over:
            return []
        names = [self._block_name(window, place) for window, places in self.blocks.items() for place in places]
        self.blocks.clear()
        return [*self.stored_keys.take(), *names]

    def state_writes(self, window: Window, position: Position) -> list[Write]:
        """Return the records of the state at a position, to write them in this order."""
        self.state_ends[window] = max(position.end, self.state_ends.get(window, position.end))
        key = StateKey(self.versions.query.digest, window, position.end)
        names = None if self.versions.query.strings is None else self.names
        writes = split_state(key, encode_state(position, self.alerts.get(window, []), self.merger.marks, names))
        self._new_states[window] = {name for name, _ in writes}
        return writes

    def acknowledge(self, window: Window, position: Position) -> Iterator[bytes]:
        """Note that a state is acknowledged, and yield the keys that nobody needs any more."""
        self.positions[window] = position
        self.too_large.discard(window)
        before, self.states[window] = self.states.get(window, set()), self._new_states.pop(window)
        yield from sorted(before - self.states[window])  # the record that is read first is deleted first
        places = self.blocks.get(window, {})
        for place in blocks.obsolete(self.versions.query, window, places, position.end) if places else ():
            del places[place]
            yield self._block_name(window, place)
        first = self._needed_from()
        if first is not None:
            yield from self.stored_keys.take(first)
            self._forget_marks(first)

    def replaced_keys(self) -> Iterator[bytes]:
        """Remove and yield the keys of snapshots that merged snapshots have replaced.

        A worker that cannot read the state of a kind of window restarts that kind behind the state. So it
        needs no pane that ends before the states of all kinds.
        """
        kinds = [interval.window for interval in self._open_intervals()]
        if any(window not in self.positions for window in kinds):
            return
        before = min((self.positions[window].end for window in kinds), default=0) - self.versions.query.pane
        while self._totals and self._totals[0] <= before:
            yield from self.stored_keys.take_parts(self._totals.popleft())

    def _forget_marks(self, first: int) -> None:
        """Forget the marks at which no window to come begins or ends. The windows begin at `first` or later."""
        ends, steps = [], set()
        for window, since, _ in self._open_intervals():
            position = self.positions.get(window)
            ends.append(
                since if position is None else max(since, position.end + (window.step or self.versions.query.pane))
            )
            if window.step:
                steps |= {window.step, window.size}
                first = min(first, blocks.current_start(window, FOR_EVER if position is None else position.end))
        self.merger.marks.forget(first, min(ends, default=FOR_EVER), steps)
        self.names = self.names.settled(min(ends, default=-FOR_EVER))

    def _open_intervals(self) -> Iterator[PublicationInterval]:
        """Yield the publication intervals that have windows to come."""
        end = self.published_through
        for interval in self.versions.intervals:
            if end is None or interval.until > end or interval.window in self.too_large:
                yield interval

    def _needed_from(self) -> int | None:
        """Return the start of the first pane that a window to come needs, or None if a kind has no state yet."""
        starts = []
        for window, since, _ in self._open_intervals():
            position = self.positions.get(window)
            if position is None and since == -FOR_EVER:
                return None
            first = -FOR_EVER if position is None else position.end + window.step - window.size
            starts.append(max(since, first))
        return min(starts, default=None)
