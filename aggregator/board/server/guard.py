"""The guard of every request, which checks the token and adds the security headers."""

import hmac
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from aggregator.board.server.viewers import ALL, Sight, ViewerFile
from hubbub.file_watch import FileWatch
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


class AccessRule:
    """The decision who may read what: by the token of the board, by a file of viewers, or by the host."""

    def __init__(self, token: str | None, host: str, viewers: FileWatch[ViewerFile] | None = None) -> None:
        self._token = token
        self._host = host
        self._viewers = viewers

    @property
    def is_protected(self) -> bool:
        """Whether some answers need a token."""
        return self._token is not None or self._viewers is not None

    def sight(self, request: web.Request) -> Sight | None:
        """Return what a request may see, or None if it may see nothing."""
        if self._viewers is None:
            return ALL if permitted(request, self._token, self._host) else None
        if self._token is not None and permitted(request, self._token, self._host):
            return ALL
        if "Authorization" not in request.headers:
            return self._viewers.value.public
        return self._viewers.value.of(_credentials(request))

    def sees(self, request: web.Request, query: str) -> bool:
        """Whether a request still sees a query. The file may have changed since it came."""
        sight = self.sight(request)
        return sight is not None and sight.sees(query)

    def check(self, request: web.Request) -> Sight:
        """Return what a request may see. Raise a Problem if that is nothing."""
        sight = self.sight(request)
        if sight is not None:
            return sight
        if self.is_protected:
            raise Problem(401, "wrong or missing token; send Authorization: Bearer TOKEN")
        raise Problem(
            403, f"without HUBBUB_TOKEN the board serves only IP addresses, localhost and its --host ({self._host})"
        )


def access_check(access: AccessRule) -> Middleware:
    """Return a middleware that lets a request pass if it may see something."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(API_PREFIX):
            access.check(request)
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
    # It takes as long for any wrong token, so its time tells nothing about the right one.
    # aiohttp decodes headers in this way, and a plain `encode` would raise for a token with other bytes.
    return hmac.compare_digest(_credentials(request).encode(errors="surrogateescape"), token.encode())


def _credentials(request: web.Request) -> str:
    """Return the token of a request. Empty if it has none of this kind."""
    kind, _, credentials = request.headers.get("Authorization", "").partition(" ")
    return credentials.strip() if kind.lower() == "bearer" else ""
