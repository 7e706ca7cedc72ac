"""Facts of a query file for an impact assessment, as a table in Markdown: `hubbub check --facts`."""

from collections.abc import Iterable, Iterator

from aggregator.plan.lifetimes import life_epsilon
from aggregator.topics.layout import MONTH, WEEK
from hubbub.asked.words import answer_words
from hubbub.command.options import duration_text
from hubbub.moments import utc
from hubbub.texts import few, most_odds
from oracles.query import Query
from oracles.query.public_definition import public_definition

_DAY = 86_400_000
_MISSING = "not stated in the query file"


def table(queries: Iterable[Query]) -> Iterator[str]:
    """Yield the lines of the table: the facts of each query, then those of the topics."""
    yield "| about | fact | value |"
    yield "|--|--|--|"
    queries = list(queries)
    for query in queries:
        for fact, value in _of_query(query):
            yield _row(query.name, fact, value)

    total = sum(life_epsilon(query) for query in queries)
    yield _row("all queries", "a device that answers all of them changes odds by a factor of", most_odds(total))
    for topic, days in (("estimates, maps, alerts", MONTH // _DAY), ("rejects", WEEK // _DAY)):
        yield _row(f"topic {topic}", "kept for, unless you have set another time", f"{days} days")
    yield _row("topic reports", "kept for", "the retention.ms that you set: noisy answers of one device can be linked")


def _of_query(query: Query) -> Iterator[tuple[str, str]]:
    yield "what is asked", query.about or _MISSING
    yield "purpose", query.purpose or _MISSING
    yield "contact", query.contact or _MISSING
    yield "answers before noise", answer_words(public_definition(query))
    yield "sent in clear", few(query.groups.values) if query.groups.table else "nothing"
    yield "a report changes odds by a factor of", most_odds(query.record_epsilon)
    span = "a life" if query.renew is None else duration_text(query.renew)
    yield f"all answers of {span} change odds by a factor of", most_odds(life_epsilon(query))
    yield "at most one answer in", duration_text(query.period)
    yield "fewest reports of a published sum", f"{query.crowd:,}"
    yield "ends", "never" if query.until is None else utc(query.until)


def _row(*cells: str) -> str:
    # A bar would end the cell.
    texts = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(texts)} |"
