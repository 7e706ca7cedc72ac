"""The answer to a scrape. Thousands of series take a second, and the event loop has other work meanwhile."""

import asyncio
import time
from collections.abc import Iterable, Iterator

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

SLICE = 0.005
"""Seconds of collecting without a turn of the event loop."""


class Collected(Collector):
    """Metrics with the values of one moment."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def scrape_handler(registry: CollectorRegistry) -> Handler:
    """Return a handler that answers with the metrics of a registry, in the form for which the request asks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        names = request.query.getall("name[]", [])
        source = registry.restricted_registry(names) if names else registry
        encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))

        # Collectors ask the objects of the loop, so only the loop may run them. The text needs nothing but the values.
        values = Collected(await _metrics_of(source))
        body = await asyncio.to_thread(encode, values)
        response = web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
        response.enable_compression()
        return response

    return answer


async def _metrics_of(source: Collector) -> list[Metric]:
    """Return the metrics of a registry, collected in slices."""
    metrics = []
    end = time.monotonic() + SLICE
    for metric in source.collect():
        metrics.append(metric)
        if time.monotonic() > end:
            await asyncio.sleep(0)
            end = time.monotonic() + SLICE
    return metrics
