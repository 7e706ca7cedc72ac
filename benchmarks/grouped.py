"""Measure what groups cost: one query with groups beside as many queries with the same reports, in one run.

python -m benchmarks.grouped [--groups 16] [--rounds 5]

Both count the same frames of olh, 1,024 values, in panes of 10 s, and make the records of a tumbling window. Counting
goes from the bytes of frames to closed snapshots: the gate, the tallies and their encoding. The rest goes from these
snapshots to records. The costs are CPU seconds of this process, and the ratio is that of one round. The query with
groups also makes a record of the total. Then it prints the sizes of a pane's snapshot and of a window's records, with
weights too, and the memory of making a final: the peak of what Python and NumPy allocate.
"""

import time
import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np

from aggregator.counting.admission import columnar_gate
from aggregator.counting.admission.gate import Gate
from aggregator.merging.merger import Merger
from aggregator.publishing.finals.final import ResultSequence
from aggregator.tallies.snapshot import decode_snapshot, encode_snapshot
from aggregator.tallies.tally import Tally
from benchmarks.harness import arguments
from hubbub.definitions.versions import Versions
from oracles.frame import encode
from oracles.query import parse
from oracles.query.footprint import tally_size

PANE, PANES = 10, 6
FRAMES, REPORTS = 40, 100
"""Frames of a group and pane, and reports of a frame."""
START = 1_700_000_000
MIB = 1 << 20
COMMON = {
    "domain": 1024,
    "oracle": "olh",
    "epsilon": 1.0,
    "budget": 1e9,
    "pane": "10s",
    "windows": ["10s"],
    "crowd": 50,
    "publish": 100,
    "methods": ["norm_sub"],
}


def queries(groups):
    """Return the query with groups, and the queries that stand for its groups."""
    values = [f"g{number}" for number in range(1, groups)]
    tables = {f"q{number}": COMMON for number in range(groups)} | {"all": {**COMMON, "groups": {"of": values}}}
    parsed = parse({"queries": tables}, "the benchmark", None)
    return parsed.pop("all"), list(parsed.values())


def frames_of(query, reports, group):
    """Return the frames of all panes with these reports."""
    return [
        encode(query.digest, START + PANE * pane, piece, group=group)
        for pane, piece in product(range(PANES), np.split(reports, FRAMES))
    ]


def counted(kinds, frames):
    """Return the closed snapshots of each query, by pane."""
    by_digest = {query.digest: query for query in kinds}
    gate = Gate(0, 1, {digest: Versions.of(query) for digest, query in by_digest.items()})
    run = [(offset, START * 1000, frame) for offset, frame in enumerate(frames)]

    tallies = {}
    for pane, (query, batch) in columnar_gate.admit(gate, run, START * 1000).batches.items():
        tally = tallies.setdefault(pane, Tally.empty(query))
        tally.add(query.oracle, batch, query.max_ids)
    return {pane: encode_snapshot(tally.close()) for pane, tally in tallies.items()}


def published(query, snapshots):
    """Return the sizes of the records of these snapshots, of each window."""
    cells = query.oracle.state_size
    further = (tally_size(query) - cells) // (cells + 3)
    merger = Merger(Versions.of(query), 1)
    results = ResultSequence()
    windows = []
    for pane, data in snapshots.items():
        merger.take(pane, 0, decode_snapshot(data, cells, further))
        merger.mark(0, pane + PANE)
        finals = [results.next(query, final) for final in merger.finals()]
        windows += [[len(value) for _, value in final.window.records] for final in finals]
    return windows


def all_published(kinds, snapshots):
    """Return the number of records of the snapshots of several queries."""
    count = 0
    for query in kinds:
        count += sum(map(len, published(query, panes_of(query, snapshots))))
    return count


def panes_of(query, snapshots):
    """Return the snapshots of one query by their pane."""
    return {pane: data for (digest, pane), data in sorted(snapshots.items()) if digest == query.digest}


def print_sizes(query, snapshots):
    """Print how large snapshots and records are, and how much memory a final takes."""
    panes = panes_of(query, snapshots)
    print(f"snapshot of a pane: {max(map(len, panes.values())) / MIB:.2f} MiB")
    one_pane = dict([next(iter(panes.items()))])
    for name, published_query in (("records", query), ("records with weights", weighted(query))):
        tracemalloc.start()
        [sizes] = published(published_query, one_pane)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"{name}: {sum(sizes) / MIB:.2f} MiB a window, the largest {max(sizes) / 1024:.1f} KiB, "
            f"{peak / MIB:.1f} MiB of memory to make them"
        )


def weighted(query):
    """Return the query with equal weights of its groups."""
    count = len(query.groups.values)
    return replace(query, weights=(1.0 / count,) * count)


def cost(work, *arguments):
    """Return the result of a function and the CPU seconds that it took."""
    began = time.process_time()
    result = work(*arguments)
    return result, time.process_time() - began


def main():
    options = arguments(__doc__, groups=(16, "groups, with the one without a name"), rounds=5)
    groups = options.groups
    grouped_query, single_queries = queries(groups)
    rng = np.random.default_rng(1)
    reports = grouped_query.oracle.perturb(rng.integers(0, 1024, FRAMES * REPORTS), rng)
    # The log has frames of all groups side by side, as gateways write them.
    order = rng.permutation(groups * PANES * FRAMES)
    grouped_frames, single_frames = [], []
    for group, query in enumerate(single_queries):
        grouped_frames += frames_of(grouped_query, reports, group)
        single_frames += frames_of(query, reports, 0)
    grouped_frames = [grouped_frames[place] for place in order]
    single_frames = [single_frames[place] for place in order]

    rows = []
    for _ in range(options.rounds):
        snapshots, count_seconds = cost(counted, [grouped_query], grouped_frames)
        single_snapshots, single_count_seconds = cost(counted, single_queries, single_frames)
        records, publish_seconds = cost(all_published, [grouped_query], snapshots)
        single_records, single_publish_seconds = cost(all_published, single_queries, single_snapshots)
        rows.append((count_seconds, single_count_seconds, publish_seconds, single_publish_seconds))

    print(f"{groups} groups: {records} records, {groups} queries: {single_records}; median of {options.rounds} rounds")
    columns = np.array(rows).T
    for name, grouped_times, single_times in (("counting", *columns[:2]), ("records", *columns[2:])):
        ratio = np.median(grouped_times / single_times)
        milliseconds = [1000 * np.median(times) for times in (grouped_times, single_times)]
        print(f"{name}: {milliseconds[0]:.0f} ms with groups, {milliseconds[1]:.0f} ms with queries, ratio {ratio:.2f}")
    print(f"together: ratio {np.median((columns[0] + columns[2]) / (columns[1] + columns[3])):.2f}")
    print(f"a final with its records: {1000 * np.median(columns[2]) / PANES:.0f} ms of CPU")
    print_sizes(grouped_query, snapshots)


if __name__ == "__main__":
    main()
