"""Records as one table. Each row is a value of a window, with its shares, errors and flags."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aggregator.records.kinds import first
from aggregator.records.name_rows import DiscoverRow
from aggregator.records.number_answers import NumberAnswers
from aggregator.records.record import Record
from oracles.consistency import UNBIASED
from oracles.estimate.intervals import LEVEL

ABOUT = {
    **dict.fromkeys(("query", "digest", "attribute", "group", "kind"), str),
    **dict.fromkeys(("size", "step", "start", "end", "n", "n_independent"), int),
    "flags": str,
}
"""The columns that are equal in all rows of a record, with their types."""
ERRORS = ("stderr", "low", "high")
PROOFS = {"level": float, "proved": bool, "first_rank": int, "last_rank": int, "central": float}
"""The last columns, with their types."""
WEIGHTED = ("by_weight", "by_weight_low", "by_weight_high")
"""The columns of a total that is weighted to known shares of the groups."""

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
    numbers = {"number": float, "unit": str} if any(record.has_numbers for record in records) else {}
    strings = {"first_seen": int} if any(record.discover() is not None for record in records) else {}
    weighted = dict.fromkeys(WEIGHTED, float) if any(_weighted_columns(record) for record in records) else {}
    return {**ABOUT, "value": str, **numbers, **strings, **methods, **PROOFS, **weighted}


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
    if record.has_numbers and not record.withheld:
        return _number_rows(record, about)
    discover = record.discover()
    if discover is not None:
        return _string_rows(record, discover, about)

    hitters = {hitter.value: hitter for hitter in record.hitters(UNBIASED)}
    level, low, high = first(record, len(record.values))
    numbers = {**record.shares, "stderr": record.stderr, "low": low, "high": high}
    lists = {name: column.tolist() for name, column in numbers.items()}
    weighted = _weighted_columns(record)
    table = []
    for index, value in enumerate(record.values):
        cells = {name: _nan_to_none(column[index]) for name, column in lists.items()}
        hitter = hitters.get(value)
        first_rank, last_rank = (hitter and hitter.ranks) or (None, None)
        proof = hitter is not None and hitter.decided
        proofs = {"level": level, "proved": proof, "first_rank": first_rank, "last_rank": last_rank}
        by_weight = {name: column[index] for name, column in weighted.items()}
        table.append({**about, "value": value, **cells, **proofs, **by_weight})

    # Without this row, a reader could not tell a withheld window from one that nobody asked for.
    if record.withheld:
        table.append({**about, "value": None, **dict.fromkeys((*lists, *PROOFS))})
    return table


def _weighted_columns(record: Record) -> dict[str, list[float | None]]:
    """Return the unbiased shares of a weighted total and their intervals. A record without weights has none."""
    total = record.rest()["weighted"]
    if total is None:
        return {}
    return dict(zip(WEIGHTED, (total["shares"][UNBIASED], total["low"], total["high"]), strict=True))


def _string_rows(record: Record, discover: DiscoverRow, about: Mapping[str, Any]) -> list[Row]:
    """Return a row for each name, or for each string that was asked for. Only a name that was found is proved."""
    numbers = {**record.shares, "stderr": record.stderr, "low": record.low, "high": record.high}
    lists = {name: column.tolist() for name, column in numbers.items()}
    table = []
    for index, (value, level) in enumerate(zip(record.values, record.rest()["level"], strict=True)):
        cells = {name: _nan_to_none(column[index]) for name, column in lists.items()}
        first_seen = discover.first_seen.get(value)
        proof = first_seen is not None and record.low[index] > 0.0
        table.append(
            {**about, "value": value, "first_seen": first_seen, **cells, "level": level, "proved": bool(proof)}
        )
    return table


def _number_rows(record: Record, about: Mapping[str, Any]) -> list[Row]:
    """Return a row for each quantile and mean, in the unit of the query, and for the share of each range."""
    answers = NumberAnswers(record)
    table = []
    for row in answers.rows():
        value = {UNBIASED: row.value} if row.measure == "share" else {"number": row.value, "unit": answers.unit}
        errors = {"stderr": row.stderr, "low": row.low, "high": row.high, "level": LEVEL}
        table.append({**about, "value": row.name, **value, **errors})
    return table


def column_lists(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return the rows of records as one list for each column, with None for methods that a record lacks."""
    table: dict[str, list[Any]] = {name: [] for name in columns(records)}
    for record in records:
        for row in rows(record):
            for name, column in table.items():
                column.append(row.get(name))
    return table


def _nan_to_none(number: float) -> float | None:
    return number if number == number else None  # noqa: PLR0124 - only NaN differs from itself
