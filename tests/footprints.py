"""The memory that a worker and a board really take: `python -m tests.footprints CASE`, CASE a JSON object.

Every object is the daemon's own, fed with real reports; a broker's part is played by loops. Prints, in bytes,
what the process has at its highest.
"""

import ctypes
import gc
import json
import sys
import tomllib
from pathlib import Path

import numpy as np

import aggregator.worker.worker  # noqa: F401 - what a worker has loaded before it counts
from aggregator.board.store import Store
from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.merging.pane_queue import FileStore
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.plan.memory import BOARD
from aggregator.publishing.finals.final import publish
from aggregator.publishing.records.encoder import build
from aggregator.tallies.keys import home
from hubbub.definitions import catalog
from hubbub.definitions.versions import Versions
from oracles.frame import TICK, encode
from oracles.query import File, parse

STEP = 5
"""Seconds: a pane closes at once when its lateness is over."""
START = 1_700_006_400
"""A multiple of every pane here."""


def highest():
    """The most memory that this process has had since it was `forgotten`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def forgotten():
    """Give back what is free, and forget how much it was."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


class Worker:
    """One that has all partitions, and takes in the panes of all queries in turn."""

    def __init__(self, queries, partitions, reports, ahead):
        self.queries, self.reports, self.ahead = queries, reports, ahead
        self.by_digest = {query.digest: Versions.of(query) for query in queries}
        self.sources = [SourcePartition(Gate(at, partitions, self.by_digest), "w") for at in range(partitions)]
        spill = FileStore()
        self.snapshots = [SnapshotPartition(at, partitions, self.by_digest, store=spill) for at in range(partitions)]
        for snapshots in self.snapshots:
            snapshots.load()
        self.partitions, self.table, self.offset, self.shown = partitions, {}, 0, [{} for _ in self.sources]
        self.answered = dict.fromkeys(self.by_digest, 0)
        """How many panes of each query have had reports."""

    def until(self, second):
        """Time goes on; returns the records that it brings."""
        records = []
        for source in self.sources:
            run = []
            for query in self.queries:
                begun = (second + self.ahead * query.skew) // query.pane + 1
                for pane in range(self.answered[query.digest], begun):
                    frame = encode(query.digest, START + pane * query.pane, self.reports[query.digest])
                    run.append((self.offset + len(run), 1000 * (START + second), frame))
            run.append((self.offset + len(run), 1000 * (START + second), TICK))
            for record in run:  # one by one, so that the measurement holds no more than a worker would
                source.take([record])
        self.offset += len(run)
        for query in self.queries:
            begun = (second + self.ahead * query.skew) // query.pane + 1
            self.answered[query.digest] = max(self.answered[query.digest], begun)
        for shown, source in zip(self.shown, self.sources, strict=True):
            for key, n, value in source.open_snapshots(shown):
                shown[key.digest, key.pane] = n
                self.put(home(key.digest, self.partitions), key.encode(), value)
        for source in self.sources:
            plan = source.plan(whole=True)
            for phase in plan.phases(source.progress, source.watermarks):
                self.table.update(phase.changelog)
                for key, value in phase.snapshots:
                    self.put(home(key.digest, self.partitions), key.encode(), value)
                for target, closed in phase.watermarks.items():
                    for digest, end in closed.items():
                        self.snapshots[target].queries[digest].merger.mark(source.partition, end)
            for name, _ in source.settle(plan):
                self.table.pop(name, None)
        for snapshots in self.snapshots:
            for state in snapshots.queries.values():
                records += self.publish(state)
        return records

    def put(self, partition, name, value):
        self.snapshots[partition].put(name, bytes(bytearray(value)), 0)  # as it comes from the broker: a copy

    def publish(self, state):
        query, records, batch = state.versions.query, [], {}
        found = state.merger.finals()
        state.totals()
        for final in found:
            window = final.span.window
            built, _, *now = publish(query, final, state.alerts.get(window, []), state.visible.get(window, []))
            state.alerts[window], state.visible[window] = now
            records += built.records
            batch[window] = final.position
        for window, position in batch.items():
            state.state_record(window, position)
            list(state.acknowledge(window, position))
        list(state.replaced_keys())
        if query.emit_every is not None:
            coming = list(state.merger.provisional())
            while coming:
                span, total = coming.pop()
                told = state.guard.next(query, span, total, state.visible.get(span.window, []))
                if told is not None:
                    records += build(query, *told, final=False).records
        return records


def answers(queries, count):
    """Reports of so many clients to each query; a pane has the same on each partition."""
    rng = np.random.default_rng(1)
    for query in queries:
        columns = [np.minimum(rng.geometric(0.05, count) - 1, domain.size - 1) for domain in query.domains]
        values = columns[0] if len(columns) == 1 else np.column_stack(columns)
        yield query.digest, query.oracle.perturb(values, rng)


def read(table):
    return list(parse({"queries": table}, "hubbub.toml", ".").values())


def worked(queries, case, seconds, keep):
    """The memory over the life of a worker; what it publishes is handed to `keep`."""
    reports = dict(answers(queries, case.get("reports", 4_000)))
    forgotten()
    made = Worker(queries, case.get("partitions", 1), reports, case.get("ahead", 0))
    for second in range(0, seconds + 1, STEP):
        keep(made.until(second))
    return highest()


def shown(queries, case, records):
    """The memory with a board's store of these records, without what the records take here."""
    forgotten()
    before = highest()
    store = Store(case["retention"], case["memory"])
    file = File({query.name: query for query in queries})
    for key, value in catalog.changes(file, catalog.Definitions(), (), "0" * 16).writes:
        store.define(key, value)
    for value in records:
        store.take_record(value)
    return BOARD + highest() - before


def main(case):
    warm = {"domain": 9, "epsilon": 1.0, "budget": 99.0, "pane": "10s", "methods": ["calibrate", "norm_sub"]}
    worked(read({"warm": warm}), {}, 60, list)  # so that all is loaded
    queries = list(parse(tomllib.loads(case["file"]), "hubbub.toml", ".").values())
    records = []
    kept = records.extend if case["of"] == "board" else len
    took = worked(queries, case, case["seconds"], kept)
    took = took if case["of"] == "worker" else shown(queries, case, [value for _, value in records])
    sys.stdout.write(f"{took}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
