"""The metrics of a gateway. No label contains an address, a token or a key, but one has the names of tokens."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from prometheus_client import Counter, Gauge, Histogram

from hubbub.command.metrics import MetricRow, MetricTable
from producers.gateway.openapi import ROUTES

PATHS = tuple(route.path for route in ROUTES if route.for_clients)
"""The paths with their own series. All other requests have the path ""."""
REASONS = (
    "malformed",
    "unknown_query",
    "too_large",
    "late",
    "future",
    "expired",
    "stopped",
    "quota",
    "rate",
    "work",
    "memory",
    "ids",
    "slow",
)
QUOTAS = 1_000
"""Limit of the pairs of token and query with a series of their own. All others count as OTHERS."""
OTHERS = "(other)"
LATENCIES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class GatewayMetrics(MetricTable):
    """The metrics of one gateway."""

    requests = MetricRow("hubbub_gateway_requests", Counter, "Requests answered", {"route": None, "status": None})
    reports = MetricRow(
        "hubbub_gateway_reports", Counter, "Reports acknowledged by Kafka", {"query": None, "keyed": ("0", "1")}
    )
    refusals = MetricRow("hubbub_gateway_refused", Counter, "Requests refused, by reason", {"reason": REASONS})
    full_quotas = MetricRow(
        "hubbub_quota_refused",
        Counter,
        "Requests refused because a token has used up its quota of a pane",
        {"token": None, "query": None},
    )
    small_mixes = MetricRow("hubbub_gateway_small_mixes", Counter, "Mix buffers sent with fewer reports than --least")
    seconds = MetricRow(
        "hubbub_gateway_seconds",
        Histogram,
        "Seconds from a complete request body to its 202 answer",
        buckets=LATENCIES,
    )
    held_bytes = MetricRow("hubbub_gateway_held_bytes", Gauge, "Bytes of request bodies in memory")
    unacknowledged_bytes = MetricRow(
        "hubbub_gateway_unacknowledged_bytes", Gauge, "Bytes of frames that Kafka has not acknowledged"
    )
    connections = MetricRow("hubbub_gateway_connections", Gauge, "Open connections")
    connections_refused = MetricRow(
        "hubbub_gateway_connections_refused", Gauge, "Connections refused, or closed for a newcomer, since the start"
    )
    unlimited_tokens = MetricRow(
        "hubbub_gateway_unlimited_tokens",
        Gauge,
        "Names of tokens whose file gives no quota",
    )
    ready = MetricRow("hubbub_gateway_ready", Gauge, "1 if the gateway accepts requests, else 0")

    def __init__(self, gauges: Mapping[str, Callable[[], float]], queries: Iterable[str]) -> None:
        """Read each gauge by the function of its name. The series of `queries` exist from the start."""
        super().__init__()
        self._pairs: set[tuple[str, str]] = set()
        # A look for a series costs more than to count in it.
        self._answers = lru_cache(self.requests.labels)
        self._reports = lru_cache(self.reports.labels)

        for name, function in gauges.items():
            vars(self)[name].set_function(function)
        for route in ROUTES:
            if not route.for_clients:
                continue
            for status in route.answers:
                self.requests.labels(route.path, str(status))

        for query in queries:
            self.add_series(query=query)

    def count_answer(self, path: str, status: int) -> None:
        self._answers(path if path in PATHS else "", status).inc()

    def count_refusal(self, reason: object) -> None:
        if reason in REASONS:
            self.refusals.labels(str(reason)).inc()

    def count_full_quota(self, token: str, query: str) -> None:
        if len(self._pairs) < QUOTAS:
            self._pairs.add((token, query))
        # Names of tokens are the operator's, but Prometheus keeps each pair for as long as the gateway runs.
        pair = (token, query) if (token, query) in self._pairs else (OTHERS, OTHERS)
        self.full_quotas.labels(*pair).inc()

    def count_reports(self, query: str, reports: int, *, has_key: bool) -> None:
        self._reports(query, int(has_key)).inc(reports)
