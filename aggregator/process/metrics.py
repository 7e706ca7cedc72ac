"""The metrics of a worker."""

from collections.abc import Collection, Iterable, Mapping
from itertools import product

from prometheus_client import Counter, Gauge, Histogram

from hubbub.metrics import registry as registry_of_a_process
from oracles.query import Query

REASONS = ("malformed", "stale_digest", "late", "future", "expired", "duplicate", "too_large")
"""Why reports to a query are refused."""
UNKNOWN = ("too_large", "malformed", "unknown_query")
"""Why those are that name no query."""
UNREAD = ("snapshots", "truth")
"""Topics whose records a worker passes over where they cannot be read."""
KINDS = ("enter", "leave", "surge")
FLAGS = ("partial", "incomplete", "skewed", "ids_overflow", "prior_rejected", "small", "held", "corrected")
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECOVERIES = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Metrics:
    """The names are part of the contract."""

    def __init__(self) -> None:
        registry = self.registry = registry_of_a_process()
        query = ["query"]
        self.reports = Counter("hubbub_reports", "Reports counted", query, registry=registry)
        self.frames = Counter("hubbub_frames", "Frames counted", query, registry=registry)
        self.implausible = Counter("hubbub_implausible", "Reports left out as implausible", query, registry=registry)
        self.rejected = Counter(
            "hubbub_rejected", "Reports refused; query is empty where unknown", ["query", "reason"], registry=registry
        )
        self.lost = Counter("hubbub_lost_records", "Records deleted before they were read", registry=registry)
        self.unread = Counter(
            "hubbub_unread_records",
            "Records of a topic of hubbub's own that cannot be read and were passed over",
            ["topic"],
            registry=registry,
        )
        self.lag_records = Gauge(
            "hubbub_lag_records", "Records of the log not read yet", ["partition"], registry=registry
        )
        self.lag_seconds = Gauge(
            "hubbub_lag_seconds", "How far the oldest partition's clock is behind", registry=registry
        )
        self.clock_ahead = Gauge(
            "hubbub_clock_ahead_seconds",
            "How far a partition's clock is ahead of this machine's; below 0: behind",
            ["partition"],
            registry=registry,
        )
        self.publish_lag = Gauge(
            "hubbub_publish_lag_seconds", "How long the oldest final that is due is not published", registry=registry
        )
        self.recovery = Histogram(
            "hubbub_recovery_seconds",
            "From the assignment of partitions to the end of their recovery",
            buckets=RECOVERIES,
            registry=registry,
        )
        self.checkpoint = Histogram(
            "hubbub_checkpoint_seconds", "A checkpoint, acknowledged", buckets=LATENCIES, registry=registry
        )
        self.checkpoint_bytes = Counter(
            "hubbub_checkpoint_bytes", "Bytes of tallies and snapshots written", registry=registry
        )
        self.close_to_record = Histogram(
            "hubbub_close_to_record_seconds",
            "From the closing of a window's last pane to its final record, acknowledged",
            buckets=LATENCIES,
            registry=registry,
        )
        self.records = Counter("hubbub_records", "Records published", ["query", "final"], registry=registry)
        self.too_large = Counter(
            "hubbub_records_too_large", "Records that were not published for their size", query, registry=registry
        )
        self.states_too_large = Counter(
            "hubbub_states_too_large",
            "States that were not written for their size: a restart repeats finals",
            query,
            registry=registry,
        )
        self.definitions_behind = Gauge(
            "hubbub_definitions_behind", "1 where the topic has a later revision of the query file", registry=registry
        )
        self.definitions_refused = Gauge(
            "hubbub_definitions_refused", "1 where the query file as it is now cannot be used", registry=registry
        )
        self.definitions_unread = Gauge(
            "hubbub_definitions_unread", "Records of the definitions that cannot be read", registry=registry
        )
        self.alerts = Counter("hubbub_alerts", "Alerts published", ["query", "kind", "baseline"], registry=registry)
        self.flags = Counter(
            "hubbub_flags", "Final windows that carry a flag of quality", ["query", "flag"], registry=registry
        )
        self.tally_bytes = Gauge("hubbub_tally_bytes", "Memory of the tallies of open panes", registry=registry)
        self.predicted_tally_bytes = Gauge(
            "hubbub_predicted_tally_bytes",
            "The most that the tallies of the partitions owned may take, as hubbub check says",
            registry=registry,
        )
        attribute = ["query", "attribute"]
        self.true_mse = Gauge(
            "hubbub_true_mse",
            "Mean squared error of the newest final of a simulation",
            [*attribute, "method"],
            registry=registry,
        )
        self.coverage = Gauge(
            "hubbub_coverage_ratio",
            "Values of the newest final of a simulation whose 95% interval holds the truth",
            attribute,
            registry=registry,
        )
        self.detectable = Gauge(
            "hubbub_detectable_share",
            "Share found with probability 0.9 in the newest final",
            attribute,
            registry=registry,
        )
        self.sigma = Gauge(
            "hubbub_sigma_share", "Standard error at a share of 0 in the newest final", attribute, registry=registry
        )

        self.threshold = Gauge(
            "hubbub_threshold_share",
            "Share above which a value is a heavy hitter, in the newest final",
            attribute,
            registry=registry,
        )
        self._known: set[str] = set()
        for reason in UNKNOWN:
            self.rejected.labels("", reason)
        for topic in UNREAD:
            self.unread.labels(topic)

    def know(self, queries: Iterable[Query]) -> None:
        """Counters of these queries stand at 0 from now on, so that the first event of a kind is an increase."""
        for query in queries:
            self._known.add(query.name)
            for counter in (self.reports, self.frames, self.implausible, self.too_large, self.states_too_large):
                counter.labels(query.name)
            for counter, labels in (
                (self.rejected, product(REASONS)),
                (self.records, product(("false", "true"))),
                (self.flags, product(FLAGS)),
                (self.alerts, product(KINDS, ("false", "true"))),
            ):
                for rest in labels:
                    counter.labels(query.name, *rest)

    def keep(self, names: Collection[str]) -> None:
        """Forget all queries but these: they are let go of, with all that was ever said of them."""
        for name in self._known - set(names):
            for metric in (metric for metric in vars(self).values() if isinstance(metric, Counter | Gauge)):
                if "query" in metric._labelnames:  # noqa: SLF001 - there is no other way to ask
                    metric.remove_by_labels({"query": name})
        self._known &= set(names)

    def took(
        self,
        frames: Mapping[str, int],
        reports: Mapping[str, int],
        implausible: Mapping[str, int],
        rejected: Mapping[tuple[str, str], int],
    ) -> None:
        """Count the outcomes of a run of records: by query, and what was refused by query and reason."""
        for counter, counts in (self.frames, frames), (self.reports, reports), (self.implausible, implausible):
            for query, count in counts.items():
                if count:
                    counter.labels(query).inc(count)
        for (query, reason), count in rejected.items():
            self.rejected.labels(query, reason).inc(count)

    def owned(self, partitions: set[int]) -> None:
        """Forget the lag of partitions that others read now."""
        self.lag_records.clear()
        self.clock_ahead.clear()
        for partition in partitions:
            self.lag_records.labels(str(partition)).set(0)

    def merging(self) -> None:
        """Forget what finals said: others may merge these queries now."""
        for gauge in (self.sigma, self.detectable, self.threshold, self.true_mse, self.coverage):
            gauge.clear()
