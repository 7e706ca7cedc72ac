"""The slots of a query: the partitions of the log that take its frames.

A query with a spread of k has k slots. They start at its home, and follow each other in a step that its digest gives,
so a larger spread keeps the slots of a smaller one.
"""

from functools import lru_cache
from hashlib import sha256
from itertools import count
from math import gcd

from oracles.errors import ParameterError
from oracles.frame.checks import check_id


def partition_of(
    id: bytes,  # noqa: A002 - its public name
    partitions: int,
    digest: bytes | None = None,
    spread: int | None = None,
) -> int:
    """Return the partition, of `partitions`, to which a frame with this id belongs.

    `spread` is that of the version which applies to the frame's pane. Without it every partition takes frames.

    >>> partition_of(bytes.fromhex("0102030405060708"), 12)
    9
    >>> partition_of(bytes.fromhex("0102030405060708"), 12, bytes.fromhex("9b1dbd3e1f00a5c4"), 4)
    4
    """
    check_id(id)
    if partitions < 1:
        raise ParameterError(f"partitions must be at least 1, got {partitions}")
    number = int.from_bytes(id, "little")
    if spread is None or spread >= partitions:
        return number % partitions
    if digest is None:
        raise ParameterError("a spread needs the digest of the query, because that decides its slots")
    return slots(digest, spread, partitions)[number % spread]


@lru_cache(maxsize=1 << 14)
def slots(digest: bytes, spread: int | None, partitions: int) -> tuple[int, ...]:
    """Return the partitions that take frames of a query. The first one is its home.

    >>> slots(bytes.fromhex("9b1dbd3e1f00a5c4"), 4, 12)
    (11, 4, 9, 2)
    """
    if len(digest) != 8:
        raise ParameterError(f"a digest must be 8 bytes, got {digest!r}")
    if partitions < 1 or (spread is not None and spread < 1):
        raise ParameterError(f"partitions and spread must be at least 1, got {partitions} and {spread}")
    size = partitions if spread is None else min(spread, partitions)
    home = int.from_bytes(digest, "little") % partitions
    first_step = int.from_bytes(sha256(digest).digest()[:8], "little") % partitions | 1
    # Only a step without a common divisor reaches every partition. An even one would share 2 with most numbers.
    step = next(step for step in count(first_step, 2) if gcd(step, partitions) == 1)
    return tuple((home + place * step) % partitions for place in range(size))


def place_in(digest: bytes, spread: int | None, partitions: int, partition: int) -> tuple[int, int] | None:
    """Return a divisor and a remainder: an id belongs on the partition if its division leaves this remainder.

    Return None if the partition takes no frames of the query.
    """
    if spread is None or spread >= partitions:
        return partitions, partition
    places = slots(digest, spread, partitions)
    return (spread, places.index(partition)) if partition in places else None
