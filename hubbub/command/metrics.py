"""The metrics of a process: tables of rows, and the registry with the metrics of every process."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from typing import Any, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from hubbub.fast_paths import note, states
from hubbub.kafka.patches import bounded_batches
from oracles.kernels import c_library

Labels = Mapping[str, Sequence[str] | None]
"""The values of each label, or None if they are unknown when the process starts."""
_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class MetricRow(Generic[_Metric]):
    """One metric in a table: its name, kind, help text, labels, and the buckets of a histogram."""

    def __init__(
        self, name: str, kind: type[_Metric], text: str, labels: Labels | None = None, buckets: Sequence[float] = ()
    ) -> None:
        self.name = name
        self.kind: Any = kind
        self.text = text
        self.labels = labels or {}
        self.buckets = buckets

    def __get__(self, table: "MetricTable", owner: type["MetricTable"]) -> _Metric:
        """Declare the type of the attribute. A table sets the metric itself as its attribute."""
        raise AttributeError(self.name)

    def create(self, registry: CollectorRegistry) -> Any:
        """Return the metric. A counter has all series whose labels are known from the start."""
        settings = {"buckets": self.buckets} if self.buckets else {}
        metric = self.kind(self.name, self.text, list(self.labels), registry=registry, **settings)
        if self.labels and None not in self.labels.values():
            self.add_series(metric)
        return metric

    def add_series(self, metric: Any, **values: str) -> None:
        """Create the series of a counter for these label values and all known values of the other labels, at 0."""
        if self.kind is not Counter:
            return
        choices = [[values[name]] if name in values else options or () for name, options in self.labels.items()]
        for series in product(*choices):
            metric.labels(*series)


class MetricTable:
    """A table of metrics. A subclass lists them as rows, and an instance has a metric for each row."""

    def __init__(self) -> None:
        self.registry = registry()
        # From the base classes on, so that a subclass can replace a row of theirs.
        self._rows = {
            name: row
            for base in reversed(type(self).__mro__)
            for name, row in vars(base).items()
            if isinstance(row, MetricRow)
        }
        for name, row in self._rows.items():
            # A row has no `__set__`, so the attribute of the instance comes before it.
            vars(self)[name] = row.create(self.registry)

    def add_series(self, counters: Collection[str] | None = None, **values: str) -> None:
        """Create series of some counters, or of all, with these values of labels, because an increase starts at 0."""
        for name, row in self._with_labels(counters, values):
            row.add_series(vars(self)[name], **values)

    def remove_series(self, metrics: Collection[str] | None = None, **values: str) -> None:
        """Remove the series of some metrics, or of all, with these values of labels."""
        for name, _ in self._with_labels(metrics, values):
            vars(self)[name].remove_by_labels(values)

    def _with_labels(
        self, names: Collection[str] | None, labels: Mapping[str, str]
    ) -> Iterator[tuple[str, MetricRow[Any]]]:
        """Yield the rows with these labels, of the named ones or of all."""
        for name, row in self._rows.items():
            if labels.keys() <= row.labels.keys() and (names is None or name in names):
                yield name, row


class SkippedBatches(Collector):
    """The counter of skipped batches, which `hubbub.kafka.patches.bounded_batches` counts."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        # Operators have this name in their dashboards, so it stays although the code says skipped.
        yield CounterMetricFamily(
            "hubbub_batches_passed_over",
            "Batches skipped because they are unreadable or too large when decompressed",
            sum(bounded_batches.skipped.values()),
        )


class FastPaths(Collector):
    """The gauges of the fast paths of this process."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("hubbub_fast_path", "1 if the fast path is on, else 0", labels=["name"])
        for name, on in states().items():
            family.add_metric([name], float(on))
        yield family


def registry() -> CollectorRegistry:
    """Return a registry with the version of the process, and its use of the machine."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # nobody needs the time of creation of each series
    result = CollectorRegistry()
    ProcessCollector(registry=result)
    result.register(SkippedBatches())
    hint = "this wheel has no kernels for this machine, or HUBBUB_KERNELS turns them off"
    note("kernels", on=c_library.in_use(), reason=hint)
    result.register(FastPaths())
    labels = {"version": version("hubbub"), "kernels": c_library.name()}
    Gauge(
        "hubbub_build_info", "Always 1; the labels name the version and the kernels", list(labels), registry=result
    ).labels(**labels).set(1)
    return result
