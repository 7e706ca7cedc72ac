"""The ranges of time that an audit can compare, for one definition.

The audit has no state from before its range, and it cannot count records that the log lost. After such a gap, its walk
of marks starts again at an edge that is a mark for certain: the end of the next final that shows values.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, cast, get_args

from aggregator.merging.marks import spans
from aggregator.records.decoder import decode
from aggregator.records.group_fields import split_key
from aggregator.records.rows import Kind
from aggregator.records.span import Span
from aggregator.records.words import WITHHELD
from aggregator.tallies.group_cells import further_groups
from hubbub.definitions.versions import FOR_EVER, Versions
from oracles.query.groups import NO_GROUP
from oracles.query.settings import Window

Stretch = tuple[int, int]
"""The start and the end of a stretch of time."""


class PublishedFinal(NamedTuple):
    """A published final."""

    digest: bytes
    span: Span
    group: str | None
    """The value of its group, or None for a total."""
    attribute: str | None
    flags: tuple[str, ...] | None
    """The flags of the record, or None if it is unreadable."""

    @property
    def is_incomplete(self) -> bool:
        return "incomplete" in (self.flags or ())


def read_final(key: bytes, value: bytes | None) -> PublishedFinal | None:
    """Read a record of the topic `estimates`, or return None if its key is no final's. Anybody may write there."""
    final = _final_of_key(key)
    if final is None:
        return None
    try:
        record = decode(value or b"")
    except ValueError:
        return final

    # A record of another final under this key would give the flags of that final.
    belongs = (
        bytes.fromhex(record.digest) == final.digest
        and record.span.window == final.span.window
        and record.span.end == final.span.end
        and record.group == final.group
        and record.attribute == final.attribute
    )
    return final._replace(span=record.span, flags=record.flags) if belongs and record.final else final


def _final_of_key(key: bytes) -> PublishedFinal | None:
    try:
        _, digest_text, kind, size, step, end, *names = key.decode().split("|")
        window = Window(cast(Kind, kind), int(size), int(step))
        span = Span(window, int(end) - window.size, int(end))
        digest = bytes.fromhex(digest_text)
    except ValueError:
        return None

    group, names = split_key(names)
    if kind not in get_args(Kind) or len(names) > 1 or not all(name.startswith("a:") for name in names):
        return None
    attribute = names[0].removeprefix("a:") if names else None
    return PublishedFinal(digest, span, group, attribute, flags=None)


class Range(NamedTuple):
    """A range of time in which windows can be compared."""

    start: int | None
    """The start of the first pane whose reports are all counted, or None for the start of the log."""
    edges: Sequence[int | None]
    """The edge from which the windows of each place are compared, or None if there is none. See QueryMarks."""
    end: int | None
    """The end of the last pane whose reports are all counted, or None for the end of the log."""

    def has(self, span: Span, place: int) -> bool:
        """Whether the window of a place can be compared. `all` needs the start of the log."""
        if self.end is not None and span.end > self.end:
            return False
        if span.window.kind == "all":
            return self.start is None
        edge = self.edges[place]
        return edge is not None and span.start >= edge


def find_ranges(versions: Versions, finals: Sequence[PublishedFinal], start: int | None) -> list[Range]:
    """Return the ranges that can be compared, in the order of time.

    `finals` are the published finals of the definition. `start` is the start of the audit, or None for that of the log.
    """
    pane = versions.query.pane
    first_pane = None if start is None else -(-start // pane) * pane
    gaps = [gap for gap in _gaps(finals) if first_pane is None or gap[1] > first_pane]

    starts = [first_pane, *(gap_end for _, gap_end in gaps)]
    ends = [*(gap_start for gap_start, _ in gaps), None]
    ranges = [
        Range(range_start, _edges(versions, finals, range_start, range_end), range_end)
        for range_start, range_end in zip(starts, ends, strict=True)
    ]
    return [part for part in ranges if any(edge is not None for edge in part.edges)]


def _edges(
    versions: Versions, finals: Sequence[PublishedFinal], start: int | None, end: int | None
) -> list[int | None]:
    """Return the first certain mark of each place from a pane on. With `crowd = 1` every edge is a mark."""
    count = len(versions.query.domains) * (1 + further_groups(versions.query))
    if start is None or all(version.query.crowd == 1 for version in versions.versions):
        return [-FOR_EVER if start is None else start] * count

    # The walk needs the reports since the newest multiple of each span, except the longest one.
    shorter_spans = {1}
    for version in versions.versions:
        shorter_spans.update(spans(version.query)[1:])

    marks: dict[int | None, int] = {}
    for final in finals:
        edge = final.span.end
        has_values = final.flags is not None and WITHHELD.keys().isdisjoint(final.flags)
        is_inside = all(edge // span * span >= start for span in shorter_spans) and (end is None or edge <= end)
        if has_values and is_inside:
            place = place_of(versions, final)
            marks[place] = min(edge, marks.get(place, edge))
    return [marks.get(place) for place in range(count)]


def place_of(versions: Versions, final: PublishedFinal) -> int | None:
    """Return the place of a final, or None for the total of groups. The total of a version without groups is group 0.

    A final of an unknown group or attribute has no place either.
    """
    names: list[str | None] = [attribute.name for attribute in versions.query.attributes]
    names = names or [None]
    if final.attribute not in names:
        return None

    groups = versions.at(final.span.end - versions.query.pane).query.groups
    if final.group not in (groups.labels or (None,)):
        return None
    return groups.number(final.group or NO_GROUP) * len(names) + names.index(final.attribute)


def _gaps(finals: Sequence[PublishedFinal]) -> list[Stretch]:
    """Return the stretches that may have lost records: in an incomplete final, and in no complete one."""
    incomplete = [final.span for final in finals if final.is_incomplete]
    complete = [final.span for final in finals if final.flags is not None and not final.is_incomplete]

    # Once `all` is incomplete, it stays so. Only the first such window says where records are missing.
    cumulative = sorted((span for span in incomplete if span.window.kind == "all"), key=itemgetter(2))[:1]
    sized = [span for span in incomplete if span.window.kind != "all"]
    suspects = _union((span.start, span.end) for span in (*sized, *cumulative))
    return list(_difference(suspects, _union((span.start, span.end) for span in complete)))


def _union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the same time as disjoint stretches in order."""
    union: list[Stretch] = []
    for start, end in sorted(stretches):
        if union and start <= union[-1][1]:
            union[-1] = union[-1][0], max(end, union[-1][1])
        else:
            union.append((start, end))
    return union


def _difference(stretches: Sequence[Stretch], excluded: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the time of `stretches` that is in none of `excluded`. Both are disjoint and in order."""
    index = 0
    for start, end in stretches:
        position = start
        # Both are in order, so a stretch of `excluded` that lies behind is never looked at again.
        while index < len(excluded) and excluded[index][1] <= position:
            index += 1

        for excluded_start, excluded_end in excluded[index:]:
            if excluded_start >= end:
                break
            if excluded_start > position:
                yield position, excluded_start
            position = max(position, excluded_end)
        if position < end:
            yield position, end
