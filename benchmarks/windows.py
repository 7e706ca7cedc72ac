"""What a long window costs: memory, and CPU to load it, to go on with it, and to bring one final.

python benchmarks/windows.py            a line for each window and number of partitions

A broker's part is played by a list of records. Memory is what the shelf of one query holds once it is loaded,
and at most while it is; beside it stands what its panes came to as int64. `slice` is the longest time for which
the event loop stood still while it was loaded.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core, as a worker has

import gc
import time
import tracemalloc

import numpy as np

from aggregator.counting.clock import Progress
from aggregator.counting.clock import encode as encode_progress
from aggregator.counting.tally import Snapshot, encode_snapshot
from aggregator.merging.crowd import face
from aggregator.merging.merge import encode_state
from aggregator.merging.snapshots import Shelf
from aggregator.merging.windows import Position
from aggregator.publishing.spill import Spill
from aggregator.topics.keys import PaneKey, PartitionKey, StateKey, home
from hubbub.definitions.versions import Versions
from oracles.query import Query, parse

PANE, REPORTS = 10, 1_000
START = 1_700_006_400
RNG = np.random.default_rng(20260101)
ROUNDS = 3


def asked(size: int, window: str) -> Query:
    visits = {"domain": size, "oracle": "olh", "epsilon": 1.0, "budget": 1e9, "pane": f"{PANE}s", "windows": [window]}
    return parse({"queries": {"visits": visits}}, "benchmark", ".")["visits"]


def topic(query: Query, partitions: int, panes: int) -> list[tuple[bytes, bytes]]:
    """What stands there of so many panes, all of them in the next window: merged snapshots, watermarks and a state."""
    digest, cells = query.digest, query.oracle.state_size
    reports, kind = REPORTS * partitions, "merged" if partitions > 1 else "closed"
    values = [encode_snapshot(Snapshot(reports, 0, 0, 0, RNG.poisson(reports / 2, cells))) for _ in range(16)]
    end = START + panes * PANE
    found = [(PaneKey(kind, digest, START + pane * PANE, 0).encode(), values[pane % 16]) for pane in range(panes)]
    found += [(StateKey(digest, query.windows[0], end).encode(), encode_state(Position(end)))]
    for partition in range(partitions):
        found.append((PartitionKey("watermark", partition).encode(), encode_progress(Progress(closed={digest: end}))))
    return found


def loaded(query: Query, partitions: int, records: list[tuple[bytes, bytes]]) -> tuple[Shelf, Spill, float]:
    """A shelf that has read them, its store, and the longest slice."""
    spill, longest = Spill(), 0.0
    shelf = Shelf(home(query.digest, partitions), partitions, {query.digest: Versions.of(query)}, store=spill)
    for name, value in records:
        shelf.put(name, value, 0)
    begun = time.perf_counter()
    for _ in shelf.loading():
        longest, begun = max(longest, time.perf_counter() - begun), time.perf_counter()
    return shelf, spill, longest


def one_more(query: Query, shelf: Shelf, partitions: int, before: list) -> list:
    """A pane more, its final, and the state after it."""
    slot, cells = shelf.slots[query.digest], query.oracle.state_size
    end = slot.merger.through or START
    value = encode_snapshot(Snapshot(REPORTS, 0, 0, 0, RNG.poisson(REPORTS / 2, cells)))
    for partition in range(partitions):
        shelf.put(PaneKey("closed", query.digest, end, partition).encode(), value, 0)
        mark = encode_progress(Progress(closed={query.digest: end + PANE}))
        shelf.put(PartitionKey("watermark", partition).encode(), mark, 0)
    slot.collect()
    slot.totals()
    (final,) = slot.owed()
    _, shown = face(query, final, before)
    slot.shown[final.span.window] = shown
    slot.state(final.span.window, final.position)
    list(slot.settled(final.span.window, final.position))
    list(slot.replaced())
    return shown


def main() -> None:
    gc.set_threshold(200_000, 20, 100)  # as a worker has it
    print(f"{'values':>9}  {'window':9} {'partitions':>10}  {'as int64':>9} {'held':>8} {'loading':>8} {'disk':>8}")
    print(f"{'':43}{'load, CPU':>10} {'slice':>8} {'a final, CPU':>13} {'a rebalance':>12}")
    for size, window, partitions in (
        (1_024, "1d/10s", 1),
        (1_024, "1d/10s", 12),
        (1_024, "1h/10s", 12),
        (1_000_000, "10m/10s", 1),
    ):
        query = asked(size, window)
        panes = query.windows[0].size // PANE
        records = topic(query, partitions, panes)
        took, slices = [], []
        for _ in range(ROUNDS):
            begun = time.process_time()
            shelf, spill, longest = loaded(query, partitions, records)
            took.append(time.process_time() - begun)
            slices.append(longest)
        before: list = []
        finals = []
        for _ in range(20):
            begun = time.process_time()
            before = one_more(query, shelf, partitions, before)
            finals.append(time.process_time() - begun)
        begun = time.process_time()
        shelf.go_on()
        again = time.process_time() - begun
        disk = spill.size
        del shelf, spill, before
        gc.collect()
        tracemalloc.start()
        shelf, spill, _ = loaded(query, partitions, records)
        _, peak = tracemalloc.get_traced_memory()
        shown: list = []
        for _ in range(3):
            shown = one_more(query, shelf, partitions, shown)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        mb = [panes * query.oracle.state_size * 8, held, peak, disk]
        first, *rest = (f"{number / 1e6:.1f} MB" for number in mb)
        print(f"{size:9,}  {window:9} {partitions:10}  {first:>9} " + " ".join(f"{one:>8}" for one in rest))
        numbers = (
            f"{min(took):8.2f} s {1e3 * min(slices):5.1f} ms {1e3 * np.median(finals):10.2f} ms {1e3 * again:9.2f} ms"
        )
        print(f"{'':43}{numbers}")
        del shelf, spill, shown


if __name__ == "__main__":
    main()
