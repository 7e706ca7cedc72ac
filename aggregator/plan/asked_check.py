"""Whether the newest list of what is asked has the queries of a file, for `hubbub check --asked`."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from hubbub.asked.asked_list import AskedList
from hubbub.asked.document import document_of, hash_of
from hubbub.asked.list_folder import read_folder
from oracles.query import Query
from oracles.query.public_definition import public_definition

_DAY = 86_400


def newest_list(folder: Path) -> AskedList:
    """Return the newest list of a folder. All lists of the folder must follow each other."""
    return read_folder(folder)[-1]


def asked_texts(queries: Iterable[Query], asked_list: AskedList, time_s: float) -> Iterator[str]:
    """Yield what people should know of a file and of the list: the days that are left, in sentences."""
    yield f"list {asked_list.number} of {asked_list.application} ends {_days_left(asked_list.expires, time_s)}"
    for query in queries:
        if query.until is not None:
            yield f"{query.name} ends {_days_left(query.until, time_s)}"


def faults(queries: Iterable[Query], asked_list: AskedList) -> Iterator[str]:
    """Yield a fault for each query that devices with this list do not answer."""
    for query in queries:
        if not asked_list.allows(query.name, hash_of(document_of(public_definition(query)))):
            gap = "has another definition of it" if query.name in asked_list.queries else "does not have it"
            yield (
                f"{query.name}: list {asked_list.number} {gap}, so devices that check lists are silent; "
                "run `hubbub asked new`, and let people sign"
            )


def _days_left(end: int, time_s: float) -> str:
    days = math.floor((end - time_s) / _DAY)
    return f"in {days:,} days" if days >= 0 else "in the past"
