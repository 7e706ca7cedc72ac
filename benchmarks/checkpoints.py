"""Measure checkpoints at several intervals: bytes written, CPU of a report, and the recovery after a kill.

python -m benchmarks.checkpoints [--intervals 0.5 2 5]     needs Java and Maven; two minutes

A process sends frames at a steady rate to many queries with panes of 10 s, on four partitions. The worker is killed
under this load just before a checkpoint is due, and another one starts. `caught up` is the time from the start of its
process until it has counted all that was sent before, and `again` counts the reports that it had to read again.
"""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

from benchmarks.live import send
from benchmarks.state import cpu
from benchmarks.worker import BROKER, PARTITIONS
from tests.brokers import Cluster
from tests.integration.workers import Place, until

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
    with tempfile.TemporaryDirectory() as folder, Place(cluster, Path(folder), text, PARTITIONS) as place:
        patch = INTERVAL.format(interval)
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        load = multiprocessing.get_context("spawn").Process(
            target=send, args=(place.kafka, str(place.file), options.rate, options.frame), daemon=True
        )
        load.start()
        try:
            time.sleep(BURN_IN)
            counted, written = worker.total("hubbub_reports_total"), worker.total("hubbub_checkpoint_bytes_total")
            seconds = cpu(worker.process.pid)
            time.sleep(options.seconds)
            seconds = cpu(worker.process.pid) - seconds
            counted = worker.total("hubbub_reports_total") - counted
            written = worker.total("hubbub_checkpoint_bytes_total") - written
            before = worker.total("hubbub_checkpoint_seconds_count")
            until(lambda: worker.total("hubbub_checkpoint_seconds_count") > before)
            time.sleep(0.8 * interval)
            last = worker.total("hubbub_reports_total")
            worker.kill()
        finally:
            load.kill()
            load.join()
        began = time.monotonic()
        worker = place.start(patch=patch, HUBBUB_LOG_LEVEL="warning").ready()
        ready = time.monotonic() - began
        until(lambda: worker.total("hubbub_lag_records") == 0)
        caught_up, recovery = time.monotonic() - began, cpu(worker.process.pid)
        again = worker.total("hubbub_reports_total")
        worker.kill()
    print(
        f"every {interval} s: {written / options.seconds / 1000:7.1f} kB/s written, "
        f"{written / counted / WIDTH:5.2f} bytes for a byte of reports, {1e6 * seconds / counted:6.2f} us of CPU a "
        f"report; after a kill at report {last:,.0f}: "
        f"ready {ready:.1f} s, caught up {caught_up:.1f} s, {recovery:.2f} s of CPU, {again:,.0f} reports read",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", type=float, nargs="+", default=[0.5, 2.0, 5.0], help="seconds")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--rate", type=float, default=2000.0, help="reports a second (default: 2,000)")
    parser.add_argument("--frame", type=int, default=1, help="reports of a frame (default: 1)")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a measurement (default: 20)")
    options = parser.parse_args()
    with Cluster(1, flags=BROKER) as cluster:
        for interval in options.intervals:
            measure(cluster, interval, options)


if __name__ == "__main__":
    main()
