"""The keys of records, and the subject of a record."""

from typing import NamedTuple

from aggregator.records.group_fields import key_parts
from aggregator.records.span import Span
from oracles.query import Query

PROVISIONAL = "p"
"""The end of the key of a provisional record."""


class RecordPlace(NamedTuple):
    """A subject of records: one attribute of a group, or of the total."""

    group: int | None
    """The number of the group, or None for the total."""
    attribute: int
    """The place of the attribute among those of the query."""


def key(query: Query, span: Span, attribute: str | None, *, final: bool, group: int | None = None) -> bytes:
    """Return the key of a record. Final and provisional records of a window have different keys, so both stay.

    `group` is the number of a group, or None for the total.
    """
    window = span.window
    parts = [query.name, query.digest.hex(), window.kind, str(window.size), str(window.step), str(span.end)]
    parts += key_parts(query.groups, group)
    # The prefixes tell an attribute and a group of one name apart, since either can be absent.
    if attribute:
        parts.append(f"a:{attribute}")
    if not final:
        parts.append(PROVISIONAL)
    return "|".join(parts).encode()


def provisional_key(final: bytes) -> bytes:
    """Return the key of the provisional record of a final, which is deleted once the window is final."""
    return final + f"|{PROVISIONAL}".encode()
