"""A correction of the log's time: what to take for the timestamps of a stretch of one partition.

It stands in the topic of definitions, so that whoever counts that stretch anew does it alike.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from hubbub.unread import Unread
from oracles.errors import ParameterError

KIND = b"correction|"
LATEST = 1 << 53
"""No clock (ms) goes beyond."""
UNTRUSTED = -1
"""Stands for the time of a record whose batch does not have the log's own."""


@dataclass(frozen=True)
class Correction:
    """Offsets from `first` to before `end` of one partition."""

    partition: int
    first: int
    end: int
    clock: int | None
    """The time (ms) of its records; None: they do not move the clock."""
    wrong: int
    """The newest time that the log itself has there; 0 where it has none that anybody went by."""

    @property
    def name(self) -> bytes:
        """8 bytes that tell it from all others."""
        key, value = self.encode()
        return sha256(key + b"|" + value).digest()[:8]

    def encode(self) -> tuple[bytes, bytes]:
        """As a record of the topic."""
        key = KIND + f"{self.partition}|{self.first}|{self.end}".encode()
        return key, json.dumps({"clock": self.clock, "wrong": self.wrong}, sort_keys=True).encode()

    def __str__(self) -> str:
        return f"partition {self.partition}, offsets {self.first} to {self.end - 1}"


_KEY = re.compile(rb"correction\|([0-9]{1,6})\|([0-9]{1,18})\|([0-9]{1,18})")
_ASKED = re.compile(r"([0-9]{1,6}):([0-9]{1,18}):([0-9]{1,18})=(\S+)")


def parse(text: str) -> Correction:
    """PARTITION:FROM:TO=none, or =TIME: as in 2026-01-01T10:00:00Z, or in ms since 1970."""
    match = _ASKED.fullmatch(text)
    if match is None or int(match[2]) >= int(match[3]):
        said = "must be PARTITION:FROM:TO=none or =TIME, offsets from FROM to before TO"
        raise ParameterError(f"{said}, got {text!r}")
    partition, first, end = (int(match[i]) for i in (1, 2, 3))
    clock = None if match[4] == "none" else _ms(match[4])
    if clock is not None and not _is_time(clock):
        raise ParameterError(f"{match[4]} is no time that a log may have")
    return Correction(partition, first, end, clock, 0)


def _ms(text: str) -> int:
    if re.fullmatch("[0-9]{1,18}", text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ParameterError(f"{text!r} is no time such as 2026-01-01T10:00:00Z") from error
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)


def decode(key: bytes, value: bytes) -> Correction:
    """The correction that a record says; a ValueError, KeyError or TypeError where it says none."""
    where, said = _KEY.fullmatch(key), json.loads(value)
    clock, wrong = said["clock"], said["wrong"]
    if where is None or not _is_time(wrong) or not (clock is None or _is_time(clock)):
        raise ValueError(f"{key!r} corrects nothing")
    partition, first, end = (int(number) for number in where.groups())
    if first >= end:
        raise ValueError(f"{key!r} corrects nothing")
    return Correction(partition, first, end, clock, wrong)


def _is_time(said: object) -> bool:
    return type(said) is int and 0 <= said <= LATEST


def corrected(
    run: Sequence[tuple[int, int, bytes | Unread | None]], corrections: Iterable[Correction]
) -> Sequence[tuple[int, int | None, bytes | Unread | None]]:
    """Records (offset, timestamp, data) with the times that count; None for one that does not move the clock."""
    here = [one for one in corrections if run and one.first <= run[-1][0] and run[0][0] < one.end]
    if not here:
        return run
    return [(offset, _time(offset, timestamp, here), data) for offset, timestamp, data in run]


def _time(offset: int, timestamp: int, corrections: Iterable[Correction]) -> int | None:
    for one in corrections:
        if one.first <= offset < one.end:
            return one.clock
    return timestamp
