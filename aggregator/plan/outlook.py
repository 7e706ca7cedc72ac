"""A model of the results of a query with a number of people, and of the people that other ways to answer need.

One client answers once in each period. `check`, `plan` and `init` use this model.
"""

from collections.abc import Iterator

from aggregator.plan.kinds import kind_of
from aggregator.plan.kinds.audience import Audience
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query


def audiences(query: Query, clients: int) -> list[Audience]:
    oracle = query.oracle
    encoder = query.only_oracle
    if encoder is not None or isinstance(oracle, Oracle):
        return [
            Audience(query, query.name, domain, view, encoder, clients)
            for domain, view in zip(query.domains, query.attribute_oracles, strict=True)
        ]

    # A client of rsfd hides which attribute it answers, so none of its encoders answers for one attribute.
    encoders = [None] * len(oracle.encoders) if query.solution == "rsfd" else oracle.encoders
    labels = [f"{query.name}.{attribute.name}" for attribute in query.attributes]
    return [
        Audience(query, name, domain, view, encoder, clients)
        for name, domain, view, encoder in zip(labels, query.domains, oracle.attributes, encoders, strict=True)
    ]


def sentences(subject: Audience) -> Iterator[str]:
    """Yield in words what a number of people will show of one answer, and what more would need."""
    yield from kind_of(subject).sentences(subject)


def comparison(subject: Audience, n: int = 10_000) -> Iterator[str]:
    """Yield a sentence about the error of `n` reports, compared with the best report there is."""
    yield from kind_of(subject).comparison(subject, n)


def warnings(subject: Audience) -> Iterator[str]:
    """Yield warnings about settings with which an answer needs many people."""
    yield from kind_of(subject).warnings(subject)


def table(subject: Audience) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a table of ways to answer, if the kind of the answer has one."""
    yield from kind_of(subject).table(subject)
