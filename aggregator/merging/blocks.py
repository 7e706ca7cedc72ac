"""Blocks: sums of windows in a row, with which slow changes are found.

A block of scale s covers s windows, and begins at a multiple of its length. It is complete with the first final that
ends at its end or later. The block of 2 s windows is the sum of two blocks of s windows, so nobody keeps partial sums.
Each block is a record of its own in the topic `snapshots`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aggregator.tallies.group_cells import GROUP_0, GroupNumbers, groups_of_row, groups_row
from oracles.errors import ReportError
from oracles.query import Query
from oracles.query.footprint import MOST_BLOCK_VALUES
from oracles.query.settings import Window

Counts = NDArray[np.integer]
Place = tuple[int, int]
"""The scale and the end of a block."""

SCALES = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of windows in a block."""
LONGEST = SCALES[-1]
BLOCKS_BEFORE = 4
"""Number of blocks before the newest one with which it is compared."""
SEASONAL = 16
"""The scale from which blocks are compared with the same time of earlier seasons."""
VERSION = 1
"""The version of a block's record."""
_WIDTHS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}
_MOST = 1 << 62


class BlockSpan(NamedTuple):
    """A block that a final completes."""

    scale: int
    start: int
    end: int
    known_from: int
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
        counts = np.add(self.counts, other.counts, dtype=np.int64).astype(np.min_scalar_type(n))
        independent = self.n_independent + other.n_independent
        is_complete = self.is_complete and other.is_complete
        groups = self.groups if self.groups == other.groups or not other.n else () if self.n else other.groups
        return Part(n, independent, counts, is_visible=False, is_complete=is_complete, groups=groups)

    def is_between(self, marks: Sequence[bool]) -> bool:
        """Whether the ends of its block are marks of all its groups. `marks` has each group."""
        return bool(self.groups) and all(marks[group] for group in self.groups)

    @property
    def counts_for_changes(self) -> bool:
        return self.is_visible and self.is_complete and self.n_independent > 0


@dataclass(frozen=True, eq=False)
class Block:
    """The attributes of a block."""

    since: int
    """The time since which the block holds all reports. If it is after its start, windows before are unknown."""
    parts: tuple[Part | None, ...]
    """A part for each attribute. None if the attribute has no blocks."""


def completions(window: Window, previous: int | None, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield scale, start and end of the blocks that the final of a window completes, the shorter ones first.

    `previous` is the end of the final before it. Windows in between have no reports.
    """
    after = end - window.step if previous is None else previous
    for scale in SCALES if window.kind != "all" else ():
        length = scale * window.size
        first, last = (after // length + 1) * length, end // length * length
        if first <= end:
            yield scale, first - length, first
        if first < last == end:
            yield scale, last - length, last


def known_from(window: Window, previous: int | None, since: int, start: int) -> int:
    """Return the time from which to the start of a window there are no reports. `since` is the first window's start."""
    return min(start, since if previous is None else previous // window.size * window.size)


def current_start(window: Window, end: int) -> int:
    """Return the start of the longest block that is not complete at a time."""
    return end // (LONGEST * window.size) * LONGEST * window.size


def is_panel(query: Query) -> bool:
    """Whether the same clients repeat their noise from window to window, so that sums know no more than one window."""
    return query.answers != "fresh"


def before(query: Query, window: Window, place: Place, store: Iterable[Place]) -> list[Place]:
    """Return the stored blocks with which a block is compared, the oldest first. Its scale is 2 or more."""
    scale, end = place
    places, length = set(store), scale * window.size
    count = 1 if is_panel(query) else BLOCKS_BEFORE
    if query.season is not None and scale >= SEASONAL:
        seasons = [(scale, end - query.season * number) for number in range(1, BLOCKS_BEFORE + 1)]
        if there := [each for each in seasons if each in places][:count]:
            return there[::-1]
    if is_panel(query):
        return sorted(each for each in places if each[0] == scale and each[1] < end)[-1:]
    return [each for number in range(BLOCKS_BEFORE, 0, -1) if (each := (scale, end - length * number)) in places]


def needed(query: Query, window: Window, spans: Sequence[BlockSpan], store: Iterable[Place]) -> set[Place]:
    """Return the stored blocks that a final needs to complete these blocks and to compare them."""
    places = set(store)
    result: set[Place] = set()
    for scale, start, end, *_ in spans:
        if scale > 1:
            result.update(before(query, window, (scale, end), places))
            if not is_panel(query):
                result |= {(scale // 2, (start + end) // 2), (scale // 2, end)} & places
    return result


def obsolete(query: Query, window: Window, store: Iterable[Place], end: int) -> list[Place]:
    """Return the blocks that no final after `end` needs. Blocks that end later are not settled, and stay."""
    by_scale: dict[int, list[int]] = {}
    for scale, block_end in store:
        if block_end <= end:
            by_scale.setdefault(scale, []).append(block_end)
    result: list[Place] = []
    for scale, ends in by_scale.items():
        limit = 1 if scale == 1 or is_panel(query) else BLOCKS_BEFORE + 1
        newest = sorted(ends)[-limit:]
        if query.season is not None and scale >= SEASONAL:
            first = end - BLOCKS_BEFORE * query.season - (BLOCKS_BEFORE + 1) * scale * window.size
            newest = [each for each in ends if each >= min(first, newest[0])]
        result += [(scale, each) for each in ends if each not in newest]
    return result


def encode(block: Block) -> bytes:
    """Return a block as bytes: a line of JSON, then the counts."""
    parts = [
        None
        if part is None
        else (
            *(part.n, part.n_independent, part.is_visible, part.is_complete, len(part.counts), part.counts.itemsize),
            *groups_row(part.groups),
        )
        for part in block.parts
    ]
    counts = [part.counts.astype(_WIDTHS[part.counts.itemsize]).tobytes() for part in block.parts if part is not None]
    return b"".join([orjson.dumps({"version": VERSION, "since": block.since, "parts": parts}), b"\n", *counts])


def decode(data: bytes, query: Query) -> Block:
    """Return the block that `encode` has written, or raise a ReportError."""
    line, _, body = data.partition(b"\n")
    parts: list[Part | None] = []
    at = 0
    try:
        head = orjson.loads(line)
        if head["version"] != VERSION:
            raise ReportError(f"the block has version {head['version']}, but {VERSION} is expected")
        since = head["since"]
        if type(since) is not int or abs(since) > _MOST:
            raise ReportError("the block needs a whole number as time")
        for row, oracle in zip(head["parts"], query.attribute_oracles, strict=True):
            if row is None:
                parts.append(None)
                continue
            n, independent, visible, complete, size, width, *numbers = row
            if any(type(number) is not int or not 0 <= number <= _MOST for number in (n, independent, size)):
                raise ReportError("the block needs whole numbers as counts")
            counts = np.frombuffer(body, _WIDTHS[width], size, at)
            at += size * width
            if size != oracle.counters or independent > n or (size and int(counts.max()) > n):
                raise ReportError(f"the block does not fit query {query.name}")
            groups = groups_of_row(numbers)
            part = Part(n, independent, counts, is_visible=visible is True, is_complete=complete is True, groups=groups)
            parts.append(part)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReportError(f"the block is unreadable: {error!r}") from error
    if at != len(body):
        raise ReportError(f"the block has {len(body)} bytes of counts, but claims {at}")
    return Block(since, tuple(parts))


def extended(
    query: Query, spans: Sequence[BlockSpan], parts: Sequence[Part | None], end: int, store: Mapping[Place, Block]
) -> dict[Place, Block]:
    """Return the blocks that a final completes. `parts` are those of its own window, which ends at `end`."""
    new: dict[Place, Block] = {}
    for span in spans:
        scale, start, block_end, quiet_from, marks = span
        if is_panel(query):
            if block_end == end and any(part is not None and part.is_visible for part in parts):
                new[span.place] = Block(start, tuple(parts))
            continue
        if scale == 1:
            block = Block(quiet_from, tuple(parts)) if block_end == end else None
        else:
            middle = (start + block_end) // 2
            first_half, second_half = (
                new.get(place) or store.get(place) for place in ((scale // 2, middle), (scale // 2, block_end))
            )
            block = _sum(first_half, second_half, middle, quiet_from)
        if block is not None:
            is_whole, attributes = block.since <= start, len(block.parts)
            visible = [
                part is not None
                and is_whole
                and part.n >= query.crowd
                and part.is_between(marks[attribute::attributes])
                for attribute, part in enumerate(block.parts)
            ]
            new_parts = (
                part and replace(part, is_visible=each) for part, each in zip(block.parts, visible, strict=True)
            )
            new[span.place] = Block(block.since, tuple(new_parts))
    return new


def _sum(left: Block | None, right: Block | None, middle: int, quiet_from: int) -> Block | None:
    """Return the sum of two halves that meet in the middle. A missing one has no reports, or nobody knows them."""
    if left is None:
        return right
    if right is None:
        return left if quiet_from <= middle else Block(_MOST, left.parts)
    since = left.since if right.since <= middle else right.since
    both = zip(left.parts, right.parts, strict=True)
    return Block(since, tuple(one + two if one is not None and two is not None else None for one, two in both))


def stored_count(query: Query, window: Window) -> int:
    """Return the largest number of stored blocks of a kind of window."""
    if window.kind == "all":
        return 0
    limit = 1 if is_panel(query) else BLOCKS_BEFORE + 1
    count = (0 if is_panel(query) else 1) + limit * (len(SCALES) - 1)
    if query.season is not None:
        lengths = (scale * window.size for scale in SCALES if scale >= SEASONAL)
        count += sum(BLOCKS_BEFORE * query.season // length + BLOCKS_BEFORE + 1 for length in lengths)
    return count


def is_stored(query: Query, span: BlockSpan, window: Window) -> bool:
    """Whether later finals need a block. Of single windows only the first of two is needed, for the sum of both."""
    if is_panel(query):
        return span.scale > 1
    return span.scale > 1 or span.start % (2 * window.size) == 0


def has_blocks(query: Query) -> list[bool]:
    """Return for each attribute whether it has blocks, because it has few enough values."""
    return [domain.size <= MOST_BLOCK_VALUES and domain.discovery is None for domain in query.domains]
