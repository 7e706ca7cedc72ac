"""What earlier versions of hubbub have left in topics, as this one reads it: tests/vectors/state-VERSION."""

import base64
import json
from collections import defaultdict
from pathlib import Path
from random import Random

import orjson
import pytest

from aggregator.counting.clock import decode
from aggregator.counting.tally import decode_snapshot
from aggregator.topics import keys
from aggregator.topics.keys import PaneKey, PartitionKey, StateKey
from hubbub import definitions
from hubbub.definitions import TopicRecord
from oracles.frame import MAX_FRAME, TICK
from tests.fold import fold
from tests.owners import Merge, Owner, Topics, settle

FOLDERS = sorted((Path(__file__).parents[1] / "vectors").glob("state-*"))


class Left:
    """The topics that a worker left when it was killed."""

    def __init__(self, folder):
        self.folder = folder
        reports = self.read("reports")
        self.partitions = 1 + max(partition for partition, *_ in reports)
        self.log = [[(o, t, v) for p, o, t, _, v in reports if p == at] for at in range(self.partitions)]
        self.definitions = definitions.read(
            TopicRecord(name, value, at) for _, _, at, name, value in self.read("queries")
        )
        self.gate = {"definitions": self.definitions.versions, "limit": MAX_FRAME}
        self.topics = Topics(self.partitions)
        for partition, _, _, name, value in self.read("worker-tallies-changelog"):
            self.topics.write(partition, name, value)
        for partition, _, _, name, value in self.read("snapshots"):
            self.topics.publish(partition, name, value)

    def read(self, topic):
        lines = (json.loads(line) for line in (self.folder / f"{topic}.jsonl").read_text().splitlines())
        return [(p, o, t, bits(name), bits(value)) for p, o, t, name, value in lines]


def bits(text):
    return None if text is None else base64.b64decode(text)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def left(request):
    return Left(request.param)


def test_there_is_a_bit_of_everything(left):
    kinds = defaultdict(int)
    for changelog in left.topics.changelog:
        for name in changelog:
            kinds[keys.decode(name).kind] += 1
    for target in range(left.partitions):
        for name, _ in left.topics.compacted(target):
            found = keys.decode(name)
            kinds["state" if isinstance(found, StateKey) else found.kind] += 1
    assert kinds.keys() == {"tally", "ids", "progress", "closed", "open", "watermark", "state"}
    assert len(left.definitions.queries) == 4
    assert [v.query.name for v in left.definitions.versions.values() if v.newest.retired] == ["gone"]


def test_counting_goes_on_from_it_to_the_finals_of_a_plain_fold(left):
    """Those that it had published, and all others: nothing is lost, nothing counted twice."""
    end = max(records[-1][1] for records in left.log) + 3_600_000
    for records in left.log:
        records.append((records[-1][0] + 1, end, TICK))
    published = defaultdict(set)
    for *_, name, value in left.read("estimates"):
        if not name.endswith(b"|p"):
            published[name].add(orjson.loads(value)["n"])
    owners = [Owner(left.topics, left.log, p, "later", **left.gate) for p in range(left.partitions)]
    assert all(owner.source.next_offset > 20 for owner in owners), "it begins anew"
    assert any(owner.source.tallies for owner in owners)
    for owner in owners:
        owner.read(1000)
        settle(owner)
    finals = defaultdict(set)
    for target in range(left.partitions):
        Merge(left.topics, target, left.partitions, left.definitions.versions).step(Random(1), finals)
    active = left.definitions.active
    versions = [versions for versions in left.definitions.versions.values() if not versions.newest.retired]
    truth = fold(left.log, versions, limit=MAX_FRAME)
    for (name, window, at), total in truth.items():
        said = published.get(first_key(active[name], window, at), set())
        fresh = {decode_snapshot(data, active[name].oracle.state_size).n for data in finals.get((name, window, at), ())}
        assert said | fresh == {total.n}, (name, window, at)
    assert any(name in {b"short", b"several"} for name in {name.partition(b"|")[0] for name in published})
    assert {name for name, _, _ in finals} == set(active)


def first_key(query, window, end):
    """A final's key in version 1 of the records."""
    return "|".join(map(str, [query.name, query.digest.hex(), window.kind, window.size, window.step, end])).encode()


def test_every_record_of_the_kept_topics_is_one_that_is_understood(left):
    cells = {digest: query.oracle.state_size for digest, query in left.definitions.queries.items()}
    for topic in ("worker-tallies-changelog", "snapshots"):
        for *_, name, value in left.read(topic):
            found = keys.decode(name)
            assert found is not None
            if isinstance(found, PartitionKey) and value is not None:
                assert decode(value).closed.keys() <= cells.keys()
            if isinstance(found, PaneKey):
                assert found.digest in cells
