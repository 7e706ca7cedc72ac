"""Records of a fetch as columns, by the kernels in C. NumPy has no such pass and goes record by record.

The checksum of outgoing batches has the same condition: Kafka's client computes it if the processor has no
instruction for it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oracles.kernels import c_library
from oracles.types import Ints, Reports

MOST_KINDS = 30_000
"""Most kinds of a fetch. Their numbers have two bytes."""


class Walk(NamedTuple):
    """A run of consecutive records from ordinary batches."""

    offsets: Ints
    times: Ints
    places: Ints
    """Index in the data at which each value begins."""
    sizes: Ints
    end: int
    """Index in the data of the first batch that was not walked to its end."""
    part: tuple[int, int]
    """Number and place of the record at which the walk of that batch goes on, or zeros."""
    next_offset: int
    """Offset after the last record."""


class Kinds(NamedTuple):
    """Frames by kind: those of one kind differ only in their ids, and in their reports and the number of these."""

    kinds: NDArray[np.int16]
    """Kind of each frame. -1 if it has no reports or another size than its header says, or with too many kinds."""
    ids: NDArray[np.uint64]
    firsts: Ints
    """First frame of each kind."""


def can_walk() -> bool:
    return c_library.in_use() and bool(c_library.lib().can_walk())


def can_sum() -> bool:
    return can_walk()


def crc32c(data: bytearray | memoryview) -> int:
    """Return the checksum in the header of a batch."""
    octets: Any = c_library.octet_buffer(data)
    return int(c_library.lib().crc32c(octets, len(data)))


def walk(
    data: memoryview, start: int, first: int, room: int, *, checksums: bool, part: tuple[int, int] = (0, 0)
) -> Walk:
    """Return at most `room` records from offset `first` on, of the batches at `start`. `checksums` are optional.

    `part` is that of the walk before, which ended inside the batch at `start`.
    """
    columns = np.empty((4, room), np.int64)
    count = np.zeros(1, np.int64)
    following = np.zeros(1, np.int64)
    position = np.array(part, np.int64)
    buffers = [c_library.integer_buffer(column) for column in columns]
    # C takes arguments by position, in the order of oracles/kernels/source/interface.h.
    end = c_library.lib().walk(
        c_library.octet_buffer(data),
        len(data),
        start,
        checksums,
        first,
        room,
        *buffers,
        c_library.size_buffer(count),
        c_library.integer_buffer(following),
        c_library.size_buffer(position),
    )

    offsets, times, places, sizes = columns[:, : int(count[0])]
    part = int(position[0]), int(position[1])
    return Walk(offsets, times, places, sizes, end=end, part=part, next_offset=int(following[0]))


def tell_kinds(data: memoryview, places: Ints, sizes: Ints) -> Kinds:
    """Group the values at these places by the kind of their frames."""
    count = len(places)
    kinds = np.empty(count, np.int16)
    ids = np.empty(count, np.uint64)
    most = min(count, MOST_KINDS)
    firsts = np.empty(most, np.int64)
    # The kernel's hash table, at least twice as large as the kinds. -1 is an empty slot, since 0 is a kind.
    slot_bits = most.bit_length() + 1
    slots = np.full(1 << slot_bits, -1, np.int16)

    count_of_kinds = c_library.lib().tell_kinds(
        c_library.octet_buffer(data),
        count,
        c_library.integer_buffer(places),
        c_library.integer_buffer(sizes),
        c_library.buffer("int16_t[]", kinds),
        c_library.buffer("uint64_t[]", ids),
        c_library.integer_buffer(firsts),
        most,
        c_library.buffer("int16_t[]", slots),
        slot_bits,
    )
    return Kinds(kinds, ids, firsts[:count_of_kinds])


def gather(data: memoryview, places: Ints, sizes: Ints, width: int, header: int) -> Reports:
    """Return the reports of the frames at these places, joined."""
    octets = np.empty(int(sizes.sum()) - header * len(sizes), np.uint8)
    c_library.lib().gather(
        c_library.octet_buffer(data),
        len(places),
        c_library.integer_buffer(places),
        c_library.integer_buffer(sizes),
        c_library.octet_buffer(octets),
    )
    return octets.reshape(-1, width)
