"""The metrics of a process: its registry, with what every process says of itself."""

from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, disable_created_metrics
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from hubbub import inflation
from oracles.kernels import compiled


class PassedOver(Collector):
    """The counters of `hubbub.inflation`."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(
            "hubbub_batches_passed_over",
            "Batches of any topic that cannot be read or are too large inflated",
            sum(inflation.passed_over.values()),
        )


def registry() -> CollectorRegistry:
    """A registry that names the version that runs, and what the process takes of the machine."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # nobody asks for a series of dates beside each counter
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    made.register(PassedOver())
    labels = {"version": version("hubbub"), "kernels": compiled.name()}
    Gauge("hubbub_build_info", "Always 1; the labels tell what runs", list(labels), registry=made).labels(**labels).set(
        1
    )
    return made
