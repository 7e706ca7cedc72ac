"""A person's answers to one query, as they leave the device: perturbed once, remembered, and within a budget."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from os import PathLike

import numpy as np

from oracles.errors import ParameterError, ReportError
from oracles.pure import Reports
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.settings import shown
from producers.errors import BudgetSpent, NotAllowed, NotYet
from producers.ledger import Ledger, Page

MAX_EPSILON = 8.0
"""What a device reveals over all queries, unless the application says otherwise."""

Value = str | int
Answer = Value | Mapping[str, Value] | Sequence[Value]


class Client:
    """Answers one query for one person.

    An answer is perturbed with the system's entropy when it is first given, and remembered: the
    same report is sent again while the value stays, and later too. Each distinct answer spends the
    query's record_epsilon of two limits: the budget of the query's *name*, which no new definition
    renews, and `max_epsilon` over all queries in the store. Answers are at least a period apart.

    Without `memoise` every answer is perturbed anew and spends again: whoever sees enough of them
    finds the value. Shown in tests/unit/test_client.py.
    """

    def __init__(
        self,
        query: Query,
        store: str | PathLike[str] | Ledger,
        *,
        allow: Collection[str] | None = None,
        max_epsilon: float = MAX_EPSILON,
        memoise: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(allow, str):
            raise ParameterError(f"allow is a list of names of queries, got {allow!r}")
        if allow is not None and query.name not in allow:
            listed = ", ".join(sorted(allow)) or "no query"
            raise NotAllowed(f"this application allows {listed}, not {query.name!r}")
        if not 0 < max_epsilon < float("inf"):
            raise ParameterError(f"max_epsilon must be a number above 0, got {max_epsilon!r}")
        self.query = query
        self.max_epsilon = max_epsilon
        self.memoise = memoise
        self._ledger = store if isinstance(store, Ledger) else Ledger(store)
        self._clock = clock

    def answer(self, value: Answer) -> Reports:
        """The report to send now: uint8, (1, width).

        `value` is a name of the domain, or an index where the domain is a size; for several
        attributes a dict by their names, or a sequence in the order of their names. It is stored
        with what it spent before it is handed out. NotYet and BudgetSpent mean: send nothing.
        """
        answer = self._positions(value)
        report = None
        with self._ledger.page() as page:
            now = self._clock()
            due = self._due(page, now)
            if due <= now:
                report = self._report(page, answer)
                page.answered(self.query.name, now)
        if report is None:
            wait = f"{due - now:.0f} of {self.query.period} seconds"
            raise NotYet(f"query {self.query.name!r} can be answered again in {wait}", due)
        return np.frombuffer(report, np.uint8).reshape(1, -1)

    def _due(self, page: Page, now: float) -> float:
        """When the next answer may be given."""
        last = page.last(self.query.name)
        if last is None:
            return now
        if last > now:
            # The clock was set back. A period from now is one from the last answer too, whenever that was.
            page.answered(self.query.name, now)
            last = now
        return last + self.query.period

    def _report(self, page: Page, answer: tuple[int, ...]) -> bytes:
        """The report of an answer: the one remembered, or a new one that is paid for."""
        query = self.query
        report = page.report(query.digest, answer) if self.memoise else None
        if report is None:
            self._afford(page)
            report = query.oracle.perturb(answer if query.domain else [answer]).tobytes()
            page.charge(query.name, query.record_epsilon)
            if self.memoise:
                page.remember(query.digest, answer, report)
        return report

    def _afford(self, page: Page) -> None:
        """Refuse what would reveal more than a limit allows."""
        cost, name = self.query.record_epsilon, self.query.name
        limits = [
            (page.spent(name), self.query.budget, f"the budget of query {name!r}"),
            (page.spent(), self.max_epsilon, "max_epsilon, over all queries of this device,"),
        ]
        for spent, limit, what in limits:
            # The same rule as Query.answers: a budget of 0.3 is three times 0.1.
            if spent + Fraction(cost) > Fraction(limit) * (1 + Fraction(1, 10**12)):
                raise BudgetSpent(f"{what} is {limit:g}: {float(spent):g} is spent, and a new answer costs {cost:g}")

    def _positions(self, value: Answer) -> tuple[int, ...]:
        """Where the answer stands in the domain of each attribute, or of the one."""
        query = self.query
        if query.domain is not None:
            return (_position(query.domain, value, query.name),)
        names = [attribute.name for attribute in query.attributes]
        if isinstance(value, Mapping) and value.keys() == set(names):
            values = [value[name] for name in names]
        elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(names):
            values = list(value)
        else:
            raise ReportError(f"query {query.name!r} takes a value for each of {', '.join(names)}; got {shown(value)}")
        each = zip(query.attributes, values, strict=True)
        return tuple(_position(attribute.domain, given, attribute.name) for attribute, given in each)


def _position(domain: Domain, value: object, name: str) -> int:
    if isinstance(value, np.integer):
        value = int(value)
    # Nothing but a wrong value is "(other)": a wrong type would be counted there unseen.
    if not isinstance(value, str) and (domain.values is not None or type(value) is not int):
        kind = "the name of a value" if domain.values is not None else "a whole number or its name"
        raise ReportError(f"{name!r} is answered with {kind}, got {shown(value)}")
    return domain.position(value)
