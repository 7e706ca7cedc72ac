"""Predictions for the kinds of answers, one module a kind, all with the functions of `Predictions`."""

from collections.abc import Iterator
from typing import Protocol

from aggregator.plan.kinds import names, numbers, values
from aggregator.plan.kinds.audience import Audience
from oracles.query import Query
from oracles.query.domain import NAMES, NUMBERS, VALUES


class Predictions(Protocol):
    """The functions that predict one kind of answer."""

    def sentences(self, subject: Audience, /) -> Iterator[str]:
        """Yield in words what a number of people will show of one answer, and what more would need."""

    def shows(self, subject: Audience, /) -> str:
        """Return in a few words what a window with these people shows."""

    def comparison(self, subject: Audience, n: int, /) -> Iterator[str]:
        """Yield a sentence about the error of `n` reports."""

    def warnings(self, subject: Audience, /) -> Iterator[str]:
        """Yield warnings about settings with which an answer needs many people."""

    REPORTS: str
    """The reports of which `crowd` are needed, in words."""

    def smallest_part(self, query: Query, /) -> float:
        """Return the part of the reports that must hold `crowd`."""

    def small_parts(self, query: Query, /) -> int:
        """Return the number of parts of this size that must each hold `crowd`."""

    def counts(self, query: Query, /) -> str:
        """Return what a client with one answer tells, in words."""

    def costs(self, query: Query, partitions: int, /) -> Iterator[str]:
        """Yield the memory, the disk and the CPU of a query if they are not those of values."""

    def errors(self, query: Query, /) -> Iterator[tuple[str, ...]]:
        """Yield the rows of a table of errors if they are not those of shares."""

    def notices(self, query: Query, /) -> Iterator[str]:
        """Yield warnings about a whole query."""

    def table(self, subject: Audience, /) -> Iterator[tuple[str, ...]]:
        """Yield the rows of a table of ways to answer, or none."""


KINDS: dict[str, Predictions] = {VALUES: values, NUMBERS: numbers, NAMES: names}


def of_query(query: Query) -> Predictions:
    """Return the kind of the first answer of a query, which tells of names, as these have no other answers."""
    return KINDS.get(query.domains[0].kind, values)


def kind_of(subject: Audience) -> Predictions:
    """Return the kind of an answer. A kind without a module here is predicted like values."""
    return KINDS.get(subject.domain.kind, values)
