"""Planted bugs of the clock records: in their order, their offsets, their deletion, and how a merger reads them."""

# ruff: noqa: E501 - lines of code that are replaced stay whole

from tests.worlds.mutant import Mutant

BOOK = "aggregator.tallies.clock_book:ClockBook."
CLOCK_LOG = "aggregator.counting.clock_log:ClockLog."
PLAN = "aggregator.counting.checkpoint_plan:CheckpointPlan."
SOURCE = "aggregator.counting.partition:SourcePartition."
READER = "aggregator.merging.snapshot_reader:SnapshotReader."

_TALLIES = "    yield WritePhase(self.tallies, self.snapshots)\n"
_CLOCK = "    yield WritePhase([], clock=self.clock)\n"
_PROGRESS = "    yield WritePhase([] if self.quiet else [progress(self)])\n"

CLOCK_MUTANTS = (
    Mutant("clock record before its snapshots", PLAN + "phases", _TALLIES + _CLOCK, _CLOCK + _TALLIES, 8),
    Mutant("progress before the clock record", PLAN + "phases", _CLOCK + _PROGRESS, _PROGRESS + _CLOCK, 3),
    Mutant(
        "clock record without offsets",
        BOOK + "record",
        "np.flatnonzero(self._offsets)",
        "np.flatnonzero(self._offsets < 0)",
        8,
    ),
    Mutant(
        "offsets not cumulative",
        BOOK + "note",
        "(self._clocks, record.clocks), (self._offsets, record.offsets)",
        "((self._clocks, record.clocks),)",
        9,
    ),
    Mutant(
        "offsets of the home not awaited", READER + "_has_passed", "return bool(await", "return True or bool(await", 8
    ),
    Mutant(
        "an acknowledgement without an offset taken as 0",
        "aggregator.counting.checkpoint:_have_offsets",
        "all(ack.result().offset >= 0 for ack in acks)",
        "True",
        8,
    ),
    Mutant(
        "clock records not read before the first one",
        CLOCK_LOG + "catch_up",
        "if self._has_read:",
        "if True:",
        9,
    ),
    Mutant(
        "former clock record deleted first",
        CLOCK_LOG + "say",
        "    await self._append(record)\n",
        "    await self.outbox.write(CLOCKS, 0, [(name, None) for name in (*former_names, *self.book.take_obsolete(record, former_names))])\n    await self._append(record)\n",
        9,
    ),
    Mutant(
        "clock record deleted whatever its clocks and offsets",
        BOOK + "_is_replaced",
        "return has_offsets and bool((self._clocks[other.clocks.numbers] > other.clocks.values).all())",
        "return True",
        9,
    ),
    Mutant(
        "clock record deleted at an equal clock",
        BOOK + "_is_replaced",
        "self._clocks[other.clocks.numbers] > other.clocks.values",
        "self._clocks[other.clocks.numbers] >= other.clocks.values",
        9,
    ),
    Mutant(
        "clock record deleted that has other offsets",
        BOOK + "_is_replaced",
        "return has_offsets and",
        "return",
        9,
    ),
    Mutant(
        "one key of clock records for each writer",
        "aggregator.counting.clock_log:clock_key",
        "{writer}.{number}",
        "{writer}.0",
        9,
    ),
    Mutant(
        "one clock in progress in place of two",
        "aggregator.tallies.progress:combine",
        "closed_clock=max(clocks, default=None)",
        "closed_clock=newest_record.clock",
        3,
    ),
    Mutant(
        "clocks read before the end of the home",
        READER + "_may_load",
        "self._clock_offset > mark.offset and",
        "",
        8,
    ),
    Mutant(
        "a clock ahead of its closed panes",
        SOURCE + "plan",
        "max_clock(self._last.closed_clock, self.clock) if",
        "max_clock(self._last.closed_clock, self.clock and self.clock + 5000) if",
        8,
    ),
)
