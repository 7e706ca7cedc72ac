"""The people that answer one attribute of a query."""

from dataclasses import dataclass

from oracles.estimate import Pure
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query
from oracles.query.domain import Domain

_SPANS = {86_400: "a day", 3600: "an hour", 60: "a minute"}


@dataclass(frozen=True)
class Audience:
    """One attribute of a query, or its only answer, and the people that answer it."""

    query: Query
    name: str
    domain: Domain
    view: Pure
    encoder: Oracle | None
    """Oracle of the clients. None for rsfd, whose clients hide which attribute they answer."""
    clients: int

    @property
    def n(self) -> int:
        # smp draws one attribute for each client, all with the same probability.
        return self.clients // len(self.query.attributes) if self.sampled else self.clients

    @property
    def of(self) -> str:
        """The attribute in words, if there are several."""
        return f" of {self.name.rpartition('.')[2]}" if self.query.attributes else ""

    @property
    def sampled(self) -> bool:
        return self.query.solution == "smp"

    @property
    def span(self) -> str:
        """The period in words."""
        period = self.query.period
        return _SPANS.get(period, f"every {period:,} s")

    @property
    def start(self) -> str:
        """The beginning of a sentence about what these people show."""
        return f"With {self.clients:,} people {self.span}"
