"""Frames: messages with one to many reports of one query and one pane, in binary or JSON.

docs/wire-format.md describes them for other languages, and tests/vectors/frames.json has test vectors.
"""

import binascii
import json
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oracles.errors import FrameError
from oracles.frame.checks import MAX_GROUP, NONE, check_frame, check_group, is_whole_second
from oracles.frame.frame_json import eight, group_of, malformed, members, reports_of
from oracles.types import Reports

if TYPE_CHECKING:
    from oracles.query.groups import Groups

MAX_FRAME = 1 << 20
"""Bytes of the longest frame that is read, by default."""

_HEADER = struct.Struct("<4sBBH8sq8sIHH")
HEADER_SIZE = _HEADER.size
"""Bytes of a binary frame before its reports."""
_ID = 24
_AFTER_ID = _ID + 8
MAGIC = b"HBB1"
"""The first bytes of a binary frame."""
_VERSION = 1
_EMPTY_FRAME = "a frame without reports must be a tick"
TICK = _HEADER.pack(MAGIC, _VERSION, 0, 0, NONE, 0, NONE, 0, 0, 0)
"""A frame without query and reports. It only moves the log's clock."""

_OBJECT = re.compile(rb"[ \t\n\r]*\{")


class Header(NamedTuple):
    """The header of a binary frame."""

    width: int
    digest: bytes
    pane: int
    n: int
    fits: bool
    """Whether the reports have the length that the header states."""
    group: int


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A decoded frame. Its reports are a view of the bytes.

    JSON does not state the width of a report, so `n` is None and the reports are flat, until `shaped`. It names its
    group, which only the query can number. `group_in` does it.
    """

    digest: bytes
    pane: int
    id: bytes | None
    n: int | None
    reports: Reports
    group: int = 0
    """Number of the group in a binary frame. 0 means none."""
    named_group: tuple[str, str] | None = None
    """Name and value of the group in JSON, such as ("platform", "ios")."""

    @property
    def is_tick(self) -> bool:
        return not self.reports.size and self.digest == NONE

    def shaped(self, width: int) -> "Frame":
        """Return the frame with reports of shape (n, width), or raise FrameError if they do not fit."""
        if self.n is not None:
            own_width = self.reports.shape[1]
            if own_width != width and not self.is_tick:
                raise malformed(f"reports must have the query's {width} bytes, got {own_width}")
            return self

        n, remainder = divmod(len(self.reports), width)
        if remainder:
            raise malformed(f"{len(self.reports)} bytes are not a multiple of the query's report of {width} bytes")
        return replace(self, n=n, reports=self.reports.reshape(n, width))

    def group_in(self, groups: "Groups") -> int:
        """Return the number of the frame's group among those of its query.

        Values and numbers that the query does not have are of group 0. Raise FrameError if JSON has another name.
        """
        if self.named_group is None:
            return self.group if self.group < groups.count else 0
        name, value = self.named_group
        if not groups:
            raise malformed("the frame has a group, but the query has no groups")
        if name != groups.name:
            raise malformed(f"the query has groups by {groups.name}, got a group by another name")
        return groups.number(value)


_TICK = Frame(NONE, 0, None, 0, np.empty((0, 0), np.uint8))


def encode(digest: bytes, pane: int, reports: Reports, id: bytes | None = None, *, group: int = 0) -> bytes:  # noqa: A002 - its public name
    """Return the binary frame of `reports`, uint8 of shape (n, width), of the pane that starts at `pane`.

    All reports are of one group, whose number is 1 + its position in the query's list.

    >>> frame = encode(bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, np.array([[1], [0]], np.uint8))
    >>> len(frame), decode(frame).n
    (42, 2)
    """
    check_frame(digest, pane, reports, id)
    check_group(group)
    n, width = reports.shape
    header = _HEADER.pack(MAGIC, _VERSION, 0, width, digest, pane, id or NONE, n, group, 0)
    # Rows picked from a larger array need not lie next to each other.
    return b"".join((header, np.ascontiguousarray(reports).data))


def blank(
    digest: bytes,
    pane: int,
    n: int,
    width: int,
    id: bytes | None = None,  # noqa: A002 - its public name
    *,
    group: int = 0,
) -> tuple[memoryview, Reports]:
    """Return the binary frame of n reports that are not written yet, and the array for them.

    >>> frame, reports = blank(bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, 2, 1)
    >>> reports[:] = [[1], [0]]
    >>> bytes(frame) == encode(bytes.fromhex("e49ed91b111b507a"), 1_700_000_000, reports)
    True
    """
    data = np.empty(HEADER_SIZE + n * width, np.uint8)
    reports = data[HEADER_SIZE:].reshape(n, width)
    check_frame(digest, pane, reports, id)
    check_group(group)
    _HEADER.pack_into(data.data, 0, MAGIC, _VERSION, 0, width, digest, pane, id or NONE, n, group, 0)
    return data.data, reports


def encode_json(
    digest: bytes,
    pane: int,
    reports: Reports,
    id: bytes | None = None,  # noqa: A002 - its public name
    *,
    group: Mapping[str, str] | None = None,
) -> bytes:
    """Return the frame as JSON, for channels that cannot carry binary data. A group has its name and its value."""
    check_frame(digest, pane, reports, id)
    fields: dict[str, Any] = {"digest": digest.hex(), "pane": int(pane)}
    if id is not None:
        fields["id"] = id.hex()
    if group is not None:
        fields["group"] = dict(group)
    fields["reports"] = binascii.b2a_base64(reports.tobytes(), newline=False).decode("ascii")
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes | bytearray | memoryview | None, limit: int = MAX_FRAME) -> Frame:
    """Return the frame in `data`, which may be any bytes. A FrameError names the fault.

    The reports are not copied, and not checked: a check needs the query. None, a record without a value, is
    malformed.
    """
    if not isinstance(data, bytes):
        data = _flat(data)
    size = len(data)
    if size > limit:
        raise FrameError("too_large", f"{size} bytes, the limit is {limit}")
    if data[:4] != MAGIC:
        return _parse(data)
    if size < HEADER_SIZE:
        raise malformed(f"a header needs {HEADER_SIZE} bytes, got {size}")

    _, version, flags, width, digest, pane, name, n, group, reserved = _HEADER.unpack_from(data)
    if version != _VERSION or flags or reserved:
        raise malformed(
            f"version, flags and last header field must be {_VERSION}, 0, 0, got {version}, {flags}, {reserved}"
        )
    if group > MAX_GROUP:
        raise malformed(f"the number of a group must be at most {MAX_GROUP}, got {group}")
    if size != HEADER_SIZE + n * width:
        length = HEADER_SIZE + n * width
        raise malformed(f"{n} reports of {width} bytes need a frame of {length} bytes, got {size}")

    if not n:
        if digest == NONE and not group:
            return _TICK
        raise malformed(_EMPTY_FRAME if digest != NONE else f"a tick must have no group, got {group}")
    # Any number of reports of 0 bytes fits the length, so a bare header could claim four billion of them.
    if not width:
        raise malformed(f"a report needs at least 1 byte, got {n} reports of 0 bytes")
    reports: Reports = np.ndarray((n, width), np.uint8, data, HEADER_SIZE)
    return Frame(digest, pane, None if name == NONE else name, n, reports, group)


def header(data: bytes | None) -> Header | None:
    """Return the header of a binary frame, or None for JSON and for other bytes."""
    if data is None or len(data) < HEADER_SIZE or not data.startswith(MAGIC):
        return None
    _, _, _, width, digest, pane, _, n, group, _ = _HEADER.unpack_from(data)
    return Header(width, digest, pane, n, len(data) == HEADER_SIZE + n * width, group)


def split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the parts of a binary frame: the header without the id, the id or zeros, and the reports.

    The data must be a binary frame. This is not checked.
    """
    return data[:_ID] + data[_AFTER_ID:HEADER_SIZE], data[_ID:_AFTER_ID], data[HEADER_SIZE:]


def with_id(data: bytes, name: bytes) -> bytes:
    """Return a binary frame with another id."""
    return data[:_ID] + name + data[_AFTER_ID:]


def frames(data: bytes) -> Iterator[bytes | memoryview]:
    """Yield consecutive binary frames of `data`, each as long as its header states, without decoding them.

    Data that is too short or has another beginning is yielded unchanged, and `decode` names its fault.
    """
    start = 0
    while start < len(data):
        end = len(data)
        if end - start >= HEADER_SIZE and data.startswith(MAGIC, start):
            _, _, _, width, _, _, _, n, _, _ = _HEADER.unpack_from(data, start)
            end = min(end, start + HEADER_SIZE + n * width)
        yield memoryview(data)[start:end] if end - start < len(data) else data
        start = end


def _flat(data: bytearray | memoryview | None) -> bytes | memoryview:
    """Return `data` as consecutive bytes, copied only if necessary."""
    if data is None:
        raise malformed("the record has no value")
    view = memoryview(data)
    return view if view.ndim == 1 and view.format == "B" and view.c_contiguous else view.tobytes()


def _parse(data: bytes | memoryview) -> Frame:
    """Return the frame in JSON."""
    if not _OBJECT.match(data):
        raise malformed(
            f"a frame must start with {MAGIC.decode()} or be JSON, "
            f"got {len(data)} bytes that start with {list(data[:4])}"
        )

    fields = members(bytes(data))
    digest = eight(fields, "digest")
    reports = reports_of(fields)
    if not len(reports):
        if digest == NONE:
            return _TICK
        raise malformed(_EMPTY_FRAME)

    # JSON's true is an int to Python.
    pane = fields["pane"]
    if type(pane) is not int or not is_whole_second(pane):
        raise malformed("pane must be an integer of 64 bits")
    name = eight(fields, "id") if "id" in fields else NONE
    named_group = group_of(fields) if "group" in fields else None
    return Frame(digest, pane, None if name == NONE else name, None, reports, 0, named_group)
