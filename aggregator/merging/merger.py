"""The merged tallies of one query. The newest snapshot of each pane and source partition is added once.

A newer snapshot replaces an older one. So the result does not depend on their number, order or writers.
A pane is final when the watermarks of all source partitions have passed it. A partition without a closed
snapshot of the pane had no reports in it. A reader first reads the topic to its end, and only then asks
for finals, because compaction may have kept a copy of a snapshot that is later than its watermark.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from aggregator.merging import blocks
from aggregator.merging.blocks import BlockSpan
from aggregator.merging.cumulative_window import CumulativeWindow, SearchWindow
from aggregator.merging.marks import QueryMarks, Withheld
from aggregator.merging.pane_queue import PaneStore
from aggregator.merging.place_counts import answer_counts, fewest
from aggregator.merging.windows import ClosedWindow, OpenWindow, Position, SizedWindows, needs_store, order
from aggregator.records.span import QUIET_PANES, Span
from aggregator.tallies.group_cells import split, subtract
from aggregator.tallies.snapshot import INCOMPLETE, PARTIAL, Snapshot, Sum, encode_snapshot, merge_snapshots
from hubbub.definitions.versions import PublicationInterval, Versions
from oracles.query.footprint import tally_size
from oracles.query.settings import Window

ALL = -1
"""The partition number of a merged snapshot: the total of a pane that is closed on all partitions."""


Windows = SizedWindows | CumulativeWindow


class _Part(NamedTuple):
    """The part of a pane from one source partition."""

    snapshot: Snapshot
    unreadable: bool = False


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
        self._watermarks: list[int | None] = [None] * partitions
        self._behind = partitions
        """Number of partitions whose watermark is `closed_through`. The others are ahead."""
        self.closed_through: int | None = None
        """The end of the newest pane that is closed on all partitions."""
        self.newest_report: int | None = None
        """The end of the newest closed pane with reports. After a restart at first the end of the newest final."""
        self.reports_since: int | None = None
        """The end of the first pane of an unbroken stream of reports, or None if it began before the restart."""
        self._panes: dict[int, dict[int, _Part]] = {}
        self._collected_through: int | None = None
        """The end of the newest pane that is in its windows."""
        self._finals_through: int | None = None
        """The value of `closed_through` at the last call of `finals`."""
        self._ahead: list[int] = []
        """The ends of the finals that the kinds of windows have yielded, and `finals` has not."""
        self._since_marks: dict[tuple[int, int], Sum] = {}
        """For each group the sum of the panes since each newest mark of an attribute that has reports after it."""
        self.totals: list[tuple[int, bytes]] = []
        """Merged snapshots by pane, which are not written yet."""
        newest: dict[Window, Position] = {}
        for window, position in positions:
            if window not in newest or position.end > newest[window].end:
                newest[window] = position
        self._last_ends = {window: position.end for window, position in newest.items()}
        """The end of the last final of each kind of window."""
        self._kinds = [self._windows(each, newest.get(each.window)) for each in versions.intervals]
        ends = [position.newest for position in newest.values() if position.newest is not None]
        self.newest_report = max(ends or (position.end for position in newest.values()), default=None)

    def define(self, versions: Versions) -> None:
        """Continue with these versions. Changes apply to panes that are not closed yet."""
        self.versions = self.marks.versions = versions
        before = {(windows.window, windows.since): windows for windows in self._kinds}
        self._kinds = []
        for interval in versions.intervals:
            windows = before.get((interval.window, interval.since)) or self._windows(interval)
            windows.until = interval.until
            self._kinds.append(windows)

    def _windows(self, interval: PublicationInterval, position: Position | None = None) -> Windows:
        is_long = needs_store(interval.window, self._pane, tally_size(self.versions.query))
        store = self._store if is_long else None
        if interval.window.kind != "all":
            return SizedWindows(interval, self.cells, position, store)
        kind = CumulativeWindow if self.versions.query.strings is None else SearchWindow
        return kind(interval, self._pane, self.cells, self._all_end, position, store, self._is_mark)

    def _all_end(self, pane: int) -> int:
        return self.versions.all_end(pane)

    def _is_mark(self, edge: int, group: int) -> bool:
        """Whether an edge is a mark of every attribute of a group."""
        first = group * self._attributes
        return all(edge in marks for marks in self.marks.places[first : first + self._attributes])

    def take(self, pane: int, partition: int, snapshot: Snapshot) -> bool:
        """Take the snapshot of a closed pane. Return False if it brings nothing new.

        A snapshot of `ALL` replaces the snapshots of all partitions, which may be deleted already.
        A snapshot without news must not be deleted for that: the next reader may need this copy.
        """
        if self._is_done(pane):
            return False
        parts = self._panes.setdefault(pane, {})
        total = parts.get(ALL)
        if total is not None and not total.unreadable:
            return False
        before = parts.get(partition)
        if before is not None and not before.unreadable:
            return False
        if partition == ALL:
            parts.clear()
        parts[partition] = _Part(snapshot)
        return True

    def mark_unreadable(self, pane: int, partition: int) -> None:
        """Note an unreadable closed snapshot. The windows of the pane are incomplete until a readable one comes."""
        if self._is_done(pane):
            return
        parts = self._panes.setdefault(pane, {})
        total = parts.get(ALL)
        if partition not in parts and (total is None or total.unreadable):
            nothing = Snapshot(0, 0, 0, INCOMPLETE, np.zeros(self.cells, np.uint8))
            parts[partition] = _Part(nothing, unreadable=True)

    def mark(self, partition: int, closed_through: int) -> None:
        """Raise the watermark of a source partition. It never falls."""
        before = self._watermarks[partition]
        if before is not None and before >= closed_through:
            return
        self._watermarks[partition] = closed_through
        if before == self.closed_through:
            self._behind -= 1
        if not self._behind:
            marks = [mark for mark in self._watermarks if mark is not None]
            self.closed_through = min(marks)
            self._behind = marks.count(self.closed_through)

    def take_totals(self) -> list[tuple[int, bytes]]:
        """Remove and return the merged snapshots by pane that are not written yet."""
        totals = self.totals
        self.totals = []
        return totals

    @property
    def collected_through(self) -> int | None:
        """The end of the newest pane that is in its windows."""
        return self._collected_through

    @property
    def has_due_finals(self) -> bool:
        """Whether more panes are closed than at the last call of `finals`."""
        return self.closed_through != self._finals_through

    def collect(self, through: int, *, keep: bool = False) -> None:
        """Move the panes that end here or before, and are closed on all partitions, into their windows.

        With `keep`, add the totals that a restart needs to those that `take_totals` returns.
        """
        if self.closed_through is None:
            return
        through = min(through, self.closed_through)
        for pane in sorted(pane for pane in self._panes if pane + self._pane <= through):
            parts = list(self._panes.pop(pane).values())
            total = parts[0].snapshot
            if len(parts) > 1:
                total = merge_snapshots((part.snapshot for part in parts), self.cells)
                if keep and self._needs_closed_panes and not any(part.unreadable for part in parts):
                    self.totals.append((pane, encode_snapshot(total)))
            if total.n:
                self._note_reports(pane + self._pane)
            self.marks.advance(pane)
            for windows in self._kinds:
                windows.put(pane, total)
            self._count(pane, total)
        self.marks.advance(through // self._pane * self._pane)
        self._collected_through = through if self._collected_through is None else max(through, self._collected_through)

    def _note_reports(self, end: int) -> None:
        """Note that the pane with this end has reports. A stream breaks if two panes in a row have none."""
        before = self.newest_report
        if before is None or end > before + QUIET_PANES * self._pane:
            self.reports_since = end
        self.newest_report = end if before is None else max(before, end)

    def _count(self, pane: int, total: Snapshot) -> None:
        """Add a pane to the marks, and to the sums since the newest ones."""
        self.marks.count(pane, answer_counts(self.versions.query, total))
        newest = {
            (place // self._attributes, marks.newest_mark)
            for place, marks in enumerate(self.marks.places)
            if marks.threshold
        }
        before, parts = self._since_marks, split(total, self.cells)
        self._since_marks = {each: before.get(each) or Sum(np.zeros(self.cells, np.int64)) for each in newest}
        for (group, mark), later in self._since_marks.items():
            if pane >= mark and group < len(parts):
                later.add(parts[group])

    def finals(self) -> Iterator[ClosedWindow]:
        """Yield the new final windows of all kinds in the order of their ends, and at one end as `order` says."""
        through = self.closed_through
        if through is None:
            return iter(())
        self.collect(through, keep=True)
        self._finals_through = through
        return self._advance(through)

    def count_due(self) -> int:
        """Return the number of finals that are due and not yielded yet."""
        through = self.closed_through
        if through is None:
            return 0
        later = [pane for pane in self._waiting_panes() if pane + self._pane <= through]
        return len(self._ahead) + sum(windows.count_due(through, later) for windows in self._kinds)

    def next_end(self) -> int | None:
        """Return the end of the oldest window with reports that `finals` has not yielded, or None if there is none.

        Panes that are not closed on all partitions count too.
        """
        later = self._waiting_panes()
        ends = [windows.next_end(later) for windows in self._kinds]
        return min([*self._ahead, *(end for end in ends if end is not None)], default=None)

    def _waiting_panes(self) -> list[int]:
        """Return the starts of the panes with reports that are not in their windows yet, in order."""
        return sorted(pane for pane, parts in self._panes.items() if any(part.snapshot.n for part in parts.values()))

    def _advance(self, through: int) -> Iterator[ClosedWindow]:
        for final in heapq.merge(*(self._counted(windows.advance(through)) for windows in self._kinds), key=_place):
            self._ahead.remove(final.span.end)
            (window, start, end), counts = final.span, answer_counts(self.versions.query, final.total)
            yield final._replace(
                total=self._flagged(start, end, final.total),
                withheld=self.marks.withheld(None if window.kind == "all" else start, end, counts),
                blocks=self._blocks(final.span),
            )

    def _blocks(self, span: Span) -> list[BlockSpan]:
        """Return the blocks that a final completes."""
        window, start, end = span
        previous, self._last_ends[window] = self._last_ends.get(window), end
        quiet = blocks.quiet_from(window, previous, self._since(window, start), start) if window.size else start
        spans = blocks.completions(window, previous, end)
        return [BlockSpan(scale, first, last, quiet, self._marked(first, last)) for scale, first, last in spans]

    def _marked(self, start: int, end: int) -> tuple[bool, ...]:
        """Return for each place whether both times are marks."""
        return tuple(start in marks and end in marks for marks in self.marks.places)

    def _since(self, window: Window, start: int) -> int:
        """Return the start of the publication interval of a window."""
        return max(each.since for each in self.versions.intervals if each.window == window and each.since <= start)

    def _counted(self, finals: Iterator[ClosedWindow]) -> Iterator[ClosedWindow]:
        for final in finals:
            self._ahead.append(final.span.end)
            yield final

    def provisional(self) -> Iterator[OpenWindow]:
        """Yield the next window of each kind with its panes up to a mark, once for each mark. No final is due.

        Unknown strings have none: names that come and go with each pane would not be news.
        """
        for windows in self._kinds if self.versions.query.strings is None else ():
            if not isinstance(windows, SizedWindows) or (window := windows.current()) is None:
                continue
            span, sums = window
            newest = self.marks.newest_after(span.start)
            crowd = self.versions.at(span.end - self._pane).query.crowd
            stretches: list[tuple[int, Snapshot, list[bool]]] = []
            for through in sorted({mark for mark in newest if mark is not None}):
                total = self._until(sums, through)
                counts = answer_counts(self.versions.query, total)
                visible = [mark == through and fewest(n) >= crowd for mark, n in zip(newest, counts, strict=False)]
                if any(visible):
                    stretches.append((through, self._flagged(span.start, through, total), visible))
            ends: dict[int, int] = {}
            """The newest mark at which each attribute of any group is shown."""
            for through, _, visible in stretches:
                ends |= {place % self._attributes: through for place, is_visible in enumerate(visible) if is_visible}
            for through, total, visible in stretches:
                reasons: list[Withheld | None] = [None if each else "held" for each in visible]
                totals = [ends.get(attribute) == through for attribute in range(self._attributes)]
                yield OpenWindow(span, through, total, reasons, totals)

    def _until(self, sums: Sum, through: int) -> Snapshot:
        """Return a sum without the panes after a mark. Only groups whose newest mark it is lose them."""
        later = {group: each for (group, mark), each in self._since_marks.items() if mark == through}
        return subtract(sums, later, self.cells)

    @property
    def needed_from(self) -> int | None:
        """The start of the first pane that a window to come needs, or None if it is unknown.

        It does not decide which snapshots may be deleted. The acknowledged states do.
        """
        starts = [start for windows in self._kinds if (start := windows.needed_from) is not None]
        return min(starts) if len(starts) == len(self._kinds) else None

    @property
    def _needs_closed_panes(self) -> bool:
        """Whether windows need closed panes. Windows of several panes do, except `all`, whose state has the total."""
        kinds = (windows.window for windows in self._kinds)
        return any(window.kind != "all" and window.size > self._pane for window in kinds)

    def _flagged(self, start: int, end: int, total: Snapshot) -> Snapshot:
        partial = self.versions.is_partial(start, end)
        return total.with_flags(PARTIAL) if partial else total

    def _is_done(self, pane: int) -> bool:
        if self._collected_through is not None and pane + self._pane <= self._collected_through:
            return True
        first = self.needed_from
        return first is not None and pane < first


def _place(final: ClosedWindow) -> tuple[int, bool, int, int]:
    return order(final.span)
