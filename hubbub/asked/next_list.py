"""The next list: what a query file asks, and for one list more what it asked before."""

from collections.abc import Collection, Iterable, Iterator

from hubbub.asked.asked_list import FIRST_PREVIOUS, AskedError, AskedList, AskedQuestion
from hubbub.asked.document import LARGEST, canonical, document_of, hash_of
from oracles.errors import ParameterError, QueryError
from oracles.query import Query
from oracles.query.public_definition import public_definition

NEEDS = ("about", "purpose", "contact", "until")
"""The keys without which nobody can judge a question."""


def draft(
    queries: Iterable[Query],
    application: str,
    previous: AskedList | None,
    *,
    time_s: int,
    expires: int,
    to_drop: Collection[str] = (),
) -> AskedList:
    """Return the list that follows `previous`, without signatures.

    A changed question keeps its former document too, unless it is in `to_drop`. So no device falls silent between the
    list and the query file.
    """
    if expires <= time_s:
        raise ParameterError("a list must expire later than it is made")
    if previous is not None and previous.application != application:
        raise AskedError(f"list {previous.number} is of application {previous.application!r}, not of {application!r}")

    queries = list(queries)
    gaps = [*_gaps(queries)]
    if gaps:
        raise QueryError("\n".join(gaps))
    former = {} if previous is None else previous.queries
    return AskedList(
        application=application,
        number=1 if previous is None else previous.number + 1,
        previous=FIRST_PREVIOUS if previous is None else previous.hash,
        made=time_s,
        expires=expires,
        queries={
            query.name: _questions(query, () if query.name in to_drop else former.get(query.name, ()))
            for query in queries
        },
    )


def _gaps(queries: Iterable[Query]) -> Iterator[str]:
    """Yield a sentence for each query that does not say what people must know."""
    for query in queries:
        missing = [key for key in NEEDS if getattr(query, key) is None]
        if missing:
            yield f"query {query.name}: a list needs {', '.join(missing)}, for the people who answer and who sign"


def _questions(query: Query, former: tuple[AskedQuestion, ...]) -> tuple[AskedQuestion, ...]:
    document = document_of(public_definition(query))
    digest = hash_of(document)
    present = AskedQuestion(digest, document if len(canonical(document)) <= LARGEST else None)
    # The first document of a name was the present one of its list.
    return (present, *(question for question in former[:1] if question.sha256 != digest))
