"""The fields of records with groups: the group, and the weighted total. They are written and checked here."""

import re
from typing import Any

import numpy as np

from aggregator.records import documents
from aggregator.records.digits import all_rounded, rounded
from aggregator.records.findings import PopulationShares
from aggregator.records.number_columns import by_name, floats
from hubbub.http.schema import Schema
from oracles.consistency import UNBIASED
from oracles.errors import ReportError
from oracles.query import Query
from oracles.query.groups import NO_GROUP, Groups
from oracles.query.settings import NAME
from oracles.types import Ints

_COLUMNS = ("stderr", "low", "high")
WEIGHTED_COLUMNS = ("by_weight", "by_weight_low", "by_weight_high")
"""The columns of a table for a total that is weighted to known shares of the groups."""
WEIGHTED: Schema = {
    "type": "object",
    "properties": {
        "shares": documents.SHARES,
        "stderr": documents.listed(documents.POSITIVE),
        "low": documents.listed(documents.CHANCE),
        "high": documents.listed(documents.CHANCE),
        "n_effective": {"type": "number", "minimum": 0},
        "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": 1.000001},
    },
    "required": ["shares", "stderr", "low", "high", "n_effective", "weight"],
    "additionalProperties": False,
}
_KEY_PART = re.compile(rf"g:{NAME.pattern}=({NAME.pattern}|{re.escape(NO_GROUP)})")


def group_member(query: Query, number: int | None) -> dict[str, Any]:
    """Return the member `group` of a record, or nothing if the query has no groups. The group of a total is null."""
    if not query.groups:
        return {}
    return {"group": None if number is None else {query.groups.name: query.groups.label(number)}}


def add_missing_total(record: dict[str, Any], query: Query, number: int | None) -> None:
    """Add a null weighted total to the record of a total that could have one, if no group with a weight is shown."""
    if query.weights and number is None:
        record.setdefault("weighted", None)


def key_parts(groups: Groups, number: int | None) -> list[str]:
    """Return the part of a record's key that names its group. A total has none."""
    return [] if number is None else [f"g:{groups.name}={groups.label(number)}"]


def split_key(parts: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of the group that the first part of a record's key names, if it does, and the other parts."""
    match = _KEY_PART.fullmatch(parts[0]) if parts else None
    return (match.group(1), parts[1:]) if match else (None, parts)


def value_in_record(group: Any) -> str | None:
    """Return the value of the field `group`, or None for a total. Raise a ReportError if the field is malformed."""
    if group is None:
        return None
    if not isinstance(group, dict) or len(group) != 1:
        raise ReportError("group must be an object with one name, or null")

    # The pattern of the key, because a reader who finds a group by its key must find it in the record too.
    [(name, value)] = group.items()
    if not isinstance(value, str) or not _KEY_PART.fullmatch(f"g:{name}={value}"):
        raise ReportError("a group needs a name and a value of at most 64 characters")
    return value


def weighted_member(population: PopulationShares | None, positions: Ints) -> dict[str, Any]:
    """Return the member `weighted` for the values at these positions, or nothing without a weighted total."""
    if population is None:
        return {}

    total = population.total
    # One call rounds all columns, since a call costs more than the numbers of a small record.
    columns = (total.stderr, total.low, total.high, *population.shares.values())
    stderr, low, high, *shares = all_rounded(np.stack([column[positions] for column in columns]))
    members = {
        "shares": dict(zip(population.shares, shares, strict=True)),
        **dict(zip(_COLUMNS, (stderr, low, high), strict=True)),
        "n_effective": rounded(total.n_effective),
        "weight": rounded(total.weight),
    }
    return {"weighted": members}


def weighted_columns(total: Any) -> dict[str, list[float | None]]:
    """Return the unbiased shares of a weighted total and their intervals. A record without weights has none."""
    if total is None:
        return {}
    return dict(zip(WEIGHTED_COLUMNS, (total["shares"][UNBIASED], total["low"], total["high"]), strict=True))


def first_of_weighted(fields: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the weighted total of the first values."""
    # A cut record has fewer values, and each of its columns must be as long as they are.
    shares = {method: column[:count] for method, column in fields["shares"].items()}
    return {**fields, **{name: fields[name][:count] for name in _COLUMNS}, "shares": shares}


def check_weighted(total: Any, count: int) -> None:
    """Raise a ReportError unless this is the weighted total of so many values, or None."""
    if total is None:
        return

    fields = by_name(total, "weighted")
    shares = by_name(fields.get("shares"), "weighted.shares")
    if UNBIASED not in shares:
        raise ReportError("a weighted total needs unbiased shares")
    for column in (*shares.values(), *(fields.get(name) for name in _COLUMNS)):
        floats(column, count)
    floats([fields.get("n_effective"), fields.get("weight")], 2)
