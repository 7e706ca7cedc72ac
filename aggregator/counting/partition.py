"""A source partition in the worker that owns it: it starts from the changelog, counts records, and plans checkpoints.

Nothing here waits or speaks to a broker. `plan` returns the writes of a checkpoint in their order.
After the broker has acknowledged all of them, `settle` notes it.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from aggregator.counting.admission import columnar_gate, record_run
from aggregator.counting.admission.gate import Gate, duplicate_refusal
from aggregator.counting.admission.record_run import RecordRun
from aggregator.counting.changelog import RecoveredPartition
from aggregator.counting.checkpoint_plan import CheckpointPlan, Reject, RunOutcome
from aggregator.counting.lost_panes import lost_panes
from aggregator.tallies import progress as progress_codec
from aggregator.tallies.clock import Clock, max_clock
from aggregator.tallies.closings import closings_of
from aggregator.tallies.id_log import encode_ids
from aggregator.tallies.keys import Pane, PaneKey, PartitionKey, Write
from aggregator.tallies.progress import Progress, combine, resume
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, encode_snapshot
from aggregator.tallies.tally import Tally, encode_tally
from hubbub.kafka.columns import UNTRUSTED, RecordColumns
from oracles.query import Query


class SourcePartition:
    """The tallies of one partition, complete up to `next_offset`."""

    def __init__(self, gate: Gate, writer: str, recovery: RecoveredPartition | None = None) -> None:
        recovery = recovery or RecoveredPartition()
        self.gate = gate
        self.partition = gate.partition
        self.writer = writer
        """The name of this source as a writer. No other process and no earlier ownership has the same."""
        self._progress_count = 0
        """The number of progress records that this source has written."""
        self._last = combine(recovery.progress.values())
        self._closed_clock = self._last.closed_clock
        """The clock at which the newest pane closed, or that of the progress."""
        self._segments: dict[Pane, list[bytes]] = {}
        self._written_offsets: dict[Pane, int] = {}
        self._closing: dict[Pane, Snapshot] = {}
        self._loss_clock: Clock = None
        self._open_until: tuple[Gate | None, int] = None, 0
        """The gate of the last look for panes to close, and the last clock at which it closes no more."""

        self._obsolete_keys = [name for name, progress in recovery.progress.items() if not progress.closed]
        self._older_keys = [name for name, progress in recovery.progress.items() if progress.closed]
        """Progress of older releases. Its ends by digest count until a closed clock has passed them."""

        self.tallies: dict[Pane, Tally] = {}
        for pane, tally in recovery.tallies.items():
            if self._covers(pane):
                self._obsolete_keys.append(self._tally_key(pane))
            else:
                self.tallies[pane] = tally
                self._written_offsets[pane] = tally.next_offset

        for pane, segments in recovery.segments.items():
            if self._covers(pane):
                self._obsolete_keys += segments
                continue
            self._segments[pane] = list(segments)
            if pane in self.tallies:  # otherwise the tally was never written, and its frames are read again
                self.tallies[pane].recover_ids(segments.values())

        open_tallies = [(tally.next_offset, tally.clock) for tally in self.tallies.values()]
        self.next_offset, self.clock = resume(self._last, open_tallies)
        self.topic_ids = self._last.topic_ids
        """The ids of the topics that these counts belong to."""
        self._dirty: set[Pane] = set()
        self._has_open_plan = False
        self.rejects: list[Reject] = []
        """Refused records that no plan has yet."""

    @property
    def is_new(self) -> bool:
        """Whether no worker has ever read a record of this partition."""
        return self.next_offset == 0

    @property
    def acknowledged(self) -> Progress:
        """The acknowledged progress: that in the changelog, moved on by later ticks."""
        return self._last

    @property
    def at_rest(self) -> bool:
        """Whether no plan is open. Only a recovery can restore the ids, tallies and rejects of an interrupted plan."""
        return not self._has_open_plan

    def is_over(self, digest: bytes, end: int) -> bool:
        """Whether all panes before the time `end` are closed, and the changelog says so.

        While the source reads again after a restart, its clock is behind. It must then know the frames that count.
        """
        versions = self.gate.definitions.get(digest)
        if versions is None or self.clock is None or versions.closed_through(self.clock) < end:
            return False
        closed_through = self._last.closed_through(versions)
        return closed_through is not None and closed_through >= end

    @property
    def closing(self) -> bool:
        """Whether panes have closed since the last settled plan."""
        settled_clock = self._last.closed_clock
        return self._closed_clock is not None and (settled_clock is None or self._closed_clock > settled_clock)

    @property
    def next_close(self) -> int | None:
        """The log time after which the next pane closes. None before the first record, or without definitions."""
        gate, close = self._open_until
        return close if gate is not None and gate.definitions else None

    def unsettled_panes(self) -> Iterator[Pane]:
        """Yield the panes with reports whose snapshots are not acknowledged, open ones too."""
        yield from (pane for pane, tally in self.tallies.items() if tally.n)
        yield from (pane for pane, snapshot in self._closing.items() if snapshot.n)

    @property
    def behind(self) -> bool:
        """Whether this source has read something that is not in the changelog yet."""
        return self.next_offset != self._last.next_offset or self.closing or self.topic_ids != self._last.topic_ids

    def is_due(self, *, whole: bool, refresh: bool) -> bool:
        """Whether there is something to write."""
        return self.closing or not self._progress_count or (whole and (self.behind or refresh))

    def first_without_time(self, run: RecordRun) -> int | None:
        """Return the offset of the first record without a log time; None if every record has one."""
        if isinstance(run, RecordColumns):
            return None
        return next((offset for offset, timestamp, _ in run if timestamp == UNTRUSTED), None)

    def take(self, run: RecordRun) -> RunOutcome:
        """Count a run of records, except those that are counted already."""
        outcome = RunOutcome()
        run = record_run.records_from(run, self.next_offset)
        if not run:
            return outcome
        admission = columnar_gate.admit(self.gate, run, self.clock)
        refusals = admission.refusals

        for pane, (query, frames) in admission.batches.items():
            if self._covers(pane):
                continue  # read again after a restart
            tally = self._tally(pane, query)
            n = tally.n
            implausible = tally.implausible
            # After a restart the tally skips frames that it holds already, so they are no new frames in the metrics.
            first_index = bisect_left(frames.offsets, tally.next_offset)
            duplicates = tally.add(query.oracle, frames, query.max_ids)
            self._dirty.add(pane)
            refusals += [(int(frames.offsets[index]), duplicate_refusal(query, frames, index)) for index in duplicates]
            outcome.frames[query.name] += len(frames) - first_index - len(duplicates)
            outcome.reports[query.name] += tally.n - n
            outcome.implausible[query.name] += tally.implausible - implausible

        self.next_offset = record_run.next_offset(run)
        if admission.clock != self.clock:
            self.clock = admission.clock
            self._close()

        if refusals:
            data = record_run.values_at(run, (offset for offset, _ in refusals))
            for offset, refusal in refusals:
                outcome.count_refusal(refusal)
                self.rejects.append(Reject.of(refusal, offset, data[offset]))
        return outcome

    def skip(self, end: int) -> None:
        """Skip the log up to `end`, which Kafka deleted unread. Flag each pane that may have lost reports."""
        self.next_offset = max(self.next_offset, end)
        for pane, tally in self.tallies.items():
            tally.flags |= INCOMPLETE
            self._dirty.add(pane)

        # Panes without a tally get their flag in `_close`, from the first loss on, since a second may follow.
        if self._loss_clock is None:
            self._loss_clock = self.clock

    def plan(self, *, whole: bool, refresh: bool = False, says_clock: bool = True) -> CheckpointPlan:
        """Return the writes that are due: closed panes, and with `whole` all counts.

        With `refresh` it includes tallies without new reports, because a restart reads from the
        offset of the oldest tally. With `says_clock` a clock record goes with the plan.
        """
        self._has_open_plan = True
        # The snapshots of closed panes are of no use to anybody before a clock record speaks of them.
        says_clock = says_clock or self.closing
        snapshots = [
            (PaneKey("closed", *pane, self.partition), encode_snapshot(snapshot))
            for pane, snapshot in self._closing.items()
        ]
        # Progress never says a clock that no clock record has said: its offsets would be unknown after a restart.
        closed_clock = max_clock(self._last.closed_clock, self.clock) if says_clock else self._last.closed_clock
        ends = self._last.ends_beyond(closed_clock, self.gate.definitions)
        progress = replace(self._last, closed=ends, topic_ids=self.topic_ids, closed_clock=closed_clock)
        clock = closed_clock if says_clock else None
        rejects = self.rejects
        self.rejects = []

        # The first progress record announces this writer, and a restart must know the newest ids of the topics.
        is_announced = self._progress_count > 0 and self.topic_ids == self._last.topic_ids
        is_quiet = is_announced and not (snapshots or rejects or refresh)
        if not whole:
            return CheckpointPlan([], [], snapshots, rejects, progress, clock, is_quiet)

        ids, tallies = self._count_writes(refresh=refresh)
        progress = replace(progress, next_offset=self.next_offset, clock=self.clock)
        return CheckpointPlan(ids, tallies, snapshots, rejects, progress, clock, is_quiet and not tallies)

    def _count_writes(self, *, refresh: bool) -> tuple[list[Write], list[Write]]:
        """Return the segments of ids and the tallies to write."""
        ids: list[Write] = []
        tallies: list[Write] = []
        for pane, tally in self.tallies.items():
            if pane not in self._dirty and not (refresh and self._written_offsets.get(pane, -1) < self.next_offset):
                continue
            tally.advance(self.next_offset, self.clock)
            segment = tally.next_segment()
            while segment:
                span = segment[0].offset, segment[-1].offset
                name = PaneKey("ids", *pane, self.partition, span).encode()
                self._segments.setdefault(pane, []).append(name)
                ids.append((name, encode_ids(segment)))
                segment = tally.next_segment()
            tallies.append((self._tally_key(pane), encode_tally(tally)))
            self._written_offsets[pane] = self.next_offset
        self._dirty.clear()
        return ids, tallies

    def progress(self, plan: CheckpointPlan) -> Write:
        """Return the progress record, which confirms that all other writes of the plan are acknowledged.

        Each record has a new key, so that a worker that deletes a record has read its content. A worker
        that was frozen can neither overwrite newer progress nor lose its own record unread.
        """
        name = PartitionKey("progress", self.partition, f"{self.writer}.{self._progress_count}").encode()
        self._progress_count += 1
        return name, progress_codec.encode(plan.progress)

    def settle(self, plan: CheckpointPlan) -> list[Write]:
        """Note that the broker has acknowledged the plan, and return the deletions for the changelog."""
        self._has_open_plan = False
        self._last = plan.progress
        if plan.quiet:
            return []
        # The progress of the plan is acknowledged, so no restart needs the older records any more.
        deletions = self._obsolete_keys
        written_key = PartitionKey("progress", self.partition, f"{self.writer}.{self._progress_count - 1}")
        self._obsolete_keys = [written_key.encode()]
        if not plan.progress.closed:
            deletions += self._older_keys
            self._older_keys = []

        for key, _ in plan.snapshots:
            pane = key.digest, key.pane
            self._closing.pop(pane, None)
            deletions += self._segments.pop(pane, [])
            # A tally that was never written has no record, and a needless deletion stays for minutes.
            if self._written_offsets.pop(pane, None) is not None:
                deletions.append(self._tally_key(pane))
        return [(name, None) for name in deletions]

    def _tally(self, pane: Pane, query: Query) -> Tally:
        if pane not in self.tallies:
            self.tallies[pane] = Tally.empty(query)
        return self.tallies[pane]

    def _flag(self, pane: Pane, flag: int) -> None:
        digest, start = pane
        # No merger waits for a partition that is no slot, so its flag would come at any time, or never.
        if not self._covers(pane) and self.gate.place_at(digest, start) is not None:
            self._tally(pane, self.gate.definitions[digest].at(start).query).flags |= flag
            self._dirty.add(pane)

    def _tally_key(self, pane: Pane) -> bytes:
        return PaneKey("tally", *pane, self.partition).encode()

    def _close(self) -> None:
        """Close the panes whose time is over at this clock."""
        if self._loss_clock is not None:
            # Even panes without a report may have lost some.
            for pane in lost_panes(self.gate.definitions, self._loss_clock, self.clock):
                self._flag(pane, INCOMPLETE)
            self._loss_clock = None
        elif self._open_until[0] is self.gate and self.clock is not None and self.clock <= self._open_until[1]:
            return

        if self.clock is not None:
            closings = closings_of(self.gate.definitions)
            if self._closed_clock is None or closings.have_moved(self._closed_clock, self.clock):
                self._closed_clock = max_clock(self._closed_clock, self.clock)
            # A look at every definition for each clock took 9% of the time of 64 quiet partitions with 200 queries.
            self._open_until = self.gate, closings.next_close(self.clock)

        for pane in [pane for pane in self.tallies if self._is_closed(pane)]:
            self._closing[pane] = self.tallies.pop(pane).close()
            self._dirty.discard(pane)

    def _is_closed(self, pane: Pane) -> bool:
        digest, start = pane
        versions = self.gate.definitions.get(digest)
        return versions is not None and self.clock is not None and start < versions.closed_through(self.clock)

    def _covers(self, pane: Pane) -> bool:
        """Whether the pane is closed for good, and the changelog says so."""
        digest, start = pane
        versions = self.gate.definitions.get(digest)
        return versions is not None and self._last.covers(versions, start)
