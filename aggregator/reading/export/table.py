"""Records as one table. Each row is a value of a window, with its shares, errors and flags."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aggregator.records.group_fields import WEIGHTED_COLUMNS
from aggregator.records.kinds import KINDS, kind_of
from aggregator.records.record import Record
from oracles.consistency import UNBIASED

ABOUT = {
    **dict.fromkeys(("query", "digest", "attribute", "group", "kind"), str),
    **dict.fromkeys(("size", "step", "start", "end", "n", "n_independent"), int),
    "flags": str,
}
"""The columns that are equal in all rows of a record, with their types."""
ERRORS = ("stderr", "low", "high")
PROOFS = {"level": float, "proved": bool, "first_rank": int, "last_rank": int, "central": float}
"""The last columns, with their types."""

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


def columns(records: Iterable[Record]) -> dict[str, type]:
    """Return the names and types of the columns, in order."""
    records = list(records)
    # A later version of the query may have other methods, and a table has the columns of all its records.
    methods = dict.fromkeys((UNBIASED, *ERRORS), float)
    for record in records:
        methods |= dict.fromkeys(record.shares, float)
    present_kinds = {record.kind for record in records}
    of_kinds: dict[str, type] = {}
    for name, kind in KINDS.items():
        if name in present_kinds:
            of_kinds |= kind.COLUMNS
    is_weighted = any(record.member("weighted") is not None for record in records)
    weighted = dict.fromkeys(WEIGHTED_COLUMNS, float) if is_weighted else {}
    return {**ABOUT, "value": str, **of_kinds, **methods, **PROOFS, **weighted}


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
    table = [{**about, **cells} for cells in kind_of(record).rows(record)]

    # Without this row, a reader could not tell a withheld window from one that nobody asked for.
    if record.withheld:
        table.append({**about, "value": None, **dict.fromkeys((*record.shares, *ERRORS, *PROOFS))})
    return table


def column_lists(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return the rows of records as one list for each column, with None for methods that a record lacks."""
    table: dict[str, list[Any]] = {name: [] for name in columns(records)}
    for record in records:
        for row in rows(record):
            for name, column in table.items():
                column.append(row.get(name))
    return table
