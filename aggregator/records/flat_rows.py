"""Records as one table. Each row is a value of a window, with its shares, errors and flags."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aggregator.records.kinds import rows_of
from aggregator.records.record import Record
from aggregator.records.row_columns import COLUMNS

TIMES = ("start", "end")

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
