"""The encoder of records. A record is the message about one attribute of a window.

The bytes of a final record depend only on the query and on the tallies. So every worker writes the same bytes.
"""

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from aggregator.records import cut
from aggregator.records.crowd_privacy import crowd_privacy
from aggregator.records.cut import MOST_HITTERS, MOST_VALUES
from aggregator.records.digits import DIGITS, all_rounded, rounded
from aggregator.records.findings import (
    Findings,
    GroupTotal,
    MethodResult,
    NameFindings,
    NumberFindings,
    PopulationShares,
    WindowFindings,
    WithheldFindings,
)
from aggregator.records.group_fields import group_field, key_part, weighted_field
from aggregator.records.name_rows import MAPS_END, encode_maps, name_fields
from aggregator.records.number_rows import number_fields
from aggregator.records.record import VERSION
from aggregator.records.rows import HitterRow, RefusedRow, ThresholdRow, WindowRow
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import UNBIASED, answer
from oracles.estimate import Pure
from oracles.estimate.intervals import LEVEL
from oracles.heavy import Hitters
from oracles.query import Query
from oracles.query.domain import Domain

PROVISIONAL = "p"
"""The end of the key of a provisional record."""


class RecordPlace(NamedTuple):
    """A subject of records: one attribute of a group, or of the total."""

    group: int | None
    """The number of the group, or None for the total."""
    attribute: int
    """The place of the attribute among those of the query."""


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
    encodings = {place: _record(findings, row, place.group) for place, row in _rows(findings)}
    cut_totals = {place.attribute for place, (*_, is_cut) in encodings.items() if place.group is None and is_cut}
    return WindowRecords(
        records=tuple((name, value) for name, value, _ in encodings.values()),
        places=tuple(encodings),
        cuts=tuple(attribute in cut_totals for attribute in range(len(findings.totals))),
        maps=tuple(
            _maps(findings, name_findings)
            for name_findings in findings.of_totals
            if isinstance(name_findings, NameFindings)
        ),
    )


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
    record = {
        "version": VERSION,
        "query": query.name,
        "attribute": subject.name,
        **({} if query.groups is None else {"group": group_field(query.groups, group)}),
        "digest": query.digest.hex(),
        "window": WindowRow.of(span) if is_final else {**asdict(WindowRow.of(span)), "through": window.through},
        "final": is_final,
        "level": LEVEL,
        "size": subject.domain.size,
        "threshold": ThresholdRow(kind=query.threshold.kind, value=query.threshold.value),
        **_shown(query, row),
    }
    if not isinstance(findings, WithheldFindings):
        n = min(findings.names.levels) if isinstance(findings, NameFindings) else findings.estimate.n
        record["central"] = crowd_privacy(query, subject.name, span, n) if is_final else None
        if query.weights is not None and group is None:
            record.setdefault("weighted", None)
    name = key(query, span, subject.name, final=is_final, group=group)
    return (name, *cut.encode(record, pairs=subject.domain.parts is not None))


def _maps(window: WindowFindings, findings: NameFindings) -> tuple[bytes, bytes]:
    """Return the key and the bytes of the record of maps."""
    return key(window.query, window.span, None, final=True) + MAPS_END, encode_maps(findings.names.maps)


def key(query: Query, span: Span, attribute: str | None, *, final: bool, group: int | None = None) -> bytes:
    """Return the key of a record. Final and provisional records of a window have different keys, so both stay.

    `group` is the number of a group, or None for the total.
    """
    kind, size, step = span.window.kind, span.window.size, span.window.step
    parts = [query.name, query.digest.hex(), kind, size, step, span.end]
    if group is not None and query.groups is not None:
        parts.append(key_part(query.groups, group))
    parts += [] if attribute is None else [f"a:{attribute}"]
    return "|".join(map(str, [*parts, *([] if final else [PROVISIONAL])])).encode()


def provisional_key(final: bytes) -> bytes:
    """Return the key of the provisional record of a final, which is deleted once the window is final."""
    return final + f"|{PROVISIONAL}".encode()


def _shown(query: Query, row: GroupTotal) -> dict[str, Any]:
    """Return the fields of one attribute that show something of its answers."""
    findings = row.findings
    if isinstance(findings, WithheldFindings):
        return _no_values(query, findings)
    if isinstance(findings, NumberFindings):
        return _numbers(query, findings, row.reports)
    if isinstance(findings, NameFindings):
        return _names(query, findings, row.reports)
    return _values(query, findings, row.reports, row.population)


def _numbers(query: Query, findings: NumberFindings, total: Snapshot) -> dict[str, Any]:
    """Return the distribution of one attribute whose answers are numbers."""
    estimate, subject = findings.estimate, findings.subject
    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": _oracle(query, estimate.oracle),
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
    oracle, n = findings.oracle, findings.n
    return {
        "n": n,
        "n_independent": findings.n_independent,
        "size": None,
        "oracle": _oracle(query, oracle),
        "shift_per_fake": rounded(oracle.shift_per_fake(n)) if n else None,
        "answers": query.answers,
        **name_fields(findings.names),
        "refused": RefusedRow(duplicate=total.duplicates, implausible=total.implausible),
        "quality": {"sum": None, "prior_rejected": False, "risk": {}, "flags": findings.flags},
    }


def _values(query: Query, findings: Findings, total: Snapshot, population: PopulationShares | None) -> dict[str, Any]:
    """Return the estimates of one attribute, the largest unbiased shares first. Unbiased shares are not rounded."""
    estimate, oracle = findings.estimate, findings.estimate.oracle
    result = findings.by_method[UNBIASED]
    count = min(MOST_HITTERS, int(result.hitters.decided.sum()))
    every = query.publish is None or findings.subject.domain.parts is not None
    most = MOST_VALUES if every else max(query.publish or 0, count)
    positions = (-result.shares).argsort(kind="stable")[:most]
    methods = [method for method in findings.by_method if method != UNBIASED]
    shares = [findings.by_method[method].shares[positions] for method in methods]
    # One call for all columns, since a call costs more than the numbers of a small record.
    stderr, low, high, *shares = all_rounded(
        np.array([estimate.stderr[positions], *estimate.intervals_at(positions, LEVEL), *shares])
    )
    name = findings.subject.domain.name
    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": _oracle(query, oracle),
        "sigma": rounded(estimate.sigma),
        "significance": rounded(estimate.significance(query.family_error)),
        "detectable": rounded(findings.detectable),
        "shift_per_fake": rounded(oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "values": [name(position) for position in positions.tolist()],
        "shares": {UNBIASED: result.shares[positions], **dict(zip(methods, shares, strict=True))},
        "stderr": stderr,
        "low": low,
        "high": high,
        **({} if population is None else {"weighted": weighted_field(population, positions)}),
        "hitters": {
            method: hitter_rows(findings.subject.domain, method, each.hitters)
            for method, each in findings.by_method.items()
        },
        "sets": {each: _set(findings, list(values)) for each, values in findings.subject.sets},
        "refused": RefusedRow(duplicate=total.duplicates, implausible=total.implausible),
        "quality": _quality(findings),
    }


def _oracle(query: Query, oracle: Pure) -> dict[str, Any]:
    return {
        "name": oracle.name,
        "p": oracle.p,
        "q": oracle.q,
        "epsilon": query.epsilon,
        "record_epsilon": rounded(query.record_epsilon),
    }


def _no_values(query: Query, findings: WithheldFindings) -> dict[str, Any]:
    """Return the fields of a withheld window. They show nothing of its answers."""
    unknown = ("n_independent", "sigma", "significance", "detectable", "shift_per_fake")
    later = ("central", "numbers", "weighted", "discover")
    methods = (UNBIASED, *query.methods)
    return {
        "n": 0,
        **dict.fromkeys((*unknown, *later)),
        "oracle": _oracle(query, findings.oracle),
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


def hitter_rows(domain: Domain, method: str, hitters: Hitters) -> list[HitterRow]:
    """Return the hitters of a method that may fit a record, the largest shares first."""
    return [
        HitterRow(
            value=domain.name(hitter.position),
            share=hitter.share if method == UNBIASED else float(f"{hitter.share:.{DIGITS}g}"),
            decided=hitter.decided,
            p_value=rounded(hitter.p_value),
            probability=rounded(hitter.probability),
            ranks=list(hitter.ranks),
        )
        for hitter in islice(hitters, MOST_HITTERS)
    ]


def _set(findings: Findings, values: list[int]) -> dict[str, float | None]:
    """Return the unbiased share of a set with its error, and its share by each method."""

    def share(result: MethodResult) -> float:
        return answer(result.method, findings.estimate, values, shares=result.shares)[0]

    numbers = map(rounded, findings.estimate.of_set(values))
    methods = {method: rounded(share(each)) for method, each in findings.by_method.items() if method != UNBIASED}
    return {**dict(zip(("share", "stderr", "low", "high"), numbers, strict=True)), **methods}


def _quality(findings: Findings) -> dict[str, Any]:
    quality: dict[str, Any] = {
        "sum": rounded(float(findings.estimate.shares.sum())),
        "prior_rejected": findings.prior_rejected,
        "risk": {method: rounded(result.risk) for method, result in findings.by_method.items()},
        "flags": findings.flags,
    }
    if findings.calibration is not None:
        prior = findings.calibration.prior
        quality["prior"] = {
            "family": prior.family,
            "parameters": {name: rounded(value) for name, value in prior.parameters.items()},
            "kolmogorov_smirnov": rounded(prior.kolmogorov_smirnov),
            "note": prior.note,
        }
    if findings.likely is not None:
        quality["expected"] = {
            method: {"precision": rounded(expectation.precision), "recall": rounded(expectation.recall)}
            for method, result in findings.by_method.items()
            if (expectation := result.hitters.expected) is not None
        }
    return quality
