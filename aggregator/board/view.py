"""One attribute of one record beside its definition, and what that answers which the record does not say.

The shares in a record read back to the same float64, so what is rebuilt here is what the worker had,
of all values that the record publishes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aggregator.board.entry import Entry
from aggregator.board.reply import bad, missing
from aggregator.publishing.analysis import subjects
from aggregator.publishing.record_reader import Record
from oracles.consistency import UNBIASED, answer
from oracles.estimate import Estimate
from oracles.heavy import Evidence, Hitters, bounds
from oracles.multi.attributes import Multi
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.settings import Threshold
from oracles.types import Floats


@dataclass(frozen=True, eq=False)
class Definition:
    """The definition of one attribute of a query."""

    query: Query
    attribute: int

    @property
    def domain(self) -> Domain:
        return self.query.domains[self.attribute]

    @property
    def name(self) -> str | None:
        return subjects(self.query)[self.attribute].name


@dataclass(frozen=True, eq=False)
class View:
    """One attribute of one record."""

    record: Entry
    part: Record
    definition: Definition

    @property
    def whole(self) -> bool:
        """Whether the record publishes all values."""
        return len(self.part.values) == self.definition.domain.size

    @property
    def estimate(self) -> Estimate:
        """The estimate that the record was written from; NaN for values that it does not publish."""
        return self._estimate(self._spread(self.part.shares[UNBIASED]))

    @property
    def threshold(self) -> float | None:
        """The share above which a value is listed."""
        if not self.part.n_independent:
            return None
        empty = np.broadcast_to(np.float64(np.nan), self.definition.domain.size)
        query = self.definition.query
        return bounds(self._estimate(empty), query.threshold, query.family_error)[0]

    def positions(self, values: Sequence[str]) -> list[int]:
        """Where these values stand in the domain."""
        found = [self.definition.domain.find(value) for value in values]
        for value, position in zip(values, found, strict=True):
            if position is None:
                raise missing(f"{value!r} is not in the domain", value=value)
        return [position for position in found if position is not None]

    def answer(self, method: str, values: Sequence[str]) -> tuple[float, float | None]:
        """The share of a set of values by a method, and its standard error where that is known."""
        unpublished = sorted(set(values) - set(self.part.values))
        if unpublished:
            raise bad(
                f"the record publishes {len(self.part.values)} of {self.definition.domain.size} values, not "
                f'{unpublished[0]!r}; name the set in the query file, or publish = "all"',
                unpublished=unpublished,
            )
        return answer(method, self.estimate, self.positions(values), shares=self._spread(self.part.shares[method]))

    def hitters(self, method: str, threshold: Threshold, family_error: float) -> tuple[float, Hitters]:
        """The share that is exceeded, and who exceeds it by a method."""
        if not self.whole:
            raise bad(
                f"the record publishes {len(self.part.values)} of {self.definition.domain.size} values, so it answers "
                'the threshold of its query only; publish = "all" in the query file answers any'
            )
        found = Evidence(self.estimate, threshold, family_error)
        return found.listed_above, found.hitters(self._spread(self.part.shares[method]))

    def named(self, name: str) -> dict[str, Any]:
        """The answer of the record about a set of the query file."""
        sets: dict[str, dict[str, Any]] = self.part.rest()["sets"]
        if name not in sets:
            there = f"there are {', '.join(sets)}" if sets else "the query has none"
            raise missing(f"there is no set {name!r}; {there}", parameter="name")
        return sets[name]

    def _estimate(self, shares: Floats) -> Estimate:
        oracle = self.definition.query.oracle
        sampled = isinstance(oracle, Multi) and oracle.solution == "smp"
        return Estimate(
            shares,
            self.part.n,
            oracle.attributes[self.definition.attribute] if isinstance(oracle, Multi) else oracle,
            self.part.n_independent,
            self.record.n_independent if sampled else None,
        )

    def _spread(self, shares: Floats) -> Floats:
        """Published shares at their positions in the domain."""
        spread = np.full(self.definition.domain.size, np.nan)
        spread[self.positions(self.part.values)] = shares
        return spread
