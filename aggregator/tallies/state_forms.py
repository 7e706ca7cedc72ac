"""The forms of states in the topic `snapshots`, which the first byte of a record tells."""

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256

from aggregator.tallies.keys import StateKey, Write, decode
from oracles.errors import ReportError

WITHOUT_MARKS = 2, 3
"""The versions of states by releases before 0.2.0: with a total and without. Their last piece is no marks."""
WITH_MARKS = 4, 5
"""The present versions: with a total, as a state of `all` has, and without."""
SPLIT = 6
"""The version of the record that stands for a split state."""
_SPLIT_HEAD = struct.Struct("<BxxxIQ32s")
"""Version, number of parts, bytes of the state, and its SHA-256."""


def is_older(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record is a state in the form of releases before 0.2.0."""
    name = decode(key)
    if not isinstance(name, StateKey) or name.part or not value:
        return False
    return value[0] in WITHOUT_MARKS


def without_marks(value: bytes) -> bytes:
    """Return a state whose marks readers skip, so that they begin again.

    >>> list(without_marks(bytes([4, 1]))), list(without_marks(bytes([3, 0])))
    ([2, 1], [3, 0])
    """
    return _in_form(value, WITH_MARKS, WITHOUT_MARKS)


def _in_form(value: bytes, forms: Sequence[int], other_forms: Sequence[int]) -> bytes:
    versions = dict(zip(forms, other_forms, strict=True))
    return bytes([versions.get(value[0], value[0])]) + value[1:]


def split_head(state: bytes, parts: int) -> bytes:
    """Return the record that stands for a state in parts."""
    return _SPLIT_HEAD.pack(SPLIT, parts, len(state), sha256(state).digest())


def is_split(value: bytes) -> bool:
    """Whether a record stands for a state whose parts are other records."""
    return len(value) == _SPLIT_HEAD.size and value[0] == SPLIT


def join_state(key: StateKey, value: bytes, parts: Mapping[bytes, bytes]) -> bytes:
    """Return the bytes of a state from its first record, and from the records of its parts by their keys."""
    if not is_split(value):
        return value

    _, count, length, digest = _SPLIT_HEAD.unpack(value)
    # A damaged count may be as high as 4 billion. No more parts than there are can belong to the state.
    names = [key._replace(part=number).encode() for number in range(1, min(count, len(parts)) + 1)]
    state = b"".join(parts.get(name, b"") for name in names)
    if len(state) != length or not state or not _has_digest(state, digest):
        raise ReportError(f"a split state of {length} bytes in {count} parts is not complete")
    return state


def _has_digest(state: bytes, digest: bytes) -> bool:
    # After a return that was killed, the first part can have no marks while the hash is still the one with marks.
    forms = state, _in_form(state, WITHOUT_MARKS, WITH_MARKS)
    return any(sha256(form).digest() == digest for form in forms)


def unmarked_records(key: StateKey, value: bytes, parts: Mapping[bytes, bytes]) -> list[Write]:
    """Return the records, in their order, with which a state loses its marks.

    Of a split state only the first part changes, and the record with the hash, which comes last. If parts are lost, no
    release can read the state, and it stays as it is.
    """
    if not is_split(value):
        return [(key.encode(), without_marks(value))]

    try:
        state = without_marks(join_state(key, value, parts))
    except ReportError:
        return []
    count = _SPLIT_HEAD.unpack(value)[1]
    first = key._replace(part=1).encode()
    return [(first, without_marks(parts[first])), (key.encode(), split_head(state, count))]
