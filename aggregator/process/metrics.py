"""The metrics of a worker. The names, labels and help texts are part of the contract."""

from collections.abc import Collection, Iterable, Mapping
from typing import get_args

from prometheus_client import Counter, Gauge, Histogram

from aggregator.records.alert import AlertKind
from aggregator.records.words import ALL_FLAGS
from hubbub.command.metrics import Labels, MetricRow, MetricTable
from oracles.query import Query

REASONS = (
    "malformed",
    "misplaced",
    "stale_digest",
    "stopped",
    "late",
    "future",
    "expired",
    "duplicate",
    "too_large",
)
"""The reasons to refuse reports to a query."""
FREQUENT = ("late", "malformed")
"""The reasons whose series exist from the start. The others appear with their first count."""
UNKNOWN = ("too_large", "malformed", "unknown_query")
"""The reasons to refuse reports of an unknown query."""
UNREAD = ("snapshots", "clocks", "truth")
"""The topics whose unreadable records a worker skips."""
KINDS = get_args(AlertKind)
LATE_FINALS = (60.0, 300.0, 1800.0, 3600.0)
"""Bounds beyond those of other latencies: after a stop of an hour finals are an hour late."""
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECOVERIES = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOOLEANS = ("false", "true")
COUNTING = ("reports", "frames", "implausible", "rejected")
"""The counters of reports by query."""
FINALS = ("records", "too_large", "states_too_large", "flags", "alerts")
"""The counters of finals by query."""
_QUERY: Labels = {"query": None}
_PARTITION: Labels = {"partition": None}
_ATTRIBUTE: Labels = {"query": None, "attribute": None}
_QUANTILE: Labels = {**_ATTRIBUTE, "quantile": None}
_RANGE: Labels = {**_ATTRIBUTE, "range": None}


class Metrics(MetricTable):
    """The metrics of one worker."""

    reports = MetricRow("hubbub_reports", Counter, "Reports counted", _QUERY)
    frames = MetricRow("hubbub_frames", Counter, "Frames counted", _QUERY)
    implausible = MetricRow("hubbub_implausible", Counter, "Reports left out as implausible", _QUERY)
    rejected = MetricRow(
        "hubbub_rejected",
        Counter,
        "Reports refused; query is empty if it is unknown",
        {"query": None, "reason": FREQUENT},
    )
    rejected_frames = MetricRow(
        "hubbub_rejected_frames", Counter, "Frames refused", {"reason": (*REASONS, "unknown_query")}
    )
    lost = MetricRow("hubbub_lost_records", Counter, "Records that Kafka deleted before a worker read them")
    unread = MetricRow(
        "hubbub_unread_records",
        Counter,
        "Unreadable records skipped in topics that only hubbub writes",
        {"topic": UNREAD},
    )
    lag_records = MetricRow("hubbub_lag_records", Gauge, "Records of the partition not read yet", _PARTITION)
    clock_ahead = MetricRow(
        "hubbub_clock_ahead_seconds",
        Gauge,
        "Seconds by which the partition's clock is ahead of the others; negative if behind",
        _PARTITION,
    )
    recovery = MetricRow(
        "hubbub_recovery_seconds",
        Histogram,
        "Seconds from the assignment of partitions to the end of their recovery",
        buckets=RECOVERIES,
    )
    checkpoint = MetricRow(
        "hubbub_checkpoint_seconds",
        Histogram,
        "Seconds from the start of a checkpoint to its acknowledgement",
        buckets=LATENCIES,
    )
    write_age = MetricRow(
        "hubbub_unacknowledged_seconds",
        Gauge,
        "Seconds since the oldest write without an acknowledgement began; 0 if there is none",
    )
    checkpoint_bytes = MetricRow("hubbub_checkpoint_bytes", Counter, "Bytes of tallies and snapshots written")
    close_to_record = MetricRow(
        "hubbub_close_to_record_seconds",
        Histogram,
        "Seconds from the time when a window is due to its acknowledged final record",
        buckets=LATENCIES + LATE_FINALS,
    )
    records = MetricRow("hubbub_records", Counter, "Records published", {"query": None, "final": _BOOLEANS})
    too_large = MetricRow(
        "hubbub_records_too_large", Counter, "Records not published because they are too large", _QUERY
    )
    states_too_large = MetricRow(
        "hubbub_states_too_large",
        Counter,
        "States not written because they are too large; a restart then repeats finals",
        _QUERY,
    )
    definitions_behind = MetricRow(
        "hubbub_definitions_behind", Gauge, "1 if the topic has a later revision of the query file"
    )
    definitions_refused = MetricRow("hubbub_definitions_refused", Gauge, "1 if the present query file is unusable")
    definitions_unread = MetricRow("hubbub_definitions_unread", Gauge, "Unreadable records in the topic of definitions")
    alerts = MetricRow(
        "hubbub_alerts", Counter, "Alerts published", {"query": None, "kind": KINDS, "baseline": _BOOLEANS}
    )
    flags = MetricRow(
        "hubbub_flags", Counter, "Final windows with this quality flag", {"query": None, "flag": ALL_FLAGS}
    )
    tally_bytes = MetricRow("hubbub_tally_bytes", Gauge, "Bytes of memory of the tallies of open panes")
    predicted_tally_bytes = MetricRow(
        "hubbub_predicted_tally_bytes",
        Gauge,
        "Largest possible bytes of tallies for the assigned partitions, as in hubbub check",
    )
    true_mse = MetricRow(
        "hubbub_true_mse",
        Gauge,
        "Mean squared error of the newest final, from a simulation's truth",
        {**_ATTRIBUTE, "method": None},
    )
    coverage = MetricRow(
        "hubbub_coverage_ratio",
        Gauge,
        "Share of values of the newest final whose 95% interval holds a simulation's truth",
        _ATTRIBUTE,
    )
    detectable = MetricRow(
        "hubbub_detectable_share",
        Gauge,
        "Smallest share that the newest final detects with probability 0.9",
        _ATTRIBUTE,
    )
    sigma = MetricRow("hubbub_sigma_share", Gauge, "Standard error at a share of 0 in the newest final", _ATTRIBUTE)
    threshold = MetricRow(
        "hubbub_threshold_share",
        Gauge,
        "Share above which a value is a heavy hitter, in the newest final",
        _ATTRIBUTE,
    )
    quantile_value = MetricRow(
        "hubbub_quantile", Gauge, "Number below which this share of the numbers lies, in the newest final", _QUANTILE
    )
    quantile_low = MetricRow("hubbub_quantile_low", Gauge, "Lower end of the quantile's 95% interval", _QUANTILE)
    quantile_high = MetricRow("hubbub_quantile_high", Gauge, "Upper end of the quantile's 95% interval", _QUANTILE)
    mean_value = MetricRow("hubbub_mean", Gauge, "Mean of the numbers in the newest final", _ATTRIBUTE)
    mean_low = MetricRow("hubbub_mean_low", Gauge, "Lower end of the mean's 95% interval", _ATTRIBUTE)
    mean_high = MetricRow("hubbub_mean_high", Gauge, "Upper end of the mean's 95% interval", _ATTRIBUTE)
    range_value = MetricRow(
        "hubbub_range_share", Gauge, "Share of the numbers in a named range, in the newest final", _RANGE
    )
    range_low = MetricRow("hubbub_range_share_low", Gauge, "Lower end of the range's 95% interval", _RANGE)
    range_high = MetricRow("hubbub_range_share_high", Gauge, "Upper end of the range's 95% interval", _RANGE)

    def __init__(self) -> None:
        super().__init__()
        self._queries: set[str] = set()
        self._merged: set[str] = set()
        """The queries whose finals this worker makes."""
        for reason in UNKNOWN:
            self.rejected.labels("", reason)

    def add_queries(self, queries: Iterable[Query]) -> None:
        """Create the series of the reports of these queries. Every worker counts reports of every query."""
        names = {query.name for query in queries} - self._queries
        for name in names:
            self.add_series(COUNTING, query=name)
        self._queries |= names

    def retain_queries(self, names: Collection[str]) -> None:
        """Remove the series of all queries except these."""
        for name in self._queries - set(names):
            self.remove_series(query=name)
        self._queries &= set(names)

    def merge_queries(self, names: Collection[str]) -> None:
        """Have the series of finals of these queries alone, because one worker makes the finals of a query."""
        for name in self._merged - set(names):
            self.remove_series(FINALS, query=name)
        for name in set(names) - self._merged:
            self.add_series(FINALS, query=name)
        self._merged = set(names)

    def count(
        self,
        frames: Mapping[str, int],
        reports: Mapping[str, int],
        implausible: Mapping[str, int],
        rejects: Mapping[tuple[str, str], int],
    ) -> None:
        """Count the outcomes of a run of records by query, and its refused reports by query and reason."""
        for counter, counts in (self.frames, frames), (self.reports, reports), (self.implausible, implausible):
            for query, count in counts.items():
                if count:
                    counter.labels(query).inc(count)
        for (query, reason), count in rejects.items():
            self.rejected.labels(query, reason).inc(count)

    def count_rejected_frames(self, frames: Mapping[str, int]) -> None:
        """Count refused frames by reason."""
        for reason, count in frames.items():
            self.rejected_frames.labels(reason).inc(count)

    def set_partitions(self, partitions: set[int]) -> None:
        """Remove the lag of the partitions that other workers own now."""
        self.lag_records.clear()
        self.clock_ahead.clear()
        for partition in partitions:
            self.lag_records.labels(str(partition)).set(0)

    def clear_finals(self) -> None:
        """Remove the gauges of finals, because other workers may merge these queries now."""
        numbers = (*self.mean, *self.quantile, *self.range_share)
        for gauge in (self.sigma, self.detectable, self.threshold, self.true_mse, self.coverage, *numbers):
            gauge.clear()

    @property
    def quantile(self) -> tuple[Gauge, Gauge, Gauge]:
        """The quantiles of numbers, and the ends of their intervals."""
        return self.quantile_value, self.quantile_low, self.quantile_high

    @property
    def mean(self) -> tuple[Gauge, Gauge, Gauge]:
        return self.mean_value, self.mean_low, self.mean_high

    @property
    def range_share(self) -> tuple[Gauge, Gauge, Gauge]:
        return self.range_value, self.range_low, self.range_high
