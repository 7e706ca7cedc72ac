"""A query of a file, with every setting resolved, and the digest that its reports carry."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeVar, cast

from oracles.discover import Slots, Strings
from oracles.estimate.pure import Pure
from oracles.mechanisms import EACH, TABLE
from oracles.mechanisms.protocol import Charge, Oracle
from oracles.mechanisms.tally import RecordTally, ValueTally
from oracles.multi.attributes import Multi
from oracles.query.answers import Attribute
from oracles.query.domain import Domain
from oracles.query.keys import Settings, meaning
from oracles.query.lifetime import times
from oracles.query.settings import Window

_DAY = 86_400
_T = TypeVar("_T")


@dataclass(frozen=True)
class Query(Settings):
    """A query of a file, with every setting resolved. Times are whole seconds."""

    name: str
    oracle: Oracle | Multi = field(compare=False)
    oracle_names: tuple[str, ...]
    """Oracle of each attribute or of the one answer, never `auto` or `adaptive`."""
    fewer: tuple[int | None, ...]
    """Number of buckets of each oracle, or None unless it is olh with fewer than the best."""
    record_epsilon: float
    """Guarantee of a whole record: epsilon, except for rsfd."""
    limits: tuple[tuple[float, float], ...]
    """Quantiles of numbers with the limits that alerts watch."""
    # A definition in a topic leaves nothing open, and must equal the file that it was written from.
    open: frozenset[str] = field(compare=False)
    """Keys about reports (oracle, buckets, noise, table) that the file leaves open."""

    def slot_count(self, partitions: int) -> int:
        """Return on how many of the partitions reports of the query are counted."""
        return partitions if self.spread is None else min(self.spread, partitions)

    def is_searched(self, window: Window) -> bool:
        """Whether names are searched in a kind of window: in `all`, and in windows that are long enough."""
        return self.search is not None and (window.kind == "all" or window.size >= self.search)

    @property
    def searches_a_day(self) -> float:
        """Number of searches for names in a day."""
        # A window `all` has no step. It is searched once in each length of `search`.
        steps = (window.step or self.search for window in self.windows if self.is_searched(window))
        return sum(_DAY / step for step in steps if step)

    @property
    def singles(self) -> tuple[Attribute, ...]:
        """Attributes to which a client gives an answer. Pairs follow from them."""
        return tuple(attribute for attribute in self.attributes if attribute.pair is None)

    @property
    def pairs(self) -> list[list[str]]:
        """Names of the two attributes of each pair."""
        return [
            [self.attributes[place].name for place in attribute.pair] for attribute in self.attributes if attribute.pair
        ]

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Domain of each attribute, or of the one answer."""
        return tuple(attribute.domain for attribute in self.attributes) if self.domain is None else (self.domain,)

    @property
    def answer_domains(self) -> tuple[Domain, ...]:
        """Domain of each answer of a client, which are all but the pairs."""
        return tuple(attribute.domain for attribute in self.singles) or self.domains

    @property
    def other(self) -> bool | None:
        """Whether answers outside the domain count as "(other)". None if attributes differ."""
        kinds = {domain.other for domain in self.answer_domains}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def attribute_oracles(self) -> tuple[Pure, ...]:
        """The law of each attribute, or of the one answer."""
        return (self.only_oracle,) if self.only_oracle else cast(Multi, self.oracle).attributes

    @property
    def only_oracle(self) -> Oracle | None:
        """The oracle of the one answer, or of its cells if strings are unknown. None for several attributes."""
        if isinstance(self.oracle, Slots):
            return self.oracle.cell_oracle
        return self.oracle if isinstance(self.oracle, Oracle) else None

    @property
    def strings(self) -> Strings | None:
        """The hash of unknown strings, or None if the answers are listed."""
        return self.oracle.strings if isinstance(self.oracle, Slots) else None

    def cells_of(self, answer: str | float) -> tuple[int, ...]:
        """Return the position of the one answer. A string has a cell for each level and map."""
        if self.strings is not None and isinstance(answer, str):
            return tuple(self.strings.cells_of(answer).tolist())
        return (self.domains[0].position(answer),)

    @property
    def _encoders(self) -> tuple[Oracle, ...]:
        """Oracle of each attribute, or of the one answer."""
        return (self.only_oracle,) if self.only_oracle else self.oracle.encoders

    def tally(self) -> ValueTally[Oracle] | RecordTally[Multi]:
        """Return an empty tally whose estimates know the names of the values."""
        names = [domain.names for domain in self.domains]
        if isinstance(self.oracle, Oracle):
            return self.oracle.tally(names[0])
        return self.oracle.tally(names if self.strings is None else None)

    @property
    def charge(self) -> Charge:
        """Charge of a client's first answer of a round. "fresh" has this charge for every answer."""
        if self.answers == "life" and self.oracle.life is not None:
            return self.oracle.life
        return Charge(self.record_epsilon, 1)

    @property
    def record_charge(self) -> float:
        """Sum of `charge`, in epsilon."""
        return float(self.charge.amount)

    @property
    def charges(self) -> int:
        """Number of charges in a round before a client is silent: one, or one for each fresh answer."""
        return times(self.budget, self.record_epsilon) if self.answers == "fresh" else 1

    @property
    def classes(self) -> int | dict[str, int] | None:
        """Number of different answers, K, of a client that answers for life. One for each attribute, None for rsfd."""
        is_rsfd = self.only_oracle is None and self.oracle.life is None
        return None if is_rsfd else self.by_attribute([encoder.classes for encoder in self._encoders])

    @property
    def buckets(self) -> int | dict[str, int] | None:
        """Buckets of sub, or those that are not the best for epsilon, by attribute if there are several. Else None."""
        return self.by_attribute(self.fewer)

    @property
    def subset(self) -> int | None:
        """Number of buckets that a report of sub names, or None."""
        return None if self.attributes else self._encoders[0].subset

    @property
    def rows(self) -> str | None:
        """Family of the maps from values to buckets of sub, or None."""
        return None if self.attributes else self._encoders[0].row_family

    @property
    def table(self) -> int | dict[str, int] | None:
        """The t of the clients' tables, by attribute if there are several. None if no answer comes from a table."""
        return self.by_attribute([encoder.table for encoder in self._encoders])

    @property
    def thresholds(self) -> dict[str, Any] | None:
        """Integers that a client compares with random ones, in decimal. By attribute if there are several."""
        return self.by_attribute([encoder.thresholds for encoder in self._encoders])

    @property
    def edges(self) -> list[float] | dict[str, list[float]] | None:
        """Edges of the bins of numbers, by attribute if there are several. None if no answer is a number."""
        return self.by_attribute([domain.edges for domain in self.domains])

    def by_attribute(self, values: Sequence[_T | None]) -> _T | dict[str, _T] | None:
        """Return the value of the one answer, or those of the attributes by name. None if no answer has one."""
        if not self.attributes:
            return values[0]
        names = (attribute.name for attribute in self.attributes)
        return {name: value for name, value in zip(names, values, strict=True) if value is not None} or None

    @property
    def noise(self) -> str:
        """How a client's answers to different values depend on one another: "table" or "each"."""
        return EACH if self.table is None else TABLE

    def round(self, at: float) -> int:
        """Return the Unix second at which the round of a time began, 0 without renew."""
        return 0 if self.renew is None else int(at // self.renew) * self.renew

    def repeats(self, start: int, end: int) -> int:
        """Return how often a window may hold one client's noise: the number of aligned periods that it touches.

        A round has only its own periods, unless devices may stay in it longer than `renew` says.
        """
        if self.answers == "fresh":
            return 1
        periods = max(1, -(-end // self.period) - start // self.period)
        return periods if self.renew is None or self.lengthened else min(periods, self.renew // self.period)

    @cached_property
    def canonical(self) -> str:
        """All settings that give a report its meaning, as canonical JSON."""
        content = {"format": 1, "name": self.name, **meaning(self)}
        # Clients in other languages hash the same bytes, so the form is exact: sorted keys, no blanks, UTF-8.
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @cached_property
    def digest(self) -> bytes:
        """8 bytes that change if the meaning of a report changes."""
        return sha256(self.canonical.encode()).digest()[:8]
