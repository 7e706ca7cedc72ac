"""The correct result of a log, from one process that reads record by record and adds up.

It shares two parts with the daemon, `Gate.admit` and the oracles. It has no columns, no restarts and no merging.
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
    """The counts of one pane on one partition."""

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
    """The snapshot of each of its panes, by start."""


def fold(log, definitions, **gate):
    """Return the final windows of a log as {(query's name, Window, end): Snapshot}. `finals` has the same arguments."""
    results = finals(log, definitions, **gate)
    return {(one.versions.query.name, one.window, one.end): one.whole for one in results}


def finals(log, definitions, **gate):
    """Yield the final windows of a log. A window without reports is absent.

    `log` has a list of (offset, timestamp, bytes) for each partition. `definitions` are the Versions of each digest, or
    queries that apply to all panes. `gate` has the other arguments of `Gate`.
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
            active = [pane for pane in panes if panes[pane].n and since <= pane < until]
            for start, end in spans(window, query.pane, active):
                if since <= start and end <= until and all(is_closed(clock, end, versions) for clock in clocks):
                    inside = {pane: panes[pane] for pane in panes if start <= pane < end}
                    whole = with_partial(total(inside.values()), versions, start, end)
                    yield Whole(versions, window, start, end, whole, inside)


def attribute_views(groups):
    """Yield the finals of one definition in the order of time, each with the views of its attributes.

    `groups` are results of `finals`. A view is ("own", None), ("small", None), or ("held", final). A held view repeats
    the values of that final.
    """
    last = {}
    for final in sorted(groups, key=lambda final: final.end):
        query = final.versions.at(final.end - final.versions.query.pane).query
        views = []
        for place in range(len(query.domains)):
            here = {pane: of_attribute(query, part, place) for pane, part in final.panes.items()}
            here = {pane: n for pane, n in here.items() if n}
            before, others = last.get((final.window, place), (None, {}))
            came = sum(n for pane, n in here.items() if pane not in others)
            went = sum(n for pane, n in others.items() if pane not in here)
            if sum(here.values()) < query.crowd:
                views.append(("small", None))
            elif final.window.kind != "tumbling" and any(0 < n < query.crowd for n in (came, went)):
                views.append(("held", before))
            else:
                views.append(("own", None))
                last[final.window, place] = final, here
        yield final, views


def of_attribute(query, part, place):
    """Return how many reports of a pane answer an attribute. With smp a report answers one of them."""
    return int(part.counts[-len(query.attributes) :][place]) if query.solution == "smp" else part.n


def visible_windows(final, views):
    """Return the windows from which the record of a final is built."""
    span = windows.Span(final.window, final.start, final.end)
    empty = Snapshot(0, 0, 0, final.whole.flags, np.zeros_like(final.whole.counts))
    visible = []
    for kind, of in views:
        of_span = windows.Span(of.window, of.start, of.end) if of else span
        total = of.whole if of else empty if kind == "small" else final.whole
        visible.append(VisibleWindow(kind, of_span, total))
    return visible


def intervals(versions):
    """Yield each window with its start and end, the first panes of a version that has it and of one that has not."""
    versions = versions.versions
    for window in {window for version in versions for window in version.query.windows}:
        has = [
            window in version.query.windows and not (version.retired and window.kind == "all") for version in versions
        ]
        for i, version in enumerate(versions):
            if has[i] and not (i and has[i - 1]):
                ends = [later.first for later, there in zip(versions[i:], has[i:], strict=True) if not there]
                yield window, version.first or -(1 << 62), min(ends, default=1 << 62)


def is_closed(clock, end, versions):
    """Whether a partition with this clock has closed the pane that ends at `end`, and all panes before it."""
    pane = versions.query.pane
    starts = {end - pane, *(version.first - pane for version in versions.versions if 0 < version.first < end)}
    closes = max(start + pane + versions.at(start).query.lateness for start in starts)
    return clock is not None and clock > 1000 * closes


RULES = ("lateness", "skew", "starts", "until", "require_id", "max_ids")


def with_partial(whole, versions, start, end):
    """Return the snapshot, with the flag `partial` if a rule of counting changed within the window."""
    rules = {
        (*(getattr(version.query, name) for name in RULES), version.retired)
        for version in {versions.at(pane) for pane in range(start, end, versions.query.pane)}
    }
    return whole.with_flags(PARTIAL) if len(rules) > 1 else whole


def spans(window, pane, active):
    """Return start and end of each window that has a report. `active` are the panes with reports."""
    if window.kind == "all":
        ends = {start + (1 + rest) * pane for start in active for rest in range(windows.IDLE + 1)}
        return {(min(active), end) for end in ends}
    return {
        (start, start + window.size)
        for one in active
        for start in range(one // window.step * window.step, one - window.size, -window.step)
    }


def total(parts):
    """Return the sum of cells or of snapshots."""
    parts = list(parts)
    flags = 0
    for part in parts:
        flags |= part.flags
    sums = [sum(getattr(part, name) for part in parts) for name in ("n", "implausible", "duplicates")]
    return Snapshot(*sums, flags, np.sum([part.counts for part in parts], axis=0))
