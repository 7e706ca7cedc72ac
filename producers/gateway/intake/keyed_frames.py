"""The frames of a request with an Idempotency-Key. Every gateway and every retry makes the same frames and ids."""

import struct
from collections.abc import Iterable, Iterator
from hashlib import sha256

from oracles.frame import encode
from producers.gateway.intake.submission import Submission
from producers.publishers.frames import OutgoingFrame, capacity

_LENGTH = struct.Struct("<I")
_PART = struct.Struct("<I8sIqII")
"""Digest, pane and part, each after its length."""
_GROUP = struct.Struct("<IH")
"""A group after its length."""


def keyed_frames(
    name: str, key: bytes, submissions: Iterable[Submission]
) -> Iterator[tuple[Submission, OutgoingFrame]]:
    """Cut each submission into frames of at most 1,000 reports (fewer wide ones), in the order of the body.

    `name` is the name of the token, or of its signing key, so a new token of the same name changes no id. No setting
    changes the capacity of a frame, because all gateways must cut alike.
    """
    for submission in submissions:
        digest = submission.query.digest
        pane = submission.pane
        group = submission.group
        most_reports = capacity(submission.query.oracle.width)
        for part, start in enumerate(range(0, submission.n, most_reports)):
            reports = submission.reports[start : start + most_reports]
            id_ = frame_id(name, key, digest, pane, part, group)
            data = encode(digest, pane, reports, id_, group=group)
            yield submission, OutgoingFrame(id_, pane, len(reports), data)


def frame_id(name: str, key: bytes, digest: bytes, pane: int, part: int, group: int = 0) -> bytes:
    """Return the id of a part, the first 8 bytes of SHA-256 over its fields, each after its length.

    Group 0 is no field, so that its ids are those of queries without groups.

    >>> frame_id("app", b"0123456789abcdef", bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, 0).hex()
    'f53402a688751c09'
    """
    # Each field has its length before it, so that no two lists of fields have the same bytes.
    owner = name.encode()
    data = _LENGTH.pack(len(owner)) + owner + _LENGTH.pack(len(key)) + key + _PART.pack(8, digest, 8, pane, 4, part)
    if group:
        data += _GROUP.pack(2, group)
    return sha256(data).digest()[:8]
