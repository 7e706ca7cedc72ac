"""The laws that each record obeys when it is written.

A tally is the sum of the log up to its offset. The snapshot of a closed pane is the whole sum, whoever writes it. The
clocks and offsets of one writer never fall.
"""

from collections import defaultdict

import numpy as np

from aggregator.tallies import clock_record, keys, progress
from aggregator.tallies.group_cells import further_groups
from aggregator.tallies.snapshot import decode_snapshot
from aggregator.tallies.tally import decode_tally
from tests.worlds.counts import Sum


def tallies(records, versions, counts):
    """Yield the step and the text of each tally that differs from the log up to its offset."""
    for record, name, query in _panes(records, versions, "tally"):
        tally = decode_tally(record.value, query.oracle.state_size, further_groups(query))
        expected = counts.sum_at(name.partition, name.digest, name.pane, tally.next_offset)
        if not _equals(tally, expected):
            yield record.step, f"{record.key!r} differs from the log up to offset {tally.next_offset}"


def snapshots(records, versions, counts):
    """Yield the step and the text of each snapshot of a closed pane that differs from the log."""
    for record, name, query in _panes(records, versions, "closed"):
        snapshot = decode_snapshot(record.value, query.oracle.state_size, further_groups(query))
        if not _equals(snapshot, counts.sum_at(name.partition, name.digest, name.pane)):
            yield record.step, f"{record.key!r} differs from the log"


def _panes(records, versions, kind):
    """Yield the records of panes of one kind, with their keys and queries."""
    for record in records:
        name = keys.decode(record.key)
        if record.value is not None and isinstance(name, keys.PaneKey) and name.kind == kind:
            yield record, name, versions[name.digest].query


def _equals(tally, expected):
    """Whether the counts are those of the log. A pane without frames has zeros."""
    counts = np.asarray(tally.counts, np.int64)
    if expected is None:
        return not (tally.n or tally.implausible or tally.duplicates or counts.any())
    return Sum(tally.n, tally.implausible, tally.duplicates, counts.tobytes()) == expected


def clocks(records):
    """Yield the step and the text of each clock record in which a clock or an offset of its writer falls."""
    newest = defaultdict(dict)
    for record in records:
        if record.value is None:
            continue
        writer = record.key.split(b".")[0]
        content = clock_record.decode(record.value)
        for name, numbers in (("clock", content.clocks), ("offset", content.offsets)):
            for number, value in zip(numbers.numbers.tolist(), numbers.values.tolist(), strict=True):
                if value < newest[writer].get((name, number), value):
                    yield record.step, f"the {name} of partition {number} falls in {record.key!r}"
                newest[writer][name, number] = value


def progresses(records):
    """Yield the step and the text of each progress record in which the closed clock or the offset of its writer falls.

    A writer may repeat the offset that it has read, and then begin at the oldest open tally. So its offset may fall
    once, from an offset of another writer.
    """
    newest = {}
    offsets = defaultdict(dict)
    may_fall = {}
    for record in records:
        name = keys.decode(record.key)
        if record.value is None or not isinstance(name, keys.PartitionKey):
            continue
        content = progress.decode(record.value)
        writer = name.writer.split(".")[0]
        place = name.partition, writer
        clock, offset = content.closed_clock, content.next_offset
        if place in newest:
            old_clock, old_offset = newest[place]
            if old_clock is not None and (clock is None or clock < old_clock):
                yield record.step, f"{record.key!r} says closed clock {clock} after {old_clock}"
            if offset < old_offset and not may_fall[place]:
                yield record.step, f"{record.key!r} says offset {offset} after {old_offset}"
            may_fall[place] &= offset == old_offset
        else:
            may_fall[place] = any(other != writer for other in offsets[name.partition].get(offset, ()))
        newest[place] = clock, offset
        offsets[name.partition].setdefault(offset, set()).add(writer)
