"""A record: what is published of a window, as the key and the value of a message.

The bytes of a final record are a function of the query and of what the window holds, so that whoever
writes it writes the same.
"""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import orjson

from aggregator.counting.tally import Snapshot
from aggregator.merging.windows import Span
from aggregator.publishing.analysis import UNBIASED, ByMethod, Findings, find_all
from oracles.consistency import answer
from oracles.heavy import Hitters
from oracles.query import Query
from oracles.query.domain import Domain

VERSION = 1
MOST_HITTERS = 10_000
"""In a record; forged reports can make far more of them, and a record must stay one that can be sent."""
PROVISIONAL = "p"
"""Ends the key of a record that is not final."""


@dataclass(frozen=True, eq=False)
class Built:
    """A record, and what it was written from."""

    key: bytes
    value: bytes
    findings: tuple[Findings, ...]
    """Of each attribute, or of the one answer."""


def build(query: Query, span: Span, total: Snapshot, *, final: bool) -> Built:
    """The record of a window that holds `total`."""
    findings = find_all(query, span, total)
    record: dict[str, Any] = {
        "version": VERSION,
        "query": query.name,
        "digest": query.digest.hex(),
        "window": window_of(span),
        "final": final,
        "n": total.n,
        "n_independent": span.independent(total.n, query.period),
    }
    if query.domain is None:
        record["attributes"] = [{"name": found.subject.name, **_told(query, found)} for found in findings]
    else:
        record |= _told(query, findings[0])
    record["refused"] = {"duplicate": total.duplicates, "implausible": total.implausible}
    return Built(key(query, span, final=final), orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY), findings)


def key(query: Query, span: Span, *, final: bool) -> bytes:
    """One for each window, another one for its provisional records: a compacted topic keeps the newest of both."""
    kind, size, step = span.window.kind, span.window.size, span.window.step
    parts = [query.name, query.digest.hex(), kind, size, step, span.end, *([] if final else [PROVISIONAL])]
    return "|".join(map(str, parts)).encode()


def window_of(span: Span) -> dict[str, str | int]:
    """A window as records and alerts name it."""
    kind, size, step = span.window.kind, span.window.size, span.window.step
    return {"kind": kind, "start": span.start, "end": span.end, "size": size, "step": step}


def _told(query: Query, found: Findings) -> dict[str, Any]:
    """What a record says of one attribute."""
    estimate, oracle = found.estimate, found.estimate.oracle
    first = found.by[query.methods[0]].shares
    published = np.argsort(-first, kind="stable")[: query.publish]
    unbiased = replace(estimate, shares=estimate.shares[published])
    low, high = unbiased.interval()
    name = found.subject.domain.name
    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": {
            "name": oracle.name,
            "p": oracle.p,
            "q": oracle.q,
            "epsilon": query.epsilon,
            "record_epsilon": query.record_epsilon,
        },
        "sigma": estimate.sigma,
        "detectable": found.detectable,
        "shift_per_fake": oracle.shift_per_fake(estimate.n) if estimate.n else None,
        "values": [name(position) for position in published.tolist()],
        "shares": {method: by.shares[published] for method, by in found.by.items()},
        "stderr": unbiased.stderr,
        "low": low,
        "high": high,
        "hitters": {method: told_hitters(found.subject.domain, by.hitters) for method, by in found.by.items()},
        "sets": {each: _set(found, list(values)) for each, values in found.subject.sets},
        "quality": _quality(found),
    }


def told_hitters(domain: Domain, hitters: Hitters) -> list[dict[str, Any]]:
    """The list of a method, the largest shares first; of a very long one its beginning."""
    return [
        {
            "value": domain.name(hitter.position),
            "share": hitter.share,
            "decided": hitter.decided,
            "p_value": hitter.p_value,
            "probability": hitter.probability,
            "ranks": hitter.ranks,
        }
        for hitter in islice(hitters, MOST_HITTERS)
    ]


def _set(found: Findings, values: list[int]) -> dict[str, float]:
    """The unbiased share of a set with its error, and its share by each method."""

    def share(by: ByMethod) -> float:
        return answer(by.method, found.estimate, values, shares=by.shares)[0]

    unbiased, stderr = found.estimate.answer(values)
    methods = {method: share(by) for method, by in found.by.items() if method != UNBIASED}
    return {"share": unbiased, "stderr": stderr, **methods}


def _quality(found: Findings) -> dict[str, Any]:
    quality: dict[str, Any] = {
        "sum": float(found.estimate.shares.sum()),
        "prior_rejected": found.prior_rejected,
        "risk": {method: by.risk for method, by in found.by.items()},
        "flags": found.flags,
    }
    if found.calibrated is not None:
        prior = found.calibrated.prior
        quality["prior"] = {
            "family": prior.family,
            "parameters": prior.parameters,
            "kolmogorov_smirnov": prior.kolmogorov_smirnov,
            "note": prior.note,
        }
    if found.likely is not None:
        quality["expected"] = {
            method: {"precision": expected.precision, "recall": expected.recall}
            for method, by in found.by.items()
            if (expected := by.hitters.expected) is not None
        }
    return quality
