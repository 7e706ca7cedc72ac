"""Records of values: shares with their errors, hitters, sets, and the quality of them all."""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

import numpy as np

from aggregator.records.crowd_privacy import of_record
from aggregator.records.cut import MOST_HITTERS, MOST_VALUES
from aggregator.records.differences import value_differences
from aggregator.records.digits import DIGITS, all_rounded, nan_to_none, rounded
from aggregator.records.findings import Findings, GroupTotal, MethodResult, WindowFindings
from aggregator.records.group_fields import weighted_columns, weighted_member
from aggregator.records.kinds.answer import ShownAnswer
from aggregator.records.list_intervals import ListedIntervals, intervals_at
from aggregator.records.percentages import digits, percent
from aggregator.records.record import Record
from aggregator.records.rows import HitterRow, OracleRow, RefusedRow
from aggregator.records.subject import IMPOSSIBLE
from oracles.consistency import UNBIASED, answer
from oracles.estimate.intervals import LEVEL, listed_level
from oracles.heavy import Hitters
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.types import Ints

COLUMNS: dict[str, type] = {}
"""The columns of a table that only this kind has."""


def fields(window: WindowFindings, total: GroupTotal) -> dict[str, Any]:
    """Return the estimates of the values, the largest unbiased shares first. Unbiased shares are not rounded."""
    query = window.query
    findings = cast(Findings, total.findings)
    estimate = findings.estimate
    domain = findings.subject.domain
    result = findings.by_method[UNBIASED]
    # A stable sort keeps ties in the order of the domain, so all workers write the same order.
    positions = (-result.shares).argsort(kind="stable")[: _most_values(query, findings)]

    methods = [method for method in findings.by_method if method != UNBIASED]
    columns = [estimate.stderr[positions], *estimate.intervals_at(positions, LEVEL)]
    columns += [findings.by_method[method].shares[positions] for method in methods]
    # One call for all columns, since a call costs more than the numbers of a small record.
    stderr, low, high, *shares = all_rounded(np.array(columns))

    # The members of the JSON have this order. Only `weighted` can be absent, in the middle.
    members: dict[str, Any] = {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": OracleRow.of(query, estimate.oracle),
        "sigma": rounded(estimate.sigma),
        "significance": rounded(estimate.significance(query.family_error)),
        "detectable": rounded(findings.detectable),
        "shift_per_fake": rounded(estimate.oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "values": [domain.name(position) for position in positions.tolist()],
        "shares": {UNBIASED: result.shares[positions], **dict(zip(methods, shares, strict=True))},
        "stderr": stderr,
        "low": low,
        "high": high,
    }
    members |= weighted_member(total.population, positions)
    members["hitters"] = {
        method: hitter_rows(domain, method, result.hitters) for method, result in findings.by_method.items()
    }
    members["sets"] = {name: _set(findings, list(values)) for name, values in findings.subject.sets}
    members["refused"] = RefusedRow.of(total.reports)
    members["quality"] = _quality(query, findings)
    # Forged reports hide nobody, so the crowd of an impossible record may be far smaller than its reports.
    is_impossible = IMPOSSIBLE in findings.flags
    members["central"] = None if is_impossible else of_record(window, findings.subject.name, estimate.n)
    return members


def _most_values(query: Query, findings: Findings) -> int:
    """Return how many values the record shows, before it is cut to its size."""
    limit = findings.subject.domain.limit(query.publish)
    if limit is None:
        return MOST_VALUES

    # A proved value is always shown, even if `publish` is smaller than the number of proved values.
    proved_count = int(findings.by_method[UNBIASED].hitters.decided.sum())
    return max(limit, min(MOST_HITTERS, proved_count))


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

    names = ("share", "stderr", "low", "high")
    numbers = [rounded(number) for number in findings.estimate.of_set(values)]
    methods = {method: rounded(share(result)) for method, result in findings.by_method.items() if method != UNBIASED}
    return {**dict(zip(names, numbers, strict=True)), **methods}


def _quality(query: Query, findings: Findings) -> dict[str, Any]:
    quality: dict[str, Any] = {
        "sum": rounded(float(findings.estimate.shares.sum())),
        "prior_rejected": findings.prior_rejected,
        "risk": {method: rounded(result.risk) for method, result in findings.by_method.items()},
        "flags": findings.flags,
    }

    if findings.calibration is not None:
        prior = findings.calibration.prior
        # A definition that names a prior leaves open which family it is until there are reports.
        is_open = query.prior is not None and not findings.estimate.n_independent
        quality["prior"] = {
            "family": None if is_open else prior.family,
            "parameters": {name: rounded(value) for name, value in prior.parameters.items()},
            "kolmogorov_smirnov": rounded(prior.kolmogorov_smirnov),
            "note": prior.note,
        }

    if findings.likely is not None:
        expectations = {method: result.hitters.expected for method, result in findings.by_method.items()}
        quality["expected"] = {
            method: {"precision": rounded(expectation.precision), "recall": rounded(expectation.recall)}
            for method, expectation in expectations.items()
            if expectation is not None
        }

    return quality


def answers(record: Record, limit: int) -> Iterator[ShownAnswer]:
    """Yield the first values with their shares. A window without reports has none."""
    method = record.consistent_method
    # An impossible record has a significance, but proves nothing.
    proves = record.significance is not None and IMPOSSIBLE not in record.flags
    significance = record.significance if proves else math.inf
    hitters = {hitter.value: hitter for hitter in record.hitters(method or UNBIASED)}
    columns = (record.shares[UNBIASED], record.low, record.high, record.shares[method or UNBIASED])
    numbers = (column[:limit].tolist() for column in columns)

    for value, share, low, high, consistent in zip(record.values[:limit], *numbers, strict=True):
        if math.isnan(share):
            continue
        hitter = hitters.get(value)
        is_proved = hitter is not None and hitter.decided
        yield ShownAnswer(
            name=value,
            value=share,
            low=low,
            high=high,
            consistent=None if method is None or math.isnan(consistent) else consistent,
            is_frequent=hitter is not None,
            is_proved=is_proved,
            is_present=is_proved or share >= significance,
            ranks=None if hitter is None or hitter.ranks is None else tuple(hitter.ranks),
        )


def rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the cells of each value. The intervals have the level for all values of the record."""
    hitters = {hitter.value: hitter for hitter in record.hitters(UNBIASED)}
    level, low, high = intervals(record, np.arange(len(record.values)))
    numbers = {**record.shares, "stderr": record.stderr, "low": low, "high": high}
    lists = {name: column.tolist() for name, column in numbers.items()}
    weighted = weighted_columns(record.member("weighted"))
    for index, value in enumerate(record.values):
        cells = {name: nan_to_none(column[index]) for name, column in lists.items()}
        hitter = hitters.get(value)
        first_rank, last_rank = (hitter and hitter.ranks) or (None, None)
        proof = hitter is not None and hitter.decided
        proofs = {"level": level, "proved": proof, "first_rank": first_rank, "last_rank": last_rank}
        by_weight = {name: column[index] for name, column in weighted.items()}
        yield {"value": value, **cells, **proofs, **by_weight}


def words(record: Record, *, has_search: bool | None) -> list[str]:
    """Return how many values are frequent and proved, and how exact their shares are."""
    del has_search
    hitters = record.hitters(record.consistent_method or UNBIASED)
    proved = sum(hitter.decided for hitter in hitters)
    is_one = record.proves_presence and len(hitters) == proved
    parts = [f"{proved} proved present" if is_one else f"{len(hitters)} frequent ({proved} proved)"]
    if record.sigma is not None:
        parts.append(f"standard error {percent(record.sigma, digits(record.sigma))}")
        if record.detectable is not None:
            parts.append(f"detectable from {percent(record.detectable, digits(record.sigma))}")
    return parts


def intervals(record: Record, places: Ints, total: int | None = None) -> ListedIntervals:
    """Return the intervals of values that were chosen for their size among `total`, by default the whole domain.

    Older records do not have their size. Without it the intervals stay those of the record.
    """
    size = total or record.size
    return intervals_at(record, places, LEVEL if size is None else listed_level(len(places), size))


differences = value_differences
