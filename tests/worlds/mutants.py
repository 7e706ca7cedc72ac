"""Planted bugs. Each changes a few lines of one function of the product in memory, and the checks must find it.

`python -m tests.worlds.mutants` runs each one until a world fails.
"""

# ruff: noqa: E501 - lines of code that are replaced stay whole

import argparse
import sys

from tests.worlds.clock_mutants import CLOCK_MUTANTS
from tests.worlds.merge_mutants import MERGE_MUTANTS
from tests.worlds.mutant import Mutant
from tests.worlds.run import results

MOST = 200
"""Worlds within which each mutant must be found."""

CHECKPOINT = "aggregator.counting.checkpoint:Checkpoints."
PLAN = "aggregator.counting.checkpoint_plan:CheckpointPlan."
SOURCE = "aggregator.counting.partition:SourcePartition."
APP = "aggregator.counting.app:CountingApp."
TALLY = "aggregator.tallies.tally:Tally."
PUBLISHER = "aggregator.publishing.finals.publisher:FinalPublisher."
SERVICE = "aggregator.publishing.service:PublishingService."
READER = "aggregator.merging.snapshot_reader:SnapshotReader."

_IDS = "    yield WritePhase(self.ids, rejects=self.rejects)\n"
_TALLIES = "    yield WritePhase(self.tallies, self.snapshots)\n"
_PROGRESS = "    yield WritePhase([] if self.quiet else [progress(self)])\n"
_CLOCK = "    yield WritePhase([], clock=self.clock)\n"
_STATES = "    refused = await self._write(state, [*blocks, *other_writes])\n"

MUTANTS = (
    Mutant(
        "checkpoint that awaits nothing",
        CHECKPOINT + "_finish",
        "await asyncio.gather(*await self._send(phases, urgent=urgent))\n    # An acknowledgement after a retry has no offset, and a clock record must name one.\n    snapshots = self._unplaced_snapshots()",
        "await self._send(phases, urgent=urgent)\n    snapshots = {}",
        3,
    ),
    Mutant(
        "progress before tallies",
        PLAN + "phases",
        _IDS + _TALLIES + _CLOCK + _PROGRESS,
        _PROGRESS + _IDS + _TALLIES + _CLOCK,
        3,
    ),
    Mutant(
        "rejects beside the tallies",
        PLAN + "phases",
        _IDS + _TALLIES,
        "    yield WritePhase(self.ids)\n    yield WritePhase(self.tallies, self.snapshots, rejects=self.rejects)\n",
        3,
    ),
    Mutant("tally before its ids", PLAN + "phases", _IDS + _TALLIES, _TALLIES + _IDS, 4),
    Mutant(
        "writes of an old generation go on",
        CHECKPOINT + "_is_current",
        "return generation == self.counting.generation and self.counting.current",
        "return True",
        10,
    ),
    Mutant(
        "deletion before acknowledgement",
        CHECKPOINT + "_once",
        "for phases in zip(",
        "[self._deletions.setdefault(s, []).extend((n, None) for n, _ in p.tallies) for s, p in plans]\n    for phases in zip(",
        9,
    ),
    Mutant(
        "two keys of progress in turn", SOURCE + "progress", "{self._progress_count}", "{self._progress_count % 2}", 9
    ),
    Mutant(
        "clock of the newest record at a restart",
        "aggregator.counting.partition:resume",
        "return min(points, key=lambda point: point[0])",
        "return min(points, key=lambda point: point[0])[0], max((p[1] for p in points if p[1] is not None), default=None)",
        5,
    ),
    Mutant(
        "restart at progress alone",
        "aggregator.counting.partition:resume",
        "return min(points, key=lambda point: point[0])",
        "return points[0]",
        2,
    ),
    Mutant("ids beyond the tally kept", TALLY + "recover_ids", " if entry.offset < self.next_offset", "", 4),
    Mutant(
        "a duplicate accepted after a restart",
        TALLY + "recover_ids",
        "for entry in entries if entry.offset < self.next_offset",
        "for entry in ()",
        4,
    ),
    Mutant(
        "segments of ids under one key",
        SOURCE + "_count_writes",
        "span = segment[0].offset, segment[-1].offset",
        "span = 0, 0",
        4,
    ),
    Mutant(
        "closed panes open again",
        "aggregator.tallies.progress:Progress.covers",
        "return end is not None and pane < end",
        "return False",
        7,
    ),
    Mutant("records applied twice", SOURCE + "take", "record_run.records_from(run, self.next_offset)", "run", 2),
    Mutant("old tally counts again", TALLY + "add", "bisect_left(frames.offsets, self.next_offset)", "0", 2),
    Mutant("tally not moved on", SOURCE + "_count_writes", "tally.advance(self.next_offset, self.clock)", "pass", 2),
    Mutant(
        "stale run applied",
        APP + "count",
        "if run.first > source.next_offset and not await",
        "if False and not await",
        6,
    ),
    Mutant(
        "real gap never passed",
        APP + "_is_next",
        "if gap.is_before(run_start):\n        return True",
        "if False:\n        return True",
        6,
    ),
    Mutant(
        "no seek back", APP + "_is_next", "self._seeking = asyncio", "return False\n        self._seeking = asyncio", 6
    ),
    Mutant(
        "sources kept over two generations",
        APP + "_can_keep",
        "self.generation == generation - 1",
        "self.generation >= generation - 2",
        2,
    ),
    Mutant("sources kept with an open plan", APP + "_can_keep", " and source.at_rest", "", 2),
    Mutant("an old recovery is applied", APP + "_recover", " or not is_current()", "", 2),
    Mutant(
        "snapshots of closed panes lost", SOURCE + "settle", "self._closing.pop(pane, None)", "self._closing.clear()", 7
    ),
    Mutant(
        "states without the final's acknowledgement",
        PUBLISHER + "publish",
        "refused = await count_refused(acks)",
        "refused = 0",
        9,
    ),
    Mutant(
        "state before its final",
        PUBLISHER + "publish",
        "acks += await self._send(finals, answers)",
        "await self._settle(state, {due.final.span.window: due.final.position for due in finals})\n        acks += await self._send(finals, answers)",
        9,
    ),
    Mutant(
        "snapshots deleted before the state",
        PUBLISHER + "_settle",
        _STATES,
        "    for window, position in positions.items():\n        self.delete(state, list(state.acknowledge(window, position)))\n    self.deletions.flush()\n"
        + _STATES,
        9,
    ),
    Mutant(
        "finals are not sent",
        PUBLISHER + "_send_records",
        "return await self.outbox.append(topic, home, fitting, is_current=is_current)",
        "return []",
        8,
    ),
    Mutant("alert state lost at takeover", PUBLISHER + "final_task", "batch.state.alerts", "{}", 10),
    Mutant(
        "finals before the end of snapshots is read",
        READER + "has_read_all",
        "return bool(await self._consumer.position(tp) >= highwater)",
        "return True",
        8,
    ),
    Mutant("must_reload ignored", SERVICE + "_states", "if snapshots.must_reload:", "if False:", 8),
    Mutant(
        "reader keeps no offset over a rebalance",
        READER + "assign",
        "self._consumer.seek(self._at(partition), self.offsets[partition])",
        "self._consumer.seek(self._at(partition), self.offsets[partition] + 1)",
        7,
    ),
    Mutant(
        "one partition is enough to close",
        "aggregator.tallies.clock_book:ClockView.least_on_slots",
        "least_clock = self.least",
        "least_clock = int(self.clocks.max())",
        8,
    ),
    Mutant(
        "a record skipped at a recovery",
        APP + "_rebuild",
        "source.topic_ids = topic_ids",
        "source.topic_ids = topic_ids\n        source.next_offset += 1",
        2,
    ),
    *CLOCK_MUTANTS,
    *MERGE_MUTANTS,
)
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


def find(mutant, most):
    """Return the first world that finds a mutant, and its number, or None."""
    for number, result in enumerate(results(range(most), mutant=mutant), 1):
        if result.violations:
            return number, result
    return None


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m tests.worlds.mutants", description="Show that worlds find bugs.")
    parser.add_argument("--most", type=int, default=MOST, help="worlds for each mutant")
    parser.add_argument("names", nargs="*", help="mutants; default: all")
    options = parser.parse_args(arguments)
    is_lost = False
    for mutant in [BY_NAME[name] for name in options.names] or MUTANTS:
        hit = find(mutant, options.most)
        if hit is None:
            is_lost = True
            sys.stdout.write(f"{mutant.name}: not found in {options.most} worlds\n")
        else:
            number, result = hit
            first = result.first_violation
            sys.stdout.write(f"{mutant.name}: world {number} (seed {result.seed}), {first.check}: {first.text}\n")
        sys.stdout.flush()
    return int(is_lost)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
