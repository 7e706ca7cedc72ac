"""The answer of GET /v1/queries. All answers of a second share one text and one gzip of it."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from aiohttp import web

_LEVEL = 1
"""Level of gzip. Higher ones stop the event loop for longer and save few bytes of names."""


@dataclass(frozen=True)
class Listing:
    """The text of all definitions, with its tags and its gzip."""

    text: bytes

    @cached_property
    def packed(self) -> bytes:
        return gzip.compress(self.text, _LEVEL, mtime=0)

    @cached_property
    def tag(self) -> str:
        return sha256(self.text).hexdigest()[:32]

    def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the whole text, its gzip, or 304 if the client has it already."""
        is_packed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
        # A strong tag is that of the bytes, and both forms have other bytes.
        tag = f'"{self.tag}-gzip"' if is_packed else f'"{self.tag}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        tags = [text.strip().removeprefix("W/") for text in request.headers.get("If-None-Match", "").split(",")]
        if tag in tags or tags == ["*"]:
            return web.Response(status=304, headers=headers)

        headers["Content-Type"] = "application/json"
        if not is_packed:
            return web.Response(body=self.text, headers=headers)
        return web.Response(body=self.packed, headers={**headers, "Content-Encoding": "gzip"})


class RecentListing:
    """The listing of the present second. It keeps its gzip while the text stays the same."""

    def __init__(self) -> None:
        self._second = -1
        self._listing = Listing(b"")

    def at(self, second: int, text: Callable[[int], bytes]) -> Listing:
        if second != self._second:
            listing = Listing(text(second))
            if listing != self._listing:
                self._listing = listing
            self._second = second
        return self._listing


def accepts_gzip(header: str) -> bool:
    """Whether a header `Accept-Encoding` accepts gzip.

    >>> [accepts_gzip(text) for text in ("gzip, br", "br;q=1, *;q=0.5", "gzip;q=0, *", "identity", "")]
    [True, True, False, False, False]
    """
    weights: dict[str, str] = {}
    for part in header.lower().split(","):
        coding, _, weight = part.partition(";")
        weights[coding.strip()] = weight.replace(" ", "").removeprefix("q=")
    weight = weights.get("gzip", weights.get("*", "0"))
    return weight.strip("0.") != "" or weight == ""
