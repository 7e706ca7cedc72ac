"""The correct result of a log, from one process that reads record by record and adds up.

It shares two parts with the daemon, `Gate.admit` and the oracles. It has no columns, no restarts and no merging.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, pairwise, product, takewhile
from math import gcd
from typing import NamedTuple

import numpy as np

from aggregator.counting.admission.gate import AcceptedFrame, Gate
from aggregator.merging import blocks, cumulative_window, windows
from aggregator.merging.blocks import BlockSpan
from aggregator.records.span import Span
from aggregator.tallies.snapshot import IDS_OVERFLOW, PARTIAL, Snapshot
from hubbub.definitions.versions import Versions
from oracles.frame import slots
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
        query = frame.query
        size = len(frame.reports)
        start, end = own_cells(query, frame.group)
        numbers = self.counts[end : end + 3] if frame.group else np.zeros(3, np.int64)
        if frame.id in self.ids:
            self.duplicates += size
            numbers[2] += size
            return
        # Beyond the limit an id is not remembered, so the frame counts, and the pane says so.
        if frame.id is not None and len(self.ids) < query.max_ids:
            self.ids.add(frame.id)
        elif frame.id is not None:
            self.flags |= IDS_OVERFLOW
        left_out = query.oracle.add(self.counts[start:end], frame.reports)
        self.n += size - left_out
        self.implausible += left_out
        numbers[:2] += size - left_out, left_out


def own_cells(query, group):
    """Return the place of a group's cells. Each group but the first has three numbers after its cells."""
    cells = query.oracle.state_size
    start = group * (cells + 3) - min(group, 1) * 3
    return start, start + cells


def group_count(query):
    return query.groups.count


def numbers_of(query, part, group):
    """Return how many reports of a group count, how many are implausible, and how many came again."""
    _, end = own_cells(query, group)
    if group:
        return part.counts[end : end + 3] if end < len(part.counts) else np.zeros(3, np.int64)
    other_numbers = [numbers_of(query, part, number) for number in range(1, group_count(query))]
    return np.array(part[:3]) - np.sum([*other_numbers, np.zeros(3, np.int64)], axis=0)


class Whole(NamedTuple):
    """A final window."""

    versions: Versions
    window: Window
    start: int
    end: int
    whole: Snapshot
    stretches: list
    """The stretches without marks of each attribute, as in `unmarked`."""


def fold(log, definitions, **gate):
    """Return the final windows of a log as {(query's name, Window, end): Snapshot}. `finals` has the same arguments."""
    results = finals(log, definitions, **gate)
    return {(result.versions.query.name, result.window, result.end): result.whole for result in results}


def finals(log, definitions, **gate):
    """Yield the final windows of a log. A window without reports is absent.

    `log` has a list of (offset, timestamp, bytes) for each partition. `definitions` are the Versions of each digest, or
    queries that apply to all panes. `gate` has the other arguments of `Gate`.
    """
    definitions = [one if isinstance(one, Versions) else Versions.of(one) for one in definitions]
    by_digest = {versions.query.digest: versions for versions in definitions}
    cells = defaultdict(dict)
    clocks = []
    for partition, records in enumerate(log):
        here = Gate(partition, len(log), by_digest, **gate)
        clock = None
        for _, timestamp, data in records:
            outcome, clock = here.admit(data, timestamp, clock)
            if isinstance(outcome, AcceptedFrame):
                parts = cells[outcome.query.digest, outcome.pane]
                if partition not in parts:
                    _, end = own_cells(outcome.query, group_count(outcome.query) - 1)
                    parts[partition] = Cell(np.zeros(end + (3 if group_count(outcome.query) > 1 else 0), np.int64))
                parts[partition].count(outcome)
        clocks.append(clock)
    for digest, versions in by_digest.items():
        panes = {pane: total(parts.values()) for (of, pane), parts in cells.items() if of == digest}
        yield from finals_of_panes(versions, panes, lambda end, of=versions: is_closed_on_slots(clocks, end, of))


def is_closed_on_slots(clocks, end, versions):
    """Whether each pane before a time is closed on all partitions that take frames of it."""
    for version, later in zip(versions.versions, [*versions.versions[1:], None], strict=True):
        if version.first and version.first >= end:
            break
        part_end = end if later is None else min(end, later.first)
        places = slots(versions.query.digest, version.query.spread, len(clocks))
        if not all(is_closed(clocks[place], part_end, versions) for place in places):
            return False
    return True


def finals_of_panes(versions, panes, is_final):
    """Yield the final windows of the panes of one definition. `is_final` takes the end of a window."""
    attributes = len(versions.query.domains)
    groups = range(group_count(versions.query))
    stretches = [unmarked(versions, panes, place) for place in range(attributes * len(groups))]
    for window, opens, ends_at in intervals(versions):
        active = [pane for pane in panes if panes[pane].n and opens <= pane < ends_at]
        own = panes
        if window.kind == "all" and versions.first < opens:  # each group begins at a mark
            own = {pane: panes[pane] for pane in active}
            for group in groups:
                group_stretches = stretches[group * attributes : (group + 1) * attributes]
                own = without_before(versions.query, own, group, group_stretches)
            active = [pane for pane in active if own[pane].n]
            own |= {pane: part for pane, part in panes.items() if pane not in own and active and pane > min(active)}
        for start, end in spans(window, versions.query, active):
            if opens <= start and end <= ends_at and is_final(end):
                inside = [own[pane] for pane in own if start <= pane < end]
                yield Whole(versions, window, start, end, with_partial(total(inside), versions, start, end), stretches)


def with_reasons(groups):
    """Yield the finals of one definition in the order of time, each with the reason for which an attribute is withheld.

    `groups` are results of `finals`.
    """
    for final in sorted(groups, key=in_order):
        query = final.versions.at(final.end - final.versions.query.pane).query
        reasons = []
        for place, stretches in enumerate(final.stretches):
            # The start of `all` is a mark already, so only its end is looked at.
            ends = [final.end] if final.window.kind == "all" else [final.start, final.end]
            if np.min(of_attribute(query, final.whole, place)) < query.crowd:
                reasons.append("small")
            else:
                reasons.append(None if all(is_mark(edge, stretches) for edge in ends) else "held")
        yield final, reasons


def in_order(final):
    """Return the place of a final: names that `all` has found are known to the other windows with its end."""
    return final.end, final.window.kind != "all", -final.window.size, -final.window.step


def closed_windows(groups):
    """Yield the finals of one definition as a merger does, with the reasons and the blocks that each completes."""
    previous = {}
    for final, reasons in with_reasons(groups):
        window = final.window
        last_end = previous.get(final.window)
        previous[window] = final.end
        opens = max(
            each.since for each in final.versions.intervals if each.window == window and each.since <= final.start
        )
        spans = []
        for scale, start, end in blocks.completions(window, last_end, final.end):
            marks = tuple(all(is_mark(edge, stretch) for edge in (start, end)) for stretch in final.stretches)
            spans.append(BlockSpan(scale, start, end, blocks.quiet_from(window, last_end, opens, final.start), marks))
        span = Span(window, final.start, final.end)
        yield final.versions, windows.ClosedWindow(span, final.whole, windows.Position(final.end), reasons, spans)


def without_before(query, panes, group, stretches):
    """Return panes without the reports of a group before its first pane with reports that begins at a mark."""
    result = dict(panes)
    for pane in sorted(panes):
        part = panes[pane]
        numbers = numbers_of(query, panes[pane], group)
        if numbers[0] and all(is_mark(pane, stretch) for stretch in stretches):
            break
        if numbers[0]:
            start, end = own_cells(query, group)
            counts = part.counts.copy()
            counts[start : end + 3 * min(group, 1)] = 0
            result[pane] = Snapshot(*np.subtract(part[:3], numbers).tolist(), part.flags, counts)
    return result


def is_mark(edge, stretches):
    return not any(start < edge < end for start, end in stretches)


def unmarked(versions, panes, place):
    """Return the stretches with reports and without a mark inside, by the rule alone, edge by edge."""
    counts = {pane: n for pane, part in panes.items() if np.any(n := of_attribute(versions.query, part, place))}
    length, stretches, count, minimum = versions.query.pane, [], 0, 0
    longest = max(max(edge_spans(version.query)) for version in versions.versions)
    for pane, next_pane in pairwise([*sorted(counts), float("inf")]):
        edge = pane
        while edge < next_pane and (edge == pane or (np.any(count) and edge < pane + 2 * longest)):
            query = versions.at(edge).query
            lengths = edge_spans(query)
            if edge == pane:
                if not np.any(count):
                    mark = max([edge // span * span for span in lengths] + [end for _, end in stretches[-1:]])
                count = count + counts[pane]
                minimum = max(minimum, query.crowd)
            edge += length
            span = max((span for span in lengths if edge % span == 0), default=None)
            if np.min(count) >= minimum and span is not None:
                first_edge = max(edge - span, first_with_span(versions, span, edge))
                within = sum(n for other, n in counts.items() if first_edge <= other < edge)
                if span == max(lengths) or np.min(within) >= minimum:
                    stretches.append((mark, edge))
                    count = minimum = 0
    return [*stretches, (mark, float("inf"))] if np.any(count) else stretches


def edge_spans(query):
    """Return the lengths of time whose multiples are the edges of a query."""
    sized = [(window.size, window.step) for window in query.windows if window.step]
    step = query.search or query.pane
    return {*chain(*sized), *(gcd(*pair) for pair in sized), *([step] if len(sized) < len(query.windows) else [])}


def first_with_span(versions, span, edge):
    """Return the first pane of the versions in a row that have this span, up to the version of an edge."""
    earlier_versions = [version for version in versions.versions if version.first < edge]
    # The span must be in all versions since, or an edge of it was none for a while.
    run = list(takewhile(lambda version: span in edge_spans(version.query), reversed(earlier_versions)))
    return run[-1].first or float("-inf")


def of_attribute(query, part, place):
    """Return how many reports of a group answer an attribute. With smp a report answers one of them.

    A place is an attribute of a group. Those of group 0 come first. Numbers have a count for each level, and unknown
    strings one for each level and map. The smallest counts.
    """
    if query.strings is not None:
        return part.counts[-query.strings.parts :].astype(np.int64)
    group, attribute = divmod(place, len(query.domains))
    start, end = own_cells(query, group)
    if query.domains[attribute].scale is not None:
        state = np.zeros(end - start, np.int64)
        state[: max(0, len(part.counts) - start)] = part.counts[start:end]
        return np.array(query.oracle.answer_counts(state, int(numbers_of(query, part, group)[0]))[attribute])
    if query.solution == "smp":
        return int(part.counts[start:end][-len(query.attributes) :][attribute]) if end <= len(part.counts) else 0
    return int(numbers_of(query, part, group)[0])


def intervals(versions):
    """Yield each window with its start and end, the first panes of a version that has it and of one that has not."""
    versions = versions.versions
    for window in set(chain.from_iterable(version.query.windows for version in versions)):
        has = [
            window in version.query.windows and not (version.retired and window.kind == "all") for version in versions
        ]
        for i, version in enumerate(versions):
            if has[i] and not (i and has[i - 1]):
                ends = [version.first for version, is_there in zip(versions[i:], has[i:], strict=True) if not is_there]
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
        (*(getattr(version.query, name) for name in RULES), version.retired or version.is_stopped)
        for version in {versions.at(pane) for pane in range(start, end, versions.query.pane)}
    }
    return whole.with_flags(PARTIAL) if len(rules) > 1 else whole


def spans(window, query, active):
    """Return start and end of each window that has a report. `active` are the panes with reports."""
    pane = query.pane
    if window.kind == "all" and query.search is not None:
        return {(min(active), start // query.search * query.search + query.search) for start in active}
    if window.kind == "all":
        ends = {start + (1 + number) * pane for start, number in product(active, range(cumulative_window.IDLE + 1))}
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
    # A pane before a new group has shorter counts, and the missing cells are zeros.
    longest = max(len(part.counts) for part in parts)
    counts = [np.pad(part.counts, (0, longest - len(part.counts))) for part in parts]
    return Snapshot(*sums, flags, np.sum(counts, axis=0))
