"""Submissions, the checked reports of one request by query, pane and group.

The gateway accepts a whole body or nothing. A Problem names the invalid item. The gateway checks all items of a request
before it sends or mixes any of them.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.http.problem import Problem
from oracles.errors import FrameError
from oracles.frame import MAGIC, Frame, decode, frames, split
from oracles.query import Query
from oracles.types import Reports
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.timeliness import STOP, inapplicable, stop_refusal, untimely

FRAMES = "application/vnd.hubbub.frames"
JSON = "application/json"
ITEMS = 10_000
"""Limit of frames in a request."""
SHORT_FRAME = 1024
"""Bytes of a frame that is not copied."""
_BLANK = b" \t\r\n"
_INFLATE = 64 << 10

Data = bytes | memoryview


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """The reports of one request for one query, pane and group, in the order of its body."""

    query: Query
    """The query in the version that applies to the pane."""
    pane: int
    reports: Reports
    closes: int
    """The last millisecond at which the reports are in time."""
    group: int = 0

    @property
    def n(self) -> int:
        return len(self.reports)


def inflate(body: bytes, limit: int) -> bytes:
    """Decompress a gzip body of at most `limit` bytes. It stops at that size, so a zip bomb does no harm."""
    engine = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    # One byte more than allowed tells a body that is too large from one that just fits.
    room = limit + 1
    try:
        while body and room and not engine.eof:
            parts.append(engine.decompress(body, min(room, _INFLATE)))
            room -= len(parts[-1])
            body = engine.unconsumed_tail
        if room and not engine.eof:
            parts.append(engine.flush())
            room -= len(parts[-1])
    except zlib.error as error:
        raise Problem(400, f"The body is not gzip, but Content-Encoding says so: {error}", reason="malformed") from None

    if room <= 0:
        raise too_large(f"The decompressed body has more than {limit} bytes, which is the limit. Send less at a time.")
    if not engine.eof or engine.unused_data:
        detail = "The body is not one whole gzip stream: it is cut off, or has data after its end."
        raise Problem(400, detail, reason="malformed")

    return b"".join(parts)


def too_large(detail: str, index: int | None = None) -> Problem:
    more = {} if index is None else {"index": index}
    return Problem(413, detail, reason="too_large", **more)


def read(body: bytes, kind: str, definitions: ServedDefinitions, at: int, limit: int) -> list[Submission]:
    """Read the submissions of a body at once. `Reading` has the arguments."""
    reading = Reading(body, kind, definitions, at, limit)
    for _ in reading.steps():
        pass
    return reading.submissions()


class _Pane(NamedTuple):
    """An open pane of a query."""

    query: Query
    """The query in the version that applies to the pane."""
    start: int
    closes: int


@dataclass(slots=True, eq=False)
class _GroupItems:
    """The items of a body for one query, pane and group."""

    pane: _Pane
    group: int
    pieces: list[Any] = field(default_factory=list)
    """The reports of each item, as bytes or as an array."""
    indices: list[int] = field(default_factory=list)
    """The position of each item in the body."""

    def add(self, index: int, reports: Any) -> None:
        self.pieces.append(reports)
        self.indices.append(index)

    def submission(self) -> Submission:
        """Return all reports, or raise a Problem if one is malformed."""
        query, pane, closes = self.pane
        width = query.oracle.width
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        reports = np.frombuffer(data, np.uint8).reshape(-1, width)

        malformed_report = query.oracle.check(reports)
        if malformed_report is not None:
            # Only a refusal needs the places, so a valid body does not pay for them.
            ends = np.cumsum([memoryview(piece).nbytes for piece in self.pieces]) // width
            item = int(np.searchsorted(ends, malformed_report, side="right"))
            place = malformed_report - (int(ends[item - 1]) if item else 0)
            detail = f"Report {place} is not a valid report for query {query.name!r}."
            raise Problem(400, detail, reason="malformed", index=self.indices[item])

        return Submission(query, pane, reports, closes, self.group)


class Reading:
    """The reading of one body, which may pause after each step.

    `kind` is the media type, `at` the present time in milliseconds, and `limit` the size of the largest frame.
    """

    def __init__(self, body: bytes, kind: str, definitions: ServedDefinitions, at: int, limit: int) -> None:
        is_binary = kind == FRAMES
        self.frames = min(ITEMS, body.count(MAGIC) if is_binary else _count_objects(body))
        """The number of frames, or a little more."""

        self._items = iter(frames(body) if is_binary else _objects(body))
        self._definitions = definitions
        self._at = at
        self._limit = limit
        self._panes: dict[tuple[bytes, int], _Pane] = {}
        self._parts: dict[tuple[bytes, int, int], _GroupItems] = {}
        self._kinds: dict[tuple[bytes, int], _GroupItems] = {}
        """The part of each checked header and length. Frames that have both differ only in ids and reports."""
        self._submissions: list[Submission] = []

    def steps(self) -> Iterator[None]:
        """Read and check everything in short steps. A Problem names the invalid item."""
        for index, item in enumerate(self._items):
            if index == ITEMS:
                raise too_large(f"A request holds at most {ITEMS} frames. Send the rest in another.", index)
            self._add(index, item)
            yield

        # An empty body is a fault of the client, which would take an answer of 0 reports for success.
        if not self._parts:
            raise Problem(400, "The body has no frame.", reason="malformed")
        for part in self._parts.values():
            self._submissions.append(part.submission())
            yield

    def submissions(self) -> list[Submission]:
        """Return the submissions by query, pane and group, after the last step."""
        return self._submissions

    def _add(self, index: int, item: Data) -> None:
        # The copy of a long frame would cost more than its check.
        if len(item) > SHORT_FRAME:
            self._add_checked(index, item)
            return
        head, _, reports = split(bytes(item))
        part = self._kinds.get((head, len(item)))
        if part is None:
            self._add_checked(index, item, head)
        else:
            part.add(index, reports)

    def _add_checked(self, index: int, item: Data, head: bytes | None = None) -> None:
        """Check an item, and add its reports. Later items with the same binary `head` need no check."""
        try:
            frame = decode(item, self._limit)
            part = self._part(frame, index)
            reports = frame.shaped(part.pane.query.oracle.width).reports
        except FrameError as error:
            if error.reason == "too_large":
                raise too_large(error.detail, index) from None
            raise Problem(400, error.detail, reason=error.reason, index=index) from None
        part.add(index, reports)
        if head is not None and frame.n is not None:  # JSON has no header
            self._kinds[head, len(item)] = part

    def _part(self, frame: Frame, index: int) -> _GroupItems:
        """Return the part of a frame."""
        pane = self._pane(frame, index)
        group = frame.group_in(pane.query.groups)
        key = frame.digest, frame.pane, group
        part = self._parts.get(key)
        if part is None:
            part = _GroupItems(pane, group)
            self._parts[key] = part
        return part

    def _pane(self, frame: Frame, index: int) -> _Pane:
        """Return the pane of a frame. Check the query and the pane of the first frame of each."""
        key = frame.digest, frame.pane
        open_pane = self._panes.get(key)
        if open_pane is not None and not frame.is_tick:
            return open_pane

        versions = _versions(frame, self._definitions)
        pane = frame.pane
        version = versions.at(pane)
        query = version.query

        if pane % query.pane:
            detail = f"Panes of {query.name!r} start at multiples of {query.pane} s, not at {pane}."
            raise FrameError("malformed", detail)

        refusal = inapplicable(version, pane) or untimely(versions, pane, self._at)
        if query.name in self._definitions.stops:
            refusal = stop_refusal(query)
        if refusal is not None:
            reason, detail = refusal
            # A retry would never count, also if an earlier request had the same key.
            problem = Problem(409, detail, reason=reason, index=index)
            if reason == STOP:
                problem.more["counted"] = "none"
            raise problem
        open_pane = _Pane(query, pane, versions.closes_after(pane))
        self._panes[key] = open_pane
        return open_pane


def _objects(body: bytes) -> Iterable[Data]:
    """Split a JSON body into its objects. No text in a frame has a brace, so a brace ends an object or its group."""
    text = body.strip(_BLANK)
    if text.startswith(b"{") or not text:
        return (text,) if text else ()
    if not text.startswith(b"[") or not text.endswith(b"]"):
        raise Problem(400, "The body is not a JSON object or a whole array of objects.", reason="malformed", index=0)
    # Counted before the split, since a body of small objects would fill the memory with pieces.
    if _count_objects(text) > ITEMS:
        raise too_large(f"A request holds at most {ITEMS} frames. Send the rest in another.", ITEMS)
    *items, remainder = text[1:-1].split(b"}")
    if remainder.strip(_BLANK):
        raise Problem(400, "The array does not end with an object.", reason="malformed", index=len(items))
    return (_object(item.strip(_BLANK), index) for index, item in enumerate(_whole(items)))


def _count_objects(body: bytes) -> int:
    """Return the number of objects, or a little more. A group is an object after a colon. A frame has at most one."""
    braces = body.count(b"}")
    return max(braces - body.count(b":{") - body.count(b": {"), -(-braces // 2))


def _whole(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield objects without their last braces. An object with a group is in two pieces."""
    remaining_pieces = iter(pieces)
    for piece in remaining_pieces:
        end = next(remaining_pieces, None) if piece.count(b"{") > 1 else None
        yield piece if end is None else piece + b"}" + end


def _object(item: bytes, index: int) -> bytes:
    if index and not item.startswith(b","):
        raise Problem(400, "The objects of the array have no comma between them.", reason="malformed", index=index)
    return (item[1:] if index else item) + b"}"


def _versions(frame: Frame, definitions: ServedDefinitions) -> Versions:
    if frame.is_tick:
        raise FrameError("malformed", "A tick is not allowed. Only workers send ticks.")
    versions = definitions.versions.get(frame.digest)
    if versions is None:
        detail = f"No query has the digest {frame.digest.hex()}. GET /v1/queries lists all queries."
        raise FrameError("unknown_query", detail)
    return versions
