"""The guard around every answer: the token, and the headers that bind the browser."""

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.http import unsigned
from hubbub.problem import Problem

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
PROTECTED = "/api/"
"""Paths that ask for a token; the page itself holds no numbers."""


def checked(token: str | None, host: str) -> Middleware:
    """The middleware that asks for the token, or where there is none looks at the host."""

    @web.middleware
    async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
        _check(request, token, host)
        return await handler(request)

    return admitted


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Before every answer is sent, those of events included."""
    await unsigned(request, response)
    response.headers.update(HEADERS)
    if request.path.startswith(PROTECTED):
        response.headers.setdefault("Cache-Control", "no-cache, private")
        response.headers["Vary"] = "Accept, Authorization"


def is_here(host: str | None, name: str) -> bool:
    """Whether a request was meant for this board: a page elsewhere can make a browser ask under any other name."""
    try:
        found = urlsplit(f"//{host or ''}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(found)
    except ValueError:
        return found in ("localhost", name.lower())
    return True


def permitted(request: web.Request, token: str | None, host: str) -> bool:
    """Whether it may be answered with numbers: by its token; where none is wanted, by the host that it asks for."""
    if token is None:
        return is_here(request.headers.get("Host"), host)
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode())
    return kind.lower() == "bearer" and same


def _check(request: web.Request, token: str | None, host: str) -> None:
    if not request.path.startswith(PROTECTED) or permitted(request, token, host):
        return
    if token is None:
        raise Problem(403, f"without HUBBUB_TOKEN the board answers to addresses, localhost and --host ({host}) only")
    raise Problem(401, "send the board's token: Authorization: Bearer TOKEN")
