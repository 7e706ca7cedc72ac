"""The member of a record that tells of the names of unknown strings."""

from dataclasses import dataclass
from typing import Any

from aggregator.records import documents
from hubbub.http.schema import Count, Known, Time, read
from oracles.errors import ReportError


@dataclass(frozen=True, kw_only=True, slots=True)
class DiscoverRow:
    """The member `discover` of a record of unknown strings."""

    levels: list[Count]
    """Number of reports of each level and map."""
    names_n: list[Count]
    """Number of independent reports that tell of each name."""
    ambiguous: list[str]
    """Names that no map tells apart from others."""
    first_seen: dict[str, Time]
    """The end of the first window that found each name."""
    smallest: Known
    """The smallest share that a search of the window finds with probability 0.9."""


_TEXTS = documents.listed({"type": "string"})
_COUNTS = documents.listed(documents.COUNT)
DISCOVER = documents.written(
    DiscoverRow,
    {
        "levels": _COUNTS,
        "names_n": _COUNTS,
        "ambiguous": _TEXTS,
        "first_seen": {"type": "object", "additionalProperties": documents.COUNT},
        "smallest": documents.CHANCE,
    },
)


def read_discover(fields: Any, level: Any, count: int) -> DiscoverRow:
    """Return the member `discover` of a record with so many names. Raise a ReportError if it does not fit them."""
    row = read(DiscoverRow, fields)
    are_levels = isinstance(level, list) and all(type(number) is float and 0.0 < number < 1.0 for number in level)
    if not are_levels or {len(level), len(row.names_n), len(row.first_seen)} != {count}:
        raise ReportError(f"a record of {count} names needs a level, a number and a time of each")
    return row
