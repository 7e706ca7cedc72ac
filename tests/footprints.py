"""The real memory of a worker or a board: `python -m tests.footprints CASE` prints its peak in bytes.

CASE is a JSON object. All objects are the daemon's own and count real reports. Loops take the place of a broker.
"""

import ctypes
import gc
import json
import sys
import tomllib
from pathlib import Path

import numpy as np

import aggregator.worker.worker  # noqa: F401 - what a worker has loaded before it counts
from aggregator.board.store.store import Store
from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.merging.pane_queue import FileStore
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.plan.memory import BOARD
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import home
from hubbub.definitions import catalog
from hubbub.definitions.versions import Versions
from oracles.frame import TICK, encode
from oracles.query import File, parse
from tests.queries import make_queries, make_table
from tests.results import build, window_result

STEP = 5
"""Seconds between two ticks. A pane closes at the first tick after its lateness."""
START = 1_700_006_400
"""A time that is a multiple of every pane here."""


def peak():
    """Return the most memory that this process has had since `reset_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def reset_peak():
    """Return free memory to the system, and reset the peak of this process."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


class Worker:
    """A worker that owns all partitions, and reads the panes of all queries in turn."""

    def __init__(self, queries, partitions, reports, ahead):
        self.queries, self.reports, self.ahead = queries, reports, ahead
        self.by_digest = {query.digest: Versions.of(query) for query in queries}
        self.sources = [SourcePartition(Gate(number, partitions, self.by_digest), "w") for number in range(partitions)]
        spill = FileStore()
        self.snapshots = [SnapshotPartition(at, partitions, self.by_digest, store=spill) for at in range(partitions)]
        for snapshots in self.snapshots:
            snapshots.load()
        self.book = ClockBook(partitions)
        self.partitions, self.table, self.offset = partitions, {}, 0
        self.answered = dict.fromkeys(self.by_digest, 0)
        """The number of panes with reports, by query."""

    def until(self, second):
        """Move the time to this second. Return the records that are published until then."""
        records = []
        for source in self.sources:
            run = []
            for query in self.queries:
                panes = (second + self.ahead * query.skew) // query.pane + 1
                for pane in range(self.answered[query.digest], panes):
                    frame = encode(query.digest, START + pane * query.pane, self.reports[query.digest])
                    run.append((self.offset + len(run), 1000 * (START + second), frame))
            run.append((self.offset + len(run), 1000 * (START + second), TICK))
            for record in run:  # one by one, so that the measurement holds no more than a worker would
                source.take([record])
        self.offset += len(run)
        for query in self.queries:
            panes = (second + self.ahead * query.skew) // query.pane + 1
            self.answered[query.digest] = max(self.answered[query.digest], panes)
        for source in self.sources:
            plan = source.plan(whole=True)
            for phase in plan.phases(source.progress):
                self.table.update(phase.changelog)
                for key, value in phase.snapshots:
                    self.put(home(key.digest, self.partitions), key.encode(), value)
                if phase.clock is not None:
                    self.book.note(b"", self.book.record({source.partition: phase.clock}))
            for name, _ in source.settle(plan):
                self.table.pop(name, None)
        for snapshots in self.snapshots:
            snapshots.put_clocks(self.book.view)
            for state in snapshots.queries.values():
                records += self.publish(state)
        return records

    def put(self, partition, name, value):
        self.snapshots[partition].put(name, bytes(bytearray(value)))  # as it comes from the broker: a copy

    def publish(self, state):
        query, records, batch = state.versions.query, [], {}
        finals = state.merger.finals()
        state.totals()
        for final in finals:
            window = final.span.window
            result = window_result(query, final.span, final.total, final.withheld, state.alerts.get(window, []))
            state.put_alerts(window, result.decision.states)
            records += result.window.records
            batch[window] = final.position
        for window, position in batch.items():
            state.state_writes(window, position)
            list(state.acknowledge(window, position))
        list(state.replaced_keys())
        if query.emit_every is not None:
            coming = list(state.merger.provisional())
            while coming:
                span, closed_through, total, withheld, totals = coming.pop()
                records += build(query, span, total, withheld, through=closed_through, totals=totals).records
        return records


def answers(queries, count):
    """Yield the digest of each query with reports of `count` clients. Each pane and partition gets the same reports."""
    rng = np.random.default_rng(1)
    for query in queries:
        columns = [np.minimum(rng.geometric(0.05, count) - 1, domain.size - 1) for domain in query.domains]
        values = columns[0] if len(columns) == 1 else np.column_stack(columns)
        yield query.digest, query.oracle.perturb(values, rng)


def read(table):
    return list(make_queries(table).values())


def worker_memory(queries, case, seconds, keep):
    """Return the peak memory of a worker. `keep` is called with its records."""
    reports = dict(answers(queries, case.get("reports", 4_000)))
    reset_peak()
    worker = Worker(queries, case.get("partitions", 1), reports, case.get("ahead", 0))
    for second in range(0, seconds + 1, STEP):
        keep(worker.until(second))
    return peak()


def board_memory(queries, case, records):
    """Return the memory of a board with these records. The list of records here does not count."""
    reset_peak()
    earlier_peak = peak()
    store = Store(case["retention"], case["memory"])
    file = File({query.name: query for query in queries})
    for key, value in catalog.changes(file, catalog.Definitions(), (), "0" * 16).writes:
        store.define(key, value)
    for value in records:
        store.take_record(value)
    return BOARD + peak() - earlier_peak


def main(case):
    warm = make_table(domain=9, budget=99.0, methods=["calibrate", "norm_sub"])
    worker_memory(read({"warm": warm}), {}, 60, list)  # so that all is loaded
    queries = list(parse(tomllib.loads(case["file"]), "hubbub.toml", ".").values())
    records = []
    keep = records.extend if case["of"] == "board" else len
    took = worker_memory(queries, case, case["seconds"], keep)
    took = took if case["of"] == "worker" else board_memory(queries, case, [value for _, value in records])
    sys.stdout.write(f"{took}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
