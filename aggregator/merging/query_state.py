"""The state of one query in a snapshot partition: its merger, its due finals, and its records in the topic."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggregator.merging import blocks
from aggregator.merging.blocks import Place
from aggregator.merging.kinds import kind_of
from aggregator.merging.merger import Merger
from aggregator.merging.name_history import NameHistory, NameSearch
from aggregator.merging.pane_parts import ALL
from aggregator.merging.snapshot_records import WindowState, encode_state, split_state
from aggregator.merging.stored_records import StoredBlocks, StoredPanes, StoredStates
from aggregator.merging.windows import ClosedWindow, Position, order
from aggregator.records.span import Span
from aggregator.tallies.keys import BlockKey, PaneKey, StateKey, Write
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.versions import FOR_EVER, PublicationInterval, Versions
from oracles.query import Query
from oracles.query.settings import Window


class OwedFinal(NamedTuple):
    """A final that is due."""

    final: ClosedWindow
    query: Query
    """The version that applies to it."""


class QueryState:
    """The state of one query in a snapshot partition. It continues from the newest states and blocks in the topic."""

    def __init__(
        self,
        merger: Merger,
        states: Mapping[Window, WindowState] | None = None,
        state_names: Mapping[Window, set[bytes]] | None = None,
        stored_blocks: Mapping[Window, Mapping[Place, bytes]] | None = None,
    ) -> None:
        self.merger = merger
        self.published_through: int | None = None
        """A time. All windows that end at it or before are published and acknowledged."""

        digest = merger.versions.query.digest
        self._panes = StoredPanes(digest)
        self._states = StoredStates(states or {}, state_names or {})
        self._blocks = StoredBlocks(digest, stored_blocks or {})
        self._merged_panes: deque[int] = deque()
        """The panes whose merged snapshots went to the outbox."""

        self._alerts = {window: state.alerts for window, state in (states or {}).items()}
        self._names = _newest_names(states or {})
        self._backlog: deque[OwedFinal] = deque()
        self._settling: list[int] = []
        """The ends of the answered finals whose states are not acknowledged."""
        self._finals: Iterator[ClosedWindow] | None = None

    @property
    def alerts(self) -> Mapping[Window, list[bytes]]:
        """The alert states of each attribute, by kind of window."""
        return self._alerts

    @property
    def names(self) -> NameHistory:
        """The names that searches have found, also those that are not acknowledged."""
        return self._names

    @property
    def positions(self) -> Mapping[Window, Position]:
        """The acknowledged positions."""
        return self._states.positions

    @property
    def too_large(self) -> AbstractSet[Window]:
        """Kinds of windows whose newest state was too large to write. A restart needs their snapshots, so they stay."""
        return self._states.too_large

    @property
    def backlog(self) -> Sequence[OwedFinal]:
        """The next finals to publish, in their order. They stay here until they are answered."""
        return self._backlog

    @property
    def stored_panes(self) -> int:
        """Number of panes with snapshots in the topic."""
        return len(self._panes)

    @property
    def versions(self) -> Versions:
        return self.merger.versions

    def mark(self, partition: int, closed_through: int) -> None:
        """Take the watermark of a source partition."""
        self.merger.mark(partition, closed_through)

    def put_snapshot(self, key: PaneKey, snapshot: Snapshot | None) -> None:
        """Take a snapshot of the topic. None stands for an unreadable one.

        Older workers also wrote snapshots of open panes. Nobody reads them, and they are deleted with their pane.
        """
        self._panes.add(key)
        partition = ALL if key.kind == "merged" else key.partition
        if snapshot is not None:
            self.merger.take(key.pane, partition, snapshot)
        elif key.kind != "open":
            self.merger.mark_unreadable(key.pane, partition)

    def forget_snapshot(self, key: PaneKey) -> None:
        """Note that a snapshot is deleted from the topic."""
        self._panes.discard(key)

    def has_read(self, key: StateKey | BlockKey, value: bytes) -> bool:
        """Whether this worker has written or read this state or block, so that nobody needs to decode it."""
        return self._states.has(key, value) if isinstance(key, StateKey) else self._blocks.has(key, value)

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

    @property
    def has_due_finals(self) -> bool:
        return bool(self._backlog) or self._finals is not None or self.merger.has_due_finals

    def owes(self, count: int) -> bool:
        """Whether at least this many finals are due. They are in `backlog` then."""
        while len(self._backlog) < count:
            final = next(self.due_finals(), None)
            if final is None:
                return False
            self._backlog.append(OwedFinal(final, self.query_for(final.span)))
        return True

    def needed_blocks(self, finals: Iterable[OwedFinal]) -> dict[Window, dict[Place, bytes]]:
        """Return the blocks that these finals need, by kind of window."""
        return self._blocks.needed(finals)

    def answer(
        self, alerts: list[bytes], new_blocks: Mapping[Place, bytes], search: NameSearch | None = None
    ) -> OwedFinal:
        """Remove the next final, whose answer has these alert states, blocks and names, and return it."""
        due = self._backlog.popleft()
        window = due.final.span.window
        self.put_alerts(window, alerts)
        self._blocks.add(window, new_blocks)
        self._names = self._names.with_search(search)
        self._settling.append(due.final.span.end)
        return due

    def put_alerts(self, window: Window, alerts: list[bytes]) -> None:
        """Replace the alert states of a kind of window."""
        self._alerts[window] = alerts

    def settle(self) -> list[int]:
        """Note that the states after the answered finals are acknowledged, and return the ends of these finals."""
        ends = self._settling
        self._settling = []
        return ends

    def note_published(self) -> None:
        """Note that all windows up to the watermarks are published and acknowledged."""
        self.published_through = self.merger.closed_through

    def note_too_large(self, window: Window) -> None:
        """Note that the newest state of a kind of window was too large to write."""
        self._states.too_large.add(window)

    def count_owed(self) -> int:
        """Return the number of due finals that are not acknowledged with their states."""
        return len(self._settling) + len(self._backlog) + self.merger.count_due()

    def next_end(self) -> int | None:
        """Return the end of the oldest window with reports that has no acknowledged final, or None if there is none."""
        ends = [*self._taken_ends(), self.merger.next_end()]
        return min((end for end in ends if end is not None), default=None)

    def owed_since(self) -> float | None:
        """Return when the oldest final that is due and not acknowledged was due, or None if there is none."""
        ends = self._taken_ends()
        if self.merger.has_due_finals and self.merger.count_due():
            # Windows come in the order of their ends, so the oldest of all is due if any is.
            end = self.merger.next_end()
            ends += [] if end is None else [end]
        return self.versions.due(min(ends)) if ends else None

    def _taken_ends(self) -> list[int]:
        """Return the ends of the finals that were taken from the merger and are not acknowledged."""
        return [*self._settling, *(due.final.span.end for due in self._backlog)]

    def take_new_blocks(self) -> list[Write]:
        """Remove and return the blocks to write. They come before the states that pass them."""
        return self._blocks.take_unwritten()

    def totals(self) -> list[Write]:
        """Remove and return the merged snapshots to write. The broker acknowledges them before any `acknowledge`."""
        totals = self.merger.take_totals()
        self._merged_panes.extend(pane for pane, _ in totals)
        digest = self.versions.query.digest
        return [(PaneKey("merged", digest, pane, 0).encode(), total) for pane, total in totals]

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
        return [*self._panes.take(), *self._blocks.take_all()]

    def state_writes(self, window: Window, position: Position) -> list[Write]:
        """Return the records of the state at a position, to write them in this order."""
        key = StateKey(self.versions.query.digest, window, position.end)
        names = self._names if kind_of(self.versions.query).has_search else None
        state = encode_state(position, self._alerts.get(window, []), self.merger.marks, names)
        writes = split_state(key, state)
        self._states.add(window, position.end, (name for name, _ in writes))
        return writes

    def acknowledge(self, window: Window, position: Position) -> Iterator[bytes]:
        """Note that a state is acknowledged, and yield the keys that nobody needs any more."""
        yield from self._states.acknowledge(window, position)
        yield from self._blocks.take_obsolete(self.versions.query, window, position.end)

        needed_from = self._needed_from()
        if needed_from is not None:
            yield from self._panes.take(needed_from)
            self._forget_marks(needed_from)

    def replaced_keys(self) -> Iterator[bytes]:
        """Remove and yield the keys of snapshots that merged snapshots have replaced.

        A worker that cannot read the state of a kind of window restarts that kind behind the state. It needs no pane
        that ends before the states of all kinds.
        """
        kinds = [interval.window for interval in self._open_intervals()]
        if any(window not in self.positions for window in kinds):
            return

        newest_pane = min((self.positions[window].end for window in kinds), default=0) - self.versions.query.pane
        while self._merged_panes and self._merged_panes[0] <= newest_pane:
            yield from self._panes.take_parts(self._merged_panes.popleft())

    def _forget_marks(self, start: int) -> None:
        """Forget the marks at which no window to come begins or ends. The windows begin at `start` or later."""
        ends: list[int] = []
        steps: set[int] = set()
        for window, interval_start, _ in self._open_intervals():
            position = self.positions.get(window)
            step = window.step or self.versions.query.pane
            ends.append(interval_start if position is None else max(interval_start, position.end + step))
            if window.step:
                steps |= {window.step, window.size}
                # Long blocks are only visible between marks, so the marks stay as long as the longest open block.
                block_start = blocks.current_start(window, FOR_EVER if position is None else position.end)
                start = min(start, block_start)

        self.merger.marks.forget(start, min(ends, default=FOR_EVER), steps)
        self._names = self._names.settled(min(ends, default=-FOR_EVER))

    def _open_intervals(self) -> Iterator[PublicationInterval]:
        """Yield the publication intervals that have windows to come."""
        end = self.published_through
        for interval in self.versions.intervals:
            # After a restart, the windows since the last state that was small enough come again.
            if end is None or interval.until > end or interval.window in self.too_large:
                yield interval

    def _needed_from(self) -> int | None:
        """Return the start of the first pane that a window to come needs, or None if a kind has no state yet."""
        starts = []
        for window, interval_start, _ in self._open_intervals():
            position = self.positions.get(window)
            if position is None and interval_start == -FOR_EVER:
                return None  # its first window may hold any pane
            window_start = -FOR_EVER if position is None else position.end + window.step - window.size
            starts.append(max(interval_start, window_start))
        return min(starts, default=None)


def _newest_names(states: Mapping[Window, WindowState]) -> NameHistory:
    """Return the names in the newest state. It was written last, so it has every search."""
    histories = {
        Span(window, 0, state.position.end): state.names for window, state in states.items() if state.names is not None
    }
    newest_span = max(histories, key=order, default=None)
    return NameHistory() if newest_span is None else histories[newest_span]
