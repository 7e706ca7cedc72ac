"""The cost of a note of a recorder on the device: median and 99th percentile, with the store in a file.

`python -m benchmarks.notes` prints a row for one client, one for a client beside another process that notes too, and
one for the first note of each period, which empties the log of the file and waits for the disk.
"""

import multiprocessing
import tempfile
import time
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.harness import arguments, show
from oracles.query import Query, parse
from producers import Client

NOTES = 5_000
PERIODS = 100
DAY = 86_400
BOUND = 0.3
"""Milliseconds that a note may take (median, file store, idle disk)."""
_TABLE = {"domain": 64, "recorder": {"keep": "count"}, "period": "1d", "pane": "1h", "epsilon": 1.0, "answers": "fresh"}


def query() -> Query:
    return parse({"queries": {"measured": _TABLE}}, "benchmarks.notes", None)["measured"]


def milliseconds(client: Client, notes: int) -> np.ndarray:
    """Return the time of each note."""
    times = []
    for _ in range(notes):
        start = time.perf_counter()
        client.note()
        times.append(1000 * (time.perf_counter() - start))
    return np.array(times)


def show_times(name: str, times: np.ndarray) -> None:
    middle, slow = np.percentile(times, [50, 99])
    show(f"{name:34} {len(times):6,} notes  median {middle:7.3f} ms  99% below {slow:7.3f} ms")


def _note_for_ever(store: Path) -> None:
    client = Client(query(), store)
    while True:
        client.note()


def main() -> None:
    options = arguments(__doc__, notes=NOTES)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        client = Client(query(), store, first=True)
        milliseconds(client, 100)
        times = milliseconds(client, options.notes)
        show_times("one process", times)

        other_process = multiprocessing.get_context("spawn").Process(target=_note_for_ever, args=(store,), daemon=True)
        other_process.start()
        show_times("beside another process", milliseconds(client, options.notes))
        other_process.kill()
        other_process.join()

        days = count(30_000)
        client = Client(query(), Path(folder) / "days", first=True, clock=lambda: float(next(days) * DAY))
        show_times("first note of a period", milliseconds(client, PERIODS))
    show(f"bound of the median: {BOUND} ms, {'kept' if np.median(times) < BOUND else 'EXCEEDED'}")


if __name__ == "__main__":
    main()
