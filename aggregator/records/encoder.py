"""The encoder of records. A record is the message about one attribute of a window.

Every worker writes the same bytes of a final record, because they depend only on the query and on the tallies.
"""

from dataclasses import asdict, dataclass
from typing import Any, cast

from aggregator.records import cut
from aggregator.records.findings import GroupTotal, WindowFindings
from aggregator.records.group_fields import add_missing_total, group_member
from aggregator.records.keys import RecordPlace, key
from aggregator.records.kinds import fields_of
from aggregator.records.maps_record import maps_records
from aggregator.records.record import VERSION
from aggregator.records.rows import ThresholdRow, WindowRow
from oracles.estimate.intervals import LEVEL


@dataclass(frozen=True, eq=False)
class WindowRecords:
    """The records of a window."""

    records: tuple[tuple[bytes, bytes], ...]
    """Keys and values: first the total of each attribute, then each attribute of each group."""
    places: tuple[RecordPlace, ...]
    """The subject of each record."""
    cuts: tuple[bool, ...]
    """Whether the record of each total is cut."""
    maps: tuple[tuple[bytes, bytes], ...] = ()
    """Key and value of the record of maps, if strings are unknown."""


def encode(findings: WindowFindings) -> WindowRecords:
    """Return the records of a window.

    A provisional window has no record of a withheld attribute, nor of a total that `published_totals` excludes.
    """
    records: list[tuple[bytes, bytes]] = []
    places: list[RecordPlace] = []
    cut_places: set[RecordPlace] = set()
    for place, row in _rows(findings):
        name, value, is_cut = _record(findings, row, place.group)
        records.append((name, value))
        places.append(place)
        if is_cut:
            cut_places.add(place)

    # Metrics and their alert rules have the flag of a cut for totals only, so a cut group is not counted.
    totals = [RecordPlace(None, attribute) for attribute in range(len(findings.totals))]
    return WindowRecords(
        records=tuple(records),
        places=tuple(places),
        cuts=tuple(place in cut_places for place in totals),
        maps=tuple(maps_records(findings)),
    )


def encode_group(findings: WindowFindings, place: RecordPlace) -> bytes:
    """Return the record of one attribute of a group with reports."""
    row = findings.by_group[cast(int, place.group)][place.attribute]
    return _record(findings, row, place.group)[1]


def _rows(window: WindowFindings) -> list[tuple[RecordPlace, GroupTotal]]:
    """Return the place and the findings of each record: the totals, and then the groups."""
    published_totals = window.published_totals or [True] * len(window.totals)
    rows = [
        (RecordPlace(None, attribute), total)
        for attribute, total in enumerate(window.totals)
        if published_totals[attribute]
    ]
    for group, totals in window.by_group.items():
        rows += [(RecordPlace(group, attribute), total) for attribute, total in enumerate(totals)]

    # A provisional record shows values early. If they are withheld, the final alone tells readers.
    if window.through is not None:
        rows = [(place, total) for place, total in rows if total.findings.has_values]
    return rows


def _record(window: WindowFindings, row: GroupTotal, group: int | None) -> tuple[bytes, bytes, bool]:
    """Return the key and the bytes of the record of one attribute of a group or of the total, and whether it is cut."""
    query = window.query
    span = window.span
    is_final = window.through is None
    subject = row.findings.subject

    # The members of the JSON have the order of insertion, so a step that moves changes the bytes of all records.
    record: dict[str, Any] = {"version": VERSION, "query": query.name, "attribute": subject.name}
    record |= group_member(query, group)
    record["digest"] = query.digest.hex()
    record["window"] = WindowRow.of(span)
    if not is_final:
        record["window"] = {**asdict(WindowRow.of(span)), "through": window.through}
    record["final"] = is_final
    record["level"] = LEVEL
    record["size"] = subject.domain.size
    record["threshold"] = ThresholdRow(kind=query.threshold.kind, value=query.threshold.value)
    # Names replace `size` by null, and `level` by a list. Both keep their places.
    record |= fields_of(window, row)
    add_missing_total(record, query, group)

    name = key(query, span, subject.name, final=is_final, group=group)
    value, is_cut = cut.encode(record, has_lists=subject.domain.has_lists)
    return name, value, is_cut
