"""The maps of unknown strings: their record, its key, and the shares of any strings as a record. Pure."""

import base64
import binascii
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, get_args

import numpy as np
import orjson

from aggregator.records.findings import NameFindings, WindowFindings
from aggregator.records.keys import key
from aggregator.records.record import Record
from aggregator.records.rows import Kind
from oracles.consistency import UNBIASED
from oracles.discover import Maps, Name
from oracles.discover.cell_hash import MAPS
from oracles.errors import ReportError
from oracles.estimate.intervals import LEVEL
from oracles.query import Query
from oracles.query.settings import Window
from oracles.types import Ints

MAPS_END = b"|m"
"""The end that tells maps from their final, which has the same key. Tables of both have it, and so has a key in the
topic `estimates`, where maps were before formats version 3."""
CELL = np.dtype("<u4")
"""The type of the count of a cell."""
_NUMBER = 22
"""The bytes of a number in JSON, with its comma."""
_FIELDS = 6
_KINDS = {kind: kind for kind in get_args(Kind)}
DIGITS_OF_ANSWERS = 3
"""Digits of an answer about any string. More digits would tell the exact count of its cells."""
_LONGEST = 15
"""Most digits of a time or a length."""


class MapsKey(NamedTuple):
    """The final of a record of maps."""

    query: str
    digest: str
    window: Window
    end: int

    @classmethod
    def of(cls, key: bytes) -> Self:
        """Return the final in a key. Raise a ReportError or ValueError if the key names none."""
        fields = key.removesuffix(MAPS_END).decode().split("|")
        if len(fields) != _FIELDS:
            raise ReportError(f"the key of maps needs {_FIELDS} fields, but it has {len(fields)}")

        query, digest, kind, *numbers = fields
        if kind not in _KINDS:
            raise ReportError("the key of maps needs a kind of window")
        # `int` also reads signs, spaces, underscores and digits of other scripts, which no writer uses.
        if not all(text.isascii() and text.isdecimal() and len(text) <= _LONGEST for text in numbers):
            raise ReportError("the key of maps needs whole numbers")

        size, step, end = map(int, numbers)
        return cls(query, digest, Window(_KINDS[kind], size, step), end)


def is_maps(key: bytes | None) -> bool:
    """Whether a key of the topic `estimates` is that of maps of an older release, not of a record that people read."""
    return key is not None and key.endswith(MAPS_END)


def maps_name(key: bytes) -> bytes:
    """Return the name of maps in a table that holds their final too."""
    return key + MAPS_END


def maps_records(window: WindowFindings) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and the bytes of the record for the topic `maps`, if strings are unknown and shown."""
    for findings in window.of_totals:
        if isinstance(findings, NameFindings):
            yield key(window.query, window.span, None, final=True), encode_maps(findings.names.maps)


def encode_maps(maps: Maps) -> bytes:
    """Return the record of the maps, from which readers answer for any string."""
    # Four bytes in a fixed order for a cell: machines of either order of bytes write the same record.
    cells = [counts.astype(CELL).tobytes() for counts in maps.counts]
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
    size = CELL.itemsize << cells
    # One byte more than a map has shows that the data are too large. Without a limit a few bytes could fill the memory.
    expander = zlib.decompressobj()
    data = expander.decompress(base64.b64decode(text, validate=True), size + 1)
    if len(data) != size or not expander.eof:
        raise ReportError(f"a map of {1 << cells} cells is expected")
    return np.frombuffer(data, CELL).astype(np.int64)


def largest_maps(query: Query) -> int:
    """Return the bytes of the largest record of maps: base64 of counts that do not compress, with zlib's own bytes."""
    if query.strings is None:
        return 0
    counts = CELL.itemsize << query.strings.cells
    return MAPS * (4 * (counts + counts // 1000 + 64) // 3 + _NUMBER)


def check_maps(value: bytes, query: Query) -> None:
    """Raise a ReportError unless a value holds the maps of a query of unknown strings."""
    if query.strings is None:
        raise ReportError("the maps belong to no query of unknown strings")
    decode_maps(value, query.strings.cells)


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
            answer = ask(maps, text, record.values)
            rows[name] = answer.share, answer.stderr, answer.low, answer.high, LEVEL

    return _with_rows(record, rows)


def ask(maps: Maps, text: str, names: Iterable[str]) -> Name:
    """Return the share of any text in three digits, by the maps in which none of the names has its cell."""
    answer = maps.ask(text, names)
    return replace(
        answer,
        share=_short(answer.share),
        stderr=_short(answer.stderr),
        low=_short(answer.low),
        high=_short(answer.high),
    )


def _short(number: float) -> float:
    """Return a number in three digits. NaN stays NaN, which stands for an ambiguous string."""
    return float(f"{number:.{DIGITS_OF_ANSWERS}g}")


def record_without_maps(record: Record, texts: Sequence[str]) -> Record:
    """Return the record with these texts and no share of them, because its maps are lost."""
    return _with_rows(record, dict.fromkeys(texts, (float("nan"),) * 5))


def _with_rows(record: Record, rows: Mapping[str, tuple[float, ...]]) -> Record:
    """Return the record with these rows of share, stderr, low, high and level in place of its own."""
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
