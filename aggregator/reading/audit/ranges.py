"""The ranges of time that an audit can compare, for one definition.

The audit has no state from before its range, and it cannot count records that the log lost. So its walk of marks
starts again after such a gap, at an edge that is a mark for certain: the end of the next final that shows values.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, cast, get_args

from aggregator.merging.marks import spans
from aggregator.publishing.records.decoder import WITHHELD, decode
from aggregator.publishing.records.group_fields import value_in_key
from aggregator.publishing.records.rows import Kind
from aggregator.records.span import Span
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
    if (final := _final_of_key(key)) is None:
        return None
    try:
        record = decode(value or b"")
    except ValueError:
        return final
    about = bytes.fromhex(record.digest), record.span.window, record.span.end, record.group, record.attribute
    belongs = about == (final.digest, final.span.window, final.span.end, final.group, final.attribute)
    return final._replace(span=record.span, flags=record.flags) if belongs and record.final else final


def _final_of_key(key: bytes) -> PublishedFinal | None:
    try:
        _, digest, kind, size, step, end, *rest = key.decode().split("|")
        window = Window(cast(Kind, kind), int(size), int(step))
        span, of = Span(window, int(end) - window.size, int(end)), bytes.fromhex(digest)
    except ValueError:
        return None
    group = value_in_key(rest[0]) if rest else None
    names = rest if group is None else rest[1:]
    is_final = kind in get_args(Kind) and not names[1:] and all(each.startswith("a:") for each in names)
    return PublishedFinal(of, span, group, names[0].removeprefix("a:") if names else None, None) if is_final else None


class Range(NamedTuple):
    """A range of time in which windows can be compared."""

    first: int | None
    """The start of the first pane whose reports are all counted, or None for the start of the log."""
    edges: Sequence[int | None]
    """The edge from which the windows of each place are compared, or None if there is none. See QueryMarks."""
    until: int | None
    """The end of the last pane whose reports are all counted, or None for the end of the log."""

    def has(self, span: Span, place: int) -> bool:
        """Whether the window of a place can be compared. `all` needs the start of the log."""
        edge = self.edges[place]
        is_counted = self.first is None if span.window.kind == "all" else edge is not None and span.start >= edge
        return is_counted and (self.until is None or span.end <= self.until)


def find_ranges(versions: Versions, finals: Sequence[PublishedFinal], start: int | None) -> list[Range]:
    """Return the ranges that can be compared, in the order of time.

    `finals` are the published finals of the definition. `start` is the start of the audit, or None for that of the log.
    """
    pane = versions.query.pane
    first = None if start is None else -(-start // pane) * pane
    gaps = [gap for gap in _gaps(finals) if first is None or gap[1] > first]
    starts, ends = [first, *(end for _, end in gaps)], [*(start for start, _ in gaps), None]
    ranges = (
        Range(since, _edges(versions, finals, since, until), until) for since, until in zip(starts, ends, strict=True)
    )
    return [each for each in ranges if any(edge is not None for edge in each.edges)]


def _edges(
    versions: Versions, finals: Sequence[PublishedFinal], first: int | None, until: int | None
) -> list[int | None]:
    """Return the first certain mark of each place from a pane on. With `crowd = 1` every edge is a mark."""
    count = len(versions.query.domains) * (1 + further_groups(versions.query))
    if first is None or all(version.query.crowd == 1 for version in versions.versions):
        return [-FOR_EVER if first is None else first] * count
    # The walk needs the reports since the newest multiple of each span, except the longest one.
    shorter = {span for version in versions.versions for span in spans(version.query)[1:]}
    marks: dict[int | None, int] = {}
    for final in finals:
        end, place = final.span.end, place_of(versions, final)
        has_values = final.flags is not None and WITHHELD.keys().isdisjoint(final.flags)
        if (
            has_values
            and all(end // span * span >= first for span in (*shorter, 1))
            and (until is None or end <= until)
        ):
            marks[place] = min(end, marks.get(place, end))
    return [marks.get(place) for place in range(count)]


def place_of(versions: Versions, final: PublishedFinal) -> int | None:
    """Return the place of a final, or None for the total of groups. The total of a version without groups is group 0.

    A final of an unknown group or attribute has no place either.
    """
    names: list[str | None] = [attribute.name for attribute in versions.query.attributes]
    names = names or [None]
    groups = versions.at(final.span.end - versions.query.pane).query.groups
    is_known = final.group in (NO_GROUP, *(() if groups is None else groups.values))
    if final.attribute not in names or is_known != (groups is not None):
        return None
    group = 0 if groups is None else groups.number(final.group or NO_GROUP)
    return group * len(names) + names.index(final.attribute)


def _gaps(finals: Sequence[PublishedFinal]) -> list[Stretch]:
    """Return the stretches that may have lost records: in an incomplete final, and in no complete one."""
    incomplete = [final.span for final in finals if final.is_incomplete]
    complete = [final.span for final in finals if final.flags is not None and not final.is_incomplete]
    # Once `all` is incomplete, it stays so. Only the first such window says where records are missing.
    since_start = sorted((span for span in incomplete if span.window.kind == "all"), key=itemgetter(2))[:1]
    sized = [span for span in incomplete if span.window.kind != "all"]
    suspects = _union((span.start, span.end) for span in (*sized, *since_start))
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


def _difference(stretches: Sequence[Stretch], others: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the time of `stretches` that is in none of `others`. Both are disjoint and in order."""
    at = 0
    for start, end in stretches:
        rest = start
        while at < len(others) and others[at][1] <= rest:
            at += 1
        for other_start, other_end in others[at:]:
            if other_start >= end:
                break
            if other_start > rest:
                yield rest, other_start
            rest = max(rest, other_end)
        if rest < end:
            yield rest, end
