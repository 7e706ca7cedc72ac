"""The metrics of a board, and the most frequent values as metrics."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from aggregator.board.store.entry import Entry
from aggregator.board.store.store import Series, Store
from aggregator.process.freshness import Freshness, NewestFinal
from aggregator.records.kinds import kind_of
from aggregator.records.number_answers import NumberAnswers
from aggregator.records.record import Record
from aggregator.records.span import shortest_expected_age
from hubbub.command.metrics import MetricRow, MetricTable
from hubbub.kafka.settings import ALERTS, ESTIMATES, MAPS, QUERIES, STATUS, TRUTH
from oracles.consistency import UNBIASED
from oracles.query.domain import NUMBERS

TOPICS = (QUERIES, ESTIMATES, MAPS, ALERTS, TRUTH, STATUS)
TOP, HITTERS = 10, 20
"""Maximum numbers of the most frequent values and of the proved heavy hitters in the metrics."""
GROUPS, GROUP_TOP = 20, 5
"""Maximum numbers of groups in the metrics, those with the most reports, and of values of each."""

Sample = tuple[list[str], float]


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


class ShareSamples(NamedTuple):
    """The samples of one final. Each is a pair of labels and a value."""

    top: list[Sample]
    low: list[Sample]
    high: list[Sample]
    hitters: list[Sample]
    quantiles: list[Sample]
    quantiles_low: list[Sample]
    quantiles_high: list[Sample]

    @classmethod
    def of(cls, final: Entry) -> Self:
        samples = cls([], [], [], [], [], [], [])
        for part in final.parts:
            subject = final.query, part.attribute or ""
            if part.kind == NUMBERS:
                samples.add_quantiles(final, part)
                continue

            # Stable, or values with equal shares would come and go from scrape to scrape.
            unbiased = part.shares[UNBIASED]
            top = np.argsort(-unbiased, kind="stable")[: TOP if final.group is None else GROUP_TOP]
            ends = kind_of(part).intervals(part, top)
            for i, least, most in zip(top.tolist(), ends.low, ends.high, strict=True):
                key = [*subject, final.group or "", part.values[i]]
                samples.top.append((key, unbiased[i]))
                samples.low.append((key, least))
                samples.high.append((key, most))

            # The metric of proofs has no label for a group, so its series would repeat those of the total.
            if final.group is not None:
                continue
            proofs = [hitter for hitter in part.hitters(UNBIASED) if hitter.decided]
            samples.hitters.extend(([*subject, hitter.value], hitter.share) for hitter in proofs[:HITTERS])
        return samples

    def add_quantiles(self, final: Entry, part: Record) -> None:
        """Add the quantiles of a group. Those of the total are metrics of the workers."""
        if final.group is None:
            return

        answers = NumberAnswers(part)
        for share in answers.quantiles:
            row = answers.quantile(share)
            # A window that is too small to know a quantile has null for it.
            if row is None or row.value is None or row.low is None or row.high is None:
                continue
            key = [final.query, part.attribute or "", final.group, str(share)]
            self.quantiles.append((key, row.value))
            self.quantiles_low.append((key, row.low))
            self.quantiles_high.append((key, row.high))


class ShareMetrics(Collector):
    """The shares of the most frequent values in the newest final of each query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples: dict[Entry, ShareSamples] = {}
        """The samples of the finals of the last scrape. Most finals are the same in the next one."""

    def collect(self) -> Iterator[Metric]:
        labels = ["query", "attribute", "group", "value"]
        top_text = "Unbiased share of the ten most frequent values in the newest final of the shortest window"
        frequent = (
            "Unbiased share of the first twenty values proved frequent in the newest final of the shortest window"
        )
        share = GaugeMetricFamily("hubbub_top_share", top_text, labels=labels)
        low = GaugeMetricFamily("hubbub_top_share_low", "Lower end of the interval of hubbub_top_share", labels=labels)
        high = GaugeMetricFamily(
            "hubbub_top_share_high", "Upper end of the interval of hubbub_top_share", labels=labels
        )
        hitters = GaugeMetricFamily("hubbub_hitter_share", frequent, labels=["query", "attribute", "value"])
        of_group = ["query", "attribute", "group", "quantile"]
        quantile_text = "Quantile of the numbers of a group in the newest final of the shortest window"
        quantiles = (
            GaugeMetricFamily("hubbub_group_quantile", quantile_text, labels=of_group),
            GaugeMetricFamily("hubbub_group_quantile_low", "Lower end of its 95% interval", labels=of_group),
            GaugeMetricFamily("hubbub_group_quantile_high", "Upper end of its 95% interval", labels=of_group),
        )
        families = share, low, high, hitters, *quantiles

        # Finals of the last scrape keep their samples. All others are dropped, so that memory does not grow.
        self._samples = {final: self._samples.get(final) or ShareSamples.of(final) for final in self._newest()}
        for samples in self._samples.values():
            for family, pairs in zip(families, samples, strict=True):
                for key, value in pairs:
                    family.add_metric(key, value)
        yield from families

    def _newest(self) -> Iterator[Entry]:
        for name, query in self._store.definitions.active.items():
            series = self._store.series(name)
            for window in sorted(query.windows, key=lambda window: window.size or float("inf")):
                final = series.kinds[window].latest if window in series.kinds else None
                if final is not None:
                    yield final
                    yield from _groups_of(series, final)
                    break


def _groups_of(series: Series, total: Entry) -> Iterator[Entry]:
    """Yield the groups with the most reports in the window of a total."""
    window, _, end = total.span
    finals = [kinds[window].finals.get(end) for kinds in series.of_groups if window in kinds]
    members = [final for final in finals if final is not None]
    yield from sorted(members, key=lambda final: (-final.n, final.group))[:GROUPS]
