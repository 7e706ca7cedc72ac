"""The odds of a life: how far all answers of a device together change the odds between two courses of answers.

A report and a life have the same unit here, so that a reader can compare them.
"""

from collections.abc import Callable, Mapping

from aggregator.plan.kinds.values import distance
from hubbub.texts import most_odds
from oracles.errors import ParameterError, QueryError
from oracles.query import Query

ONCE = "once"
LIFE = "life"
HR = "hr"
_MEANINGS = {
    ONCE: "A device keeps its first answer.",
    LIFE: "Answers follow changes.",
    HR: 'Answers follow changes, with the oracle "hr".',
}
"""The ways to answer again that `hubbub init` offers."""


def life_epsilon(query: Query) -> float:
    """Return the epsilon of all answers of a device to a query, or of a round if the query renews."""
    return query.record_charge * query.charges


def ways(query_of: Callable[[str], Query]) -> dict[str, Query]:
    """Return the query of each way to answer. `hr` is among them if its life costs less than that of `life`."""
    queries = {way: query_of(way) for way in (ONCE, LIFE)}
    try:
        alternative = query_of(HR)
    except QueryError:
        return queries  # numbers and unknown strings have oracles of their own

    if life_epsilon(alternative) < life_epsilon(queries[LIFE]):
        queries[HR] = alternative
    return queries


def question(queries: Mapping[str, Query]) -> str:
    """Return the question for the way to answer, with the price of each one."""
    lines = ["Do people answer once, or for life? The odds say how far all answers of a device change a guess."]
    for way, query in queries.items():
        line = f"   {way:5} {_MEANINGS[way]} Odds: {most_odds(life_epsilon(query))}"
        if way == HR:
            line += f", for {_people(query, queries[LIFE]):.1f} times the people"
        lines.append(f"{line}.")
    return "\n".join([*lines, "  "])


def choice(text: str, queries: Mapping[str, Query]) -> str:
    """Return the way that a text names, or raise a ParameterError."""
    if text.lower() not in queries:
        raise ParameterError(f"answer {' or '.join(queries)}")
    return text.lower()


def _people(query: Query, reference: Query) -> float:
    """Return the people that a query of values needs for the same error, as a multiple of those of a reference."""
    variance = distance(query.attribute_oracles[0], query.epsilon)
    return variance / distance(reference.attribute_oracles[0], reference.epsilon)
