"""The formats version that each newer key of a query file needs. Workers of older releases cannot read such a key."""

from collections.abc import Iterable, Iterator

from hubbub.definitions.formats import RAISE, Formats, FormatsError
from hubbub.definitions.table import dump
from hubbub.texts import few
from oracles.query import Query

FIRST_FORMATS = {
    "about": 3,
    "compare": 3,
    "contact": 3,
    "lengthened": 3,
    "prior": 3,
    "public": 3,
    "purpose": 3,
    "recorder": 3,
    "spread": 3,
}
"""The formats version by key. A key counts if the stored table of a query has it, by the file or by its edition."""


def early_keys(queries: Iterable[Query], formats: Formats) -> Iterator[str]:
    """Yield a sentence for each key in use that needs a higher formats version than the topics have."""
    names: dict[str, list[str]] = {}
    for query in queries:
        for key in sorted(FIRST_FORMATS.keys() & dump(query).keys()):
            if formats.version < FIRST_FORMATS[key]:
                names.setdefault(key, []).append(query.name)

    for key, users in names.items():
        yield (
            f"the query key `{key}` needs formats version {FIRST_FORMATS[key]}, and the topics have formats {formats} "
            f"(queries: {few(users)}). Remove the key, or stop all workers and run `{RAISE}`"
        )


def refuse_early_keys(queries: Iterable[Query], formats: Formats) -> None:
    """Raise a FormatsError if a query has a key that workers of this formats version cannot read."""
    refusals = [*early_keys(queries, formats)]
    if refusals:
        raise FormatsError("\n".join(refusals))
