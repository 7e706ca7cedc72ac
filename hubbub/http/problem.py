"""The answer to a failed request in the format application/problem+json (RFC 9457)."""

import math
from typing import Any

import orjson

from oracles.errors import HubbubError

KIND = "application/problem+json"
TITLES = {
    400: "The request cannot be understood",
    401: "A token is needed",
    403: "This is not allowed from here",
    404: "There is nothing here",
    405: "The method is not allowed here",
    408: "The request came too slowly",
    409: "The reports do not count",
    413: "The request is too large",
    415: "The body is of a kind that is not taken",
    429: "Too much for now",
    500: "The server has made a mistake",
    503: "The server cannot answer now",
}


class Problem(HubbubError):
    """A failed request. `detail` has the reason and a remedy."""

    def __init__(self, status: int, detail: str, *, retry_after: float | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after
        """Seconds until the client may retry."""
        self.more = more
        """Members in addition to those of every problem."""

    @property
    def body(self) -> bytes:
        title = TITLES.get(self.status, "The request failed")
        return orjson.dumps({"status": self.status, "title": title, "detail": self.detail, **self.more})

    @property
    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": KIND, "Cache-Control": "no-store"}
        if self.status == 401:
            # RFC 9110 demands it with each 401.
            headers["WWW-Authenticate"] = 'Bearer realm="hubbub"'
        if self.retry_after is not None:
            # Whole seconds. With 0 all refused clients would come back at once.
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return headers
