"""Measure checkpoints at several intervals: bytes written, CPU of a report, and the recovery after a kill.

python -m benchmarks.checkpoints [--intervals 0.5 2 5]     needs Java and Maven; two minutes

A process sends frames at a steady rate to many queries with panes of 10 s, on four partitions. The worker is killed
under this load just before a checkpoint is due, and another one starts. `caught up` is the time from the start of its
process until it has counted all that was sent before, and `again` counts the reports that it had to read again.
"""

import time

import numpy as np

from benchmarks.harness import BROKER, arguments, cpu, load_of, place_of, show
from benchmarks.live import send
from tests.brokers import Cluster
from tests.integration.workers import until

QUERY = """\
[queries.q{number}]
domain = 64
oracle = "olh"
epsilon = 1.0
budget = 1e9
pane = "10s"
windows = ["1m"]
emit_every = "never"
"""
WIDTH = 4
"""Bytes of a report."""
BURN_IN = 12
"""Seconds of load before the measurement."""
INTERVAL = "from aggregator.counting import checkpoint\ncheckpoint.INTERVAL = {}"


def measure(cluster, interval, options):
    text = "".join(QUERY.format(number=number) for number in range(options.queries))
    patch = INTERVAL.format(interval)
    with place_of(cluster, text) as place:
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        with load_of(send, place.kafka, str(place.file), options.rate, options.frame):
            time.sleep(BURN_IN)
            start = figures_of(worker)
            time.sleep(options.seconds)
            seconds, counted, written = figures_of(worker) - start

            # A kill just before a checkpoint is due loses the most.
            checkpoints = worker.total("hubbub_checkpoint_seconds_count")
            until(lambda: worker.total("hubbub_checkpoint_seconds_count") > checkpoints)
            time.sleep(0.8 * interval)
            last = worker.total("hubbub_reports_total")
            worker.kill()

        began = time.monotonic()
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        ready = time.monotonic() - began
        until(lambda: worker.total("hubbub_lag_records") == 0)
        caught_up = time.monotonic() - began
        recovery = cpu(worker.process.pid)
        again = worker.total("hubbub_reports_total")

    show(
        f"every {interval} s: {written / options.seconds / 1000:7.1f} kB/s written, "
        f"{written / counted / WIDTH:5.2f} bytes for a byte of reports, {1e6 * seconds / counted:6.2f} us of CPU a "
        f"report; after a kill at report {last:,.0f}: "
        f"ready {ready:.1f} s, caught up {caught_up:.1f} s, {recovery:.2f} s of CPU, {again:,.0f} reports read"
    )


def figures_of(worker):
    """Return the CPU seconds of a worker, the reports that it has counted, and the bytes of its checkpoints."""
    totals = [worker.total(f"hubbub_{name}_total") for name in ("reports", "checkpoint_bytes")]
    return np.array([cpu(worker.process.pid), *totals])


def main():
    options = arguments(
        __doc__,
        intervals=([0.5, 2.0, 5.0], "seconds"),
        queries=20,
        rate=(2000.0, "reports a second"),
        frame=(1, "reports of a frame"),
        seconds=(20.0, "length of a measurement"),
    )
    with Cluster(1, flags=BROKER) as cluster:
        for interval in options.intervals:
            measure(cluster, interval, options)


if __name__ == "__main__":
    main()
