"""The answer of GET /v1/state: which definitions are counted now, and which queries are stopped.

It is equal for all devices and names none, so a cache in front of the gateway may keep it.
"""

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import web

from hubbub.asked.document import hash_of
from hubbub.http.prepared_answer import PreparedAnswer
from producers.gateway.intake.query_listing import accepts_gzip

MAX_AGE = 10
"""Seconds that a cache may keep the answer, so that a stop reaches each device 11 minutes later at most."""
_JSON = "application/json"
_HEADERS = {
    "Cache-Control": f"public, max-age={MAX_AGE}",
    "Vary": "Accept-Encoding",
    # The pages of all origins may read it: it holds nothing that a token protects.
    "Access-Control-Allow-Origin": "*",
}


class CountedQuery(NamedTuple):
    """The newest definition of a name."""

    name: str
    item: dict[str, Any]
    """Its item of GET /v1/queries."""
    is_stopped: bool


@dataclass(frozen=True, eq=False)
class StateAnswer:
    """The answer in both forms, made once."""

    plain: PreparedAnswer
    compact: PreparedAnswer

    @classmethod
    def of(cls, text: bytes) -> "StateAnswer":
        gzip_text = gzip.compress(text, mtime=0)
        return cls(
            PreparedAnswer(200, _JSON, text, _HEADERS),
            PreparedAnswer(200, _JSON, gzip_text, {**_HEADERS, "Content-Encoding": "gzip"}),
        )

    def answer(self, request: web.BaseRequest) -> web.Response:
        is_packed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
        ready_answer = self.compact if is_packed else self.plain
        if PreparedAnswer.suits(request):
            return ready_answer
        headers = {**_HEADERS, "Content-Type": _JSON}
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=ready_answer.body, headers=headers)


def state_text(queries: Iterable[CountedQuery]) -> bytes:
    """Return the state of these queries as JSON."""
    states = {
        query.name: {
            "digest": query.item["digest"],
            "item": hash_of(query.item)[:16],  # 8 bytes
            "stopped": query.is_stopped,
            "sample": 1,
        }
        for query in queries
    }
    return json.dumps({"queries": states, "asked": None}, separators=(",", ":")).encode()
