"""Health and metrics over HTTP, on the port of a command or on a port of their own."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import web
from aiohttp.typedefs import Handler

from hubbub.http.port_protocol import unsigned
from hubbub.http.port_shares import PortShares
from hubbub.http.server import guard, serving

Handlers = dict[str, Handler]
"""The handler of each path."""


def health(
    metrics: Handler, missing: Callable[[], str | None], remark: Callable[[], str | None] = lambda: None
) -> Handlers:
    """Return the handlers of health and metrics.

    `missing` returns why the process is not ready, and `remark` what else it has to say if it is.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        reason = missing()
        if reason:
            return web.Response(text=f"{reason}\n", status=503)
        words = remark()
        return web.Response(text=f"ready; {words}\n" if words else "ready\n")

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


@asynccontextmanager
async def health_port(command: str, handlers: Handlers, host: str, port: int | None) -> AsyncIterator[str]:
    """Serve these paths on the port of `--health-port`, and yield the line that prints its address.

    Without such a port do nothing, and yield no line.
    """
    if port is None:
        yield ""
        return
    async with serving_alone(handlers, host, port, "--health-port") as (name, number):
        yield f"hubbub {command}: health at http://{name}:{number}/\n"


def serving_alone(
    handlers: Handlers, host: str, port: int, option: str = "--port", shares: PortShares | None = None
) -> AbstractAsyncContextManager[tuple[str, int]]:
    """Serve only these paths, and yield the address. `option` sets the port."""
    app = web.Application(middlewares=[guard(lambda _request, _status: None)])
    app.on_response_prepare.append(unsigned)
    app.add_routes([web.get(path, handler) for path, handler in handlers.items()])
    return serving(app, host, port, shares=shares, drain=1.0, option=option)
