"""Records of a fetch as columns, told by compiled kernels; NumPy has no such walk, and record by record is its way.

So it is with the checksum of what is sent: without the processor's own instruction, Kafka's client computes it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import compiled
from oracles.types import Ints, Reports

MOST_KINDS = 1000
_SLOT_BITS = 12


class Walk(NamedTuple):
    """Consecutive records whose batches are as they nearly always are."""

    offsets: Ints
    times: Ints
    places: Ints
    """Where in the data each value begins."""
    sizes: Ints
    end: int
    """Where in the data the first batch begins that was not walked."""
    next_offset: int
    """Behind the last record that was."""


class Kinds(NamedTuple):
    """Frames that are alike but for their ids and reports."""

    kinds: NDArray[np.int16]
    """Of each frame the number of its kind; -1 for what is too short for one, or one kind too many."""
    ids: NDArray[np.uint64]
    firsts: Ints
    """Of each kind its first frame."""


def can_walk() -> bool:
    return compiled.in_use() and bool(compiled.lib().can_walk())


def can_sum() -> bool:
    return can_walk() and hasattr(compiled.lib(), "crc32c")  # which a library of an older source has not


def crc32c(data: bytearray | memoryview) -> int:
    """The checksum that a batch has in its header."""
    octets: Any = compiled.octet_buffer(data)
    return int(compiled.lib().crc32c(octets, len(data)))


def walk(data: memoryview, start: int, first: int, room: int, *, checked: bool) -> Walk:
    """The records from offset `first` on of the batches at `start`, at most `room`; `checked` by their checksums."""
    columns = np.empty((4, room), np.int64)
    numbers = np.zeros(2, np.int64)
    pointers = [compiled.integer_buffer(column) for column in columns]
    found, following = compiled.size_buffer(numbers[:1]), compiled.integer_buffer(numbers[1:])
    octets: Any = compiled.octet_buffer(data)
    end = compiled.lib().walk(octets, len(data), start, checked, first, room, *pointers, found, following)
    offsets, times, places, sizes = columns[:, : int(numbers[0])]
    return Walk(offsets, times, places, sizes, end, int(numbers[1]))


def tell_kinds(data: memoryview, places: Ints, sizes: Ints) -> Kinds:
    """Which of the values that stand at these places are frames of one kind."""
    count = len(places)
    kinds, ids = np.empty(count, np.int16), np.empty(count, np.uint64)
    firsts, slots = np.empty(MOST_KINDS, np.int64), np.full(1 << _SLOT_BITS, -1, np.int16)
    buffer = compiled.buffer
    found = compiled.lib().tell_kinds(
        *(compiled.octet_buffer(data), count, compiled.integer_buffer(places), compiled.integer_buffer(sizes)),
        *(buffer("int16_t[]", kinds), buffer("uint64_t[]", ids), compiled.integer_buffer(firsts), MOST_KINDS),
        *(buffer("int16_t[]", slots), _SLOT_BITS),
    )
    return Kinds(kinds, ids, firsts[:found])


def gather(data: memoryview, places: Ints, sizes: Ints, width: int, header: int) -> Reports:
    """The reports of the frames that stand at these places, joined."""
    octets = np.empty(int(sizes.sum()) - header * len(sizes), np.uint8)
    compiled.lib().gather(
        compiled.octet_buffer(data),
        len(places),
        *(compiled.integer_buffer(places), compiled.integer_buffer(sizes), compiled.octet_buffer(octets)),
    )
    return octets.reshape(-1, width)
