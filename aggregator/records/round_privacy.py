"""The promises to a person towards readers of records: of all windows together, and of a record of few reports."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from aggregator.records.subject import subjects
from hubbub.texts import most_odds, up
from oracles.query import Query
from oracles.readable import readable_below

Windows = Literal["one", "many"]
ONE: Windows = "one"
MANY: Windows = "many"


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """The guarantee of a person for all windows of a round, which holds for everybody."""

    epsilon: Annotated[float, {"minimum": 0, "description": "The bound of all reports of a device in a round"}]
    windows: Annotated[Windows, {"description": "`many` if the query publishes a second window of the same people"}]


def together(query: Query) -> Together:
    """Return the bound of a round. Only the noise of the reports gives it, because windows subtract."""
    return Together(epsilon=query.record_charge * query.charges, windows=MANY if _has_second_window(query) else ONE)


def round_sentences(query: Query) -> Iterator[str]:
    """Yield the guarantee for all windows of a round, which holds for everybody, and what it does not hide."""
    bound = together(query)
    yield f"All windows of a round together: epsilon {up(bound.epsilon)}, odds of {most_odds(bound.epsilon)}."
    if query.answers != "fresh" and bound.windows == MANY:
        yield "Whoever sees two windows learns the report of a person who changed, came or went."


def _has_second_window(query: Query) -> bool:
    """Whether a person may stand in two windows of a round."""
    if len(query.windows) > 1 or query.windows[0].kind != "tumbling":
        return True

    size = query.windows[0].size
    if query.starts is not None and query.until is not None and query.starts // size == (query.until - 1) // size:
        return False
    if query.answers == "fresh":
        return query.charges > 1
    return query.renew is None or size % query.renew != 0


def readable_window(query: Query) -> int | None:
    """Return the number of reports in a window below which a reader of its records reads single ones, or None."""
    return readable_below(query.oracle.row_draws)


def readable_record(query: Query, attribute: str | None) -> int | None:
    """Return this number for the record of one attribute, whose reports are those that answer it."""
    names = [subject.name for subject in subjects(query)]
    return readable_below(query.oracle.row_draws_of(names.index(attribute)))
