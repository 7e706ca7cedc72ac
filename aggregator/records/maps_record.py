"""The key of a record of maps, by which readers find the final that the maps belong to."""

from typing import NamedTuple, Self, get_args

from aggregator.records.name_rows import MAPS_END
from aggregator.records.rows import Kind
from oracles.errors import ReportError
from oracles.query.settings import Window

_FIELDS = 6
_KINDS = {kind: kind for kind in get_args(Kind)}
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
    """Whether a key of the topic `estimates` is that of maps, not of a record that people read."""
    return key is not None and key.endswith(MAPS_END)
