"""Sets of items: the one item of a person's set that the client answers in a period."""

import hmac
import struct
from collections.abc import Iterable

from oracles.errors import ParameterError
from oracles.types import whole_number

MOST = 1 << 16
"""Largest size to which a set may be filled up."""
_KEY = 32
_PERIODS = range(-(1 << 63), 1 << 63)


def one_of(items: Iterable[str], most: int, key: bytes, period: int) -> str | None:
    """Return one of a person's items for this period, or None for a blank.

    The set is filled up with blanks to `most` items, and each is as likely. A set above `most` is not cut: one of its
    items is drawn. The key of a device draws the same item in a period, so a restart changes nothing. Answer the item,
    or the value that stands for a blank.

    >>> [one_of(["tea", "coffee"], 4, bytes(32), period) for period in range(4)]
    [None, 'tea', None, None]
    """
    if not whole_number("most", most) or most > MOST:
        raise ParameterError(f"most must be a whole number from 1 to {MOST:,}, got {most!r}")
    if not isinstance(key, bytes) or len(key) != _KEY:
        raise ParameterError(f"the key must be {_KEY} bytes")
    if isinstance(period, bool) or not isinstance(period, int) or period not in _PERIODS:
        raise ParameterError(f"period must be a whole number of 64 bits, got {period!r}")

    # The order of their bytes, and each once: two clients with one set and one key draw the same item.
    texts = sorted(_bytes_of(item) for item in set(_listed(items)))
    block = hmac.digest(key, b"item" + struct.pack("<q", period), "sha256")
    place = (int.from_bytes(block[:8], "little") * max(most, len(texts))) >> 64
    return texts[place].decode() if place < len(texts) else None


def _listed(items: Iterable[str]) -> list[str]:
    if isinstance(items, str):
        raise ParameterError("items must be a list of texts, got one text")
    texts = list(items)
    if not all(isinstance(item, str) for item in texts):
        raise ParameterError("items must be texts")
    return texts


def _bytes_of(item: str) -> bytes:
    try:
        return item.encode()
    except UnicodeEncodeError:
        raise ParameterError("an item has half of a character, which UTF-8 cannot hold") from None
