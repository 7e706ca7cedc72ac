"""The metrics of a gateway: no address, no token, no key."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import Counter, Gauge, Histogram

from hubbub.metrics import registry

ROUTES = ("/v1/reports", "/v1/queries", "")
"""Of which requests are counted; the last is all else."""
REASONS = ("malformed", "unknown_query", "too_large", "late", "future", "expired", "quota", "rate", "ids")


class GatewayMetrics:
    """Each gateway's own."""

    def __init__(self, names: Mapping[str, Callable[[], float]], queries: Iterable[str]) -> None:
        """`names` of gauges that are looked up when they are asked for; series of `queries` exist from the start."""
        made = self.registry = registry()
        requests = Counter("hubbub_gateway_requests", "Requests answered", ["route", "status"], registry=made)
        self._requests = {(path, 202): requests.labels(path, "202") for path in ROUTES[:1]}
        self._requests[ROUTES[1], 200] = requests.labels(ROUTES[1], "200")
        self._request = requests
        self._reports = Counter("hubbub_gateway_reports", "Reports acknowledged", ["query", "keyed"], registry=made)
        self._taken = {(query, keyed): self._series(query, keyed=keyed) for query in queries for keyed in (False, True)}
        self._refused = Counter("hubbub_gateway_refused", "Requests refused, by reason", ["reason"], registry=made)
        for reason in REASONS:
            self._refused.labels(reason)
        buckets = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
        self.seconds = Histogram(
            "hubbub_gateway_seconds", "From a request's body to its 202", buckets=buckets, registry=made
        )
        for name, read in names.items():
            Gauge(f"hubbub_gateway_{name}", name.replace("_", " "), registry=made).set_function(read)

    def answered(self, path: str, status: int) -> None:
        key = path if path in ROUTES else "", status
        if key not in self._requests:
            self._requests[key] = self._request.labels(key[0], str(status))
        self._requests[key].inc()

    def refused(self, reason: object) -> None:
        if reason in REASONS:
            self._refused.labels(str(reason)).inc()

    def _series(self, query: str, *, keyed: bool) -> Counter:
        return self._reports.labels(query, str(int(keyed)))

    def took(self, query: str, reports: int, *, keyed: bool) -> None:
        key = query, keyed
        if key not in self._taken:
            self._taken[key] = self._series(query, keyed=keyed)
        self._taken[key].inc(reports)
