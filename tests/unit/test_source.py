"""Source partitions. Crashes between any two writes, and writers that wake up too late, change no result."""

from collections import defaultdict
from random import Random
from unittest.mock import patch

import pytest

from aggregator.counting.admission.columnar_gate import admit
from aggregator.counting.admission.gate import Gate
from aggregator.counting.partition import SourcePartition
from aggregator.merging import cumulative_window, windows
from aggregator.merging.pane_queue import FileStore
from aggregator.tallies.keys import PartitionKey, home
from aggregator.tallies.progress import Progress, decode, encode, encode_ends
from aggregator.tallies.snapshot import FLAGS, INCOMPLETE, decode_snapshot, encode_snapshot
from oracles.frame import TICK
from oracles.frame import encode as encode_frame
from oracles.query.settings import Window
from tests.fold import fold
from tests.logs import LIMIT, POOL, QUERIES, START, VERSIONS, random_log
from tests.owners import Merge, Owner, Topics, settle


@patch.object(cumulative_window, "IDLE", 3)
def check(seed, *, log_has_time=True):
    random, store = Random(seed), FileStore()
    partitions = random.randint(1, 3)
    log = random_log(random, partitions, random.randint(0, 70), log_has_time=log_has_time)
    topics = Topics(partitions)
    finals = defaultdict(set)
    owners = [Owner(topics, log, p, "first", log_has_time=log_has_time) for p in range(partitions)]
    merges = [Merge(topics, target, partitions, store=store) for target in range(partitions)]
    sleeping, away = [], [None] * partitions
    for number in range(random.choice([30, 150, 400])):
        at = random.randrange(partitions)
        match random.choice(["read", "read", "write", "write", "write", "crash", "wake", "merge", "share"]):
            case "read":
                owners[at].read(random.randint(1, 9))
            case "write":
                owners[at].step(random)
            case "crash":
                if random.random() < 0.3:
                    sleeping.append(owners[at])
                    owners[at] = Owner(topics, log, at, f"{number}", log_has_time=log_has_time)
            case "wake":  # it believes that nothing has happened
                if sleeping:
                    late_value = random.choice(sleeping)
                    late_value.read(random.randint(0, 5))
                    for _ in range(random.randint(1, 9)):
                        late_value.step(random)
            case "merge":
                if not merges[at].step(random, finals, to_the_end=False):
                    merges[at] = Merge(topics, at, partitions, store=store)
            case "share":  # another one merges for a while, and this one then goes on with what it knows
                merges[at], away[at] = away[at] or Merge(topics, at, partitions, store=store), merges[at]
    for owner in owners:
        owner.read(1000)
        settle(owner)
    for _ in range(2):
        for target in range(partitions):
            if not merges[target].step(random, finals):
                merges[target] = Merge(topics, target, partitions, store=store)
                merges[target].step(random, finals)
    truth = fold(log, VERSIONS.values(), limit=LIMIT, log_has_time=log_has_time)
    assert finals.keys() == truth.keys()
    for key, versions in finals.items():
        assert versions == {encode_snapshot(truth[key])}, key


@pytest.mark.parametrize("seed", range(120))
def test_finals_equal_those_of_the_fold_if_writers_die(seed, monkeypatch):
    monkeypatch.setattr(windows, "MEMORY_LIMIT", windows.MEMORY_LIMIT if seed % 2 else 0)
    check(seed, log_has_time=seed % 4 != 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 6_000))
def test_finals_equal_those_of_the_fold_on_thousands_of_logs_if_writers_die(seed, monkeypatch):
    monkeypatch.setattr(windows, "MEMORY_LIMIT", windows.MEMORY_LIMIT if seed % 2 else 0)
    check(seed, log_has_time=seed % 4 != 3)


def test_closed_panes_leave_only_progress_in_the_changelog():
    log = random_log(Random(5), 1, 60)
    topics = Topics(1)
    owner = Owner(topics, log, 0, "first")
    owner.read(1000)
    settle(owner)
    owner.read(0)
    for _ in range(20):
        owner.step(Random(2))
    assert [key.partition(b"|")[0] for key in topics.changelog[0]] == [b"progress"]


def test_every_refused_record_is_one_reject_if_nothing_fails():
    log = random_log(Random(6), 1, 60)
    owner = Owner(Topics(1), log, 0, "first")
    owner.read(1000)
    settle(owner)
    gate = Gate(0, 1, VERSIONS, limit=LIMIT)
    assert {offset for offset, _ in admit(gate, log[0], None).refusals} <= owner.rejects.keys()
    assert owner.source.rejects == []


def settle_source(source):
    plan = source.plan(whole=True)
    source.progress(plan)
    source.settle(plan)


def test_a_record_just_after_the_next_close_closes_a_pane():
    source = Owner(Topics(1), [[]], 0, "first").source
    assert source.next_close is None
    source.take([(0, START * 1000, TICK)])
    for offset in range(1, 20):
        settle_source(source)
        close = source.next_close
        source.take([(2 * offset, close, TICK)])
        assert not source.closing
        source.take([(2 * offset + 1, close + 1, TICK)])
        assert source.closing
        assert source.next_close > close


def test_without_definitions_no_pane_closes():
    source = Owner(Topics(1), [[]], 0, "first", definitions={}).source
    source.take([(0, START * 1000, TICK)])
    assert source.next_close is None


def test_lost_records_flag_every_pane_that_they_may_belong_to():
    query = QUERIES["web"]
    topics = Topics(1)
    log = [[(0, START * 1000, TICK), (50, (START + 30) * 1000, TICK), (51, (START + 500) * 1000, TICK)]]
    owner = Owner(topics, log, 0, "first")
    owner.source.take(log[0][:1])
    owner.source.skip(50)
    owner.source.take(log[0][1:2])
    for _ in range(40):  # a restart must not forget it
        owner.step(Random(3))
    owner = Owner(topics, log, 0, "second")
    owner.read(10)
    settle(owner)
    panes_by_query = {}
    for key, value in topics.snapshots[0]:
        kind, digest, *rest = key.decode().split("|")
        if kind == "closed" and digest == query.digest.hex():
            panes_by_query[int(rest[0])] = decode_snapshot(value, query.oracle.state_size, 3).flags
    assert set(range(START, START + 51, 10)) <= panes_by_query.keys()
    assert set(panes_by_query.values()) == {INCOMPLETE}
    assert INCOMPLETE in FLAGS.values()


def test_watermarks_and_progress_never_move_back_for_a_reader():
    log = random_log(Random(8), 2, 40)
    topics = Topics(2)
    for p in range(2):
        owner = Owner(topics, log, p, "a")
        owner.read(1000)
        settle(owner)
    for target in range(2):
        snapshots = Merge(topics, target, 2).snapshots
        closed_before = {digest: state.merger.closed_through for digest, state in snapshots.queries.items()}
        old_frame = encode_ends(Progress(closed=dict.fromkeys(closed_before, START)))
        snapshots.put(PartitionKey("watermark", 0).encode(), old_frame)
        assert decode(old_frame).closed
        assert {digest: state.merger.closed_through for digest, state in snapshots.queries.items()} == closed_before


def frozen_writer():
    """Let a writer wake up after its successor's recovery and close a pane, then let a third worker recover."""
    query = QUERIES["web"]
    log = [
        [(i, START * 1000 + i, encode_frame(query.digest, START, POOL["web"][:1])) for i in range(5)]
        + [(5 + i, (START + 2) * 1000 + i, encode_frame(query.digest, START, POOL["web"][:1])) for i in range(10)]
        + [(15, (START + 100) * 1000, TICK), (16, (START + 500) * 1000, TICK)]
    ]
    topics = Topics(1)
    first_owner = Owner(topics, log, 0, "first")
    for start, end in ((0, 2), (2, 4), (4, 5)):
        first_owner.source.take(log[0][start:end])
        settle(first_owner)
    second = Owner(topics, log, 0, "second")
    first_owner.source.take(log[0][5:16])
    writes = first_owner.checkpoint(Random(1))
    part = {}
    while not any(
        decode(value).covers(VERSIONS[query.digest], START) for value in part.values()
    ):  # up to what it may delete now
        next(writes)
        part = {name: value for name, value in topics.changelog[0].items() if name.startswith(b"progress|0|first")}
    second.source.take(log[0][5:8])
    settle(second)  # and deletes what it knows of the first
    list(writes)
    third = Owner(topics, log, 0, "third")
    third.read(100)
    settle(third)
    merge = Merge(topics, home(query.digest, 1), 1)
    finals = defaultdict(set)
    merge.step(Random(1), finals)
    part = finals["web", Window("tumbling", 10, 10), START + 10]
    return {decode_snapshot(data, query.oracle.state_size).n for data in part}


def test_a_writer_that_wakes_up_before_its_successor_writes_loses_nothing():
    assert frozen_writer() == {15}


def test_two_keys_of_progress_that_take_turns_would_lose_reports(monkeypatch):
    """This is the reason why no key of progress is written by two workers."""

    def progress(self, plan):
        self._progress_count += 1
        return PartitionKey("progress", self.partition, f"{self.writer}.{self._progress_count % 2}").encode(), encode(
            plan.progress
        )

    settle_before = SourcePartition.settle

    def settle_all(self, plan):
        deletions = settle_before(self, plan)
        self._obsolete_keys = []
        return deletions

    monkeypatch.setattr(SourcePartition, "progress", progress)
    monkeypatch.setattr(SourcePartition, "settle", settle_all)
    assert frozen_writer() != {15}


@pytest.mark.parametrize("cut", range(5))
def test_the_reports_of_an_interrupted_plan_are_missing_until_a_recovery(cut):
    """So a source with an open plan does not survive a rebalance. A source without a plan loses nothing if it does."""
    query = QUERIES["web"]
    frames = [encode_frame(query.digest, START, POOL["web"][:1], (i + 1).to_bytes(8, "little")) for i in range(3)]
    part = [(i, START * 1000 + i, data) for i, data in enumerate([*frames, b"rubbish"])]
    log = [[*part, (4, 2 * START * 1000, TICK)]]
    topics = Topics(1)
    owner = Owner(topics, log, 0, "first")
    owner.source.take(log[0][:4])
    assert owner.source.at_rest
    writes = owner.checkpoint(Random(1))
    for _ in range(cut):
        next(writes)
    assert owner.source.at_rest is (cut == 0)
    owner_again = owner if owner.source.at_rest else Owner(topics, log, 0, "first again")
    owner_again.read(10)
    settle(owner_again)
    assert owner_again.source.at_rest
    [value] = [v for k, v in topics.snapshots[0] if k.startswith(f"closed|{query.digest.hex()}".encode())][-1:]
    assert decode_snapshot(value, query.oracle.state_size).n == 3
    assert {*owner.rejects, *owner_again.rejects} == {3}


def test_a_partition_that_brings_only_ticks_writes_no_progress_until_it_is_refreshed():
    log = [[(i, (START + i) * 1000, TICK) for i in range(200)]]
    owner = Owner(Topics(1), log, 0, "first")
    owner.source.take(log[0][:1])
    first_plan = owner.source.plan(whole=True)
    assert not first_plan.quiet, "the first one says who writes now"
    owner.source.progress(first_plan)
    owner.source.settle(first_plan)
    for number in range(1, 200):
        owner.source.take(log[0][number : number + 1])
        plan = owner.source.plan(whole=True, refresh=number % 20 == 0)
        assert plan.quiet is (number % 20 != 0)
        assert plan.progress.closed_clock == plan.clock == owner.source.clock
        if not plan.quiet:
            owner.source.progress(plan)
        assert (owner.source.settle(plan) == []) is plan.quiet
        assert not owner.source.behind
