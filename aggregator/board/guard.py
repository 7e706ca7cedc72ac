"""What surrounds every answer: the token, the headers that bind the browser, problems in place of errors."""

import hmac
import logging

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from aggregator.board.metrics import Metrics
from aggregator.board.problems import Problem

log = logging.getLogger(__name__)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
PROTECTED = "/api/"
"""What a token is asked for; the page itself holds no numbers."""


def guard(token: str | None, metrics: Metrics) -> Middleware:
    """The middleware around every handler."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check(request, token)
            response = await handler(request)
        except Problem as problem:
            response = _response(problem)
        except web.HTTPException as error:
            response = _translated(error)
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.rel_url)
            response = _response(Problem(500, "it is in the log; the request may be tried again"))
        resource = request.match_info.route.resource
        metrics.requests.labels(resource.canonical if resource else "", str(response.status)).inc()
        return response

    return guarded


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Before every answer is sent, those of events included."""
    response.headers.update(HEADERS)
    if request.path.startswith(PROTECTED):
        response.headers.setdefault("Cache-Control", "no-cache, private")
        response.headers["Vary"] = "Accept, Authorization"


def _check(request: web.Request, token: str | None) -> None:
    if token is None or not request.path.startswith(PROTECTED):
        return
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode(errors="surrogateescape"), token.encode())
    if kind.lower() != "bearer" or not same:
        raise Problem(401, "send the board's token: Authorization: Bearer TOKEN")


def _response(problem: Problem) -> web.Response:
    answer = problem.answer()
    headers = {"Content-Type": answer.kind, "Cache-Control": "no-store"}
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="hubbub"'
    if problem.status == 503:
        headers["Retry-After"] = "1"
    return web.Response(status=problem.status, body=answer.body, headers=headers)


def _translated(error: web.HTTPException) -> web.StreamResponse:
    """What aiohttp itself refuses, as a problem."""
    if error.status < 400:
        return error
    details = {404: "no such path; /openapi.json tells which there are", 405: "everything here is only read: GET"}
    response = _response(Problem(error.status, details.get(error.status, error.reason)))
    if isinstance(error, web.HTTPMethodNotAllowed):
        response.headers["Allow"] = ",".join(sorted(error.allowed_methods))
    return response
