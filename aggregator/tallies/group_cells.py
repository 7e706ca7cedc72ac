"""The groups of a tally: the cells and counts of all groups in one vector.

The cells of group 0 come first, then the cells and counts of each further group. A vector without further groups is
the tally of a query without groups. A group that a shorter vector lacks has no reports. Vectors therefore add from
their start, and nothing that adds, stores or moves tallies needs to know of groups.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from aggregator.tallies.packing import Counts
from aggregator.tallies.snapshot import Snapshot, Sum, merge_snapshots
from oracles.errors import ReportError
from oracles.mechanisms.protocol import Mechanism
from oracles.query import Query
from oracles.query.footprint import GROUP_COUNTS
from oracles.query.groups import MAX_VALUES
from oracles.types import Flags, Ints, Reports

GroupNumbers = tuple[int, ...]
"""Numbers of groups in ascending order."""
GROUP_0: GroupNumbers = (0,)
"""The groups of a query without groups."""
FrameGroups = NDArray[np.uint8] | None
"""The group of each frame in a row, or None if all frames are of group 0."""


def further_groups(query: Query) -> int:
    """Return the number of groups after group 0."""
    return len(query.groups.values)


def group_count(counts: Counts, cells: int) -> int:
    """Return the number of groups in a vector, for an oracle whose tally has `cells` integers."""
    return 1 + (len(counts) - cells) // (cells + GROUP_COUNTS)


def numbers_of_frames(groups: FrameGroups, frames: int) -> NDArray[np.uint8]:
    """Return the group of each of so many frames."""
    return np.zeros(frames, np.uint8) if groups is None else groups


def select_frames(groups: FrameGroups, selection: slice | Flags) -> FrameGroups:
    """Return the groups of the selected frames."""
    # Frames that are all of group 0 are counted in one call.
    return groups[selection] if groups is not None and groups[selection].any() else None


def count_reports(
    oracle: Mechanism, counts: Ints, reports: Reports, sizes: Sequence[int] | Ints, groups: FrameGroups
) -> int:
    """Add the reports of frames to their groups. Return the number of implausible ones, which do not count.

    `sizes` and `groups` are those of the frames. Groups that the vector does not have count as group 0.
    """
    cells = oracle.state_size
    if groups is None or len(counts) == cells:
        return oracle.add(counts[:cells], reports)

    numbers = np.where(groups < group_count(counts, cells), groups, 0)
    totals = np.bincount(numbers, weights=sizes).astype(np.int64)
    reports = _by_group(reports, np.asarray(sizes), numbers)
    ends = np.cumsum(totals)

    total = 0
    for group in np.flatnonzero(totals).tolist():
        start = _start(cells, group)
        end = int(ends[group])
        part = reports[end - int(totals[group]) : end]
        implausible = oracle.add(counts[start : start + cells], part)
        if group:
            counts[start + cells] += len(part) - implausible
            counts[start + cells + 1] += implausible

        total += implausible
    return total


def _by_group(reports: Reports, sizes: Ints, groups: NDArray[np.integer]) -> Reports:
    """Return the reports of frames in the order of their groups."""
    order = np.argsort(groups, kind="stable")
    if (sizes == sizes[0]).all():  # whole frames move at once
        width = reports.shape[1]
        return reports.reshape(len(sizes), -1)[order].reshape(-1, width)

    ends = np.cumsum(sizes)
    new_ends = np.cumsum(sizes[order])
    return reports[np.repeat(ends[order] - new_ends, sizes[order]) + np.arange(len(reports))]


def note_duplicates(counts: Ints, cells: int, group: int, reports: int) -> None:
    """Count the reports of a frame that was counted before, in the counts of its group."""
    if 0 < group < group_count(counts, cells):
        counts[_start(cells, group) + cells + 2] += reports


def report_counts(snapshot: Snapshot, cells: int) -> list[int]:
    """Return the number of reports of each group."""
    further: list[int] = snapshot.counts[2 * cells :: cells + GROUP_COUNTS].tolist()
    return [snapshot.n - sum(further), *further]


def split(snapshot: Snapshot, cells: int) -> list[Snapshot]:
    """Return the snapshot of each group. Its counts are views."""
    counts = snapshot.counts
    if len(counts) == cells:
        return [snapshot]
    parts = [_part(snapshot, cells, group) for group in range(1, group_count(counts, cells))]
    n, implausible, duplicates = _numbers(snapshot) - np.sum([_numbers(part) for part in parts], axis=0)
    return [Snapshot(int(n), int(implausible), int(duplicates), snapshot.flags, counts[:cells]), *parts]


def _numbers(snapshot: Snapshot) -> Ints:
    return np.array([snapshot.n, snapshot.implausible, snapshot.duplicates])


def _part(snapshot: Snapshot, cells: int, group: int) -> Snapshot:
    """Return the snapshot of a further group."""
    start = _start(cells, group)
    end = start + cells
    n, implausible, duplicates = snapshot.counts[end : end + GROUP_COUNTS].tolist()
    return Snapshot(n, implausible, duplicates, snapshot.flags, snapshot.counts[start:end])


def combine(parts: Sequence[Snapshot], groups: Collection[int], cells: int) -> Snapshot:
    """Return the sum of some groups of a split snapshot, without groups."""
    if len(groups) == 1:
        return parts[next(iter(groups))]
    return merge_snapshots((parts[group] for group in groups), cells)


def whole(snapshot: Snapshot, cells: int) -> Snapshot:
    """Return the sum of all groups, without groups."""
    parts = split(snapshot, cells)
    return combine(parts, range(len(parts)), cells)


def without(snapshot: Snapshot, groups: Collection[int], cells: int) -> Snapshot:
    """Return a snapshot without the reports of some groups."""
    total = Sum(np.zeros(cells, np.int64))
    total.add(snapshot)
    parts = split(snapshot, cells)
    for group in groups:
        _take(total, parts[group], group, cells)
    return total.snapshot()


def subtract(sums: Sum, later_sums: Mapping[int, Sum], cells: int) -> Snapshot:
    """Return a sum without the reports of later sums, each of one group."""
    if not later_sums:
        return sums.snapshot()
    remaining = Sum(sums.counts.copy(), sums.n, sums.implausible, sums.duplicates, sums.flag_counts)
    for group, later_sum in later_sums.items():
        _take(remaining, later_sum.snapshot(), group, cells)

    # Flags are those of panes, so all groups have the same. To subtract those of each would count them twice.
    flags = next(iter(later_sums.values())).flag_counts
    remaining.flag_counts = {flag: times - flags.get(flag, 0) for flag, times in remaining.flag_counts.items()}
    return remaining.snapshot()


def _take(total: Sum, part: Snapshot, group: int, cells: int) -> None:
    """Subtract reports of a group from a sum, but not their flags."""
    start = _start(cells, group)
    total.counts[start : start + cells] -= part.counts
    if group:
        total.counts[start + cells : start + cells + GROUP_COUNTS] -= _numbers(part)
    total.n -= part.n
    total.implausible -= part.implausible
    total.duplicates -= part.duplicates


def groups_row(groups: GroupNumbers) -> list[GroupNumbers]:
    """Return groups as the end of a row of JSON. A query without groups writes nothing."""
    return [] if groups == GROUP_0 else [groups]


def groups_of_row(row_end: Sequence[object]) -> GroupNumbers:
    """Return the groups that `groups_row` has written, or raise a ReportError."""
    if not row_end:
        return GROUP_0
    numbers = row_end[0]
    if len(row_end) > 1 or not isinstance(numbers, list) or any(type(group) is not int for group in numbers):
        raise ReportError("groups must be a list of whole numbers")
    if numbers != sorted({group for group in numbers if 0 <= group <= MAX_VALUES}):
        raise ReportError(f"groups must be numbers from 0 to {MAX_VALUES} in ascending order")
    return tuple(numbers)


def _start(cells: int, group: int) -> int:
    """Return the place of a group's first cell."""
    return group * cells + max(0, group - 1) * GROUP_COUNTS
