"""The charges of a device, for a page that shows a person what was revealed."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from oracles.query import Query
from producers.client.admission import AdmittedAnswer, admit, round_charge
from producers.client.device_limits import Limits
from producers.client.transaction import NEVER, Transaction


@dataclass(frozen=True)
class QueryCharges:
    """The charges of all definitions with one name, in epsilon."""

    name: str
    counted: float
    """The part that counts against max_epsilon now."""
    life: float
    """All charges ever."""


@dataclass(frozen=True)
class Status:
    """The charges of a device, in epsilon, and the time of the next answer to one query."""

    due: float
    """A time in the next open period, in Unix seconds."""
    spent: float
    """The charge of this query in its present round."""
    remaining: float
    """The rest of the query's budget in its present round, or of max_epsilon if that is less."""
    max_epsilon: float
    per: int | None
    """Seconds after which a charge expires, or None if charges never expire."""
    counted: float
    """The sum that counts against max_epsilon now, over all queries."""
    life: float
    """The sum of all charges ever, over all queries."""
    lengthened: bool
    """Whether the present round is longer than the query's `renew` says."""
    queries: tuple[QueryCharges, ...]
    """The charges of each query that has any, in the order of the names."""
    charges: tuple[dict[str, Any], ...]
    """All charges ever, each with the name, the digest and the round of its query."""


def status_of(transaction: Transaction, query: Query, limits: Limits, time_s: float, due: float) -> Status:
    """Return the charges of a device and of one query at a time."""
    admission = admit(transaction, query, limits, time_s)
    in_round = round_charge(transaction, query, admission.noise.round)
    active = transaction.charges_by_name(limits.since(max(time_s, transaction.newest())))
    life = transaction.charges_by_name(NEVER)
    total = sum(active.values(), Fraction())
    rest = min(Fraction(limits.max_epsilon) - total, limits.room(query.name) - limits.in_room(query.name, active))
    queries = [QueryCharges(name, float(active.get(name, 0)), float(charge)) for name, charge in life.items()]
    return Status(
        due=due,
        spent=float(in_round),
        remaining=max(0.0, float(min(Fraction(query.budget) - in_round, rest))),
        max_epsilon=limits.max_epsilon,
        per=limits.per,
        counted=float(total),
        life=float(sum(life.values(), Fraction())),
        lengthened=isinstance(admission, AdmittedAnswer) and admission.is_lengthened,
        queries=tuple(queries),
        charges=tuple(transaction.charges()),
    )
