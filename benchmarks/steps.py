"""What each step of a message costs a worker, from the bytes that Kafka's client fetched on: a budget of CPU.

python benchmarks/steps.py     needs compiled kernels

One thread, the least CPU time of several rounds, in microseconds a message. Beside the steps: the same records one by
one, as they go where something is odd or there are no compiled kernels; frames in JSON; and the memory that ids take.
"""

import base64
import json
import time
import tracemalloc
from functools import partial

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from aggregator.counting.admission import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.counting.quirks import LONGEST_WALK
from aggregator.counting.sieve import sift
from aggregator.counting.tally import Tally
from hubbub.columns import Columns
from hubbub.definitions.versions import Versions
from oracles.frame import HEADER_SIZE, encode
from oracles.kernels import batches
from oracles.query import parse

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


def best(work, *, given=tuple, rounds=31):
    """The least CPU seconds of some runs, each with what `given` makes for it."""
    shortest = float("inf")
    for _ in range(rounds):
        arguments = given()
        began = time.process_time()
        work(*arguments)
        shortest = min(shortest, time.process_time() - began)
    return shortest


class Nothing:
    """An oracle that counts nothing: what is left of counting are the ids."""

    def add(self, counts, reports):
        del counts, reports
        return 0


def fetched(values):
    """A batch as it stands in a log with LogAppendTime."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for index, value in enumerate(values):
        builder.append(index, START * 1000, None, value, [])
    data = bytearray(builder.build())
    data[:8] = bytes(8)
    data[22] |= 8
    data[17:21] = calc_crc32c(bytes(data[21:])).to_bytes(4, "big")
    return memoryview(bytes(data))


def made(oracle, per_frame, count, ids):
    domain = {"domain": 1024, "oracle": oracle, "epsilon": 1.0, "budget": 1e9, "pane": "10s", "max_ids": 1 << 30}
    query = parse({"queries": {"web": domain}}, "benchmark", ".")["web"]
    reports = query.oracle.perturb(RNG.integers(0, 1024, per_frame * count), RNG).reshape(count, per_frame, -1)
    names = [number.to_bytes(8, "little") if ids else None for number in range(1, count + 1)]
    frames = [encode(query.digest, START, rows, name) for rows, name in zip(reports, names, strict=True)]
    return query, reports, frames


def steps(oracle, per_frame, count, ids):
    """Seconds of each step for all frames."""
    query, reports, frames = made(oracle, per_frame, count, ids)
    gate, data, rows = (
        Gate(0, 1, {query.digest: Versions.of(query)}),
        fetched(frames),
        reports.reshape(-1, query.oracle.width),
    )
    found = batches.walk(data, 0, 0, LONGEST_WALK, checked=False)
    columns = Columns(data, found.offsets, found.times, found.places, found.sizes)
    ((_, accepted),) = sift(gate, columns, None).accepted.values()
    state = query.oracle.zeros()
    walk = best(partial(batches.walk, data, 0, 0, LONGEST_WALK, checked=False))
    checksum = best(partial(batches.walk, data, 0, 0, LONGEST_WALK, checked=True)) - walk
    kinds = best(partial(batches.tell_kinds, data, columns.places, columns.sizes))
    gather = best(partial(batches.gather, data, columns.places, columns.sizes, query.oracle.width, HEADER_SIZE))
    check = best(partial(query.oracle.malformed, rows))
    sifted = best(partial(sift, gate, columns, None))
    add = best(partial(query.oracle.add, state, rows))
    ids_alone = best(lambda tally: tally.add(Nothing(), accepted, 1 << 30), given=lambda: [Tally(state)])

    def source():
        taking = SourcePartition(gate, "one")
        taking.take(columns)
        return [taking]

    drafting = best(lambda taken: taken.draft(whole=True), given=source)
    return {
        "checksum": checksum,
        "walk": walk,
        "kinds and ids": kinds,
        "gather": gather,
        "check": check,
        "the rest of judging": sifted - kinds - gather - check,
        "ids": ids_alone,
        "add": add,
        "checkpoint's records": drafting,
    }


def one_by_one(oracle, per_frame, count, ids):
    """Seconds to take all frames record by record, and where they come in JSON."""
    query, reports, frames = made(oracle, per_frame, count, ids)
    gate = Gate(0, 1, {query.digest: Versions.of(query)})
    told = [
        json.dumps(
            {
                "digest": query.digest.hex(),
                "pane": START,
                **({"id": frame[24:32].hex()} if ids else {}),
                "reports": base64.b64encode(rows.tobytes()).decode(),
            }
        ).encode()
        for frame, rows in zip(frames, reports, strict=True)
    ]

    def took(values):
        run = [(at, START * 1000, value) for at, value in enumerate(values)]
        return best(lambda source: source.take(run), given=lambda: [SourcePartition(gate, "one")], rounds=7)

    return took(frames), took(told)


def memory(count=250_000):
    """Bytes that an id takes until a checkpoint has written it, and then."""
    query, _, frames = made("olh", 1, count, ids=True)
    source = SourcePartition(Gate(0, 1, {query.digest: Versions.of(query)}), "one")
    tracemalloc.start()
    for start in range(0, count, 10_000):
        source.take(Columns.of([(at, START * 1000, frames[at]) for at in range(start, start + 10_000)]))
    before = tracemalloc.get_traced_memory()[0]
    source.draft(whole=True)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return before / count, after / count


def main():
    for name, case in CASES.items():
        count, found = case[2], steps(*case)
        plain, told = one_by_one(*case)
        parts = ", ".join(f"{step} {1e6 * took / count:.3f}" for step, took in found.items())
        print(
            f"{name}: {parts}; together {1e6 * sum(found.values()) / count:.2f}, record by record"
            f" {1e6 * plain / count:.2f}, in JSON {1e6 * told / count:.2f}",
            flush=True,
        )
    print("an id takes {:.0f} bytes until it is written, and {:.0f} then".format(*memory()))


if __name__ == "__main__":
    main()
