"""The progress of a sending command: a line or a bar in the terminal, and /metrics for Prometheus."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub.command.metrics import registry as registry_of_a_process
from hubbub.http.health import health, serving_alone

LINES = 5.0
"""Seconds between two lines."""
BAR = 0.5
"""Seconds between two updates of the bar."""


@dataclass(slots=True)
class DeliveryCounts:
    """The numbers of reports and frames so far, by result."""

    reports: int = 0
    """Reports in acknowledged frames. A frame that is sent twice counts twice."""
    frames: int = 0
    """Acknowledged frames."""
    errors: int = 0
    """Failed attempts to send."""
    losses: int = 0
    """Reports that the command gave up."""
    lag: Callable[[], float] = lambda: 0.0
    """The age of the oldest answer that Kafka has not acknowledged, in seconds."""
    error: str = ""
    """The text of the last error."""
    silent: float = 0.0
    """The share of the clients whose budget is spent."""
    progress: float | None = None
    """The finished part of the run, in 0..1, or None if the run has no end."""


class _Exporter(Collector):
    def __init__(self, query: str, counts: DeliveryCounts) -> None:
        self._query = query
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        numbers = {
            "reports": ("Reports acknowledged by Kafka", self._counts.reports),
            "frames": ("Frames acknowledged by Kafka", self._counts.frames),
            "errors": ("Failed attempts to send", self._counts.errors),
            "lost": ("Reports given up", self._counts.losses),
        }

        for name, (meaning, number) in numbers.items():
            family = CounterMetricFamily(f"hubbub_simulated_{name}", meaning, labels=["query"])
            family.add_metric([self._query], number)
            yield family

        lag = GaugeMetricFamily(
            "hubbub_simulated_lag_seconds", "Age in seconds of the oldest unacknowledged answer", labels=["query"]
        )
        lag.add_metric([self._query], self._counts.lag())
        yield lag

        silent = GaugeMetricFamily("hubbub_silent_ratio", "Share of clients with a spent budget", labels=["query"])
        silent.add_metric([self._query], self._counts.silent)
        yield silent


@asynccontextmanager
async def serve_metrics(host: str, port: int, query: str, counts: DeliveryCounts) -> AsyncIterator[tuple[str, int]]:
    """Serve metrics and health at http://host:port/, and yield the address."""
    registry = registry_of_a_process()
    registry.register(_Exporter(query, counts))
    handlers = health(make_aiohttp_handler(registry), missing=lambda: None)
    async with serving_alone(handlers, host, port) as address:
        sys.stdout.write(f"metrics at http://{host}:{address[1]}/metrics\n")
        sys.stdout.flush()
        yield address


@asynccontextmanager
async def show_progress(counts: DeliveryCounts) -> AsyncIterator[None]:
    """Show the progress: in a terminal a bar, otherwise a line every few seconds."""
    with _bar(counts) if sys.stdout.isatty() else _plain_lines() as (show, interval):
        task = asyncio.create_task(_show(counts, show, interval))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _show(counts: DeliveryCounts, show: Callable[[str], None], interval: float) -> None:
    start = time.monotonic()
    last_time = start
    reports = 0
    while True:
        await asyncio.sleep(interval)
        present = time.monotonic()
        rate = (counts.reports - reports) / (present - last_time)
        show(f"{present - start:.0f} s: {progress_line(counts, rate)}")
        last_time = present
        reports = counts.reports


def progress_line(counts: DeliveryCounts, rate: float) -> str:
    """Return the counts as one line."""
    errors = "1 error" if counts.errors == 1 else f"{counts.errors:,} errors"
    if counts.error:
        errors += f" ({counts.error})"
    losses = f", {counts.losses:,} reports lost" if counts.losses else ""
    return f"{counts.reports:,} reports, {rate:,.0f}/s, lag {counts.lag():.1f} s, {errors}{losses}"


@contextmanager
def _plain_lines() -> Iterator[tuple[Callable[[str], None], float]]:
    def show(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    yield show, LINES


@contextmanager
def _bar(counts: DeliveryCounts) -> Iterator[tuple[Callable[[str], None], float]]:
    try:
        from rich.progress import BarColumn, Progress, TextColumn
    except ImportError:  # the extra `simulate` installs it
        with _plain_lines() as lines:
            yield lines
        return
    with Progress(BarColumn(), TextColumn("{task.description}", markup=False)) as bar:
        task = bar.add_task("", total=None if counts.progress is None else 1.0)
        yield lambda text: bar.update(task, completed=counts.progress or 0.0, description=text), BAR
