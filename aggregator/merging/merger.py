"""The merged tallies of one query. The newest snapshot of each pane and source partition is added once.

The result does not depend on the number, order or writers of snapshots, because a newer one replaces an older one.
A pane is final when the watermarks of all source partitions have passed it. A partition without a closed
snapshot of the pane had no reports in it. A reader first reads the topic to its end, and only then asks
for finals, because compaction may have kept a copy of a snapshot that is later than its watermark.
"""

import heapq
from collections.abc import Iterable, Iterator

from aggregator.merging import blocks
from aggregator.merging.blocks import BlockSpan
from aggregator.merging.cumulative_window import CumulativeWindow
from aggregator.merging.kinds import kind_of
from aggregator.merging.marks import QueryMarks
from aggregator.merging.open_windows import OpenWindows, flagged
from aggregator.merging.pane_parts import PaneParts
from aggregator.merging.pane_queue import PaneStore
from aggregator.merging.place_counts import answer_counts
from aggregator.merging.watermarks import Watermarks
from aggregator.merging.windows import ClosedWindow, OpenWindow, Position, SizedWindows, needs_store, order
from aggregator.records.span import QUIET_PANES, Span
from aggregator.tallies.group_cells import split
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.versions import PublicationInterval, Versions
from oracles.query.footprint import tally_size
from oracles.query.settings import Window

Windows = SizedWindows | CumulativeWindow


class Merger:
    """The merged tallies of one query over all source partitions. It starts from the states of the windows."""

    def __init__(
        self,
        versions: Versions,
        partitions: int,
        positions: Iterable[tuple[Window, Position]] = (),
        store: PaneStore | None = None,
        marks: QueryMarks | None = None,
    ) -> None:
        self.versions = versions
        self.marks = marks or QueryMarks(versions)
        self.cells = versions.query.oracle.state_size
        """Number of integers of one group in a tally."""
        self._attributes = len(versions.query.domains)
        self._pane = versions.query.pane
        self._store = store
        self._watermarks = Watermarks(partitions)
        self._parts = PaneParts(self.cells)
        self._open_windows = OpenWindows(self.marks, self.cells, self._attributes)

        self.reports_since: int | None = None
        """The end of the first pane of an unbroken stream of reports, or None if it began before the restart."""
        self._collected_through: int | None = None
        self._finals_through: int | None = None
        """The value of `closed_through` at the last call of `finals`."""
        self._ahead: list[int] = []
        """The ends of the finals that the kinds of windows have yielded, and `finals` has not."""
        self._totals: list[tuple[int, bytes]] = []

        last_positions: dict[Window, Position] = {}
        for window, position in positions:
            if window not in last_positions or position.end > last_positions[window].end:
                last_positions[window] = position
        self._last_ends = {window: position.end for window, position in last_positions.items()}
        """The end of the last final of each kind of window."""
        self._kinds = [self._windows(interval, last_positions.get(interval.window)) for interval in versions.intervals]

        report_ends = [position.newest for position in last_positions.values() if position.newest is not None]
        self.newest_report = max(report_ends or self._last_ends.values(), default=None)
        """The end of the newest closed pane with reports. After a restart at first the end of the newest final."""

    @property
    def closed_through(self) -> int | None:
        """The end of the newest pane that is closed on all partitions."""
        return self._watermarks.closed_through

    def define(self, versions: Versions) -> None:
        """Continue with these versions. Changes apply to panes that are not closed yet."""
        self.versions = versions
        self.marks.versions = versions
        # Windows that continue keep their sums. New ones start with their interval.
        present = {(windows.window, windows.since): windows for windows in self._kinds}
        self._kinds = []
        for interval in versions.intervals:
            windows = present.get((interval.window, interval.since)) or self._windows(interval)
            windows.until = interval.until
            self._kinds.append(windows)

    def _windows(self, interval: PublicationInterval, position: Position | None = None) -> Windows:
        is_long = needs_store(interval.window, self._pane, tally_size(self.versions.query))
        store = self._store if is_long else None
        if interval.window.kind != "all":
            return SizedWindows(interval, self.cells, position, store)

        return kind_of(self.versions.query).cumulative_window(
            interval,
            pane=self._pane,
            cells=self.cells,
            end_after=self._all_end,
            position=position,
            store=store,
            is_mark=self._is_mark,
        )

    def _all_end(self, pane: int) -> int:
        return self.versions.all_end(pane)

    def _is_mark(self, edge: int, group: int) -> bool:
        """Whether an edge is a mark of every attribute of a group."""
        start = group * self._attributes
        return all(edge in marks for marks in self.marks.places[start : start + self._attributes])

    def take(self, pane: int, partition: int, snapshot: Snapshot) -> bool:
        """Take the snapshot of a closed pane. Return False if it brings nothing new.

        A snapshot of `ALL` replaces the snapshots of all partitions, which may be deleted already.
        A snapshot without news must not be deleted for that: the next reader may need this copy.
        """
        return not self._is_done(pane) and self._parts.put(pane, partition, snapshot)

    def mark_unreadable(self, pane: int, partition: int) -> None:
        """Note an unreadable closed snapshot. The windows of the pane are incomplete until a readable one comes."""
        # After a restart the topic still has snapshots of panes that the states cover.
        if not self._is_done(pane):
            self._parts.put_unreadable(pane, partition)

    def mark(self, partition: int, closed_through: int) -> None:
        """Raise the watermark of a source partition. It never falls."""
        self._watermarks.put(partition, closed_through)

    def mark_all(self, closed_through: int) -> None:
        """Raise the watermarks of all source partitions."""
        self._watermarks.put_common(closed_through)

    def take_totals(self) -> list[tuple[int, bytes]]:
        """Remove and return the merged snapshots by pane that are not written yet."""
        totals = self._totals
        self._totals = []
        return totals

    @property
    def collected_through(self) -> int | None:
        """The end of the newest pane that is in its windows."""
        return self._collected_through

    @property
    def has_due_finals(self) -> bool:
        """Whether more panes are closed than at the last call of `finals`."""
        return self.closed_through != self._finals_through

    def collect(self, limit: int, *, keep: bool = False) -> None:
        """Move the panes that end here or before, and are closed on all partitions, into their windows.

        With `keep`, keep the totals that a restart needs for `take_totals`.
        """
        if self.closed_through is None:
            return

        limit = min(limit, self.closed_through)
        for pane, parts in self._parts.take(limit - self._pane):
            total = parts.total()
            # An unreadable part may be read later. Its total would replace it for ever.
            if keep and self._needs_closed_panes and parts.is_merged:
                self._totals.append((pane, encode_snapshot(total)))
            self._add(pane, total)

        self.marks.advance(limit // self._pane * self._pane)
        self._collected_through = limit if self._collected_through is None else max(limit, self._collected_through)

    def _add(self, pane: int, total: Snapshot) -> None:
        """Add a pane to its windows and to the marks."""
        if total.n:
            self._note_reports(pane + self._pane)

        # `all` asks whether a group enters at a mark, so the marks before the pane come first.
        self.marks.advance(pane)
        for windows in self._kinds:
            windows.put(pane, total)

        self.marks.count(pane, answer_counts(self.versions.query, total))
        self._open_windows.add(pane, split(total, self.cells))

    def _note_reports(self, end: int) -> None:
        """Note that the pane with this end has reports. A stream breaks if two panes in a row have none."""
        if self.newest_report is None or end > self.newest_report + QUIET_PANES * self._pane:
            self.reports_since = end
        self.newest_report = end if self.newest_report is None else max(self.newest_report, end)

    def finals(self) -> Iterator[ClosedWindow]:
        """Yield the new final windows of all kinds in the order of their ends, and at one end as `order` says."""
        if self.closed_through is None:
            return iter(())

        self.collect(self.closed_through, keep=True)
        self._finals_through = self.closed_through
        return self._advance(self.closed_through)

    def count_due(self) -> int:
        """Return the number of finals that are due and not yielded yet."""
        limit = self.closed_through
        if limit is None:
            return 0

        waiting = [pane for pane in self._parts.with_reports() if pane + self._pane <= limit]
        return len(self._ahead) + sum(windows.count_due(limit, waiting) for windows in self._kinds)

    def next_end(self) -> int | None:
        """Return the end of the oldest window with reports that `finals` has not yielded, or None if there is none.

        Panes that are not closed on all partitions count too.
        """
        waiting = self._parts.with_reports()
        ends = [windows.next_end(waiting) for windows in self._kinds]
        return min([*self._ahead, *(end for end in ends if end is not None)], default=None)

    def _advance(self, limit: int) -> Iterator[ClosedWindow]:
        for final in heapq.merge(*(self._noted(windows.advance(limit)) for windows in self._kinds), key=_place):
            self._ahead.remove(final.span.end)
            window, start, end = final.span
            counts = answer_counts(self.versions.query, final.total)
            yield final._replace(
                total=flagged(final.total, start, end, self.versions),
                withheld=self.marks.withheld(None if window.kind == "all" else start, end, counts),
                blocks=self._blocks(final.span),
            )

    def _noted(self, finals: Iterator[ClosedWindow]) -> Iterator[ClosedWindow]:
        for final in finals:
            # The merge holds one final of each kind until its turn. `count_due` counts them too.
            self._ahead.append(final.span.end)
            yield final

    def _blocks(self, span: Span) -> list[BlockSpan]:
        """Return the blocks that a final completes."""
        window, start, end = span
        previous_end = self._last_ends.get(window)
        self._last_ends[window] = end
        if window.kind == "all":
            return []

        quiet_from = blocks.quiet_from(window, previous_end, self._first_start(window, start), start)
        return [
            BlockSpan(scale, block_start, block_end, quiet_from, self._marked(block_start, block_end))
            for scale, block_start, block_end in blocks.completions(window, previous_end, end)
        ]

    def _marked(self, start: int, end: int) -> tuple[bool, ...]:
        """Return for each place whether both times are marks."""
        return tuple(start in marks and end in marks for marks in self.marks.places)

    def _first_start(self, window: Window, start: int) -> int:
        """Return the start of the publication interval of a window."""
        intervals = [interval for interval in self.versions.intervals if interval.window == window]
        return max(interval.since for interval in intervals if interval.since <= start)

    def provisional(self) -> Iterator[OpenWindow]:
        """Yield the next window of each kind with its panes up to a mark, once for each mark. No final is due."""
        if not kind_of(self.versions.query).has_provisional:
            return

        for windows in self._kinds:
            current = windows.current() if isinstance(windows, SizedWindows) else None
            if current is not None:
                span, sums = current
                yield from self._open_windows.up_to_marks(span, sums, self.versions)

    @property
    def needed_from(self) -> int | None:
        """The start of the first pane that a window to come needs, or None if it is unknown.

        It does not decide which snapshots may be deleted. The acknowledged states do.
        """
        starts = [windows.needed_from for windows in self._kinds]
        known_starts = [start for start in starts if start is not None]
        return min(known_starts) if len(known_starts) == len(starts) else None

    @property
    def _needs_closed_panes(self) -> bool:
        """Whether windows need closed panes. Windows of several panes do, except `all`, whose state has the total."""
        kinds = (windows.window for windows in self._kinds)
        return any(window.kind != "all" and window.size > self._pane for window in kinds)

    def _is_done(self, pane: int) -> bool:
        if self._collected_through is not None and pane + self._pane <= self._collected_through:
            return True
        needed_from = self.needed_from
        return needed_from is not None and pane < needed_from


def _place(final: ClosedWindow) -> tuple[int, bool, int, int]:
    return order(final.span)
