"""The metrics of freshness: how old the newest final of each query is, and how old it may be."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class NewestFinal(NamedTuple):
    """The newest final of a query, and the age that it may reach."""

    query: str
    end: int | None
    """None before the first."""
    expected: int
    """The age in seconds that it may reach."""


class Freshness(Collector):
    """Asks for the newest finals whenever somebody asks for the metrics."""

    def __init__(self, newest: Callable[[], Iterable[NewestFinal]]) -> None:
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        said = "Seconds since the end of the newest final window; 0 before the first"
        ages = GaugeMetricFamily("hubbub_newest_final_age_seconds", said, labels=["query"])
        said = "How old the newest final may become, by the query's windows"
        expected = GaugeMetricFamily("hubbub_expected_final_age_seconds", said, labels=["query"])
        now = time.time()
        for one in self._newest():
            ages.add_metric([one.query], 0.0 if one.end is None else max(0.0, now - one.end))
            expected.add_metric([one.query], one.expected)
        yield ages
        yield expected
