"""The encoder of records. A record is the message about one attribute of a window.

The bytes of a final record depend only on the query and on the tallies. So every worker writes the same bytes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from aggregator.merging.marks import Withheld
from aggregator.merging.windows import Span
from aggregator.publishing.findings import (
    AnyFindings,
    Findings,
    MethodResult,
    NumberFindings,
    WithheldFindings,
    find_all,
    subjects,
)
from aggregator.publishing.records.crowd_privacy import crowd_privacy
from aggregator.publishing.records.cut import MOST_HITTERS, MOST_VALUES, encode
from aggregator.publishing.records.digits import DIGITS, all_rounded, rounded
from aggregator.publishing.records.number_rows import number_fields
from aggregator.publishing.records.rows import HitterRow, RefusedRow, ThresholdRow, WindowRow
from aggregator.tallies.snapshot import Snapshot
from oracles.consistency import UNBIASED, answer
from oracles.estimate import Pure
from oracles.heavy import Hitters
from oracles.intervals import LEVEL
from oracles.query import Query
from oracles.query.domain import Domain

VERSION = 3
PROVISIONAL = "p"
"""The end of the key of a provisional record."""


@dataclass(frozen=True, eq=False)
class WindowRecords:
    """The records of a window, one for each attribute, and their findings."""

    records: tuple[tuple[bytes, bytes], ...]
    """Keys and values."""
    findings: tuple[AnyFindings, ...]
    """The findings of each attribute, or of the only answer."""
    cuts: tuple[bool, ...]
    """Whether each record is cut."""


def build(
    query: Query,
    span: Span,
    total: Snapshot,
    withheld: Sequence[Withheld | None] = (),
    *,
    through: int | None = None,
) -> WindowRecords:
    """Return the records of a window with this total.

    The window is final if `through` is None. Otherwise the total holds the panes up to `through`, and withheld
    attributes have no record.
    """
    all_findings = find_all(query, span if through is None else span._replace(end=through), total, withheld)
    records, cuts = [], []
    for findings in all_findings:
        if through is not None and isinstance(findings, WithheldFindings):
            cuts.append(False)
            continue
        record = {
            "version": VERSION,
            "query": query.name,
            "attribute": findings.subject.name,
            "digest": query.digest.hex(),
            "window": WindowRow.of(span) if through is None else {**asdict(WindowRow.of(span)), "through": through},
            "final": through is None,
            "level": LEVEL,
            "size": findings.subject.domain.size,
            "threshold": ThresholdRow(kind=query.threshold.kind, value=query.threshold.value),
            **_shown(query, findings, total),
        }
        if not isinstance(findings, WithheldFindings):
            n = findings.estimate.n
            record["central"] = crowd_privacy(query, findings.subject.name, span, n) if through is None else None
        name = key(query, span, findings.subject.name, final=through is None)
        value, is_cut = encode(record, pairs=findings.subject.domain.parts is not None)
        records.append((name, value))
        cuts.append(is_cut)
    return WindowRecords(tuple(records), all_findings, tuple(cuts))


def key(query: Query, span: Span, attribute: str | None, *, final: bool) -> bytes:
    """Return the key of a record. Final and provisional records of a window have different keys, so both stay."""
    kind, size, step = span.window.kind, span.window.size, span.window.step
    parts = [query.name, query.digest.hex(), kind, size, step, span.end]
    parts += [] if attribute is None else [f"a:{attribute}"]
    return "|".join(map(str, [*parts, *([] if final else [PROVISIONAL])])).encode()


def provisional_keys(query: Query, span: Span) -> list[bytes]:
    """Return the keys of a window's provisional records, which are deleted once it is final."""
    return [key(query, span, subject.name, final=False) for subject in subjects(query)]


def _shown(query: Query, findings: AnyFindings, total: Snapshot) -> dict[str, Any]:
    """Return the fields of one attribute that show something of its answers."""
    if isinstance(findings, WithheldFindings):
        return _no_values(query, findings)
    if isinstance(findings, NumberFindings):
        return _numbers(query, findings, total)
    return _values(query, findings, total)


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


def _values(query: Query, findings: Findings, total: Snapshot) -> dict[str, Any]:
    """Return the estimates of one attribute, the largest unbiased shares first. Unbiased shares are not rounded."""
    estimate, oracle = findings.estimate, findings.estimate.oracle
    result = findings.by_method[UNBIASED]
    count = min(MOST_HITTERS, int(result.hitters.decided.sum()))
    every = query.publish is None or findings.subject.domain.parts is not None
    most = MOST_VALUES if every else max(query.publish or 0, count)
    positions = np.argsort(-result.shares, kind="stable")[:most]
    top = replace(estimate, shares=estimate.shares[positions])
    methods = [method for method in findings.by_method if method != UNBIASED]
    shares = [findings.by_method[method].shares[positions] for method in methods]
    # One call for all columns, since a call costs more than the numbers of a small record.
    stderr, low, high, *shares = all_rounded(np.stack([top.stderr, *top.interval(), *shares]))
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
