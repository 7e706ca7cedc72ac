"""The encoder of records. A record is the message about one attribute of a window.

Every worker writes the same bytes of a final record, because they depend only on the query and on the tallies.
"""

from dataclasses import asdict, dataclass
from typing import Any

from aggregator.records import cut
from aggregator.records.crowd_privacy import crowd_privacy
from aggregator.records.digits import rounded
from aggregator.records.findings import (
    GroupTotal,
    NameFindings,
    NumberFindings,
    WindowFindings,
    WithheldFindings,
)
from aggregator.records.group_fields import group_field
from aggregator.records.keys import RecordPlace, key
from aggregator.records.kinds.names import name_fields
from aggregator.records.kinds.values import oracle_fields, value_fields
from aggregator.records.maps_record import MAPS_END, encode_maps
from aggregator.records.number_rows import number_fields
from aggregator.records.record import VERSION
from aggregator.records.rows import RefusedRow, ThresholdRow, WindowRow
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL
from oracles.query import Query


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
    cuts = [False] * len(findings.totals)
    for place, row in _rows(findings):
        name, value, is_cut = _record(findings, row, place.group)
        records.append((name, value))
        places.append(place)
        # Metrics and their alert rules have the flag of a cut for totals only, so a cut group is not counted.
        if place.group is None:
            cuts[place.attribute] = is_cut

    maps = tuple(
        _maps(findings, name_findings)
        for name_findings in findings.of_totals
        if isinstance(name_findings, NameFindings)
    )
    return WindowRecords(records=tuple(records), places=tuple(places), cuts=tuple(cuts), maps=maps)


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
        rows = [(place, total) for place, total in rows if not isinstance(total.findings, WithheldFindings)]
    return rows


def _record(window: WindowFindings, row: GroupTotal, group: int | None) -> tuple[bytes, bytes, bool]:
    """Return the key and the bytes of the record of one attribute of a group or of the total, and whether it is cut."""
    query = window.query
    span = window.span
    is_final = window.through is None
    findings = row.findings
    subject = findings.subject

    # The members of the JSON have the order of insertion, so a step that moves changes the bytes of all records.
    record: dict[str, Any] = {"version": VERSION, "query": query.name, "attribute": subject.name}
    if query.groups is not None:
        record["group"] = group_field(query.groups, group)
    record["digest"] = query.digest.hex()
    record["window"] = WindowRow.of(span)
    if not is_final:
        record["window"] = {**asdict(WindowRow.of(span)), "through": window.through}
    record["final"] = is_final
    record["level"] = LEVEL
    record["size"] = subject.domain.size
    record["threshold"] = ThresholdRow(kind=query.threshold.kind, value=query.threshold.value)
    # Names replace `size` by null, and `level` by a list. Both keep their places.
    record |= _shown(query, row)

    if not isinstance(findings, WithheldFindings):
        # Fewer reports hide a person less, so the level of names with the fewest reports counts.
        n = min(findings.names.levels) if isinstance(findings, NameFindings) else findings.estimate.n
        record["central"] = crowd_privacy(query, subject.name, span, n) if is_final else None
        if query.weights is not None and group is None:
            record.setdefault("weighted", None)

    name = key(query, span, subject.name, final=is_final, group=group)
    value, is_cut = cut.encode(record, pairs=subject.domain.parts is not None)
    return name, value, is_cut


def _maps(window: WindowFindings, findings: NameFindings) -> tuple[bytes, bytes]:
    """Return the key and the bytes of the record of maps."""
    # The key of the final with an end of its own, so that readers of records skip it by the key alone.
    return key(window.query, window.span, None, final=True) + MAPS_END, encode_maps(findings.names.maps)


def _shown(query: Query, row: GroupTotal) -> dict[str, Any]:
    """Return the fields of one attribute that show something of its answers."""
    findings = row.findings
    if isinstance(findings, WithheldFindings):
        return _no_values(query, findings)
    if isinstance(findings, NumberFindings):
        return _numbers(query, findings, row.reports)
    if isinstance(findings, NameFindings):
        return _names(query, findings, row.reports)
    return value_fields(query, findings, row.reports, row.population)


def _numbers(query: Query, findings: NumberFindings, total: Snapshot) -> dict[str, Any]:
    """Return the distribution of one attribute whose answers are numbers."""
    estimate = findings.estimate
    subject = findings.subject

    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": oracle_fields(query, estimate.oracle),
        "shift_per_fake": rounded(estimate.oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "numbers": number_fields(findings.numbers, subject.domain, query.quantiles, subject.ranges),
        "refused": RefusedRow(duplicate=total.duplicates, implausible=total.implausible),
        "quality": {
            "sum": rounded(float(estimate.shares.sum())),
            "prior_rejected": False,
            "risk": {},
            "flags": findings.flags,
        },
    }


def _names(query: Query, findings: NameFindings, total: Snapshot) -> dict[str, Any]:
    """Return the names of a window of unknown strings."""
    oracle = findings.oracle
    n = findings.n

    return {
        "n": n,
        "n_independent": findings.n_independent,
        "size": None,
        "oracle": oracle_fields(query, oracle),
        "shift_per_fake": rounded(oracle.shift_per_fake(n)) if n else None,
        "answers": query.answers,
        **name_fields(findings.names),
        "refused": RefusedRow(duplicate=total.duplicates, implausible=total.implausible),
        "quality": {"sum": None, "prior_rejected": False, "risk": {}, "flags": findings.flags},
    }


def _no_values(query: Query, findings: WithheldFindings) -> dict[str, Any]:
    """Return the fields of a withheld window. They show nothing of its answers."""
    unknown = ("n_independent", "sigma", "significance", "detectable", "shift_per_fake")
    members_of_kinds = ("central", "numbers", "weighted", "discover")
    methods = (UNBIASED, *query.methods)

    # Withheld windows of all kinds have the same members, and their number of reports is 0: a true one would tell
    # how few people answered.
    return {
        "n": 0,
        **dict.fromkeys((*unknown, *members_of_kinds)),
        "oracle": oracle_fields(query, findings.oracle),
        "answers": query.answers,
        **{column: [] for column in ("values", "stderr", "low", "high")},
        **{lists: {method: [] for method in methods} for lists in ("shares", "hitters")},
        "sets": {},
        "refused": RefusedRow(duplicate=0, implausible=0),
        "quality": {
            "sum": None,
            "prior_rejected": False,
            "risk": dict.fromkeys(methods),
            "flags": findings.flags,
        },
    }
