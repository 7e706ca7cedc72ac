"""The clock record: how far the clock of each partition of a worker is, and which snapshots it speaks of.

One record speaks for all queries, because the panes that a clock closes follow from the definitions alone.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.tallies.progress import TopicIds
from hubbub.definitions.versions import MOST_SECONDS
from oracles.errors import ReportError

_VERSION = 1
_HEAD = struct.Struct("<BBH16s16sHH")
"""Version, 0, partitions of the reports, the ids of both topics, number of clocks, number of offsets."""
_PAIR = np.dtype([("number", "<u2"), ("value", "<i8")])
"""A partition and its clock in ms, or a home and an offset."""
_MOST_BYTES = 1 << 20
_KEY = re.compile(rb"clock\|([0-9a-f]{16}|raise)\.(0|[1-9][0-9]{0,18})")
RAISE = b"clock|raise.0"
"""The key of the record that a rise of the formats version writes."""

Ints = NDArray[np.int64]


def clock_key(writer: str, number: int) -> bytes:
    """Return the key of a clock record. A writer numbers its records, so each has a key of its own."""
    return f"clock|{writer}.{number}".encode()


def is_clock_key(name: bytes | None) -> bool:
    """Whether a worker or a rise can have written a record with this key."""
    return name is not None and _KEY.fullmatch(name) is not None


class Numbered(NamedTuple):
    """Values of some partitions, in the order of their numbers."""

    numbers: Ints
    values: Ints

    @classmethod
    def of(cls, values: Mapping[int, int]) -> "Numbered":
        pairs = sorted(values.items())
        return cls(
            np.array([number for number, _ in pairs], np.int64), np.array([value for _, value in pairs], np.int64)
        )

    def pack(self) -> bytes:
        pairs = np.empty(len(self.numbers), _PAIR)
        pairs["number"] = self.numbers
        pairs["value"] = self.values
        return pairs.tobytes()


NOTHING = Numbered.of({})


@dataclass(frozen=True, eq=False)
class ClockRecord:
    """The content of a clock record."""

    partitions: int
    """The number of partitions of the reports."""
    topic_ids: TopicIds = field(default_factory=TopicIds)
    clocks: Numbered = NOTHING
    """The greatest clock, in ms, up to which the closed panes of a partition are acknowledged in `snapshots`."""
    offsets: Numbered = NOTHING
    """One more than the greatest acknowledged offset of a home."""


def encode(record: ClockRecord) -> bytes:
    """Return the bytes of a clock record."""
    head = _HEAD.pack(
        _VERSION,
        0,
        record.partitions,
        record.topic_ids.reports,
        record.topic_ids.snapshots,
        len(record.clocks.numbers),
        len(record.offsets.numbers),
    )
    return head + record.clocks.pack() + record.offsets.pack()


def decode(data: bytes) -> ClockRecord:
    """Read a clock record, or raise a ReportError."""
    if not _HEAD.size <= len(data) <= _MOST_BYTES or data[0] != _VERSION or data[1]:
        raise ReportError(f"not a clock record ({len(data)} bytes, version {_VERSION} expected)")

    _, _, partitions, reports, snapshots, clock_count, offset_count = _HEAD.unpack_from(data)
    if len(data) != _HEAD.size + (clock_count + offset_count) * _PAIR.itemsize:
        raise ReportError(f"a clock record of {len(data)} bytes claims {clock_count} clocks and {offset_count} offsets")

    pairs = np.frombuffer(data, _PAIR, offset=_HEAD.size)
    clocks = _numbered(pairs[:clock_count], partitions)
    offsets = _numbered(pairs[clock_count:], partitions)
    # A clock of the far future would close all panes to come.
    if (np.abs(clocks.values) > 1000 * MOST_SECONDS).any() or (offsets.values < 0).any():
        raise ReportError("a clock record has a clock later than all panes, or an offset below 0")
    return ClockRecord(
        partitions=partitions,
        topic_ids=TopicIds(reports.rstrip(b"\0"), snapshots.rstrip(b"\0")),
        clocks=clocks,
        offsets=offsets,
    )


def _numbered(pairs: NDArray[np.void], partitions: int) -> Numbered:
    numbers = pairs["number"].astype(np.int64)
    # Of a number that comes twice, nobody could say which value counts.
    if (np.diff(numbers) <= 0).any() or (len(numbers) and numbers[-1] >= partitions):
        raise ReportError("a clock record lists its partitions out of order, one of them twice, or one too high")
    return Numbered(numbers, pairs["value"].astype(np.int64))
