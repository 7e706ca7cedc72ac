"""Merged snapshots. One record of a closed pane replaces the records of all partitions."""

import numpy as np
import pytest

from aggregator.merging import snapshot_records
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.tallies import keys
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey
from aggregator.tallies.progress import Progress, encode_ends
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from aggregator.tallies.state_forms import join_state, unmarked_records
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from tests.queries import make_query

PANE, PARTITIONS = 10, 3


def asked(*windows):
    return make_query(domain=3, oracle="grr", budget=1e9, windows=list(windows))


class Topic:
    """One partition of the topic `snapshots`. All writes of its merger are acknowledged at once."""

    def __init__(self, query, standing=()):
        self.query, self.standing = query, dict(standing)
        home = keys.home(query.digest, PARTITIONS)
        self.snapshots = SnapshotPartition(home, PARTITIONS, {query.digest: Versions.of(query)})
        for name, value in self.standing.items():
            self.snapshots.put(name, value)
        self.snapshots.load()

    @property
    def state(self):
        return self.snapshots.queries[self.query.digest]

    def write(self, name, value):
        self.standing.pop(name, None)
        if value is not None:
            self.standing[name] = value
        self.snapshots.put(name, value)

    def close(self, pane, sizes):
        """Close a pane on all partitions. A size of None stands for a partition without reports."""
        for partition, n in enumerate(sizes):
            if n is not None:
                one = Snapshot(n, 0, 0, 0, np.full(self.query.oracle.state_size, n, np.int64))
                self.write(PaneKey("closed", self.query.digest, pane, partition).encode(), encode_snapshot(one))
        for partition in range(PARTITIONS):
            progress = encode_ends(Progress(closed={self.query.digest: pane + PANE}))
            self.write(PartitionKey("watermark", partition).encode(), progress)

    def finals(self, *, states=True):
        """Publish and acknowledge the due finals, and return them."""
        state, batch, finals = self.state, {}, {}
        state.collect()
        for write in state.totals():
            self.write(*write)
        for final in state.due_finals():
            finals[final.span.window, final.span.end] = encode_snapshot(final.total)
            batch[final.span.window] = final.position
        for window, position in batch.items() if states else ():
            for write in state.state_writes(window, position):
                self.write(*write)
            for name in state.acknowledge(window, position):
                self.write(name, None)
        for name in state.replaced_keys():
            self.write(name, None)
        return finals

    def kinds(self, pane):
        """Return the kinds of records of a pane."""
        names = map(keys.decode, self.standing)
        return sorted(key.kind for key in names if isinstance(key, PaneKey) and key.pane == pane)


def test_one_record_replaces_those_of_many_partitions_and_a_restart_reads_it():
    query = asked("1m/10s", "all")
    topic, topic_again = Topic(query), None
    for pane in range(0, 300, PANE):
        topic.close(pane, (5, pane, None) if pane % 20 else (pane, None, None))
        finals = topic.finals()
        if topic_again is not None:
            topic_again.close(pane, (5, pane, None) if pane % 20 else (pane, None, None))
            assert topic_again.finals() == finals
        if pane >= 60 and pane % 30 == 0:
            topic_again = Topic(query, topic.standing)
    assert topic.kinds(290) == topic_again.kinds(290) == ["merged"]
    assert topic.kinds(280) == ["closed"], "one alone is its pane's total"
    standing = [pane for pane in range(0, 300, PANE) if topic.kinds(pane)]
    assert standing == list(range(250, 300, PANE)), "what no window to come holds is gone"


def test_only_states_by_other_workers_are_decoded(monkeypatch):
    topic, read = Topic(asked("10s")), []
    monkeypatch.setattr(snapshot_records, "read_state", lambda key, *_: read.append(key))
    topic.close(0, (1, 2, 3))
    topic.finals()
    assert not read
    assert len(topic.state.positions) == 1
    [window] = topic.state.positions
    other_key = StateKey(topic.query.digest, window, 20)
    topic.write(other_key.encode(), b"a state")
    assert read == [other_key]


@pytest.mark.parametrize("windows", [("10s",), ("10s", "all")])
def test_windows_of_one_pane_need_no_merged_snapshot(windows):
    topic = Topic(asked(*windows))
    topic.close(0, (1, 2, 3))
    topic.finals()
    assert not topic.kinds(0)


def test_snapshots_stay_until_each_kind_of_window_has_a_newer_state():
    """An older worker restarts after each of these states, and knows no merged snapshot."""
    topic = Topic(asked("40s/10s", "20s"))
    whole = ["closed"] * 3 + ["merged"]
    topic.close(0, (1, 2, 3))
    topic.finals()
    assert topic.kinds(0) == whole, "20s has no state yet"
    topic.close(10, (1, 2, 3))
    topic.finals()
    assert [topic.kinds(pane) for pane in (0, 10)] == [["merged"]] * 2
    topic.close(20, (1, 2, 3))
    topic.finals()
    assert topic.kinds(20) == whole, "20s is to hold it yet"
    topic.close(30, (1, 2, 3))
    topic.finals()
    assert [topic.kinds(pane) for pane in (10, 20, 30)] == [["merged"]] * 3

    def older(name, value):
        return name, b"\x02" + value[1:] if name.startswith(b"state|") else value

    topic = Topic(topic.query, [older(*record) for record in topic.standing.items()])
    topic.close(40, (1, 2, 3))
    topic.finals()
    assert topic.kinds(40) == whole
    topic.close(50, (1, 2, 3))
    topic.finals()
    assert [topic.kinds(pane) for pane in (40, 50)] == [["merged"]] * 2


def test_an_uncertain_total_is_not_written():
    topic = Topic(asked("20s/10s"))
    topic.close(0, (1, 2, 3))
    topic.write(PaneKey("closed", topic.query.digest, 10, 0).encode(), b"junk")
    topic.close(10, (None, 2, 3))
    topic.finals()
    assert topic.kinds(10) == ["closed"] * 3


def test_late_writes_after_a_merged_snapshot_change_nothing():
    query = asked("20s/10s")
    topic = Topic(query)
    topic.close(0, (1, 2, 3))
    topic.finals()
    late_snapshot = encode_snapshot(Snapshot(1, 0, 0, 0, np.full(query.oracle.state_size, 1, np.int64)))
    topic.write(PaneKey("closed", query.digest, 0, 0).encode(), late_snapshot)
    assert topic.kinds(0) == ["closed", "merged"]
    for source in (Topic(query, topic.standing), topic):
        source.close(10, (4, None, None))
        [(_, total)] = source.finals().items()
        assert total == encode_snapshot(Snapshot(10, 0, 0, 0, np.full(query.oracle.state_size, 10, np.int64)))
        assert not source.kinds(0)


def state_names(topic):
    return sorted(name for name in topic.standing if isinstance(keys.decode(name), StateKey))


@pytest.mark.parametrize("written", [None, *range(8)])
def test_a_large_state_is_split_and_a_restart_joins_it(monkeypatch, written):
    """The worker dies after so many records of the newest state of `all`, of which the last one counts the parts."""
    monkeypatch.setattr(snapshot_records, "PART", 40)
    query = asked("10s", "30s/10s", "all")
    topic, plain = Topic(query), Topic(query)
    for pane in range(0, 80, PANE):
        for source in (topic, plain):
            source.close(pane, (5, pane, 7))
            finals = source.finals()
    names = state_names(topic)
    assert len(names) > 6, "each of the three states has parts"
    assert {keys.decode(name).end for name in names} == {80}, "the parts of older states are deleted"
    topic.close(80, (1, 2, 3))
    topic.state.collect()
    position = {final.span.window: final.position for final in topic.state.due_finals()}
    window = query.windows[-1]
    writes = topic.state.state_writes(window, position[window])
    assert written is None or written < 8 == len(writes)
    for write in writes[:written]:
        topic.write(*write)
    repeated_topic = Topic(query, topic.standing)
    assert not repeated_topic.snapshots.take_unreadable_count()
    assert repeated_topic.state.positions[window].end == (90 if written is None else 80)
    plain.close(80, (1, 2, 3))
    expected = plain.finals()
    finals = repeated_topic.finals()
    assert finals == {place: total for place, total in expected.items() if written is not None or place[0] != window}
    repeated_topic.close(90, (1, 2, 3))
    repeated_topic.finals()
    assert {keys.decode(name).end for name in state_names(repeated_topic)} == {100}


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_split_state_without_marks_is_read_after_each_record_that_was_written(monkeypatch, written):
    """A return to release 0.2.0 may be killed between the two. Its repetition ends with the same records."""
    monkeypatch.setattr(snapshot_records, "PART", 40)
    key = StateKey(b"\1" * 8, asked("10s").windows[0], 50)
    state = bytes([5, *range(1, 100)])
    *parts, (name, head) = snapshot_records.split_state(key, state)
    writes = unmarked_records(key, head, dict(parts))
    records = dict(parts) | {name: head} | dict(writes[:written])
    read = join_state(key, records[name], records)
    assert read == (state if written == 0 else bytes([3]) + state[1:])
    assert records | dict(unmarked_records(key, records[name], records)) == records | dict(writes)
    assert not unmarked_records(key, head, dict(parts[1:])), "a damaged state stays as it is"


def test_parts_of_different_states_are_refused(monkeypatch):
    monkeypatch.setattr(snapshot_records, "PART", 40)
    key = StateKey(b"\1" * 8, asked("10s").windows[0], 50)
    *parts, (_, head) = snapshot_records.split_state(key, bytes(range(100)))
    assert join_state(key, head, dict(parts)) == bytes(range(100))
    for wrong in ({}, dict(parts[:2]), {**dict(parts), parts[0][0]: bytes(40)}, dict(zip("abc", parts, strict=True))):
        with pytest.raises(ReportError, match="not complete"):
            join_state(key, head, wrong)
