"""Blocks: sums of windows in a row, with which slow changes are found.

A block of scale s covers s windows, and begins at a multiple of its length. It is complete with the first final that
ends at its end or later. Nobody keeps partial sums, because the block of 2 s windows is the sum of two blocks of
s windows. Each block is a record of its own in the topic `snapshots`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.records.span import SCALES
from aggregator.tallies.group_cells import GROUP_0, GroupNumbers
from oracles.query import Query
from oracles.query.settings import Window

Counts = NDArray[np.integer]
Place = tuple[int, int]
"""The scale and the end of a block."""

LONGEST = SCALES[-1]
BLOCKS_BEFORE = 4
"""Number of blocks before the newest one with which it is compared."""
SEASONAL = 16
"""The scale from which blocks are compared with the same time of earlier seasons."""
NEVER = 1 << 62
"""A time after all windows."""


class BlockSpan(NamedTuple):
    """A block that a final completes."""

    scale: int
    start: int
    end: int
    quiet_from: int
    """A time. From there to the window of the final there are no reports."""
    marks: tuple[bool, ...]
    """Whether both ends are marks, for each place. See QueryMarks."""

    @property
    def place(self) -> Place:
        return self.scale, self.end


@dataclass(frozen=True, eq=False)
class Part:
    """One attribute of a block."""

    n: int
    n_independent: int
    counts: Counts
    """The support of each value, in the narrowest type that holds it."""
    is_visible: bool
    """Whether the block is whole, its ends are marks, and it holds at least `crowd` reports."""
    is_complete: bool
    """Whether no report of the block was deleted from the log before a worker read it."""
    groups: GroupNumbers = GROUP_0
    """The groups whose reports these are, in each window of the block. Empty if the windows differ."""

    def __add__(self, other: "Part") -> "Part":
        n = self.n + other.n
        # A sum in the narrow type of a half would wrap around, so 64 bits hold it first.
        counts = np.add(self.counts, other.counts, dtype=np.int64).astype(np.min_scalar_type(n))
        return Part(
            n=n,
            n_independent=self.n_independent + other.n_independent,
            counts=counts,
            is_visible=False,
            is_complete=self.is_complete and other.is_complete,
            groups=self._common_groups(other),
        )

    def _common_groups(self, other: "Part") -> GroupNumbers:
        """Return the groups of both parts, or none if they differ. A part without reports has no groups of its own."""
        if self.groups == other.groups or not other.n:
            return self.groups
        return () if self.n else other.groups

    def is_between(self, marks: Sequence[bool]) -> bool:
        """Whether the ends of its block are marks of all its groups. `marks` has each group."""
        return bool(self.groups) and all(marks[group] for group in self.groups)

    @property
    def counts_for_changes(self) -> bool:
        return self.is_visible and self.is_complete and self.n_independent > 0


@dataclass(frozen=True, eq=False)
class Block:
    """The attributes of a block."""

    known_from: int
    """The time from which on the block holds all reports. If it is after its start, windows before it are unknown."""
    parts: tuple[Part | None, ...]
    """A part for each attribute. None if the attribute has no blocks."""


def completions(window: Window, previous_end: int | None, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield scale, start and end of the blocks that the final of a window completes, the shorter ones first.

    `previous_end` is the end of the final before it. Windows in between have no reports.
    """
    if window.kind == "all":
        return

    if previous_end is None:
        previous_end = end - window.step
    for scale in SCALES:
        length = scale * window.size
        open_end = (previous_end // length + 1) * length
        newest_end = end // length * length

        # Only the block that was open at the previous final and the one that ends here can hold reports.
        if open_end <= end:
            yield scale, open_end - length, open_end
        if open_end < newest_end == end:
            yield scale, newest_end - length, newest_end


def quiet_from(window: Window, previous_end: int | None, first_start: int, start: int) -> int:
    """Return the time from which to the start of a window there are no reports.

    `previous_end` is the end of the final before it, and `first_start` the start of the first window of all.
    """
    if previous_end is None:
        return min(start, first_start)

    # The windows between both finals have no reports. They reach back to this multiple of the size, or further.
    return min(start, previous_end // window.size * window.size)


def current_start(window: Window, end: int) -> int:
    """Return the start of the longest block that is not complete at a time."""
    # All shorter blocks of that time begin there or later, because each length divides the next one.
    return end // (LONGEST * window.size) * LONGEST * window.size


def is_panel(query: Query) -> bool:
    """Whether the same clients repeat their noise from window to window, so that sums know no more than one window."""
    return query.answers != "fresh"


def before(query: Query, window: Window, place: Place, store: Iterable[Place]) -> list[Place]:
    """Return the stored blocks with which a block is compared, the oldest first. Its scale is 2 or more."""
    scale, end = place
    places = set(store)
    count = 1 if is_panel(query) else BLOCKS_BEFORE

    # A daily rhythm is a true change to a neighbouring block. The same time of earlier days does not show it.
    if query.season is not None and scale >= SEASONAL:
        seasons = [(scale, end - query.season * number) for number in range(1, BLOCKS_BEFORE + 1)]
        seasonal_places = [season_place for season_place in seasons if season_place in places][:count]
        if seasonal_places:
            return seasonal_places[::-1]

    if is_panel(query):
        return sorted(candidate for candidate in places if candidate[0] == scale and candidate[1] < end)[-1:]

    length = scale * window.size
    neighbours = [(scale, end - length * number) for number in range(BLOCKS_BEFORE, 0, -1)]
    return [neighbour for neighbour in neighbours if neighbour in places]


def needed(query: Query, window: Window, spans: Sequence[BlockSpan], store: Iterable[Place]) -> set[Place]:
    """Return the stored blocks that a final needs to complete these blocks and to compare them."""
    places = set(store)
    result: set[Place] = set()
    for span in spans:
        if span.scale > 1:
            result.update(before(query, window, span.place, places))
            if not is_panel(query):
                result |= places.intersection(_halves(span))
    return result


def _halves(span: BlockSpan) -> tuple[Place, Place]:
    """Return the places of the two blocks whose sum a block is."""
    half = span.scale // 2
    middle = (span.start + span.end) // 2
    return (half, middle), (half, span.end)


def obsolete(query: Query, window: Window, store: Iterable[Place], end: int) -> list[Place]:
    """Return the blocks that no final after `end` needs. Blocks that end later are not settled, and stay."""
    by_scale: dict[int, list[int]] = {}
    for scale, block_end in store:
        if block_end <= end:
            by_scale.setdefault(scale, []).append(block_end)

    result: list[Place] = []
    for scale, ends in by_scale.items():
        limit = _retained_count(query, scale)
        newest_ends = sorted(ends)[-limit:]

        if query.season is not None and scale >= SEASONAL:
            # Without the blocks of four seasons, a comparison takes the neighbours, and the daily rhythm is a change.
            limit_end = end - BLOCKS_BEFORE * query.season - (BLOCKS_BEFORE + 1) * scale * window.size
            newest_ends = [block_end for block_end in ends if block_end >= min(limit_end, newest_ends[0])]

        result += [(scale, block_end) for block_end in ends if block_end not in newest_ends]
    return result


def _retained_count(query: Query, scale: int) -> int:
    """Return the number of newest blocks of a scale that stay: those of a comparison, or half of a sum."""
    return 1 if scale == 1 or is_panel(query) else BLOCKS_BEFORE + 1


def extended(
    query: Query, spans: Sequence[BlockSpan], parts: Sequence[Part | None], end: int, store: Mapping[Place, Block]
) -> dict[Place, Block]:
    """Return the blocks that a final completes. `parts` are those of its own window, which ends at `end`."""
    result: dict[Place, Block] = {}
    for span in spans:
        if is_panel(query):
            if span.end == end and any(part is not None and part.is_visible for part in parts):
                result[span.place] = Block(span.start, tuple(parts))
            continue

        if span.scale == 1:
            # A window that ended before this final has no reports, because it would have a final of its own.
            block = Block(span.quiet_from, tuple(parts)) if span.end == end else None
        else:
            block = _sum_of_halves(span, result, store)

        if block is not None:
            result[span.place] = _with_visible_parts(query, block, span)
    return result


def _sum_of_halves(span: BlockSpan, recent: Mapping[Place, Block], store: Mapping[Place, Block]) -> Block | None:
    """Return the sum of the two halves of a block. A missing half has no reports, or nobody knows them."""
    first_place, second_place = _halves(span)
    middle = first_place[1]
    first_half = recent.get(first_place) or store.get(first_place)
    second_half = recent.get(second_place) or store.get(second_place)
    if first_half is None:
        return second_half
    if second_half is None:
        # A block that lacks reports must never be compared. With this time it is never whole.
        return first_half if span.quiet_from <= middle else Block(NEVER, first_half.parts)

    known_from = first_half.known_from if second_half.known_from <= middle else second_half.known_from
    parts = [
        first_part + second_part if first_part is not None and second_part is not None else None
        for first_part, second_part in zip(first_half.parts, second_half.parts, strict=True)
    ]
    return Block(known_from, tuple(parts))


def _with_visible_parts(query: Query, block: Block, span: BlockSpan) -> Block:
    """Return a block in which the parts that may be published are visible."""
    is_whole = block.known_from <= span.start
    attributes = len(block.parts)

    parts: list[Part | None] = []
    for attribute, part in enumerate(block.parts):
        if part is None:
            parts.append(None)
            continue

        has_crowd = part.n >= query.crowd
        # A place is one attribute of one group, so the marks of an attribute are that many places apart.
        marks = span.marks[attribute::attributes]
        parts.append(replace(part, is_visible=is_whole and has_crowd and part.is_between(marks)))
    return Block(block.known_from, tuple(parts))


def stored_count(query: Query, window: Window) -> int:
    """Return the largest number of stored blocks of a kind of window."""
    if window.kind == "all":
        return 0

    # A panel stores no single windows, because its blocks are no sums.
    scales = SCALES[1:] if is_panel(query) else SCALES
    count = sum(_retained_count(query, scale) for scale in scales)
    if query.season is not None:
        lengths = (scale * window.size for scale in SCALES if scale >= SEASONAL)
        count += sum(BLOCKS_BEFORE * query.season // length + BLOCKS_BEFORE + 1 for length in lengths)
    return count


def is_stored(query: Query, span: BlockSpan, window: Window) -> bool:
    """Whether later finals need a block. Of single windows only the first of two is needed, for the sum of both."""
    if is_panel(query):
        return span.scale > 1
    return span.scale > 1 or span.start % (2 * window.size) == 0
