"""Origins of web pages that may send reports, and the CORS headers for their browsers."""

import re
from collections.abc import Collection

from oracles.errors import ParameterError

_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](:[0-9]{1,5})?")
_AGE = 7200
"""Seconds that a browser may cache a preflight answer. No browser caches it longer."""
HEADERS = "Authorization, Content-Type, Content-Encoding, Idempotency-Key"


def origins(text: str) -> frozenset[str]:
    """Parse https://HOST[:PORT],... in the form that browsers send."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    for origin in names:
        if not _ORIGIN.fullmatch(origin):
            raise ParameterError(f"an origin must be https://HOST or https://HOST:PORT, in lower case, got {origin!r}")
    return frozenset(names)


def cors_headers(origin: str | None, names: Collection[str]) -> dict[str, str]:
    """Return the headers of an answer to a page of this origin, if `names` may send."""
    if not names:
        return {}
    # Caches must not give the answer for one page to another, so this answer varies too.
    if origin not in names or origin is None:
        return {"Vary": "Origin"}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }


def preflight(origin: str | None, names: Collection[str], methods: str) -> dict[str, str] | None:
    """Return the headers of an answer to a preflight request, or None if the page may not send."""
    if origin is None or origin not in names:
        return None
    return {
        **cors_headers(origin, names),
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": HEADERS,
        "Access-Control-Max-Age": str(_AGE),
    }
