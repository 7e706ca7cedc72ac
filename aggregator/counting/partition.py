"""One source partition, as its owner counts it: recovered from the changelog, moved on by the log, and written down.

Nothing here waits or speaks to a broker. What has to be written is handed out as a Draft; once the
broker has acknowledged it in the order that it states, `settled` takes note.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace

from aggregator.counting import clock as progress_of
from aggregator.counting import dispute
from aggregator.counting import run as runs
from aggregator.counting.admission import Gate, duplicate
from aggregator.counting.changelog import Pane, Saved
from aggregator.counting.clock import Clock, Progress, closed_through, joint, resume
from aggregator.counting.draft import Draft, Taken
from aggregator.counting.ids import encode_ids
from aggregator.counting.run import Run
from aggregator.counting.tally import CORRECTED, INCOMPLETE, Snapshot, Tally, encode_snapshot, encode_tally
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey, Write
from aggregator.topics.rejects import SHOWN, Reject
from hubbub.columns import Columns
from hubbub.definitions.corrections import UNTRUSTED, Correction, corrected
from hubbub.unread import Unread
from oracles.query import Query


class SourcePartition:
    """The tallies of one partition, complete up to `next_offset`."""

    def __init__(self, gate: Gate, writer: str, before: Saved | None = None) -> None:
        before = before or Saved()
        self.gate = gate
        self.partition = gate.partition
        self.writer = writer
        """Of this source alone: of no other process, and no earlier time of this one."""
        self._said = 0
        """How many progress records it has written."""
        self._last = joint(before.progress.values())
        self._through = dict(self._last.closed)
        self._segments: dict[Pane, list[bytes]] = {}
        self._written: dict[Pane, int] = {}
        self._closing: dict[Pane, Snapshot] = {}
        self._lost_since: Clock = None
        self._obsolete = list(before.progress)
        self.former = sorted({_writer_of(name) for name in self._obsolete})
        """Writers whose progress and watermarks this one's stand in for."""
        self.tallies: dict[Pane, Tally] = {}
        for pane, tally in before.tallies.items():
            if self._last.covers(*pane):
                self._obsolete.append(self._tally_key(pane))
            else:
                self.tallies[pane], self._written[pane] = tally, tally.next_offset
        for pane, segments in before.segments.items():
            if self._last.covers(*pane):
                self._obsolete += segments
                continue
            self._segments[pane] = list(segments)
            if pane in self.tallies:  # else their tally was never written, and their frames are read again
                self.tallies[pane].recover_ids(segments.values())
        marks = [(tally.next_offset, tally.clock) for tally in self.tallies.values()]
        self.next_offset, self.clock = resume(self._last, marks)
        self._counted = max([self._last.next_offset, *(mark for mark, _ in marks)])
        """Where it was recovered, all below was counted."""
        self.basis = self._last.basis
        """The log, the topics and the corrections that this is counted by."""
        self.corrections: tuple[Correction, ...] = ()
        self._dirty: set[Pane] = set()
        self._drafted = False
        self.rejects: list[Reject] = []
        """Not written yet."""
        self.watermark_due = True
        """Said again after a recovery: the writer before may have died over it."""

    @property
    def is_new(self) -> bool:
        """Whether nothing of this partition was ever read."""
        return self.next_offset == 0

    @property
    def acknowledged(self) -> Progress:
        """The progress that the changelog has of this partition, or that it comes to by ticks that followed."""
        return self._last

    @property
    def at_rest(self) -> bool:
        """Whether no draft is out: one that is cut took ids, tallies and rejects, which only a recovery brings back."""
        return not self._drafted

    def is_over(self, digest: bytes, end: int) -> bool:
        """Whether all panes up to there are closed, and the changelog says so."""
        return self._last.closed.get(digest, end - 1) >= end

    @property
    def closing(self) -> bool:
        """Whether panes have closed since the last draft was settled."""
        return self._through != self._last.closed

    @property
    def bound(self) -> bool:
        """Whether the changelog says by which corrections this is counted."""
        return self.basis == self._last.basis

    @property
    def behind(self) -> bool:
        """Whether something was read that the changelog does not know yet."""
        return self.next_offset != self._last.next_offset or self.closing or not self.bound

    def is_due(self, *, whole: bool, refresh: bool) -> bool:
        """Whether there is something to draft."""
        return self.closing or self.watermark_due or (whole and (self.behind or refresh))

    def correct(self, corrections: Iterable[Correction]) -> Correction | None:
        """Follow these; the first that is new, and is about what was counted without it, is given back."""
        mine = tuple(one for one in corrections if one.partition == self.partition)
        for one in mine:
            if one.name not in self.basis.corrections and one.first < max(self._counted, self.next_offset):
                return one
        self.corrections = mine
        self.basis = replace(self.basis, corrections=frozenset(one.name for one in mine))
        return None

    def untrusted(self, run: Run) -> int | None:
        """The first offset without a time to count by: its batch lacks the log's own, and no correction gives one."""
        if isinstance(run, Columns) or not any(timestamp == UNTRUSTED for _, timestamp, _ in run):
            return None
        times = corrected(run, self.corrections)
        return next((offset for offset, timestamp, _ in times if timestamp == UNTRUSTED), None)

    def take(self, run: Run) -> Taken:
        """Count a run."""
        taken = Taken()
        for piece in runs.pieces(runs.since(run, self.next_offset), self.corrections):
            self._take(piece, taken)
        return taken

    def _take(self, run: Run, taken: Taken) -> None:
        for pane in dispute.closed_early(self.corrections, runs.first(run), self.clock, self.gate.definitions):
            self._flag(pane, CORRECTED)
        sifted = runs.sift(self.gate, run, self.corrections, self.clock)
        refused = sifted.refused
        for pane, (query, frames) in sifted.accepted.items():
            if self._last.covers(*pane):
                continue  # read once more after a restart
            tally = self._tally(pane, query)
            n, implausible, first = tally.n, tally.implausible, bisect_left(frames.offsets, tally.next_offset)
            again = tally.add(query.oracle, frames, query.max_ids)
            self._dirty.add(pane)
            versions = self.gate.definitions[pane[0]]
            if dispute.is_counted_anew(self.corrections, int(frames.offsets[-1]), pane[1], versions):
                tally.flags |= CORRECTED
            refused += [(int(frames.offsets[index]), duplicate(query, frames, index)) for index in again]
            taken.frames[query.name] += len(frames) - first - len(again)
            taken.reports[query.name] += tally.n - n
            taken.implausible[query.name] += tally.implausible - implausible
        for pane in dispute.let_in_early(self.corrections, run, refused, self.gate.definitions):
            self._flag(pane, CORRECTED)
        self.next_offset = runs.next_offset(run)
        if sifted.clock != self.clock:
            self.clock = sifted.clock
            self._close()
        if refused:
            data = runs.values_at(run, (offset for offset, _ in refused))
            for offset, why in refused:
                taken.rejected[why.query or "", why.reason] += why.reports
                value = data[offset]
                where, start = (value.first, b"") if isinstance(value, Unread) else (offset, value or b"")
                self.rejects.append(Reject(where, start[:SHOWN], why.reason, why.detail))

    def lost(self, first: int) -> None:
        """The log was deleted up to `first` before it was read: every pane that it may have held is incomplete."""
        self.next_offset = max(self.next_offset, first)
        for pane, tally in self.tallies.items():
            tally.flags |= INCOMPLETE
            self._dirty.add(pane)
        self._lost_since = self.clock if self._lost_since is None else self._lost_since

    def draft(self, *, whole: bool, refresh: bool = False) -> Draft:
        """The writes that are due now: closed panes; where `whole`, all that was counted too.

        With `refresh` also tallies that nothing was added to, since a restart reads from the oldest.
        """
        self._drafted = True
        closed = [
            (PaneKey("closed", *pane, self.partition), encode_snapshot(snapshot))
            for pane, snapshot in self._closing.items()
        ]
        through = dict(self._through)
        rejects, self.rejects = self.rejects, []
        quiet = self._said > 0 and self.basis == self._last.basis  # the first one says who writes now
        quiet = quiet and not (closed or rejects or refresh)
        if not whole:
            progress = Progress(self._last.next_offset, self._last.clock, through, self.basis)
            return Draft([], [], closed, rejects, progress, quiet)
        ids: list[Write] = []
        tallies: list[Write] = []
        for pane, tally in self.tallies.items():
            if pane not in self._dirty and not (refresh and self._written.get(pane, -1) < self.next_offset):
                continue
            tally.passed(self.next_offset, self.clock)
            while segment := tally.take_unwritten():
                name = PaneKey("ids", *pane, self.partition, (segment[0].offset, segment[-1].offset)).encode()
                self._segments.setdefault(pane, []).append(name)
                ids.append((name, encode_ids(segment)))
            tallies.append((self._tally_key(pane), encode_tally(tally)))
            self._written[pane] = self.next_offset
        self._dirty.clear()
        progress = Progress(self.next_offset, self.clock, through, self.basis)
        return Draft(ids, tallies, closed, rejects, progress, quiet and not tallies)

    def progress(self, draft: Draft) -> Write:
        """The record that says that all else of the draft is written.

        No key is written twice. So whoever deletes one has read all that it says, and one who wakes
        up too late can neither take back what it says nor have its own deleted unread.
        """
        name = PartitionKey("progress", self.partition, f"{self.writer}.{self._said}").encode()
        self._said += 1
        return name, progress_of.encode(draft.progress)

    def marks(self, draft: Draft) -> dict[int, dict[bytes, int]]:
        """By partition of the snapshots, the watermarks to be said with this draft: where one of them has moved."""
        before = {} if self.watermark_due else self._last.closed
        self.watermark_due = False
        return progress_of.watermarks(draft.progress.closed, before, self.gate.partitions)

    def settled(self, draft: Draft) -> list[Write]:
        """The draft stands in the log; returns what may be deleted from the changelog."""
        self._drafted = False
        self._last = draft.progress
        if draft.quiet:
            return []
        gone = self._obsolete
        self._obsolete = [PartitionKey("progress", self.partition, f"{self.writer}.{self._said - 1}").encode()]
        for key, _ in draft.closed:
            pane = key.digest, key.pane
            self._closing.pop(pane, None)
            gone += [*self._segments.pop(pane, []), *([self._tally_key(pane)] if pane in self._written else [])]
            self._written.pop(pane, None)
        return [(name, None) for name in gone]

    def open_snapshots(self, since: Mapping[Pane, int]) -> list[tuple[PaneKey, int, bytes]]:
        """Snapshots of open tallies, where they have grown beyond the n of `since`: key, n and value.

        For provisional records; a query without any has none to show.
        """
        found = []
        for pane, tally in self.tallies.items():
            query = self.gate.definitions[pane[0]].at(pane[1]).query
            if since.get(pane) != tally.n and query.emit_every is not None:
                tally.passed(self.next_offset, self.clock)
                found.append((PaneKey("open", *pane, self.partition), tally.n, encode_tally(tally)))
        return found

    def _tally(self, pane: Pane, query: Query) -> Tally:
        tally = self.tallies.get(pane)
        if tally is None:
            tally = self.tallies[pane] = Tally(query.oracle.zeros())
        return tally

    def _flag(self, pane: Pane, flag: int) -> None:
        if not self._last.covers(*pane):
            self._tally(pane, self.gate.definitions[pane[0]].query).flags |= flag
            self._dirty.add(pane)

    def _tally_key(self, pane: Pane) -> bytes:
        return PaneKey("tally", *pane, self.partition).encode()

    def _close(self) -> None:
        """Close what the clock has passed."""
        if self._lost_since is not None:
            self._spoil(self._lost_since)
            self._lost_since = None
        for digest, versions in self.gate.definitions.items():
            through = closed_through(self.clock, versions)
            if through is not None and through > self._through.get(digest, through - 1):
                self._through[digest] = through
        for pane in [pane for pane in self.tallies if self._is_closed(pane)]:
            self._closing[pane] = self.tallies.pop(pane).close()
            self._dirty.discard(pane)

    def _is_closed(self, pane: Pane) -> bool:
        digest, start = pane
        end = self._through.get(digest)
        return end is not None and start < end

    def _spoil(self, before: int) -> None:
        """Flag the panes that were open between the two clocks, those without a report too."""
        for digest, versions in self.gate.definitions.items():
            ahead = (self.clock or before) // 1000 + versions.skew
            for pane in dispute.between(versions, versions.closed_through(before), ahead + 1):
                self._flag((digest, pane), INCOMPLETE)


def _writer_of(progress: bytes) -> str:
    key = keys.decode(progress)
    return key.writer.partition(".")[0] if isinstance(key, PartitionKey) else ""
