"""The metrics of a sink."""

from prometheus_client import Counter, Gauge

from hubbub.command.metrics import MetricRow, MetricTable

REASONS = ("unreadable", "version", "old")
"""The reasons for which a record is skipped."""


class SinkMetrics(MetricTable):
    """The metrics of one sink."""

    finals = MetricRow("hubbub_sink_finals", Counter, "Finals read")
    rows = MetricRow("hubbub_sink_rows", Counter, "Rows of the finals read")
    files = MetricRow("hubbub_sink_files_written", Counter, "Files written, open files included")
    bytes = MetricRow("hubbub_sink_bytes_written", Counter, "Bytes of the files written")
    conflicts = MetricRow("hubbub_sink_conflicts", Counter, "Files that another sink had written first")
    gaps = MetricRow("hubbub_sink_gaps", Counter, "Gaps found: finals that the topic lost before the sink read them")
    skipped = MetricRow("hubbub_sink_skipped", Counter, "Records skipped", {"reason": REASONS})
    lag = MetricRow("hubbub_sink_lag_seconds", Gauge, "Age of the oldest final that is in no file yet")
    lag_limit = MetricRow(
        "hubbub_sink_lag_limit_seconds", Gauge, "Lag of a sink in time: three times --every, or a day and --settle"
    )
    last_write = MetricRow("hubbub_sink_last_write_timestamp_seconds", Gauge, "Time of the last written file")
    errors = MetricRow("hubbub_sink_store_errors", Counter, "Failed attempts to write to the target")
