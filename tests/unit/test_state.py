"""Topics of earlier versions, from tests/vectors/state-VERSION. This version reads them."""

import base64
import json
from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import orjson
import pytest

from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.records.keys import key
from aggregator.records.span import Span
from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey
from aggregator.tallies.progress import Progress, TopicIds, decode, encode_ends
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, decode_snapshot, encode_snapshot
from hubbub.definitions import catalog
from hubbub.definitions.catalog import TopicRecord
from hubbub.definitions.versions import Versions
from hubbub.kafka.columns import UNTRUSTED
from oracles.errors import ReportError
from oracles.frame import MAX_FRAME, TICK
from oracles.query import parse
from tests.fold import fold
from tests.owners import Merge, Owner, Topics, settle

FOLDERS = sorted((Path(__file__).parents[1] / "vectors").glob("state-*"))


class Left:
    """The topics of a worker that was killed."""

    def __init__(self, folder):
        self.folder = folder
        reports = self.read("reports")
        self.partitions = 1 + max(partition for partition, *_ in reports)
        self.log = [[(o, t, v) for p, o, t, _, v in reports if p == number] for number in range(self.partitions)]
        self.definitions = catalog.read(TopicRecord(name, value, at) for _, _, at, name, value in self.read("queries"))
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
def topics(request):
    return Left(request.param)


def test_the_topics_have_all_kinds_of_records(topics):
    kinds = defaultdict(int)
    for changelog in topics.topics.changelog:
        for name in changelog:
            kinds[keys.decode(name).kind] += 1
    for target in range(topics.partitions):
        for name, _ in topics.topics.compacted(target):
            result = keys.decode(name)
            kinds["state" if isinstance(result, StateKey) else result.kind] += 1
    assert kinds.keys() == {"tally", "ids", "progress", "closed", "open", "watermark", "state"}
    assert len(topics.definitions.queries) == 4
    assert [v.query.name for v in topics.definitions.versions.values() if v.newest.retired] == ["gone"]


def test_counting_resumes_and_gives_the_finals_of_the_fold(topics):
    """These are the published finals and all others. No report is lost or counts twice."""
    end = max(records[-1][1] for records in topics.log) + 3_600_000
    for records in topics.log:
        records.append((records[-1][0] + 1, end, TICK))
    publications = defaultdict(dict)
    for *_, name, value in topics.read("estimates"):
        if not name.endswith(b"|p"):
            window, _, attribute = name.partition(b"|a:")
            publications[window][attribute] = orjson.loads(value)["n"]
    owners = [Owner(topics.topics, topics.log, p, "later", **topics.gate) for p in range(topics.partitions)]
    assert all(owner.source.next_offset > 5 for owner in owners), "it begins anew"
    assert any(owner.source.tallies for owner in owners)
    for owner in owners:
        owner.read(1000)
        settle(owner)
    finals = defaultdict(set)
    for target in range(topics.partitions):
        Merge(topics.topics, target, topics.partitions, topics.definitions.versions).step(Random(1), finals)
    queries = {query.name: query for query in topics.definitions.queries.values()}
    truth = fold(topics.log, topics.definitions.versions.values(), limit=MAX_FRAME)
    for (name, window, moment), total in truth.items():
        name_of = key(queries[name], Span(window, moment - window.size, moment), None, final=True)
        sizes = {sum(publications[name_of].values())} if name_of in publications else set()
        fresh = {
            decode_snapshot(data, queries[name].oracle.state_size).n for data in finals.get((name, window, moment), ())
        }
        assert sizes | fresh == {total.n}, (name, window, moment)
    assert any(name in {b"short", b"several"} for name in {name.partition(b"|")[0] for name in publications})
    assert {name for name, _, _ in finals} == set(queries)


def test_every_record_of_the_topics_is_readable(topics):
    cells = {digest: query.oracle.state_size for digest, query in topics.definitions.queries.items()}
    for topic in ("worker-tallies-changelog", "snapshots"):
        for *_, name, value in topics.read(topic):
            result = keys.decode(name)
            assert result is not None
            if isinstance(result, PartitionKey) and value is not None:
                assert decode(value).closed.keys() <= cells.keys()
            if isinstance(result, PaneKey):
                assert result.digest in cells


def test_progress_that_names_corrections_is_read_without_them():
    plain = encode_ends(Progress(5, 6, {b"digest!!": 7}, TopicIds(b"r" * 16, b"s" * 15)))
    moment = len(plain) - 16  # where the names begin, before one digest and its end
    assert plain[moment - 4 : moment] == bytes(4)
    with_corrections = plain[: moment - 4] + (2).to_bytes(4, "little") + b"12345678abcdefgh" + plain[moment:]
    assert decode(with_corrections) == decode(plain) == Progress(5, 6, {b"digest!!": 7}, TopicIds(b"r" * 16, b"s" * 15))
    for length in range(len(with_corrections)):
        with pytest.raises(ReportError):
            decode(with_corrections[:length])


def test_the_flag_of_a_correction_is_read_as_none():
    data = bytearray(encode_snapshot(Snapshot(3, 0, 0, INCOMPLETE, np.array([1, 2]))))
    data[1] |= 8
    assert decode_snapshot(bytes(data), 2).flags == INCOMPLETE


def test_a_correction_in_the_topic_of_definitions_is_skipped():
    record = TopicRecord(b"correction|0|5|9", b'{"clock": null, "wrong": 0}', 0)
    assert catalog.read([record]) == catalog.Definitions()


def test_the_first_record_without_a_log_time_is_named():
    source = Owner(Topics(1), [[]], 0, "one").source
    run = [(0, 1000, b""), (1, UNTRUSTED, b""), (2, UNTRUSTED, b"")]
    assert source.first_without_time(run) == 1
    assert source.first_without_time(run[:1]) is None


def test_states_without_marks_begin_them_again_at_the_newest_end():
    """The vector has states that commit b822e1d wrote, after eight panes and with two windows withheld.

    The marks begin at 80. `all` shows values again once `crowd` reports have come since, with its old start.
    """
    vector = json.loads((FOLDERS[0].parent / "crowd-state-0.1.json").read_text())
    query = parse({"queries": {"site": vector["table"]}}, "test", ".")["site"]
    partition = SnapshotPartition(0, 1, {query.digest: Versions.of(query)})
    for name, value in vector["snapshots"]:
        partition.put(name.encode(), base64.b64decode(value))
    partition.load()
    assert not partition.take_unreadable_count()
    state = partition.queries[query.digest]
    reasons = {}
    assert not list(state.finals())
    for pane, n in ((80, 6), (90, 3), (100, 4), (110, 11), (120, 12)):
        snapshot = Snapshot(n, 0, 0, 0, np.full(query.oracle.state_size, n))
        partition.put(PaneKey("closed", query.digest, pane, 0).encode(), encode_snapshot(snapshot))
        closed = encode_ends(Progress(closed={query.digest: pane + 10}))
        partition.put(PartitionKey("watermark", 0, "w").encode(), closed)
        for final in state.finals():
            kind, start, end = final.span
            reasons[kind.kind, start, end] = final.withheld[0]
    visible = {place for place, reason in reasons.items() if reason is None}
    assert {place for place in visible if place[0] == "all"} == {("all", 0, 120), ("all", 0, 130)}
    assert {place for place in visible if place[0] != "all"} == {("tumbling", 120, 130)}
