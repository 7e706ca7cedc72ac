"""Records as the rows of one table: a row a value of a window, with its shares, errors and flags."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aggregator.publishing.record_reader import Record
from oracles.consistency import UNBIASED

ABOUT = {
    **dict.fromkeys(("query", "digest", "attribute", "kind"), str),
    **dict.fromkeys(("size", "step", "start", "end", "n", "n_independent"), int),
    "flags": str,
}
"""Columns that are the same in all rows of a record, and of what type they are."""
ERRORS = ("stderr", "low", "high")

Row = dict[str, Any]


def wanted(since: int, until: int | None, kind: str | None) -> Callable[[Record], bool]:
    """Whether a record's window is of this kind, and ends in [since, until)."""

    def fits(record: Record) -> bool:
        window, _, end = record.span
        return kind in (None, window.kind) and since <= end and (until is None or end < until)

    return fits


def columns(records: Iterable[Record]) -> dict[str, type]:
    """The names of the columns, in their order, and their types: the same whatever stands in them."""
    methods = [UNBIASED, *ERRORS, *(method for record in records for method in record.shares)]
    return {**ABOUT, "value": str, **dict.fromkeys(methods, float), "proved": bool}


def rows(record: Record) -> list[Row]:
    """A row a value, in the record's order; None for what is not known. A window too small to show any has one."""
    window, start, end = record.span
    about: Mapping[str, Any] = {
        "query": record.query,
        "digest": record.digest,
        "attribute": record.attribute,
        "kind": window.kind,
        "size": window.size,
        "step": window.step,
        "start": start,
        "end": end,
        "n": record.n,
        "n_independent": record.n_independent,
        "flags": ",".join(record.flags),
    }
    proved = {hitter.value for hitter in record.hitters(UNBIASED) if hitter.decided}
    numbers = {**record.shares, "stderr": record.stderr, "low": record.low, "high": record.high}
    listed = {name: column.tolist() for name, column in numbers.items()}
    made = []
    for at, value in enumerate(record.values):
        known = {name: _known(column[at]) for name, column in listed.items()}
        made.append({**about, "value": value, **known, "proved": value in proved})
    if not made and "small" in record.flags:
        made.append({**about, "value": None, **dict.fromkeys(listed), "proved": None})
    return made


def by_column(records: Sequence[Record]) -> dict[str, list[Any]]:
    """All rows of records, column by column; empty cells where a record has no such method."""
    table: dict[str, list[Any]] = {name: [] for name in columns(records)}
    for record in records:
        for row in rows(record):
            for name, column in table.items():
                column.append(row.get(name))
    return table


def _known(number: float) -> float | None:
    return number if number == number else None  # noqa: PLR0124 - NaN alone differs from itself
