"""The progress of a command that sends: a line or a bar in the terminal, and /metrics for Prometheus."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub import http
from hubbub.metrics import registry as registry_of_a_process

LINES, BAR = 5.0, 0.5
"""Seconds between two lines, and between two looks of the bar."""


@dataclass(slots=True)
class Deliveries:
    """The reports that were sent so far, by what became of them."""

    reports: int = 0
    """Acknowledged, as are frames; those of frames sent twice count twice."""
    frames: int = 0
    errors: int = 0
    """Tries that failed."""
    lost: int = 0
    """Reports that were given up."""
    lag: Callable[[], float] = lambda: 0.0
    """Seconds since the oldest answer was given that is not acknowledged, or not even sent."""
    error: str = ""
    """The last failure."""
    silent: float = 0.0
    """The share of the clients whose budget is spent."""
    done: float | None = None
    """How much of all is done, in 0..1; None where there is no end."""


class _Exporter(Collector):
    def __init__(self, query: str, counts: Deliveries) -> None:
        self._query = query
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        numbers = {
            "reports": ("Reports that Kafka has acknowledged", self._counts.reports),
            "frames": ("Frames that Kafka has acknowledged", self._counts.frames),
            "errors": ("Tries to send that failed", self._counts.errors),
            "lost": ("Reports that were given up", self._counts.lost),
        }
        for name, (meaning, number) in numbers.items():
            family = CounterMetricFamily(f"hubbub_simulated_{name}", meaning, labels=["query"])
            family.add_metric([self._query], number)
            yield family
        lag = GaugeMetricFamily(
            "hubbub_simulated_lag_seconds", "Age of the oldest answer not acknowledged", labels=["query"]
        )
        lag.add_metric([self._query], self._counts.lag())
        yield lag
        silent = GaugeMetricFamily("hubbub_silent_ratio", "Share of clients whose budget is spent", labels=["query"])
        silent.add_metric([self._query], self._counts.silent)
        yield silent


@asynccontextmanager
async def serving(host: str, port: int, query: str, counts: Deliveries) -> AsyncIterator[tuple[str, int]]:
    """Answers http://host:port/metrics meanwhile; the address that is served."""
    registry = registry_of_a_process()
    registry.register(_Exporter(query, counts))
    app = web.Application(middlewares=[http.guard(lambda _request, _status: None)])
    app.on_response_prepare.append(http.unsigned)
    app.add_routes([web.get("/metrics", make_aiohttp_handler(registry))])
    async with http.serving(app, host, port, drain=1.0) as address:
        sys.stdout.write(f"metrics at http://{host}:{address[1]}/metrics\n")
        sys.stdout.flush()
        yield address


@asynccontextmanager
async def showing(counts: Deliveries) -> AsyncIterator[None]:
    """Shows how it goes: a bar in a terminal, else a line every few seconds."""
    with _bar(counts) if sys.stdout.isatty() else _plain_lines() as (show, interval):
        task = asyncio.create_task(_show(counts, show, interval))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _show(counts: Deliveries, show: Callable[[str], None], interval: float) -> None:
    start, sent = time.monotonic(), 0
    before = start
    while True:
        await asyncio.sleep(interval)
        now = time.monotonic()
        show(f"{now - start:.0f} s: {progress(counts, (counts.reports - sent) / (now - before))}")
        before, sent = now, counts.reports


def progress(counts: Deliveries, rate: float) -> str:
    """The counts, as one line."""
    failed = f" ({counts.error})" if counts.error else ""
    errors = f"{counts.errors:,} error{'s' * (counts.errors != 1)}{failed}"
    lost = f", {counts.lost:,} reports lost" if counts.lost else ""
    return f"{counts.reports:,} reports, {rate:,.0f}/s, lag {counts.lag():.1f} s, {errors}{lost}"


@contextmanager
def _plain_lines() -> Iterator[tuple[Callable[[str], None], float]]:
    def show(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    yield show, LINES


@contextmanager
def _bar(counts: Deliveries) -> Iterator[tuple[Callable[[str], None], float]]:
    try:
        from rich.progress import BarColumn, Progress, TextColumn
    except ImportError:  # it comes with the extra `simulate`
        with _plain_lines() as lines:
            yield lines
        return
    with Progress(BarColumn(), TextColumn("{task.description}", markup=False)) as progress:
        task = progress.add_task("", total=None if counts.done is None else 1.0)
        yield lambda text: progress.update(task, completed=counts.done or 0.0, description=text), BAR
