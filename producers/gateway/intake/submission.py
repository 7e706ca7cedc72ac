"""Submissions, the checked reports of one request by query and pane.

The gateway accepts a whole body or nothing. A Problem names the invalid item. The gateway checks all items of a request
before it sends or mixes any of them.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.http.problem import Problem
from oracles.errors import FrameError
from oracles.frame import MAGIC, Frame, decode, frames, split
from oracles.query import Query
from oracles.types import Reports
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.timeliness import inapplicable, untimely

FRAMES = "application/vnd.hubbub.frames"
JSON = "application/json"
ITEMS = 10_000
"""Limit of frames in a request."""
SHORT = 1024
"""Bytes of a frame that is not copied."""
_BLANK = b" \t\r\n"
_INFLATE = 64 << 10

Data = bytes | memoryview


@dataclass(frozen=True, slots=True, eq=False)
class Submission:
    """The reports of one request for one query and pane, in the order of its body."""

    query: Query
    """The query in the version that applies to the pane."""
    pane: int
    reports: Reports
    closes: int
    """The last millisecond at which the reports are in time."""

    @property
    def n(self) -> int:
        return len(self.reports)


def inflate(body: bytes, most: int) -> bytes:
    """Decompress a gzip body of at most `most` bytes. It stops at that size, so a zip bomb does no harm."""
    engine = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    room = most + 1
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
        raise too_large(f"The decompressed body has more than {most} bytes, which is the limit. Send less at a time.")
    if not engine.eof or engine.unused_data:
        detail = "The body is not one whole gzip stream: it is cut off, or has data after its end."
        raise Problem(400, detail, reason="malformed")
    return b"".join(parts)


def too_large(detail: str, index: int | None = None) -> Problem:
    return Problem(413, detail, reason="too_large", **({} if index is None else {"index": index}))


def read(body: bytes, kind: str, definitions: ServedDefinitions, at: int, limit: int) -> list[Submission]:
    """Read the submissions of a body at once. `Reading` has the arguments."""
    reading = Reading(body, kind, definitions, at, limit)
    for _ in reading.steps():
        pass
    return reading.submissions()


@dataclass(slots=True, eq=False)
class _Group:
    """The items of a body for one query and pane."""

    query: Query
    pane: int
    closes: int
    pieces: list[Any] = field(default_factory=list)
    """The reports of each item, as bytes or as an array."""
    indices: list[int] = field(default_factory=list)
    """The position of each item in the body."""

    def add(self, index: int, reports: Any) -> None:
        self.pieces.append(reports)
        self.indices.append(index)

    def submission(self) -> Submission:
        """Return all reports, or raise a Problem if one is malformed."""
        width = self.query.oracle.width
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        reports = np.frombuffer(data, np.uint8).reshape(-1, width)
        bad = self.query.oracle.check(reports)
        if bad is not None:
            ends = np.cumsum([memoryview(piece).nbytes for piece in self.pieces]) // width
            item = int(np.searchsorted(ends, bad, side="right"))
            place = bad - (int(ends[item - 1]) if item else 0)
            detail = f"Report {place} is not a valid report for query {self.query.name!r}."
            raise Problem(400, detail, reason="malformed", index=self.indices[item])
        return Submission(self.query, self.pane, reports, self.closes)


class Reading:
    """The reading of one body, which may pause after each step.

    `kind` is the media type, `at` the present time in milliseconds, and `limit` the size of the largest frame.
    """

    def __init__(self, body: bytes, kind: str, definitions: ServedDefinitions, at: int, limit: int) -> None:
        is_binary = kind == FRAMES
        self.frames = min(ITEMS, body.count(MAGIC if is_binary else b"}"))
        """The number of frames, or a little more."""
        self._items = iter(frames(body) if is_binary else _objects(body))
        self._definitions = definitions
        self._at = at
        self._limit = limit
        self._groups: dict[tuple[bytes, int], _Group] = {}
        self._kinds: dict[tuple[bytes, int], _Group] = {}
        """The group of each checked header and length. Frames that have both differ only in ids and reports."""
        self._submissions: list[Submission] = []

    def steps(self) -> Iterator[None]:
        """Read and check everything in short steps. A Problem names the invalid item."""
        for index, item in enumerate(self._items):
            if index == ITEMS:
                raise too_large(f"A request holds at most {ITEMS} frames. Send the rest in another.", index)
            self._add(index, item)
            yield
        if not self._groups:
            raise Problem(400, "The body has no frame.", reason="malformed")
        for group in self._groups.values():
            self._submissions.append(group.submission())
            yield

    def submissions(self) -> list[Submission]:
        """Return the submissions by query and pane, after the last step."""
        return self._submissions

    def _add(self, index: int, item: Data) -> None:
        if len(item) > SHORT:
            self._add_checked(index, item)
            return
        head, _, reports = split(bytes(item))
        group = self._kinds.get((head, len(item)))
        if group is None:
            self._add_checked(index, item, head)
        else:
            group.add(index, reports)

    def _add_checked(self, index: int, item: Data, head: bytes | None = None) -> None:
        """Check an item, and add its reports. Later items with the same binary `head` need no check."""
        try:
            frame = decode(item, self._limit)
            group = self._group(frame, index)
            reports = frame.shaped(group.query.oracle.width).reports
        except FrameError as error:
            if error.reason == "too_large":
                raise too_large(error.detail, index) from None
            raise Problem(400, error.detail, reason=error.reason, index=index) from None
        group.add(index, reports)
        if head is not None and frame.n is not None:  # JSON has no header
            self._kinds[head, len(item)] = group

    def _group(self, frame: Frame, index: int) -> _Group:
        """Return the group of a frame. Check the query and the pane of the first frame of each."""
        key = frame.digest, frame.pane
        group = self._groups.get(key)
        if group is not None and not frame.is_tick:
            return group
        versions, pane = _versions(frame, self._definitions), frame.pane
        version = versions.at(pane)
        query = version.query
        if pane % query.pane:
            detail = f"Panes of {query.name!r} start at multiples of {query.pane} s, not at {pane}."
            raise FrameError("malformed", detail)
        refusal = inapplicable(version, pane) or untimely(versions, pane, self._at)
        if refusal is not None:
            reason, detail = refusal
            raise Problem(409, detail, reason=reason, index=index)
        group = self._groups[key] = _Group(query, pane, versions.closes_after(pane))
        return group


def _objects(body: bytes) -> Iterable[Data]:
    """Split a JSON body into its objects. A brace ends an object, because no text in a frame has a brace."""
    text = body.strip(_BLANK)
    if text.startswith(b"{") or not text:
        return (text,) if text else ()
    if not text.startswith(b"[") or not text.endswith(b"]"):
        raise Problem(400, "The body is not a JSON object or a whole array of objects.", reason="malformed", index=0)
    if text.count(b"}") > ITEMS:
        raise too_large(f"A request holds at most {ITEMS} frames. Send the rest in another.", ITEMS)
    *items, rest = text[1:-1].split(b"}")
    if rest.strip(_BLANK):
        raise Problem(400, "The array does not end with an object.", reason="malformed", index=len(items))
    return (_object(item.strip(_BLANK), index) for index, item in enumerate(items))


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
