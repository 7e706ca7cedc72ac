"""The ranges of time that an audit can compare, for one definition.

The audit has no state from before its range, and it cannot count records that the log lost. So its walk of marks
starts again after such a gap, at an edge that is a mark for certain: the end of the next final that shows values.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, cast, get_args

from aggregator.merging.marks import spans
from aggregator.merging.windows import Span
from aggregator.publishing.records.decoder import WITHHELD, decode
from aggregator.publishing.records.rows import Kind
from hubbub.definitions.versions import FOR_EVER, Versions
from oracles.query.settings import Window

Stretch = tuple[int, int]
"""The start and the end of a stretch of time."""


class PublishedFinal(NamedTuple):
    """A published final."""

    digest: bytes
    span: Span
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
    about = bytes.fromhex(record.digest), record.span.window, record.span.end, record.attribute
    belongs = about == (final.digest, final.span.window, final.span.end, final.attribute)
    return final._replace(span=record.span, flags=record.flags) if belongs and record.final else final


def _final_of_key(key: bytes) -> PublishedFinal | None:
    try:
        _, digest, kind, size, step, end, *rest = key.decode().split("|")
        window = Window(cast(Kind, kind), int(size), int(step))
        span, of = Span(window, int(end) - window.size, int(end)), bytes.fromhex(digest)
    except ValueError:
        return None
    is_final = kind in get_args(Kind) and not rest[1:] and all(each.startswith("a:") for each in rest)
    return PublishedFinal(of, span, rest[0].removeprefix("a:") if rest else None, None) if is_final else None


class Range(NamedTuple):
    """A range of time in which windows can be compared."""

    first: int | None
    """The start of the first pane whose reports are all counted, or None for the start of the log."""
    edges: Sequence[int | None]
    """The edge from which the windows of each attribute are compared, or None if there is none."""
    until: int | None
    """The end of the last pane whose reports are all counted, or None for the end of the log."""

    def has(self, span: Span, place: int) -> bool:
        """Whether a window of the attribute at a place can be compared. `all` needs the start of the log."""
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
    """Return the first certain mark of each attribute from a pane on. With `crowd = 1` every edge is a mark."""
    if first is None or all(version.query.crowd == 1 for version in versions.versions):
        return [-FOR_EVER if first is None else first] * len(versions.query.domains)
    # The walk needs the reports since the newest multiple of each span, except the longest one.
    shorter = {span for version in versions.versions for span in spans(version.query)[1:]}
    marks: dict[str | None, int] = {}
    for final in finals:
        end = final.span.end
        has_values = final.flags is not None and WITHHELD.keys().isdisjoint(final.flags)
        if (
            has_values
            and all(end // span * span >= first for span in (*shorter, 1))
            and (until is None or end <= until)
        ):
            marks[final.attribute] = min(end, marks.get(final.attribute, end))
    return [marks.get(name) for name in attribute_names(versions)]


def attribute_names(versions: Versions) -> list[str | None]:
    """Return the names of the attributes of a definition. The only answer has none."""
    return [attribute.name for attribute in versions.query.attributes] or [None]


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
