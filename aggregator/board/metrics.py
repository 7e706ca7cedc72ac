"""The metrics of a board, and the most frequent values as metrics."""

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregator.board.entry import Entry
from aggregator.board.store import Store
from aggregator.merging.windows import shortest_expected_age
from aggregator.publishing.freshness import Freshness, NewestFinal
from aggregator.publishing.records.list_intervals import intervals
from hubbub.command.metrics import MetricRow, MetricTable
from hubbub.kafka.settings import ALERTS, ESTIMATES, QUERIES, STATUS, TRUTH
from oracles.consistency import UNBIASED

TOPICS = (QUERIES, ESTIMATES, ALERTS, TRUTH, STATUS)
TOP, HITTERS = 10, 20
"""Maximum numbers of the most frequent values and of the proved heavy hitters in the metrics."""


class BoardMetrics(MetricTable):
    """The metrics of one board."""

    read = MetricRow("hubbub_board_read", Counter, "Records read", {"topic": TOPICS})
    unreadable = MetricRow("hubbub_board_unreadable", Counter, "Invalid records skipped", {"topic": TOPICS})
    requests = MetricRow("hubbub_board_requests", Counter, "Requests answered", {"route": None, "status": None})
    listeners = MetricRow("hubbub_board_listeners", Gauge, "Clients that listen to events")
    windows = MetricRow("hubbub_board_windows", Gauge, "Final windows in memory")
    memory = MetricRow("hubbub_board_kept_bytes", Gauge, "Approximate bytes of memory of windows and truth")

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.whole = CollectorRegistry()
        """All metrics and the estimates, for requests that may read estimates."""
        self.whole.register(self.registry)
        self.whole.register(ShareMetrics(store))
        self.registry.register(Freshness(lambda: newest_finals(store)))
        self.windows.set_function(lambda: store.windows)
        self.memory.set_function(lambda: store.size)


def newest_finals(store: Store) -> Iterator[NewestFinal]:
    """Yield the newest final of each active query."""
    for name, query in store.definitions.active.items():
        yield NewestFinal(name, store.series(name).latest_end, shortest_expected_age(query))


class ShareMetrics(Collector):
    """The shares of the most frequent values in the newest final of each query."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        labels = ["query", "attribute", "value"]
        top_text = "Unbiased share of the ten most frequent values in the newest final of the shortest window"
        frequent = (
            "Unbiased share of the first twenty values proved frequent in the newest final of the shortest window"
        )
        share = GaugeMetricFamily("hubbub_top_share", top_text, labels=labels)
        low = GaugeMetricFamily("hubbub_top_share_low", "Lower end of the interval of hubbub_top_share", labels=labels)
        high = GaugeMetricFamily(
            "hubbub_top_share_high", "Upper end of the interval of hubbub_top_share", labels=labels
        )
        hitters = GaugeMetricFamily("hubbub_hitter_share", frequent, labels=labels)
        for final in self._newest():
            for part in final.parts:
                subject = final.query, part.attribute or ""
                unbiased = part.shares[UNBIASED]
                top = np.argsort(-unbiased, kind="stable")[:TOP]
                ends = intervals(part, top)
                for i, least, most in zip(top.tolist(), ends.low, ends.high, strict=True):
                    key = [*subject, part.values[i]]
                    share.add_metric(key, unbiased[i])
                    low.add_metric(key, least)
                    high.add_metric(key, most)
                proofs = [hitter for hitter in part.hitters(UNBIASED) if hitter.decided]
                for hitter in proofs[:HITTERS]:
                    hitters.add_metric([*subject, hitter.value], hitter.share)
        yield from (share, low, high, hitters)

    def _newest(self) -> Iterator[Entry]:
        for name, query in self._store.definitions.active.items():
            kinds = self._store.series(name).kinds
            for window in sorted(query.windows, key=lambda window: window.size or float("inf")):
                if window in kinds and (final := kinds[window].latest):
                    yield final
                    break
