"""The HTTP port of a worker. It listens before the start touches Kafka, so a taken port is found in time."""

from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry

from hubbub.http.health import Handlers, health
from hubbub.http.scrape import scrape_handler

STARTING = "starting: the worker checks the formats version, the topics and the definitions"
"""Why a worker is not ready before it counts."""


class PortAnswers(NamedTuple):
    """What a port tells about its worker."""

    registry: CollectorRegistry
    """The metrics."""
    missing: Callable[[], str | None]
    """Returns why the worker is not ready, or None if it is."""
    remark: Callable[[], str | None]
    """Returns what the worker has to say beside that it is ready."""


class WorkerPort:
    """The answers of the port, which are those of a process without metrics until the worker exists."""

    def __init__(self) -> None:
        # An empty registry, because a gauge that a process does not know yet is absent, not 0.
        self.answers = PortAnswers(CollectorRegistry(), missing=lambda: STARTING, remark=lambda: None)

    @property
    def handlers(self) -> Handlers:
        """The handlers of the paths."""
        return health(self._metrics, self._missing, self._remark)

    def _missing(self) -> str | None:
        return self.answers.missing()

    def _remark(self) -> str | None:
        return self.answers.remark()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        return await scrape_handler(self.answers.registry)(request)
