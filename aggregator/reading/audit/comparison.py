"""The comparison of published records with those that follow from the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from aggregator.merging.place_counts import answer_counts, fewest
from aggregator.merging.windows import ClosedWindow
from aggregator.publishing.finals.final import ResultSequence
from aggregator.reading.audit import older_records
from aggregator.reading.audit.fold import Fold
from aggregator.reading.audit.ranges import PublishedFinal, Range, find_ranges, place_of, read_final
from aggregator.records.keys import RecordPlace
from aggregator.records.maps_record import MAPS_END, MapsKey, decode_maps, maps_name
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query import Query


@dataclass
class Comparison:
    """The records that follow from the log, and the published ones that must be among them."""

    expected: dict[bytes, bytes] = field(default_factory=dict)
    """Records by key, and alerts if the audit reads the whole log."""
    compared: set[bytes] = field(default_factory=set)
    """The keys of the published finals in all ranges except the one from the start of the log."""
    incomplete: set[str] = field(default_factory=set)
    """The names of the queries with incomplete finals."""
    cells: dict[bytes, int] = field(default_factory=dict)
    """The logarithm of the number of cells, for each expected record of maps."""
    older_maps: int = 0
    """Number of missing maps that an older release wrote to `estimates`, where workers delete them after the rise."""
    older_names: set[str] = field(default_factory=set)
    """The queries of unknown strings in which an older release has searched, which kept names after one search."""
    raised_at: int = 0
    """The time in ms at which the formats version rose."""

    def is_right(self, key: bytes, published: bytes | None) -> bool:
        """Whether a published value says the same as the log. The counts of maps are compared, not their bytes.

        Two builds of zlib can compress the same counts to different bytes.
        """
        expected = self.expected[key]
        if published == expected or published is None or key not in self.cells:
            return published == expected

        try:
            counts, answering = decode_maps(published, self.cells[key])
        except ReportError:
            return False  # anybody may write under this key
        right_counts, right_answering = decode_maps(expected, self.cells[key])
        return answering == right_answering and np.array_equal(counts, right_counts)

    def older_difference(self, key: bytes, published: bytes | None) -> str | None:
        """Return in words how a record differs that an older release has published. None if it is another fault."""
        return older_records.difference(key, published, self.expected[key], self.raised_at)


def compare(
    fold: Fold, catalog: Definitions, records: Mapping[bytes, bytes | None], start: int | None, end: int | None
) -> Comparison:
    """Compare the newest value of each key with the log, in a range of time or in the whole log.

    Incomplete finals are not compared, because the log has lost some of their reports.
    """
    comparison = Comparison(raised_at=catalog.raised_at)
    finals: dict[bytes, dict[bytes, PublishedFinal]] = {}
    for key, value in records.items():
        final = read_final(key, value)
        if final is not None:
            finals.setdefault(final.digest, {})[key] = final

    for digest, versions in catalog.versions.items():
        closed_end = fold.through(versions)
        if closed_end is not None:
            last_end = closed_end if end is None else min(closed_end, end)
            _compare_query(
                comparison, fold, versions, finals.get(digest, {}), records=records, start=start, end=last_end
            )
    _excuse_older_maps(comparison, records)
    return comparison


def _excuse_older_maps(comparison: Comparison, records: Mapping[bytes, bytes | None]) -> None:
    """Leave out missing maps of windows that ended before the formats version rose."""
    missing = [key for key in comparison.expected if key.endswith(MAPS_END) and records.get(key) is None]
    for key in missing:
        if older_records.is_before(MapsKey.of(key).end, comparison.raised_at):
            del comparison.expected[key]
            comparison.older_maps += 1


def _compare_query(
    comparison: Comparison,
    fold: Fold,
    versions: Versions,
    published: Mapping[bytes, PublishedFinal],
    *,
    records: Mapping[bytes, bytes | None],
    start: int | None,
    end: int,
) -> None:
    """Add the records of one query to a comparison, up to a time."""
    strings = versions.query.strings
    incomplete = {key for key, final in published.items() if final.is_incomplete}
    # The maps of an incomplete final lack the same reports.
    incomplete |= {maps_name(key) for key in incomplete}
    if incomplete:
        comparison.incomplete.add(versions.query.name)

    for part in find_ranges(versions, list(published.values()), start):
        expected = _expected_records(comparison, fold, versions, part, end)
        comparison.expected |= {key: value for key, value in expected.items() if key not in incomplete}
        if strings is not None:
            comparison.cells |= {key: strings.cells for key in expected if key.endswith(MAPS_END)}
        if part.start is None:
            continue

        for key, final in published.items():
            # Names also depend on the searches before the range, but their maps do not.
            name = key if strings is None else maps_name(key)
            has_record = strings is None or records.get(name) is not None
            place = place_of(versions, final)
            is_in_range = place is not None and part.has(final.span, place)
            if is_in_range and final.span.end <= end and key not in incomplete and has_record:
                comparison.compared.add(name)


def _expected_records(
    comparison: Comparison, fold: Fold, versions: Versions, part: Range, end: int
) -> dict[bytes, bytes]:
    """Return the finals of a range by key, up to a time. The range from the start of the log also has the alerts."""
    records: dict[bytes, bytes] = {}
    names = comparison.older_names
    results = ResultSequence()
    for final in fold.finals(versions, part):
        span = final.span
        if span.end > end or not any(part.has(span, place) for place in range(len(part.edges))):
            continue

        query = versions.at(span.end - versions.query.pane).query
        if query.strings is not None and older_records.is_before(span.end, comparison.raised_at):
            names.add(query.name)
        result = results.next(query, final)
        window = result.window
        for record, place in zip(window.records, window.places, strict=True):
            if query.name not in names and _is_certain(query, part, final, place):
                records |= [record]
        records |= {maps_name(key): value for key, value in window.maps}
        if part.start is None and query.name not in names:
            records |= dict(result.decision.alerts)
    return records


def _is_certain(query: Query, part: Range, final: ClosedWindow, place: RecordPlace) -> bool:
    """Whether the record of a place can be compared.

    Names need all searches before them. A total needs to know which of its groups are withheld.
    """
    if query.strings is not None and part.start is not None:
        return False

    attributes = len(query.domains)
    if not query.groups or place.group is not None:
        return part.has(final.span, (place.group or 0) * attributes + place.attribute)

    counts = answer_counts(query, final.total)[place.attribute :: attributes]
    return all(
        fewest(n) < query.crowd or part.has(final.span, group * attributes + place.attribute)
        for group, n in enumerate(counts)
    )
