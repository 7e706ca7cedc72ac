"""The frames of a request that names a key: the same ones, under the same ids, on every gateway and at every retry."""

import struct
from collections.abc import Iterable, Iterator
from hashlib import sha256

from oracles.frame import HEADER_SIZE, encode
from producers.batch import BYTES, REPORTS, Sealed
from producers.gateway.submission import Lot

_LENGTH = struct.Struct("<I")


def parts(name: str, key: bytes, lots: Iterable[Lot]) -> Iterator[tuple[Lot, Sealed]]:
    """Each lot in parts of at most 1,000 reports (fewer of wide ones) in the order of the body.

    `name` is that of the token, or of the key that signed it, so that no rotation changes an id.
    """
    for lot in lots:
        most = capacity(lot.query.oracle.width)
        for part, start in enumerate(range(0, lot.n, most)):
            reports = lot.reports[start : start + most]
            id_ = identity(name, key, lot.query.digest, lot.pane, part)
            yield lot, Sealed(id_, lot.pane, len(reports), encode(lot.query.digest, lot.pane, reports, id_))


def capacity(width: int) -> int:
    """Reports of this width in a part. No setting moves it: every gateway cuts alike."""
    return max(1, min(REPORTS, (BYTES - HEADER_SIZE) // width))


def identity(name: str, key: bytes, digest: bytes, pane: int, part: int) -> bytes:
    """The id of a part: the first 8 bytes of SHA-256 over its fields, each behind its length.

    >>> identity("app", b"0123456789abcdef", bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, 0).hex()
    'f53402a688751c09'
    """
    fields = (name.encode(), key, digest, struct.pack("<q", pane), struct.pack("<I", part))
    return sha256(b"".join(_LENGTH.pack(len(field)) + field for field in fields)).digest()[:8]
