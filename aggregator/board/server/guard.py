"""The guard of every request, which checks the token and adds the security headers."""

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from hubbub.http.port_protocol import unsigned
from hubbub.http.problem import Problem

# The page shows values that strangers sent. Even as markup they could run nothing and reach nobody.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
API_PREFIX = "/api/"
"""The prefix of the paths that need a token. The page itself has no estimates."""


def access_check(token: str | None, host: str) -> Middleware:
    """Return a middleware that checks the token, or the host if the board has no token."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        _check(request, token, host)
        return await handler(request)

    return middleware


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the security headers to a response, event streams included."""
    await unsigned(request, response)
    response.headers.update(HEADERS)
    if request.path.startswith(API_PREFIX):
        response.headers.setdefault("Cache-Control", "no-cache, private")
        # A cache on the way must not give an answer for one token to a client without it.
        response.headers["Vary"] = "Accept, Authorization"


def is_own_host(host: str | None, name: str) -> bool:
    """Whether the header `Host` names this board.

    A foreign page can make a browser send requests to the board, but only under another name.
    """
    try:
        hostname = urlsplit(f"//{host or ''}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(hostname)
    except ValueError:
        return hostname in ("localhost", name.lower())
    # An attacker can point a name of his own to this board, but not an address.
    return True


def permitted(request: web.Request, token: str | None, host: str) -> bool:
    """Whether a request may read estimates. It needs the token or, if the board has none, the right host."""
    if token is None:
        return is_own_host(request.headers.get("Host"), host)
    kind, _, credentials = request.headers.get("Authorization", "").partition(" ")
    # It takes as long for any wrong token, so its time tells nothing about the right one.
    # aiohttp decodes headers in this way, and a plain `encode` would raise for a token with other bytes.
    same = hmac.compare_digest(credentials.strip().encode(errors="surrogateescape"), token.encode())
    return kind.lower() == "bearer" and same


def _check(request: web.Request, token: str | None, host: str) -> None:
    if not request.path.startswith(API_PREFIX) or permitted(request, token, host):
        return
    if token is None:
        raise Problem(
            403, f"without HUBBUB_TOKEN the board serves only IP addresses, localhost and its --host ({host})"
        )
    raise Problem(401, "wrong or missing token; send Authorization: Bearer TOKEN")
