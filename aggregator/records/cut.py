"""The cut of a record that is too large. It keeps as many of its first values as fit, so that every broker takes it."""

from bisect import bisect_right
from dataclasses import asdict
from typing import Any

import orjson

from aggregator.records.group_fields import first_of_weighted
from aggregator.records.rows import HitterRow
from aggregator.records.size import ENVELOPE, RECORD

CUT = "cut"
"""The flag of a record without all its values."""
LARGEST = RECORD - ENVELOPE
"""The most bytes of a record."""
MOST_VALUES = LARGEST // 20
"""More values than fit a record: the shortest name, share, error and interval together take 20 bytes."""
MOST_HITTERS = LARGEST // 80
"""More heavy hitters than fit a record."""

_COLUMNS = ("values", "stderr", "low", "high")


def encode(record: dict[str, Any], *, has_lists: bool = False) -> tuple[bytes, bool]:
    """Return a record as JSON, and whether it is cut. If it `has_lists`, values are written as lists.

    A cut record has as many values as fit, in the order of the record: proved values first, then by share. Its heavy
    hitters are those of these values.
    """
    data = _dump(record, has_lists)
    if len(data) <= LARGEST:
        return data, False

    # The list of hitters has an order of its own, so each row needs the place of its value.
    places = {value: place for place, value in enumerate(record["values"])}
    most = len(places)
    hitters = {
        method: [(places.get(row.value, most), row) for row in rows] for method, rows in record["hitters"].items()
    }
    quality = record["quality"]
    record = {**record, "quality": {**quality, "flags": [*quality["flags"], CUT]}}

    def data_of_first(count: int) -> bytes:
        part = {column: record[column][:count] for column in _COLUMNS}
        part["shares"] = {method: shares[:count] for method, shares in record["shares"].items()}
        # A total of a query without weights lacks the member, and it must stay away.
        if record.get("weighted") is not None:
            part["weighted"] = first_of_weighted(record["weighted"], count)
        part["hitters"] = {method: [row for place, row in rows if place < count] for method, rows in hitters.items()}
        return _dump(record | part, has_lists)

    # The size grows with the number of values, so a search by halves needs 17 encodings at most.
    count = bisect_right(range(1, most), LARGEST, key=lambda count: len(data_of_first(count)))
    return data_of_first(count), True


def _dump(record: dict[str, Any], has_lists: bool) -> bytes:
    return orjson.dumps(_with_lists(record) if has_lists else record, option=orjson.OPT_SERIALIZE_NUMPY)


def _with_lists(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record whose values are lists. The name of a pair is the JSON of its list."""

    def row_of(row: HitterRow) -> dict[str, Any]:
        # The name is JSON already, so it goes in as it is. As a text it would be escaped a second time.
        return {**asdict(row), "value": orjson.Fragment(row.value)}

    return {
        **record,
        "values": [orjson.Fragment(value) for value in record["values"]],
        "hitters": {method: [row_of(row) for row in rows] for method, rows in record["hitters"].items()},
    }
