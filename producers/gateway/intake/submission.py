"""Submissions, the checked reports of one request by query and pane.

The gateway accepts a whole body or nothing. A Problem names the invalid item. The gateway checks all items of a request
before it sends or mixes any of them.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.http.problem import Problem
from oracles.errors import FrameError, ReportError
from oracles.frame import Frame, decode, frames
from oracles.query import Query
from oracles.types import Reports
from producers.gateway.intake.active_definitions import ServedDefinitions
from producers.gateway.intake.timeliness import inapplicable, untimely

FRAMES = "application/vnd.hubbub.frames"
JSON = "application/json"
ITEMS = 10_000
"""Limit of frames in a request."""
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
    """Read the submissions of a body.

    `kind` is the media type, `at` the present time in milliseconds, and `limit` the size of the largest frame.
    """
    items = frames(body) if kind == FRAMES else _objects(body)
    groups: dict[tuple[bytes, int], list[Submission]] = {}
    for index, item in enumerate(items):
        if index == ITEMS:
            raise too_large(f"A request holds at most {ITEMS} frames. Send the rest in another.", index)
        submission = _read_item(item, index, definitions, at, limit)
        groups.setdefault((submission.query.digest, submission.pane), []).append(submission)
    if not groups:
        raise Problem(400, "The body has no frame.", reason="malformed")
    return [group[0] if len(group) == 1 else _join(group) for group in groups.values()]


def _join(group: list[Submission]) -> Submission:
    return replace(group[0], reports=np.concatenate([submission.reports for submission in group]))


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


def _read_item(data: Data, index: int, definitions: ServedDefinitions, at: int, limit: int) -> Submission:
    try:
        frame = decode(data, limit)
        versions = _versions(frame, definitions)
        version = versions.at(frame.pane)
        refusal = inapplicable(version, frame.pane)
        if refusal is None:
            frame = frame.shaped(version.query.oracle.width)
            _check(version.query, frame.pane, frame.reports)
            refusal = untimely(versions, frame.pane, at)
    except FrameError as error:
        if error.reason == "too_large":
            raise too_large(error.detail, index) from None
        raise Problem(400, error.detail, reason=error.reason, index=index) from None
    if refusal is not None:
        reason, detail = refusal
        raise Problem(409, detail, reason=reason, index=index)
    return Submission(version.query, frame.pane, frame.reports, versions.closes_after(frame.pane))


def _versions(frame: Frame, definitions: ServedDefinitions) -> Versions:
    if frame.is_tick:
        raise FrameError("malformed", "A tick is not allowed. Only workers send ticks.")
    versions = definitions.versions.get(frame.digest)
    if versions is None:
        detail = f"No query has the digest {frame.digest.hex()}. GET /v1/queries lists all queries."
        raise FrameError("unknown_query", detail)
    return versions


def _check(query: Query, pane: int, reports: Reports) -> None:
    if not len(reports):
        raise FrameError("malformed", "The frame has no report.")
    if pane % query.pane:
        raise FrameError("malformed", f"Panes of {query.name!r} start at multiples of {query.pane} s, not at {pane}.")
    try:
        bad = query.oracle.check(reports)
    except ReportError as error:
        raise FrameError("malformed", str(error)) from None
    if bad is not None:
        raise FrameError("malformed", f"Report {bad} is not a valid report for query {query.name!r}.")
