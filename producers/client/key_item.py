"""The small item that an application's key store holds: the device key, and a floor of what the device has charged.

A store of charges can be lost, or restored from before an answer. The item is not in the backup of the store, so the
client notices, and books the missing charges.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Protocol

from producers.entropy import KEY_BYTES
from producers.errors import StoreError

VERSION = 1
MOST = 64 << 10
"""Bytes of the largest item."""
_DIGITS = 12
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,17})(\.[0-9]{0,29}[1-9])?")
_DIGEST = re.compile(r"[0-9a-f]{16}")
_MEMBERS = {"version", "key", "life", "newest", "rounds", "fresh"}


class KeyStore(Protocol):
    """A place for one small item that no backup of the store takes, such as the system's key store."""

    def read(self) -> bytes | None:
        """Return the item, or None if there is none."""

    def write(self, item: bytes) -> None:
        """Replace the item. Return only after it is safe from a power failure. An empty item stands for none."""


@dataclass(frozen=True)
class KeyItem:
    """The content of an item."""

    key: bytes
    life: Fraction = Fraction()
    """The sum of all charges."""
    newest: int = 0
    """The device time of the newest use or answer, in whole seconds."""
    rounds: Mapping[bytes, tuple[int, Fraction]] = field(default_factory=dict)
    """The last round of each digest with noise of a round, and the charge of this noise."""
    fresh: Mapping[bytes, int] = field(default_factory=dict)
    """The number of fresh draws of each digest."""

    def encode(self) -> bytes:
        """Return the item as canonical JSON. Raise StoreError if it is too large."""
        content = {
            "version": VERSION,
            "key": self.key.hex(),
            "life": amount_text(self.life),
            "newest": self.newest,
            "rounds": {digest.hex(): [start, amount_text(charge)] for digest, (start, charge) in self.rounds.items()},
            "fresh": {digest.hex(): number for digest, number in self.fresh.items()},
        }
        item = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        if len(item) > MOST:
            raise StoreError(
                f"the item of the key store would have {len(item):,} bytes, more than {MOST:,}; this device has "
                "answered too many definitions"
            )
        return item

    @classmethod
    def decode(cls, item: bytes) -> "KeyItem":
        """Return the content of an item. Raise StoreError if it cannot be read."""
        try:
            content = _content(item)
            rounds = content["rounds"].items()
            return cls(
                _key(content["key"]),
                _amount(content["life"]),
                _count(content["newest"]),
                {_digest(digest): (_count(start), _amount(text)) for digest, (start, text) in rounds},
                {_digest(digest): _count(number) for digest, number in content["fresh"].items()},
            )
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise StoreError(f"the item of the key store cannot be read: {error}; restore it") from error


def amount_text(amount: Fraction) -> str:
    """Return a charge as a decimal text, rounded up to 12 significant digits.

    >>> amount_text(Fraction(1, 3)), amount_text(Fraction(2)), amount_text(Fraction(0))
    ('0.333333333334', '2', '0')
    """
    context = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    quotient = context.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    text = f"{quotient:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rounded(amount: Fraction) -> Fraction:
    """Return a charge as an item states it."""
    return Fraction(amount_text(amount))


def _content(item: bytes) -> dict[str, Any]:
    """Return the members of an item."""
    if len(item) > MOST:
        raise ValueError(f"it has {len(item):,} bytes")
    content = json.loads(item)
    if content["version"] != VERSION:
        raise ValueError(f"it has version {content['version']!r}, this program reads {VERSION}")
    if content.keys() != _MEMBERS:
        raise ValueError("it has other members")
    return dict(content)


def _amount(text: Any) -> Fraction:
    if not isinstance(text, str) or not _AMOUNT.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is no charge")
    return Fraction(text)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"{str(value)[:40]!r} is no whole number")
    return value


def _digest(text: Any) -> bytes:
    if not isinstance(text, str) or not _DIGEST.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is no digest")
    return bytes.fromhex(text)


def _key(text: Any) -> bytes:
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{2 * KEY_BYTES}}}", text):
        raise ValueError("its key is malformed")
    return bytes.fromhex(text)


def seconds_up(time_s: float) -> int:
    """Return a time in whole seconds, rounded up. A device that never answered has 0."""
    return max(0, math.ceil(time_s)) if math.isfinite(time_s) else 0
