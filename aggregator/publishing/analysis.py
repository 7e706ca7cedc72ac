"""The findings of a window, of each attribute: the shares by every method, the error of each, and who is frequent.

Found once for a window; its record, its alerts and the metrics read it. All of it is a function of
the query and of what the window holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from aggregator.counting.tally import FLAGS, Snapshot
from aggregator.merging.crowd import Face
from aggregator.merging.windows import Span
from oracles.calibrate import Calibrated, calibrate
from oracles.consistency import UNBIASED, apply, find
from oracles.estimate import Estimate
from oracles.forgery import skewed, skewed_attributes
from oracles.heavy import Evidence, Hitters
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.query.domain import Domain, Sets
from oracles.risk import risk
from oracles.types import MARKS, Floats

_FLAGS = ("partial", "incomplete", "skewed", "ids_overflow", "prior_rejected", "small", "held", "corrected")
"""In the order in which a record tells them."""


class Subject(NamedTuple):
    """A subject of estimates: one of several attributes, or the one answer, which has no name."""

    name: str | None
    domain: Domain
    sets: Sets


@dataclass(frozen=True, eq=False)
class ByMethod:
    """The shares, hitters and risk by one method."""

    method: str
    shares: Floats
    hitters: Hitters
    risk: float
    """The estimated mean squared error of a share."""


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of a window about one attribute."""

    subject: Subject
    estimate: Estimate
    calibrated: Calibrated | None
    """Where the query asks for a method that fits a prior."""
    by: Mapping[str, ByMethod]
    """The unbiased shares and each of the query's methods; where the prior is rejected, the fallback
    stands under the name of those that fit one."""
    likely: Floats | None
    """Each value's probability to exceed the threshold, where a prior stands."""
    detectable: float | None
    flags: tuple[str, ...]
    held_since: int | None = None
    """The end of the window whose values are shown again."""

    @property
    def withheld(self) -> bool:
        """Whether the window's own values are not shown: then it says nothing new."""
        return "small" in self.flags or self.held_since is not None

    @property
    def prior_rejected(self) -> bool:
        return self.calibrated is not None and self.calibrated.rejected


def find_all(query: Query, span: Span, total: Snapshot) -> tuple[Findings, ...]:
    """The findings of a window for each attribute, in the order of their names."""
    n, independent = total.n, span.independent(total.n, query)
    counts = total.counts.astype(np.int64, copy=False)
    if isinstance(query.oracle, Multi):
        estimates = query.oracle.estimate(counts, n, independent)
        forged = skewed_attributes(query.oracle, counts, n, independent)
    else:
        estimates = [query.oracle.estimate(counts, n, independent)]
        forged = [skewed(query.oracle, counts[-MARKS:], n, independent)]
    flags = {flag for flag, bit in FLAGS.items() if total.flags & bit}
    return tuple(
        _find(query, subject, estimate, flags | ({"skewed"} if odd else set()))
        for subject, estimate, odd in zip(subjects(query), estimates, forged, strict=True)
    )


def find_shown(query: Query, faces: Sequence[Face]) -> tuple[Findings, ...]:
    """The findings of what a window may show of each attribute."""
    told: dict[tuple[str, Span], tuple[Findings, ...]] = {}
    for face in faces:
        if (face.kind, face.span) not in told:
            told[face.kind, face.span] = find_all(query, face.span, face.total)
    return tuple(_shown(told[face.kind, face.span][place], face) for place, face in enumerate(faces))


def _shown(found: Findings, face: Face) -> Findings:
    if face.kind == "own":
        return found
    flags = {*found.flags, face.kind} - ({"prior_rejected"} if face.kind == "small" else set())
    ordered = tuple(flag for flag in _FLAGS if flag in flags)
    return replace(found, flags=ordered, held_since=face.span.end if face.kind == "held" else None)


def subjects(query: Query) -> list[Subject]:
    if query.domain is not None:
        return [Subject(None, query.domain, query.sets)]
    return [Subject(attribute.name, attribute.domain, attribute.sets) for attribute in query.attributes]


def _find(query: Query, subject: Subject, estimate: Estimate, flags: set[str]) -> Findings:
    fits = any(find(name).fits_a_prior for name in query.methods)
    calibrated = calibrate(estimate, fallback=query.fallback) if fits else None
    prior = calibrated
    if calibrated is not None and calibrated.rejected:
        prior = None
        flags = flags | {"prior_rejected"}
    names = (UNBIASED, *query.methods)
    standing = [query.fallback if prior is None and find(name).fits_a_prior else name for name in names]
    evidence = Evidence(estimate, query.threshold, query.family_error, prior)
    told = {method: _by(method, evidence) for method in dict.fromkeys(standing)}
    return Findings(
        subject=subject,
        estimate=estimate,
        calibrated=calibrated,
        by={name: told[method] for name, method in zip(names, standing, strict=True)},
        likely=evidence.likely,
        detectable=estimate.detectable(query.family_error),
        flags=tuple(flag for flag in _FLAGS if flag in flags),
    )


def _by(method: str, evidence: Evidence) -> ByMethod:
    estimate, prior = evidence.estimate, evidence.posterior
    shares = apply(method, estimate, calibrated=prior)
    return ByMethod(method, shares, evidence.hitters(shares), risk(method, estimate, calibrated=prior))
