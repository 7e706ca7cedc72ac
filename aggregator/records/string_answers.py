"""The shares of any strings in a final of unknown strings, as a record of these strings. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import orjson

from aggregator.records.name_rows import decode_maps
from aggregator.records.record import Record
from oracles.consistency import UNBIASED
from oracles.discover import Maps
from oracles.estimate.intervals import LEVEL
from oracles.query import Query


def maps_of(record: Record, value: bytes, query: Query) -> Maps | None:
    """Return the maps of a final from their own record. None if the query lists its values."""
    if query.strings is None or query.only_oracle is None:
        return None

    counts, answering = decode_maps(value, query.strings.cells)
    return Maps(query.strings, query.only_oracle, counts, answering, record.n, record.n_independent)


def record_of(record: Record, maps: Maps, texts: Sequence[str]) -> Record:
    """Return the record with the shares of these texts. A name that the record lists has the row of the record.

    A text that no map tells apart from the listed names has NaN.
    """
    places = {name: place for place, name in enumerate(record.values)}
    columns = (record.shares[UNBIASED], record.stderr, record.low, record.high, record.member("level"))
    rows: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name = maps.strings.coding.name(text)
        place = places.get(name)
        # The search tells more of a listed name than the maps, so readers must not see a second estimate of it.
        if place is not None:
            rows[name] = tuple(float(column[place]) for column in columns)
        else:
            answer = maps.ask(text, record.values)
            rows[name] = answer.share, answer.stderr, answer.low, answer.high, LEVEL

    # Without texts the array has no rows, and only the shape of five columns lets it be unpacked.
    share, stderr, low, high, level = np.array(list(rows.values()), np.float64).reshape(-1, 5).T
    return replace(
        record,
        values=tuple(rows),
        shares={UNBIASED: share},
        stderr=stderr,
        low=low,
        high=high,
        level_json=orjson.dumps(level.tolist()),
    )
