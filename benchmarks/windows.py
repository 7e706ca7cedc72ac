"""Measure a long window: its memory, and the CPU to load it, to continue and to make one final.

python -m benchmarks.windows            a line for each window and number of partitions

A list of records replaces the broker. Memory is measured for one query's snapshot partition after loading, and as a
maximum during loading. For comparison there is the size of its panes as int64. `slice` is the longest pause of the
event loop during loading.
"""

import gc
import time
import tracemalloc

import numpy as np

from aggregator.merging.marks import QueryMarks
from aggregator.merging.pane_queue import FileStore
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_records import encode_state
from aggregator.merging.windows import Position
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey, home
from aggregator.tallies.progress import Progress
from aggregator.tallies.progress import encode_ends as encode_progress
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from benchmarks.harness import query_of
from hubbub.definitions.versions import Versions
from oracles.query import Query

PANE, REPORTS = 10, 1_000
START = 1_700_006_400
RNG = np.random.default_rng(20260101)
ROUNDS = 3


def topic(query: Query, partitions: int, panes: int) -> list[tuple[bytes, bytes]]:
    """Return the records of these panes, which are all in the next window: merged snapshots, watermarks and a state."""
    digest = query.digest
    cells = query.oracle.state_size
    reports = REPORTS * partitions
    kind = "merged" if partitions > 1 else "closed"
    values = [encode_snapshot(Snapshot(reports, 0, 0, 0, RNG.poisson(reports / 2, cells))) for _ in range(16)]
    end = START + panes * PANE
    records = [(PaneKey(kind, digest, START + pane * PANE, 0).encode(), values[pane % 16]) for pane in range(panes)]

    state = encode_state(Position(end), [], QueryMarks(Versions.of(query), end))
    records.append((StateKey(digest, query.windows[0], end).encode(), state))
    watermark = encode_progress(Progress(closed={digest: end}))
    records += [(PartitionKey("watermark", partition).encode(), watermark) for partition in range(partitions)]
    return records


def load(
    query: Query, partitions: int, records: list[tuple[bytes, bytes]]
) -> tuple[SnapshotPartition, FileStore, float]:
    """Return a snapshot partition with these records, its store, and the longest slice."""
    spill = FileStore()
    snapshots = SnapshotPartition(
        home(query.digest, partitions), partitions, {query.digest: Versions.of(query)}, store=spill
    )
    for name, value in records:
        snapshots.put(name, value)

    start = time.perf_counter()
    marks = [time.perf_counter() for _ in snapshots.load_in_slices()]
    return snapshots, spill, float(np.diff(marks, prepend=start).max())


def one_more(query: Query, snapshots: SnapshotPartition, partitions: int) -> None:
    """Add one pane, and make its final."""
    state = snapshots.queries[query.digest]
    cells = query.oracle.state_size
    end = state.merger.closed_through or START
    value = encode_snapshot(Snapshot(REPORTS, 0, 0, 0, RNG.poisson(REPORTS / 2, cells)))
    for partition in range(partitions):
        snapshots.put(PaneKey("closed", query.digest, end, partition).encode(), value)
        mark = encode_progress(Progress(closed={query.digest: end + PANE}))
        snapshots.put(PartitionKey("watermark", partition).encode(), mark)

    state.collect()
    state.totals()
    (final,) = state.due_finals()
    state.state_writes(final.span.window, final.position)
    list(state.acknowledge(final.span.window, final.position))
    list(state.replaced_keys())


def main() -> None:
    gc.set_threshold(200_000, 20, 100)  # the settings of a worker
    print(f"{'values':>9}  {'window':9} {'partitions':>10}  {'as int64':>9} {'loaded':>8} {'loading':>8} {'disk':>8}")
    print(f"{'':43}{'load, CPU':>10} {'slice':>8} {'a final, CPU':>13}")
    for size, window, partitions in (
        (1_024, "1d/10s", 1),
        (1_024, "1d/10s", 12),
        (1_024, "1h/10s", 12),
        (1_000_000, "10m/10s", 1),
    ):
        query = query_of(domain=size, oracle="olh", windows=[window])
        panes = query.windows[0].size // PANE
        records = topic(query, partitions, panes)
        load_times, slices = [], []
        for _ in range(ROUNDS):
            start_time = time.process_time()
            snapshots, spill, longest = load(query, partitions, records)
            load_times.append(time.process_time() - start_time)
            slices.append(longest)

        finals = []
        for _ in range(20):
            start_time = time.process_time()
            one_more(query, snapshots, partitions)
            finals.append(time.process_time() - start_time)

        # The memory of one partition, not of two.
        disk = spill.size
        del snapshots, spill
        gc.collect()
        # It slows the work down, so the times above come from rounds without it.
        tracemalloc.start()
        snapshots, spill, _ = load(query, partitions, records)
        _, peak = tracemalloc.get_traced_memory()
        for _ in range(3):
            one_more(query, snapshots, partitions)
        memory, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        columns = [panes * query.oracle.state_size * 8, memory, peak, disk]
        cells = [f"{number / 1e6:.1f} MB" for number in columns]
        print(f"{size:9,}  {window:9} {partitions:10}  {cells[0]:>9} " + " ".join(f"{cell:>8}" for cell in cells[1:]))
        numbers = f"{min(load_times):8.2f} s {1e3 * min(slices):5.1f} ms {1e3 * np.median(finals):10.2f} ms"
        print(f"{'':43}{numbers}")
        del snapshots, spill


if __name__ == "__main__":
    main()
