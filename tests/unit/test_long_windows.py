"""Long windows. Panes go to disk, no remaining partition is read again, and loading lets the event loop run."""

import asyncio
import os
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

from aggregator.merging.merger import Merger
from aggregator.merging.pane_queue import CHUNK, FileStore
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_reader import SnapshotReader
from aggregator.process.metrics import Metrics
from aggregator.publishing.alerts.state import check_states
from aggregator.tallies.clock_book import ClockBook
from aggregator.tallies.keys import PaneKey, PartitionKey
from aggregator.tallies.progress import Progress, encode_ends
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.versions import Versions
from hubbub.kafka.settings import Kafka
from tests.queries import make_query

PANE = 10


def note_call(size, windows):
    return make_query(domain=size, oracle="olh", budget=1e9, windows=windows)


DAY = note_call(1024, ["1d/10s"])
SHORT = note_call(8, ["1m/10s"])


def test_a_day_of_panes_of_a_thousand_values_needs_two_megabytes():
    rng = np.random.default_rng(1)
    panes = 86_400 // PANE
    parts = [Snapshot(1000, 0, 0, 0, rng.poisson(500, DAY.oracle.state_size).astype(np.uint16)) for _ in range(8)]
    tracemalloc.start()
    try:
        spill = FileStore()
        merger = Merger(Versions.of(DAY), 1, store=spill)
        for number in range(panes + 5):
            merger.take(PANE * number, 0, parts[number % 8])
            merger.mark(0, PANE * (number + 1))
            if number < panes - 2:
                merger.collect(PANE * (number + 1))
                continue
            for final in merger.finals():
                if number == panes + 4 and final.span.end == PANE * (number + 1):
                    inside = [parts[position % 8] for position in range(number + 1 - panes, number + 1)]
        memory, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory < 2_000_000
    assert final.total.n == 1000 * panes
    assert np.array_equal(final.total.counts, sum(part.counts.astype(np.int64) for part in inside))
    assert spill.size > panes * DAY.oracle.state_size


def test_pieces_are_read_unchanged_and_their_space_is_used_again():
    spill = FileStore()
    rng = np.random.default_rng(2)
    pieces = [rng.bytes(int(size)) for size in rng.choice([0, 1, 100, 5000], 200)]
    places = [spill.put(piece) for piece in pieces]
    assert [spill.get(place) for place in places] == pieces
    size = spill.size
    for number in rng.permutation(200):
        spill.drop(places[number])
        places[number] = spill.put(pieces[number][::-1])
    assert [spill.get(place) for place in places] == [piece[::-1] for piece in pieces]
    assert spill.size == size


def test_if_the_disk_is_full_pieces_stay_in_memory_and_the_log_has_one_line(monkeypatch, caplog):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Path("/dev/full").open("r+b", buffering=0))  # noqa: SIM115
    spill = FileStore()
    pieces = [bytes([number]) * CHUNK for number in range(20)]
    places = [spill.put(piece) for piece in pieces[:9]]
    assert [spill.get(place) for place in places] == pieces[:9]
    assert caplog.text.count("Point TMPDIR to a folder with more room") == 1
    spill._file.close()
    monkeypatch.undo()
    with tempfile.TemporaryFile() as spill._file:
        places += [spill.put(piece) for piece in pieces[9:]]
        assert os.fstat(spill._file.fileno()).st_size == spill.size == 20 * CHUNK
        assert [spill.get(place) for place in places] == pieces


def records(panes):
    value = encode_snapshot(Snapshot(9, 0, 0, 0, np.ones(SHORT.oracle.state_size, np.uint8)))
    yield from ((PaneKey("closed", SHORT.digest, PANE * pane, 0).encode(), value) for pane in range(panes))
    yield PartitionKey("watermark", 0).encode(), encode_ends(Progress(closed={SHORT.digest: PANE * panes}))


def test_a_snapshot_partition_loads_in_slices():
    partition = SnapshotPartition(0, 1, {SHORT.digest: Versions.of(SHORT)})
    for name, value in records(30):
        partition.put(name, value)
    slices = [partition.loaded for _ in partition.load_in_slices()]
    assert slices == [False] * 30
    assert partition.loaded
    assert len(list(partition.queries[SHORT.digest].finals())) == 30


class Asked:
    """A consumer that only notes its calls."""

    def __init__(self):
        self.begun, self.sought, self.has = [], {}, []

    def assign(self, tps):
        self.has = [tp.partition for tp in tps if tp.topic == "p.snapshots"]

    def seek(self, tp, offset):
        if tp.topic == "p.snapshots":
            self.sought[tp.partition] = offset

    async def seek_to_beginning(self, *tps):
        self.begun += [tp.partition for tp in tps]

    async def end_offsets(self, tps):
        return dict.fromkeys(tps, 0)


def test_a_remaining_partition_is_read_again_only_after_another_worker_merged_it():
    reader = SnapshotReader(Kafka("nowhere:1", "p."), 4, Metrics(), check_states, ClockBook(4), None)
    reader._consumer = note_call = Asked()

    async def share(partitions):
        note_call.begun, note_call.sought = [], {}
        await reader.assign(partitions, {})
        assert sorted(note_call.has) == sorted(reader.partitions) == sorted(partitions)

    async def run():
        await share([0, 1, 2])
        assert note_call.begun == [0, 1, 2]
        first_partitions = dict(reader.partitions)
        reader.offsets = {0: 5, 1: 6, 2: 7}
        first_partitions[1].must_reload = True
        await share([1, 2, 3])
        assert reader.partitions[2] is first_partitions[2]
        assert reader.partitions[1] is not first_partitions[1]
        assert note_call.sought == {2: 7}
        assert sorted(note_call.begun) == [1, 3]
        assert reader.offsets == {1: 0, 2: 7, 3: 0}
        await share([0, 2])
        assert reader.partitions[0] is not first_partitions[0], "it may have gone on meanwhile"

    asyncio.run(run())
