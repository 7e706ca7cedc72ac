"""A worker's own HTTP: /metrics, /healthz and /readyz."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from hubbub import http


def serving(
    host: str, port: int, registry: CollectorRegistry, ready: Callable[[], str | None]
) -> AbstractAsyncContextManager[tuple[str, int]]:
    """The address that is served; `ready` says what is still missing, None where nothing is."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = ready()
        return web.Response(text=f"{missing or 'ready'}\n", status=503 if missing else 200)

    app = web.Application(middlewares=[http.guard(lambda _request, _status: None)])
    app.on_response_prepare.append(http.unsigned)
    app.add_routes(
        [web.get("/metrics", make_aiohttp_handler(registry)), web.get("/healthz", healthz), web.get("/readyz", readyz)]
    )
    return http.serving(app, host, port, drain=1.0)
