"""One attribute of one window, which computes answers that the record itself does not have.

A view rebuilds the worker's estimate exactly, for all values that the record publishes, because the shares in a record
read back to the same float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from aggregator.board.answers.absence import shown, unknown_value
from aggregator.board.answers.reply import bad, missing
from aggregator.board.store.entry import Entry
from aggregator.records.kinds.values import hitter_rows
from aggregator.records.record import Record
from aggregator.records.rows import HitterRow
from aggregator.records.subject import Subject, subjects
from oracles.consistency import UNBIASED, answer
from oracles.estimate import Estimate
from oracles.heavy import Evidence, bounds
from oracles.numbers import Scale
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.settings import Threshold
from oracles.types import Floats

MANY = 1 << 53
"""The number of clients with smp if some attributes are withheld. The errors are then the largest possible ones."""


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
        return self.subject.name

    @property
    def subject(self) -> Subject:
        return subjects(self.query)[self.attribute]

    @property
    def scale(self) -> Scale:
        """The scale of numbers."""
        return cast(Scale, self.domain.scale)


@dataclass(frozen=True, eq=False)
class View:
    """One attribute of one window, with its definition."""

    record: Entry
    part: Record
    definition: Definition
    withheld_since: int | None = None
    """The end of the first withheld window after this one, or of the first in a row that holds this one."""
    withheld_reason: str | None = None
    """The flag of this window or, if it has values, of the newest window."""
    maps: bytes | None = None
    """The record of maps of a final of unknown strings, if the board has it."""
    maps_gap: str | None = None
    """The reason why the board gets no maps, or None if it does."""

    @property
    def whole(self) -> bool:
        """Whether the record publishes all values."""
        return len(self.part.values) == self.definition.domain.size

    @property
    def estimate(self) -> Estimate:
        """Return the worker's estimate, with NaN for values that the record does not publish."""
        return self._estimate(self._spread(self.part.shares[UNBIASED]))

    @property
    def threshold(self) -> float | None:
        """Return the share above which a value is listed, or None without reports."""
        if not self.part.n_independent:
            return None
        # The threshold depends on the errors alone, so a large domain needs no memory for shares.
        empty = np.broadcast_to(np.float64(np.nan), self.definition.domain.size)
        query = self.definition.query
        return bounds(self._estimate(empty), query.threshold, query.family_error)[0]

    def positions(self, values: Sequence[str]) -> list[int]:
        """Return the positions of values in the domain."""
        positions = [self.definition.domain.find(value) for value in values]
        for value, position in zip(values, positions, strict=True):
            if position is None:
                raise unknown_value(self.definition.domain, value)
        return [position for position in positions if position is not None]

    def names(self, values: Sequence[str]) -> list[str]:
        """Return values as the domain and the records write them, each once. A request may write them otherwise."""
        return list(dict.fromkeys(map(self.definition.domain.name, self.positions(values))))

    def answer(self, method: str, values: Sequence[str]) -> tuple[float | None, float | None]:
        """Return the share of a set of values by a method, and its standard error if it is known."""
        return shown(self.part, partial(self._answer, method, values), (None, None))

    def _answer(self, method: str, values: Sequence[str]) -> tuple[float | None, float | None]:
        values = self.names(values)
        extra = sorted(set(values) - set(self.part.values))
        if extra:
            raise bad(
                f"the record publishes {len(self.part.values)} of {self.definition.domain.size} values, not "
                f'{extra[0]!r}; name the set in the query file, or set publish = "all" there',
                unpublished=extra,
            )
        return answer(method, self.estimate, self.positions(values), shares=self._spread(self.part.shares[method]))

    def hitters(self, method: str, threshold: Threshold, family_error: float) -> tuple[float | None, list[HitterRow]]:
        """Return the threshold as a share, and the heavy hitters by a method. A withheld window has none."""
        return shown(self.part, partial(self._hitters, method, threshold, family_error), (None, []))

    def _hitters(self, method: str, threshold: Threshold, family_error: float) -> tuple[float | None, list[HitterRow]]:
        if not self.whole:
            raise bad(
                f"the record publishes {len(self.part.values)} of {self.definition.domain.size} values, so only "
                'the threshold of the query works; set publish = "all" in the query file for others'
            )
        evidence = Evidence(self.estimate, threshold, family_error)
        hitters = evidence.hitters(self._spread(self.part.shares[method]))
        return evidence.listed_above, hitter_rows(self.definition.domain, method, hitters)

    def set_answer(self, name: str) -> dict[str, Any]:
        """Return the published answer about a set of the query file."""
        # A withheld record has no sets, but a wrong name must still be refused.
        gaps: dict[str, dict[str, Any]] = {set_name: {} for set_name, _ in self.definition.subject.sets}
        sets = shown(self.part, lambda: self.part.rest()["sets"], gaps)
        if name not in sets:
            names = f"the sets are {', '.join(sets)}" if sets else "the query has no sets"
            raise missing(f"there is no set {name!r}; {names}", parameter="name")
        return sets[name]

    def _estimate(self, shares: Floats) -> Estimate:
        query = self.definition.query
        oracle = query.attribute_oracles[self.definition.attribute]
        population = MANY if self.record.n_independent is None else self.record.n_independent
        is_sample = query.solution == "smp"
        return Estimate(shares, self.part.n, oracle, self.part.n_independent, population if is_sample else None)

    def _spread(self, shares: Floats) -> Floats:
        """Return the published shares at their positions in the domain, with NaN elsewhere."""
        vector = np.full(self.definition.domain.size, np.nan)
        vector[self.positions(self.part.values)] = shares
        return vector
