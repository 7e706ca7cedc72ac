"""The fields of a record of unknown strings, and the record of its maps."""

import base64
import binascii
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from aggregator.records import documents
from aggregator.records.digits import rounded
from aggregator.records.findings import NameResult
from hubbub.http.schema import Count, Known, Time, read
from oracles.consistency import UNBIASED
from oracles.discover import Maps
from oracles.discover.cell_hash import MAPS
from oracles.errors import ReportError
from oracles.types import Ints


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
MAPS_END = b"|m"
"""The end of the key of a record of maps. The rest is the key of its final."""
_CELL = np.dtype("<u4")


def name_fields(result: NameResult) -> dict[str, Any]:
    """Return the names of a window, by falling share, and what a search of it can show."""
    names = result.names
    # A name that no earlier window found was first seen in this one.
    end_of_first = {text: sighting.first for text, sighting in result.before.items()}

    return {
        "level": [rounded(name.level) for name in names],
        "values": [name.text for name in names],
        "shares": {UNBIASED: [name.share for name in names]},
        "stderr": [rounded(name.stderr) for name in names],
        "low": [rounded(name.low) for name in names],
        "high": [rounded(name.high) for name in names],
        "discover": {
            "levels": result.levels,
            "names_n": [name.n for name in names],
            "ambiguous": result.ambiguous,
            "first_seen": {name.text: end_of_first.get(name.text, result.end) for name in names},
            "smallest": rounded(result.smallest),
        },
    }


def read_discover(fields: Any, level: Any, count: int) -> DiscoverRow:
    """Return the member `discover` of a record with so many names. Raise a ReportError if it does not fit them."""
    row = read(DiscoverRow, fields)
    are_levels = isinstance(level, list) and all(type(number) is float and 0.0 < number < 1.0 for number in level)
    if not are_levels or {len(level), len(row.names_n), len(row.first_seen)} != {count}:
        raise ReportError(f"a record of {count} names needs a level, a number and a time of each")
    return row


def encode_maps(maps: Maps) -> bytes:
    """Return the record of the maps, from which readers answer for any string."""
    # Four bytes in a fixed order for a cell: machines of either order of bytes write the same record.
    cells = [counts.astype(_CELL).tobytes() for counts in maps.counts]
    counts = [base64.b64encode(zlib.compress(data)).decode() for data in cells]
    return orjson.dumps({"maps": counts, "n": list(maps.answering)})


def decode_maps(value: bytes, cells: int) -> tuple[list[Ints], list[int]]:
    """Return the counts and the numbers of reports of maps of 2**cells cells. Raise a ReportError if they hold none."""
    try:
        fields = orjson.loads(value)
        texts = fields["maps"]
        answering = fields["n"]
        # A bool is an int to isinstance, but no number of reports.
        if len(texts) != MAPS or len(answering) != MAPS or any(type(n) is not int or n < 0 for n in answering):
            raise ReportError(f"{MAPS} maps with whole numbers of reports are expected")
        counts = [_counts(text, cells) for text in texts]
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, zlib.error) as error:
        raise ReportError(f"the maps are unreadable: {error!r}") from error

    # Forged cells would otherwise give a string more reports than the window has.
    if any(int(cells_of_map.max()) > n for cells_of_map, n in zip(counts, answering, strict=True)):
        raise ReportError("a cell of a map has more reports than the map")
    return counts, answering


def _counts(text: str, cells: int) -> Ints:
    size = _CELL.itemsize << cells
    # One byte more than a map has shows that the data are too large. Without a limit a few bytes could fill the memory.
    expander = zlib.decompressobj()
    data = expander.decompress(base64.b64decode(text, validate=True), size + 1)
    if len(data) != size or not expander.eof:
        raise ReportError(f"a map of {1 << cells} cells is expected")
    return np.frombuffer(data, _CELL).astype(np.int64)
