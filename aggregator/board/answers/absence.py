"""The values that answers lack: those of withheld windows, and those that a request names."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import numpy as np

from aggregator.board.answers.reply import missing
from aggregator.records.record import Record
from hubbub.http.problem import Problem
from hubbub.http.schema import Known
from oracles.consistency import UNBIASED
from oracles.query.domain import Domain

_Answer = TypeVar("_Answer")
_Gap = TypeVar("_Gap")

NEAR = 3
"""Most names that a refusal offers in the place of an unknown one."""
MOST_NAMES = 100_000
"""Most values of a domain among which near names are searched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingReason:
    """Why an answer lacks a value."""

    reason: Literal["not_published", "withheld"]
    below: Annotated[Known, {"description": "The share is below it with a probability of 97.5%; null if unknown"}]


MissingReasons = Annotated[dict[str, MissingReason], {"description": "Why values of `missing` are missing, by value"}]


def shown(part: Record, answer: Callable[[], _Answer], gap: _Gap) -> _Answer | _Gap:
    """Return the answer of a window, or the gap in its place if the window is withheld."""
    return gap if part.withheld else answer()


def missing_reasons(names: Iterable[str], *records: Record) -> dict[str, MissingReason]:
    """Return the reason for each name that none of the records publishes."""
    if any(record.withheld for record in records):
        return {name: MissingReason(reason="withheld", below=None) for name in names}

    bounds = [bound for bound in map(_bound, records) if bound is not None]
    below = max(bounds) if len(bounds) == len(records) else None
    return {name: MissingReason(reason="not_published", below=below) for name in names}


def _bound(record: Record) -> float | None:
    """Return the upper end of the interval of the smallest published share. A missing value is not estimated larger."""
    shares = record.shares[UNBIASED]
    if not len(shares) or np.isnan(shares).all():
        return None
    return float(record.high[int(np.nanargmin(shares))])


def unknown_value(domain: Domain, value: str) -> Problem:
    """Return the problem of a value that is not in the domain, with the names that are near to it."""
    names = domain.names if domain.size <= MOST_NAMES else None
    near = difflib.get_close_matches(value, names or (), NEAR)
    offer = f"; near names are {', '.join(map(repr, near))}" if near else ""
    return missing(f"{value!r} is not in the domain{offer}", value=value, near=near)
