"""What a worker says over HTTP: /metrics, /healthz and /readyz."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from oracles.errors import ParameterError


@asynccontextmanager
async def serving(
    host: str, port: int, registry: CollectorRegistry, ready: Callable[[], str | None]
) -> AsyncIterator[tuple[str, int]]:
    """The address that is served; `ready` says what is still missing, None where nothing is."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = ready()
        return web.Response(text=f"{missing or 'ready'}\n", status=503 if missing else 200)

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        yield await listen(runner, host, port)
    finally:
        await runner.cleanup()


async def listen(runner: web.AppRunner, host: str, port: int) -> tuple[str, int]:
    """The address that is listened on."""
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        where = f"{host}:{port} cannot be listened on: {error.strerror or error}"
        raise ParameterError(f"{where}; name another --port, or 0 for any free one") from error
    host, port, *_ = runner.addresses[0]
    return host, port
