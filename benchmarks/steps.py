"""Measure the CPU of each step of a message in a worker, from the bytes of Kafka's client on.

python -m benchmarks.steps     needs compiled kernels

One thread, the least CPU time of several rounds, in microseconds per message. In addition to the steps it measures the
slow path, which takes the same records one by one if they are unusual or there are no compiled kernels. It also
measures frames in JSON, and the memory of ids.
"""

import base64
import json
import time
import tracemalloc
from functools import partial

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from aggregator.counting.admission.columnar_gate import admit_columns
from aggregator.counting.admission.gate import Gate
from aggregator.counting.faust_patches import LONGEST_WALK
from aggregator.counting.partition import SourcePartition
from aggregator.tallies.tally import Tally
from benchmarks.harness import query_of, show
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import RecordColumns
from oracles.frame import HEADER_SIZE, encode
from oracles.kernels import batches

RNG = np.random.default_rng(20260101)
START = 1_700_000_000
CASES = {
    # name: oracle, reports a frame, frames of a fetch, whether they have ids
    "olh, one report": ("olh", 1, 16_000, False),
    "olh, one with id": ("olh", 1, 16_000, True),
    "olh, frames of 20 with ids": ("olh", 20, 8_000, True),
    "olh, frames of 1,000 with ids": ("olh", 1000, 250, True),
    "oue, frames of 1,000 with ids": ("oue", 1000, 32, True),
}


def best(work, *, make_arguments=tuple, rounds=31):
    """Return the least CPU seconds of several runs, each with new arguments from `make_arguments`."""
    shortest = float("inf")
    for _ in range(rounds):
        arguments = make_arguments()
        began = time.process_time()
        work(*arguments)
        shortest = min(shortest, time.process_time() - began)
    return shortest


class Nothing:
    """An oracle that counts nothing, so that only the ids remain."""

    state_size = 0

    def add(self, counts, reports):
        del counts, reports
        return 0


def batch_of(values):
    """Return a batch in the form of a log with LogAppendTime."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for index, value in enumerate(values):
        builder.append(index, START * 1000, None, value, [])
    data = bytearray(builder.build())
    data[:8] = bytes(8)
    # The log would set the time itself: bit 3 says LogAppendTime, and the checksum covers it.
    data[22] |= 8
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return memoryview(bytes(data))


def load_of(oracle, per_frame, count, ids):
    query = query_of(oracle=oracle, max_ids=1 << 30)
    reports = query.oracle.perturb(RNG.integers(0, 1024, per_frame * count), RNG).reshape(count, per_frame, -1)
    names = [number.to_bytes(8, "little") if ids else None for number in range(1, count + 1)]
    frames = [encode(query.digest, START, rows, name) for rows, name in zip(reports, names, strict=True)]
    return query, reports, frames


def steps(oracle, per_frame, count, ids):
    """Return the seconds of each step for all frames."""
    query, reports, frames = load_of(oracle, per_frame, count, ids)
    gate = Gate(0, 1, {query.digest: Versions.of(query)})
    data = batch_of(frames)
    rows = reports.reshape(-1, query.oracle.width)
    walk_result = batches.walk(data, 0, 0, LONGEST_WALK, checksums=False)
    columns = RecordColumns(data, walk_result.offsets, walk_result.times, walk_result.places, walk_result.sizes)
    ((_, batch),) = admit_columns(gate, columns, None).batches.values()
    state = query.oracle.zeros()

    walk = best(partial(batches.walk, data, 0, 0, LONGEST_WALK, checksums=False))
    checksum = best(partial(batches.walk, data, 0, 0, LONGEST_WALK, checksums=True)) - walk
    kinds = best(partial(batches.tell_kinds, data, columns.places, columns.sizes))
    gather = best(partial(batches.gather, data, columns.places, columns.sizes, query.oracle.width, HEADER_SIZE))
    check = best(partial(query.oracle.malformed, rows))
    judging = best(partial(admit_columns, gate, columns, None))
    add = best(partial(query.oracle.add, state, rows))
    ids_alone = best(lambda tally: tally.add(Nothing(), batch, 1 << 30), make_arguments=lambda: [Tally(state)])

    def source():
        taking = SourcePartition(gate, "one")
        taking.take(columns)
        return [taking]

    drafting = best(lambda source_with_frames: source_with_frames.plan(whole=True), make_arguments=source)
    return {
        "checksum": checksum,
        "walk": walk,
        "kinds and ids": kinds,
        "gather": gather,
        "check": check,
        "the rest of judging": judging - kinds - gather - check,
        "ids": ids_alone,
        "add": add,
        "checkpoint's records": drafting,
    }


def one_by_one(oracle, per_frame, count, ids):
    """Return the seconds to take all frames one by one, in binary and in JSON."""
    query, reports, frames = load_of(oracle, per_frame, count, ids)
    gate = Gate(0, 1, {query.digest: Versions.of(query)})
    json_frames = []
    for frame, rows in zip(frames, reports, strict=True):
        fields = {"digest": query.digest.hex(), "pane": START, "reports": base64.b64encode(rows.tobytes()).decode()}
        if ids:
            fields["id"] = frame[24:32].hex()
        json_frames.append(json.dumps(fields).encode())

    def seconds(values):
        run = [(offset, START * 1000, value) for offset, value in enumerate(values)]
        return best(lambda source: source.take(run), make_arguments=lambda: [SourcePartition(gate, "one")], rounds=7)

    return seconds(frames), seconds(json_frames)


def memory(count=250_000):
    """Return the bytes of an id before and after a checkpoint has written it."""
    query, _, frames = load_of("olh", 1, count, ids=True)
    source = SourcePartition(Gate(0, 1, {query.digest: Versions.of(query)}), "one")
    tracemalloc.start()
    for start in range(0, count, 10_000):
        run = [(offset, START * 1000, frames[offset]) for offset in range(start, start + 10_000)]
        source.take(RecordColumns.of(run))

    # A checkpoint keeps an id in fewer bytes than the queue of new ones.
    queued = tracemalloc.get_traced_memory()[0]
    source.plan(whole=True)
    written = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return queued / count, written / count


def main():
    for name, case in CASES.items():
        count = case[2]
        costs = {step: 1e6 * seconds / count for step, seconds in steps(*case).items()}
        plain, json_cost = (1e6 * seconds / count for seconds in one_by_one(*case))
        parts = ", ".join(f"{step} {cost:.3f}" for step, cost in costs.items())
        total = sum(costs.values())
        show(f"{name}: {parts}; total {total:.2f}, one by one {plain:.2f}, in JSON {json_cost:.2f}")
    print("an id needs {:.0f} bytes until a checkpoint, and {:.0f} after it".format(*memory()))


if __name__ == "__main__":
    main()
