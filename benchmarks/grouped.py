"""Measure what groups cost: one query with groups beside as many queries with the same reports, in one run.

python -m benchmarks.grouped [--groups 16] [--rounds 5]

Both count the same frames of olh, 1,024 values, in panes of 10 s, and make the records of a tumbling window. Counting
goes from the bytes of frames to closed snapshots: the gate, the tallies and their encoding. The rest goes from these
snapshots to records. The costs are CPU seconds of this process, and the ratio is that of one round. The query with
groups also makes a record of the total. Then it prints the sizes of a pane's snapshot and of a window's records, with
weights too, and the memory of making a final: the peak of what Python and NumPy allocate.
"""

import argparse
import time
import tracemalloc
from dataclasses import replace
from statistics import median

import numpy as np

from aggregator.counting.admission import record_run
from aggregator.counting.admission.gate import Gate
from aggregator.merging.merger import Merger
from aggregator.publishing.finals.final import ResultSequence
from aggregator.tallies.snapshot import decode_snapshot, encode_snapshot
from aggregator.tallies.tally import Tally
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
        for pane in range(PANES)
        for piece in np.split(reports, FRAMES)
    ]


def counted(kinds, frames):
    """Return the closed snapshots of each query, by pane."""
    by_digest = {query.digest: query for query in kinds}
    gate = Gate(0, 1, {digest: Versions.of(query) for digest, query in by_digest.items()})
    run = [(at, START * 1000, frame) for at, frame in enumerate(frames)]
    tallies = {}
    for pane, (query, batch) in record_run.admit(gate, run, START * 1000).batches.items():
        tally = tallies.setdefault(pane, Tally.empty(query))
        tally.add(query.oracle, batch, query.max_ids)
    return {pane: encode_snapshot(tally.close()) for pane, tally in tallies.items()}


def published(query, snapshots):
    """Return the sizes of the records of these snapshots, of each window."""
    cells, windows = query.oracle.state_size, []
    further = (tally_size(query) - cells) // (cells + 3)
    merger, results = Merger(Versions.of(query), 1), ResultSequence()
    for pane, data in snapshots.items():
        merger.take(pane, 0, decode_snapshot(data, cells, further))
        merger.mark(0, pane + PANE)
        finals = [results.next(query, final) for final in merger.finals()]
        windows += [[len(value) for _, value in final.window.records] for final in finals]
    return windows


def all_published(kinds, snapshots):
    """Return the number of records of the snapshots of several queries."""
    windows = [window for query in kinds for window in published(query, panes_of(query, snapshots))]
    return sum(map(len, windows))


def panes_of(query, snapshots):
    """Return the snapshots of one query by their pane."""
    return {pane: data for (digest, pane), data in sorted(snapshots.items()) if digest == query.digest}


def print_sizes(query, snapshots):
    """Print how large snapshots and records are, and how much memory a final takes."""
    panes = panes_of(query, snapshots)
    print(f"snapshot of a pane: {max(map(len, panes.values())) / MIB:.2f} MiB")
    first = dict([next(iter(panes.items()))])
    for name, each in (("records", query), ("records with weights", weighted(query))):
        tracemalloc.start()
        [sizes] = published(each, first)
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=int, default=16, metavar="N", help="groups, with the one without a name")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args()
    groups = options.groups
    whole, alone = queries(groups)
    rng = np.random.default_rng(1)
    reports = whole.oracle.perturb(rng.integers(0, 1024, FRAMES * REPORTS), rng)
    order = rng.permutation(groups * PANES * FRAMES)
    mixed = [frame for group in range(groups) for frame in frames_of(whole, reports, group)]
    apart = [frame for query in alone for frame in frames_of(query, reports, 0)]
    mixed, apart = [mixed[at] for at in order], [apart[at] for at in order]
    rows = []
    for _ in range(options.rounds):
        one, count_one = cost(counted, [whole], mixed)
        many, count_many = cost(counted, alone, apart)
        records, publish_one = cost(all_published, [whole], one)
        others, publish_many = cost(all_published, alone, many)
        rows.append((count_one, count_many, publish_one, publish_many))
    print(f"{groups} groups: {records} records, {groups} queries: {others}; median of {options.rounds} rounds")
    for name, first in (("counting", 0), ("records", 2)):
        ratio = median(row[first] / row[first + 1] for row in rows)
        seconds = [1000 * median(row[at] for row in rows) for at in (first, first + 1)]
        print(f"{name}: {seconds[0]:.0f} ms with groups, {seconds[1]:.0f} ms with queries, ratio {ratio:.2f}")
    ratio = median((row[0] + row[2]) / (row[1] + row[3]) for row in rows)
    print(f"together: ratio {ratio:.2f}")
    seconds = median(row[2] for row in rows) / PANES
    print(f"a final with its records: {1000 * seconds:.0f} ms of CPU")
    print_sizes(whole, one)


if __name__ == "__main__":
    main()
