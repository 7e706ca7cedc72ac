"""Records as one table. Each row is a value of a window, with its shares, errors and flags."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aggregator.records.group_fields import WEIGHTED_COLUMNS
from aggregator.records.kinds import KINDS, rows_of
from aggregator.records.record import Record
from oracles.consistency import METHODS, UNBIASED

ABOUT = {
    **dict.fromkeys(("query", "digest", "attribute", "group", "kind"), str),
    **dict.fromkeys(("size", "step", "start", "end", "n", "n_independent"), int),
    "flags": str,
}
"""The columns that are equal in all rows of a record, with their types."""
ERRORS = ("stderr", "low", "high")
TIMES = ("start", "end")
PROOFS = {"level": float, "proved": bool, "first_rank": int, "last_rank": int, "central": float}
"""The columns that say what a row proves and reveals, with their types."""
_OF_KINDS: dict[str, type] = {}
for _kind in KINDS.values():
    _OF_KINDS |= _kind.COLUMNS
COLUMNS: dict[str, type] = {
    **ABOUT,
    "value": str,
    **_OF_KINDS,
    **dict.fromkeys((UNBIASED, *ERRORS, *METHODS), float),
    **PROOFS,
    **dict.fromkeys(WEIGHTED_COLUMNS, float),
    "reason": str,
}
"""All columns with their types, in order. They are the same for every query, so that tables can be joined."""

Row = dict[str, Any]


def record_filter(
    since: int, until: int | None, kind: str | None, group: str | None = None, *, all_groups: bool = False
) -> Callable[[Record], bool]:
    """Return a test whether the window of a record has this kind and ends in [since, until).

    The record is one of this group, by default of the total. With `all_groups` it may be of the total or any group.
    """

    def is_match(record: Record) -> bool:
        window, _, end = record.span
        if not all_groups and record.group != group:
            return False
        return kind in (None, window.kind) and since <= end and (until is None or end < until)

    return is_match


def rows(record: Record) -> list[Row]:
    """Return a row for each value, in the record's order, with None for unknown numbers.

    The intervals have the level for all values of the record. A withheld window has no values, and one row.
    Numbers have a row for each quantile, mean and range of the query. A name of unknown strings has its own level.
    """
    window, start, end = record.span
    about: Mapping[str, Any] = {
        "query": record.query,
        "digest": record.digest,
        "attribute": record.attribute,
        "group": record.group,
        "kind": window.kind,
        "size": window.size,
        "step": window.step,
        "start": start,
        "end": end,
        "n": record.n,
        "n_independent": record.n_independent,
        "flags": ",".join(record.flags),
        "central": None if record.central is None else record.central.epsilon,
    }
    return [{**about, **cells} for cells in rows_of(record)]


def column_lists(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return the rows of records as one list for each column, with None for methods that a record lacks."""
    table: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for record in records:
        for row in rows(record):
            for name, column in table.items():
                column.append(row.get(name))
    return table
