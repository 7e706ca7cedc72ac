"""A submission: the reports of one request, each checked, by query and pane.

All of it is valid or none is taken: a Problem names the item at fault. Nothing is sent meanwhile,
and nothing that one client sends stands beside another's before it was looked at.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hubbub.definitions.versions import Versions
from hubbub.problem import Problem
from oracles.errors import FrameError, ReportError
from oracles.frame import Frame, decode, frames
from oracles.query import Query
from oracles.types import Reports
from producers.gateway.definitions import ServedDefinitions
from producers.gateway.timing import unspoken, untimely

FRAMES = "application/vnd.hubbub.frames"
JSON = "application/json"
ITEMS = 10_000
"""Frames that one request may hold."""
_BLANK = b" \t\r\n"
_INFLATE = 64 << 10

Data = bytes | memoryview


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """The reports of one request for one query and pane, in the order of its body."""

    query: Query
    """As the version has it that speaks for the pane."""
    pane: int
    reports: Reports
    closes: int
    """The last millisecond at which it is in time."""

    @property
    def n(self) -> int:
        return len(self.reports)


def inflated(body: bytes, most: int) -> bytes:
    """The inflated body of a gzip stream, if that is at most so many bytes: a bomb is given up where it passes them."""
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
        raise Problem(400, f"the body is not gzip, as Content-Encoding has it: {error}", reason="malformed") from None
    if room <= 0:
        raise too_large(f"inflated, the body has more than {most} bytes, and that is the most")
    if not engine.eof or engine.unused_data:
        raise Problem(400, "the body is not one whole gzip stream: it is cut off, or goes on", reason="malformed")
    return b"".join(parts)


def too_large(detail: str, index: int | None = None) -> Problem:
    return Problem(413, detail, reason="too_large", **({} if index is None else {"index": index}))


def read(body: bytes, kind: str, definitions: ServedDefinitions, at: int, limit: int) -> list[Lot]:
    """The lots of a body of type `kind`, at a time in milliseconds; `limit` is the longest frame."""
    items = frames(body) if kind == FRAMES else _objects(body)
    lots: dict[tuple[bytes, int], Lot | list[Lot]] = {}
    for index, item in enumerate(items):
        if index == ITEMS:
            raise too_large(f"a request holds at most {ITEMS} frames: send the rest in another", index)
        lot = _lot(item, index, definitions, at, limit)
        before = lots.setdefault((lot.query.digest, lot.pane), lot)
        if before is not lot:
            lots[lot.query.digest, lot.pane] = [*(before if isinstance(before, list) else [before]), lot]
    if not lots:
        raise Problem(400, "the body holds no frame", reason="malformed")
    return [found if isinstance(found, Lot) else _joined(found) for found in lots.values()]


def _joined(lots: list[Lot]) -> Lot:
    return replace(lots[0], reports=np.concatenate([lot.reports for lot in lots]))


def _objects(body: bytes) -> Iterable[Data]:
    """The object of a body, or those of its array, as they stand: no text of a frame has a brace."""
    text = body.strip(_BLANK)
    if text.startswith(b"{") or not text:
        return (text,) if text else ()
    if not text.startswith(b"[") or not text.endswith(b"]"):
        raise Problem(400, "the body is neither a JSON object nor a whole array of them", reason="malformed", index=0)
    if text.count(b"}") > ITEMS:
        raise too_large(f"a request holds at most {ITEMS} frames: send the rest in another", ITEMS)
    *items, rest = text[1:-1].split(b"}")
    if rest.strip(_BLANK):
        raise Problem(400, "the array does not end with an object", reason="malformed", index=len(items))
    return (_member(item.strip(_BLANK), index) for index, item in enumerate(items))


def _member(item: bytes, index: int) -> bytes:
    if index and not item.startswith(b","):
        raise Problem(400, "the objects of the array are not parted by commas", reason="malformed", index=index)
    return (item[1:] if index else item) + b"}"


def _lot(data: Data, index: int, definitions: ServedDefinitions, at: int, limit: int) -> Lot:
    try:
        frame = decode(data, limit)
        versions = _versions(frame, definitions)
        version = versions.at(frame.pane)
        refusal = unspoken(version, frame.pane)
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
    return Lot(version.query, frame.pane, frame.reports, versions.closes_after(frame.pane))


def _versions(frame: Frame, definitions: ServedDefinitions) -> Versions:
    if frame.is_tick:
        raise FrameError("malformed", "ticks are a worker's, not a client's")
    versions = definitions.versions.get(frame.digest)
    if versions is None:
        raise FrameError("unknown_query", f"no query has the digest {frame.digest.hex()}; GET /v1/queries has all")
    return versions


def _check(query: Query, pane: int, reports: Reports) -> None:
    if not len(reports):
        raise FrameError("malformed", "it holds no report")
    if pane % query.pane:
        raise FrameError("malformed", f"panes of {query.name!r} start at multiples of {query.pane} s, not at {pane}")
    try:
        bad = query.oracle.check(reports)
    except ReportError as error:
        raise FrameError("malformed", str(error)) from None
    if bad is not None:
        raise FrameError("malformed", f"report {bad} is none that a client of {query.name!r} sends")
