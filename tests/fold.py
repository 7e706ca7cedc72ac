"""The truth about a log: one process reads it record by record and adds up, with none of the daemon's ways.

It shares with the daemon what admits a record (`Gate.admit`) and what counts a report (the oracles),
and nothing of what makes it fast, lets it restart, or brings partitions together.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aggregator.counting.admission.gate import AcceptedFrame, Gate
from aggregator.merging import windows
from aggregator.merging.small_groups import VisibleWindow
from aggregator.tallies.snapshot import IDS_OVERFLOW, PARTIAL, Snapshot
from hubbub.definitions.versions import Versions
from oracles.query.settings import Window


@dataclass(eq=False)
class Cell:
    """What one partition says of one pane."""

    counts: np.ndarray
    n: int = 0
    implausible: int = 0
    duplicates: int = 0
    flags: int = 0
    ids: set = field(default_factory=set)

    def count(self, frame):
        query, size = frame.query, len(frame.reports)
        if frame.id in self.ids:
            self.duplicates += size
            return
        if frame.id is not None and len(self.ids) < query.max_ids:
            self.ids.add(frame.id)
        elif frame.id is not None:
            self.flags |= IDS_OVERFLOW
        left_out = query.oracle.add(self.counts, frame.reports)
        self.n += size - left_out
        self.implausible += left_out


class Whole(NamedTuple):
    """A final window."""

    versions: Versions
    window: Window
    start: int
    end: int
    whole: Snapshot
    panes: dict
    """What each of its panes holds, by start."""


def fold(log, definitions, **gate):
    """The final windows of a log, {(query's name, Window, end): Snapshot}; `finals` takes the same."""
    found = finals(log, definitions, **gate)
    return {(one.versions.query.name, one.window, one.end): one.whole for one in found}


def finals(log, definitions, **gate):
    """The final windows of a log.

    `log` has a list of (offset, timestamp, bytes) for each partition; `definitions` are the Versions of each
    digest, or queries that speak for all panes; `gate` is what `Gate` takes beyond these. A window without
    reports is absent.
    """
    definitions = [one if isinstance(one, Versions) else Versions.of(one) for one in definitions]
    by_digest = {versions.query.digest: versions for versions in definitions}
    cells, clocks = defaultdict(dict), []
    for partition, records in enumerate(log):
        here, clock = Gate(partition, len(log), by_digest, **gate), None
        for _, timestamp, data in records:
            outcome, clock = here.admit(data, timestamp, clock)
            if isinstance(outcome, AcceptedFrame):
                parts = cells[outcome.query.digest, outcome.pane]
                if partition not in parts:
                    parts[partition] = Cell(outcome.query.oracle.zeros())
                parts[partition].count(outcome)
        clocks.append(clock)
    for digest, versions in by_digest.items():
        query = versions.query
        panes = {pane: total(parts.values()) for (of, pane), parts in cells.items() if of == digest}
        for window, since, until in intervals(versions):
            reported = [pane for pane in panes if panes[pane].n and since <= pane < until]
            for start, end in spans(window, query.pane, reported):
                if since <= start and end <= until and all(is_closed(clock, end, versions) for clock in clocks):
                    inside = {pane: panes[pane] for pane in panes if start <= pane < end}
                    whole = flagged(total(inside.values()), versions, start, end)
                    yield Whole(versions, window, start, end, whole, inside)


def shown(folded):
    """The finals of one definition in the order of time, each with what it shows of its attributes, by the rule alone.

    `folded` are those of `finals`, with the panes of each. What is shown is ("own", None), ("small", None), or
    ("held", the final whose values are shown again).
    """
    last = {}
    for final in sorted(folded, key=lambda final: final.end):
        query = final.versions.at(final.end - final.versions.query.pane).query
        told = []
        for place in range(len(query.domains)):
            here = {pane: of_attribute(query, part, place) for pane, part in final.panes.items()}
            here = {pane: n for pane, n in here.items() if n}
            before, others = last.get((final.window, place), (None, {}))
            came = sum(n for pane, n in here.items() if pane not in others)
            went = sum(n for pane, n in others.items() if pane not in here)
            if sum(here.values()) < query.crowd:
                told.append(("small", None))
            elif final.window.kind != "tumbling" and any(0 < n < query.crowd for n in (came, went)):
                told.append(("held", before))
            else:
                told.append(("own", None))
                last[final.window, place] = final, here
        yield final, told


def of_attribute(query, part, place):
    """How many reports of a pane speak of an attribute: with smp those that chose it."""
    return int(part.counts[-len(query.attributes) :][place]) if query.solution == "smp" else part.n


def faces(final, told):
    """What a final shows, as records are built of it."""
    span = windows.Span(final.window, final.start, final.end)
    empty = Snapshot(0, 0, 0, final.whole.flags, np.zeros_like(final.whole.counts))
    found = []
    for kind, of in told:
        of_span = windows.Span(of.window, of.start, of.end) if of else span
        total = of.whole if of else empty if kind == "small" else final.whole
        found.append(VisibleWindow(kind, of_span, total))
    return found


def intervals(versions):
    """When each kind of window is published: from the first pane of a version that has it until one that has not."""
    versions = versions.versions
    for window in {window for version in versions for window in version.query.windows}:
        has = [
            window in version.query.windows and not (version.retired and window.kind == "all") for version in versions
        ]
        for i, version in enumerate(versions):
            if has[i] and not (i and has[i - 1]):
                gone = [later.first for later, there in zip(versions[i:], has[i:], strict=True) if not there]
                yield window, version.first or -(1 << 62), min(gone, default=1 << 62)


def is_closed(clock, end, versions):
    """Whether a partition whose log has come so far has closed the pane that ends at `end`, and all before it."""
    pane = versions.query.pane
    starts = {end - pane, *(version.first - pane for version in versions.versions if 0 < version.first < end)}
    closes = max(start + pane + versions.at(start).query.lateness for start in starts)
    return clock is not None and clock > 1000 * closes


COUNTED = ("lateness", "skew", "starts", "until", "require_id", "max_ids")


def flagged(whole, versions, start, end):
    """`partial` where within the window something changed that decides what is counted."""
    rules = {
        (*(getattr(version.query, name) for name in COUNTED), version.retired)
        for version in {versions.at(pane) for pane in range(start, end, versions.query.pane)}
    }
    return whole.with_flags(PARTIAL) if len(rules) > 1 else whole


def spans(window, pane, reported):
    """The windows with a report in them: start and end, where `reported` are the panes with reports."""
    if window.kind == "all":
        ends = {start + (1 + rest) * pane for start in reported for rest in range(windows.IDLE + 1)}
        return {(min(reported), end) for end in ends}
    return {
        (start, start + window.size)
        for one in reported
        for start in range(one // window.step * window.step, one - window.size, -window.step)
    }


def total(parts):
    """The sum of cells or of snapshots."""
    parts = list(parts)
    flags = 0
    for part in parts:
        flags |= part.flags
    sums = [sum(getattr(part, name) for part in parts) for name in ("n", "implausible", "duplicates")]
    return Snapshot(*sums, flags, np.sum([part.counts for part in parts], axis=0))
