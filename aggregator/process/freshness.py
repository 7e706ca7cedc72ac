"""The metrics of freshness: the age of each query's newest final, and how late its oldest unpublished window is."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hubbub import outside


class NewestFinal(NamedTuple):
    """The newest final of a query."""

    query: str
    end: int | None
    """The end of its window, or None before the first final."""
    expected_age: int
    """The age in seconds that it reaches in normal operation."""


class Freshness(Collector):
    """A collector that asks for the newest finals at each scrape."""

    def __init__(self, newest: Callable[[], Iterable[NewestFinal]]) -> None:
        self._newest = newest

    def collect(self) -> Iterator[Metric]:
        text = "Seconds since the end of the newest final window; 0 before the first"
        ages = GaugeMetricFamily("hubbub_newest_final_age_seconds", text, labels=["query"])
        text = "Largest age in seconds of the newest final that the query's windows allow"
        expected_ages = GaugeMetricFamily("hubbub_expected_final_age_seconds", text, labels=["query"])
        present = outside.wall()
        for final in self._newest():
            # A clock behind that of the brokers would give a negative age.
            ages.add_metric([final.query], 0.0 if final.end is None else max(0.0, present - final.end))
            expected_ages.add_metric([final.query], final.expected_age)
        yield ages
        yield expected_ages


class Unpublished(Collector):
    """A collector that asks at each scrape since when each query's oldest unpublished window is due."""

    def __init__(self, due: Callable[[], Mapping[str, float | None]], is_known: Callable[[], bool]) -> None:
        """Take when the oldest window of each query is due. `is_known` is false until the first recovery is over."""
        self._due = due
        self._is_known = is_known

    def collect(self) -> Iterator[Metric]:
        text = (
            "Seconds by which the oldest window with reports is past its lateness without an acknowledged final; else 0"
        )
        ages = GaugeMetricFamily("hubbub_unpublished_age_seconds", text, labels=["query"])
        present = outside.wall()
        for query, due in self._due().items() if self._is_known() else ():
            ages.add_metric([query], 0.0 if due is None else max(0.0, present - due))
        yield ages
