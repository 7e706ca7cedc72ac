"""The metrics of a board, and of what it follows."""

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregator.board.entry import Entry
from aggregator.board.store import Store
from aggregator.process.freshness import Freshness, NewestFinal
from aggregator.publishing.freshness import shortest
from hubbub.metrics import registry as registry_of_a_process
from hubbub.names import ALERTS, ESTIMATES, QUERIES, TRUTH
from oracles.consistency import UNBIASED

TOP, HITTERS = 10, 20
"""How many values have series."""


class BoardMetrics:
    """Each board's own."""

    def __init__(self, store: Store) -> None:
        registry = self.registry = registry_of_a_process()
        self.whole = CollectorRegistry()
        """All of it, and what the crowd says: for those who may see that."""
        self.whole.register(registry)
        self.whole.register(Shares(store))
        registry.register(Freshness(lambda: newest_finals(store)))
        self.read = Counter("hubbub_board_read", "Messages read", ["topic"], registry=registry)
        self.unreadable = Counter(
            "hubbub_board_unreadable", "Messages that could not be understood", ["topic"], registry=registry
        )
        self.requests = Counter("hubbub_board_requests", "Requests answered", ["route", "status"], registry=registry)
        self.listeners = Gauge("hubbub_board_listeners", "Who listens to events", registry=registry)
        self._windows = Gauge("hubbub_board_windows", "Final windows kept", registry=registry)
        self._memory = Gauge("hubbub_board_kept_bytes", "Memory of windows and truth, about", registry=registry)
        for topic in (QUERIES, ESTIMATES, ALERTS, TRUTH):
            self.read.labels(topic)
            self.unreadable.labels(topic)

    def keeps(self, windows: int, size: int) -> None:
        self._windows.set(windows)
        self._memory.set(size)


def newest_finals(store: Store) -> Iterator[NewestFinal]:
    """Of each query that is counted now."""
    for name, query in store.definitions.active.items():
        yield NewestFinal(name, store.series(name).latest_end, shortest(query))


class Shares(Collector):
    """The most frequent values of each query: a bounded number of series, of the newest final alone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        labels = ["query", "attribute", "value"]
        top = "Unbiased share of the ten most frequent values in the newest final of the shortest window"
        frequent = "Unbiased share of values that are proved to be frequent in that final, the first twenty"
        share = GaugeMetricFamily("hubbub_top_share", top, labels=labels)
        low = GaugeMetricFamily("hubbub_top_share_low", "Where its 95% interval begins", labels=labels)
        high = GaugeMetricFamily("hubbub_top_share_high", "Where its 95% interval ends", labels=labels)
        hitters = GaugeMetricFamily("hubbub_hitter_share", frequent, labels=labels)
        for final in self._newest():
            for part in final.parts:
                named = final.query, part.attribute or ""
                unbiased = part.shares[UNBIASED]
                for i in np.argsort(-unbiased, kind="stable")[:TOP]:
                    of = [*named, part.values[i]]
                    share.add_metric(of, unbiased[i])
                    low.add_metric(of, part.low[i])
                    high.add_metric(of, part.high[i])
                proved = [hitter for hitter in part.hitters(UNBIASED) if hitter.decided]
                for one in proved[:HITTERS]:
                    hitters.add_metric([*named, one.value], one.share)
        yield from (share, low, high, hitters)

    def _newest(self) -> Iterator[Entry]:
        for name, query in self._store.definitions.active.items():
            kinds = self._store.series(name).kinds
            for window in sorted(query.windows, key=lambda window: window.size or float("inf")):
                if window in kinds and (final := kinds[window].latest):
                    yield final
                    break
