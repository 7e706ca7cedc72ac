"""A record: what is published of one attribute of a window, as the key and the value of a message.

The bytes of a final record are a function of the query and of what the window holds, so that whoever
writes it writes the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import orjson

from aggregator.counting.tally import Snapshot
from aggregator.merging.crowd import Face, own
from aggregator.merging.windows import Span
from aggregator.publishing.analysis import ByMethod, Findings, find_shown, subjects
from aggregator.publishing.digits import DIGITS, all_rounded, rounded
from aggregator.publishing.parts import HitterRow, RefusedRow
from aggregator.publishing.window import WindowRow
from oracles.consistency import UNBIASED, answer
from oracles.heavy import Hitters
from oracles.query import Query
from oracles.query.domain import Domain

VERSION = 2
MOST_HITTERS = 10_000
"""In a record; forged reports can make far more of them, and a record must stay one that can be sent."""
PROVISIONAL = "p"
"""Ends the key of a record that is not final."""


@dataclass(frozen=True, eq=False)
class Built:
    """The records of a window, one an attribute, and what they were written from."""

    records: tuple[tuple[bytes, bytes], ...]
    """Key and value of each."""
    findings: tuple[Findings, ...]
    """Of each attribute, or of the one answer."""


def build(query: Query, span: Span, total: Snapshot, *, final: bool, faces: Sequence[Face] | None = None) -> Built:
    """The records of a window that holds `total`; `faces` are what it may show, without them all of it."""
    shown = faces or own(query, span, total)
    findings = find_shown(query, shown)
    records = []
    for found, face in zip(findings, shown, strict=True):
        record = {
            "version": VERSION,
            "query": query.name,
            "attribute": found.subject.name,
            "digest": query.digest.hex(),
            "window": WindowRow.of(span),
            "final": final,
            **({} if found.held_since is None else {"held_since": found.held_since}),
            **(_withheld(query, found) if face.kind == "small" else _told(query, found)),
            "refused": RefusedRow(duplicate=face.total.duplicates, implausible=face.total.implausible),
            "quality": _quality(found),
        }
        name = key(query, span, found.subject.name, final=final)
        records.append((name, orjson.dumps(record, option=orjson.OPT_SERIALIZE_NUMPY)))
    return Built(tuple(records), findings)


def key(query: Query, span: Span, attribute: str | None, *, final: bool) -> bytes:
    """One for each window, another one for its provisional records: a compacted topic keeps the newest of both."""
    kind, size, step = span.window.kind, span.window.size, span.window.step
    parts = [query.name, query.digest.hex(), kind, size, step, span.end]
    parts += [] if attribute is None else [f"a:{attribute}"]
    return "|".join(map(str, [*parts, *([] if final else [PROVISIONAL])])).encode()


def provisional_keys(query: Query, span: Span) -> list[bytes]:
    """The keys of a window's provisional records, which go when it is final."""
    return [key(query, span, subject.name, final=False) for subject in subjects(query)]


def _told(query: Query, found: Findings) -> dict[str, Any]:
    """The estimates of one attribute, the largest unbiased shares first; unbiased shares to the last bit."""
    estimate, oracle = found.estimate, found.estimate.oracle
    unbiased = found.by[UNBIASED]
    proved = min(MOST_HITTERS, int(unbiased.hitters.decided.sum()))
    most = None if query.publish is None else max(query.publish, proved)
    published = np.argsort(-unbiased.shares, kind="stable")[:most]
    some = replace(estimate, shares=estimate.shares[published])
    low, high = some.interval()
    named = found.subject.domain.name
    return {
        "n": estimate.n,
        "n_independent": estimate.n_independent,
        "oracle": _oracle(query, found),
        "sigma": rounded(estimate.sigma),
        "significance": rounded(estimate.significance(query.family_error)),
        "detectable": rounded(found.detectable),
        "shift_per_fake": rounded(oracle.shift_per_fake(estimate.n)) if estimate.n else None,
        "answers": query.answers,
        "values": [named(position) for position in published.tolist()],
        "shares": {
            method: by.shares[published] if method == UNBIASED else all_rounded(by.shares[published])
            for method, by in found.by.items()
        },
        "stderr": all_rounded(some.stderr),
        "low": all_rounded(low),
        "high": all_rounded(high),
        "hitters": {name: hitter_rows(found.subject.domain, name, by.hitters) for name, by in found.by.items()},
        "sets": {each: _set(found, list(values)) for each, values in found.subject.sets},
    }


def _oracle(query: Query, found: Findings) -> dict[str, Any]:
    oracle = found.estimate.oracle
    return {
        "name": oracle.name,
        "p": oracle.p,
        "q": oracle.q,
        "epsilon": query.epsilon,
        "record_epsilon": rounded(query.record_epsilon),
    }


def _withheld(query: Query, found: Findings) -> dict[str, Any]:
    """The record of a window of too few reports: that there was one, and nothing of what they said."""
    numbers = ("n_independent", "sigma", "significance", "detectable", "shift_per_fake")
    return {
        "n": 0,
        **dict.fromkeys(numbers),
        "oracle": _oracle(query, found),
        "answers": query.answers,
        **{column: [] for column in ("values", "stderr", "low", "high")},
        **{lists: {method: [] for method in found.by} for lists in ("shares", "hitters")},
        "sets": {},
    }


def hitter_rows(domain: Domain, method: str, hitters: Hitters) -> list[HitterRow]:
    """The list of a method, the largest shares first; of a very long one its beginning."""
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


def _set(found: Findings, values: list[int]) -> dict[str, float | None]:
    """The unbiased share of a set with its error, and its share by each method."""

    def share(by: ByMethod) -> float:
        return answer(by.method, found.estimate, values, shares=by.shares)[0]

    measured = map(rounded, found.estimate.of_set(values))
    methods = {method: rounded(share(by)) for method, by in found.by.items() if method != UNBIASED}
    return {**dict(zip(("share", "stderr", "low", "high"), measured, strict=True)), **methods}


def _quality(found: Findings) -> dict[str, Any]:
    quality: dict[str, Any] = {
        "sum": rounded(float(found.estimate.shares.sum())),
        "prior_rejected": found.prior_rejected,
        "risk": {method: rounded(by.risk) for method, by in found.by.items()},
        "flags": found.flags,
    }
    if found.calibrated is not None:
        prior = found.calibrated.prior
        quality["prior"] = {
            "family": prior.family,
            "parameters": {name: rounded(value) for name, value in prior.parameters.items()},
            "kolmogorov_smirnov": rounded(prior.kolmogorov_smirnov),
            "note": prior.note,
        }
    if found.likely is not None:
        quality["expected"] = {
            method: {"precision": rounded(expected.precision), "recall": rounded(expected.recall)}
            for method, by in found.by.items()
            if (expected := by.hitters.expected) is not None
        }
    return quality
