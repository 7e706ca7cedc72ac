"""Origins: the web applications whose pages may send, and what a browser is told about them (CORS)."""

import re
from collections.abc import Collection

from oracles.errors import ParameterError

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")
_AGE = 7200
"""Seconds for which a browser keeps what a preflight said; more than that none does."""
ASKS = "Authorization, Content-Type, Content-Encoding, Idempotency-Key"


def origins(text: str) -> frozenset[str]:
    """https://HOST[:PORT],... as browsers write them."""
    named = [part.strip() for part in text.split(",") if part.strip()]
    for origin in named:
        if not _ORIGIN.fullmatch(origin):
            raise ParameterError(f"an origin is https://HOST or https://HOST:PORT, in lower case, got {origin!r}")
    return frozenset(named)


def allowed(origin: str | None, named: Collection[str]) -> dict[str, str]:
    """The headers of an answer to a page of this origin."""
    if not named:
        return {}
    if origin not in named or origin is None:
        return {"Vary": "Origin"}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }


def preflight(origin: str | None, named: Collection[str], methods: str) -> dict[str, str] | None:
    """The headers of an answer to a browser that asks first; None where the page may not send."""
    if origin is None or origin not in named:
        return None
    return {
        **allowed(origin, named),
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": ASKS,
        "Access-Control-Max-Age": str(_AGE),
    }
