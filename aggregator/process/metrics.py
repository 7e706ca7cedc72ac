"""What Prometheus sees of a worker."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from aggregator.counting.partition import Taken

LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The names are part of the contract."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        query = ["query"]
        self.reports = Counter("hubbub_reports", "Reports counted", query, registry=registry)
        self.frames = Counter("hubbub_frames", "Frames counted", query, registry=registry)
        self.implausible = Counter("hubbub_implausible", "Reports left out as implausible", query, registry=registry)
        self.rejected = Counter(
            "hubbub_rejected", "Reports refused; query is empty where unknown", ["query", "reason"], registry=registry
        )
        self.lost = Counter("hubbub_lost_records", "Records deleted before they were read", registry=registry)
        self.lag_records = Gauge(
            "hubbub_lag_records", "Records of the log not read yet", ["partition"], registry=registry
        )
        self.lag_seconds = Gauge(
            "hubbub_lag_seconds", "How far the oldest partition's clock is behind", registry=registry
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

    def took(self, taken: Taken) -> None:
        for counter, counts in (
            (self.frames, taken.frames),
            (self.reports, taken.reports),
            (self.implausible, taken.implausible),
        ):
            for query, count in counts.items():
                if count:
                    counter.labels(query).inc(count)
        for (query, reason), count in taken.rejected.items():
            self.rejected.labels(query, reason).inc(count)

    def owned(self, partitions: set[int]) -> None:
        """Forget the lag of partitions that others read now."""
        self.lag_records.clear()
        for partition in partitions:
            self.lag_records.labels(str(partition)).set(0)
