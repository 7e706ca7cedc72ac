"""Corrections of the log's time: what they say, whom they concern, and what a recount makes of them."""

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from aggregator.counting.clock import Basis, Progress, decode, encode
from aggregator.counting.tally import CORRECTED, decode_snapshot, encode_snapshot
from aggregator.merging import windows
from aggregator.reading.audit.fold import Fold
from aggregator.topics import correct
from hubbub.definitions import Definitions, TopicRecord, corrections, read
from hubbub.definitions.corrections import UNTRUSTED, Correction, parse
from hubbub.definitions.versions import Versions
from hubbub.kafka import Kafka
from oracles.errors import ParameterError, ReportError
from oracles.frame import TICK
from oracles.frame import encode as frame
from tests.fold import finals, fold
from tests.logs import LIMIT, POOL, QUERIES, START, VERSIONS, random_log
from tests.owners import Merge, Owner, Topics, settle

SECOND = 1000
AHEAD = 600


def test_a_correction_is_read_as_it_was_written():
    for clock in (None, 12_345):
        one = Correction(3, 10, 20, clock, 99)
        assert corrections.decode(*one.encode()) == one
    assert read([TopicRecord(*one.encode(), 0)]).corrections == (one,)
    assert len({Correction(3, 10, 20, clock, 99).name for clock in (None, 1, 2)}) == 3


@pytest.mark.parametrize(
    ("text", "clock"),
    [("none", None), ("1700000000000", 1_700_000_000_000), ("2023-11-14T22:13:20Z", 1_700_000_000_000)],
)
def test_it_is_asked_for_by_partition_offsets_and_time(text, clock):
    assert parse(f"3:10:20={text}") == Correction(3, 10, 20, clock, 0)


@pytest.mark.parametrize(
    "text", ["", "3:10:20", "3:20:10=none", "3:10:20=noon", "-1:0:1=none", "3:1:2=1950-01-01", f"3:1:2={1 << 54}"]
)
def test_another_form_is_told(text):
    with pytest.raises(ParameterError):
        parse(text)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((b"correction|0|1|2", value) for value in (b"{", b"[]", b"{}", b'{"clock": "x", "wrong": 1}')),
        (b"correction|0|1|2", b'{"clock": 9223372036854775808, "wrong": 1}'),  # no clock of the changelog holds it
        (b"correction|0|1|2", b'{"clock": -9223372036854775808, "wrong": 1}'),
        (b"correction|0|1|2", b'{"clock": null, "wrong": -1}'),
        (b"correction|0|1|9223372036854775808000", b'{"clock": null, "wrong": 1}'),
        (b"correction| 0|1|2", b'{"clock": null, "wrong": 1}'),
    ],
)
def test_one_that_cannot_be_read_is_passed_over(key, value):
    found = read([TopicRecord(key, value, 0)])
    assert (found.corrections, len(found.unread)) == ((), 1)


def test_progress_says_what_was_counted_and_that_of_before_says_nothing():
    basis = Basis(b"r" * 16, b"s" * 15, frozenset([b"12345678", b"abcdefgh"]))
    one = Progress(5, 6, {b"digest!!": 7}, basis)
    assert decode(encode(one)) == one
    assert encode(Progress(5, 6))[0] == 1
    for length in range(len(encode(one))):
        with pytest.raises(ReportError):
            decode(encode(one)[:length])


def logged():
    """A partition whose leader was far ahead for one record: good frames, then the jump, then good frames."""
    query, records = QUERIES["web"], []
    for second in range(120):
        pane = (START + second) // 10 * 10
        records.append(
            (len(records), (START + second) * SECOND, frame(query.digest, pane, POOL["web"][second % 40][None]))
        )
        if second == 60:
            records.append((len(records), (START + second + AHEAD) * SECOND, TICK))
    records.append((len(records), (START + 2 * AHEAD) * SECOND, TICK))
    return [records]


JUMP = Correction(0, 61, 62, None, (START + 60 + AHEAD) * SECOND)


def counted(found=(), log=None, definitions=VERSIONS):
    """The finals of a worker that knows of these corrections from the start, by kind and end."""
    topics = Topics(1)
    owner = Owner(topics, log or logged(), 0, "one", definitions)
    assert owner.source.correct(found) is None
    owner.read(1000)
    settle(owner)
    found = defaultdict(set)
    Merge(topics, 0, 1, definitions).step(Random(1), found)
    cells = QUERIES["web"].oracle.state_size
    return {key: [decode_snapshot(value, cells) for value in values] for key, values in found.items()}


def test_a_clock_far_ahead_makes_good_reports_late_and_a_correction_brings_them_back_flagged():
    before, after = counted(), counted([JUMP])
    short = QUERIES["web"].windows[0]
    kept = {end: snapshots[0].n for (_, window, end), snapshots in before.items() if window == short}
    whole = {end: snapshots[0] for (_, window, end), snapshots in after.items() if window == short}
    assert sum(kept.values()) < sum(snapshot.n for snapshot in whole.values())
    changed = {end for end, snapshot in whole.items() if snapshot.n != kept.get(end)}
    assert changed == {end for end, snapshot in whole.items() if snapshot.flags & CORRECTED}
    truth = fold(logged(), VERSIONS.values(), corrections=[JUMP], limit=LIMIT)
    assert {key: (s.n, s.flags) for key, s in truth.items()} == {key: (s.n, s.flags) for key, (s,) in after.items()}


def test_a_report_that_a_clock_far_ahead_let_in_early_is_refused_and_its_pane_flagged():
    (records,), query = logged(), QUERIES["web"]
    steady = {query.digest: Versions.of(query)}
    early, alone = START + 680, START + 660
    for at, pane in ((70, early), (71, alone)):
        data = frame(query.digest, pane, POOL["web"][:1])
        records.insert(at, (at, records[at - 1][1], data))
    later = (START + 690) * SECOND
    records.insert(-1, (0, later, frame(query.digest, early, POOL["web"][1:2])))
    records = [(offset, timestamp, data) for offset, (_, timestamp, data) in enumerate(records)]
    short, hops = query.windows[0], query.windows[1]
    before, after = (counted(found, [records], steady) for found in ((), [JUMP]))
    told = [{(w, end): s[0] for (_, w, end), s in found.items()} for found in (before, after)]
    assert [found[short, early + 10].n for found in told] == [2, 1]
    assert told[1][short, early + 10].flags & CORRECTED
    assert [(short, alone + 10) in found for found in told] == [True, False]
    assert all(told[1][hops, end].flags & CORRECTED for end in (START + 700, START + 720))
    truth = fold([records], steady.values(), corrections=[JUMP], limit=LIMIT)
    assert {key: (s.n, s.flags) for key, s in truth.items()} == {key: (s.n, s.flags) for key, (s,) in after.items()}


def wrong(random, records):
    """The records with a stretch that was logged at a wrong time, and a correction of it."""
    first = random.randrange(5, len(records) - 10)
    end = first + random.randrange(1, 8)
    by = random.choice([-200_000, 15_000, 60_000, 300_000])
    moved = [(offset, at + by * (first <= i < end), data) for i, (offset, at, data) in enumerate(records)]
    newest = max(at for _, at, _ in moved[first:end])
    clock = random.choice([None, records[first][1], newest + 30_000])
    return moved, Correction(0, records[first][0], records[end][0], clock, newest)


@patch.object(windows, "IDLE", 3)
@pytest.mark.parametrize("seed", range(40))
def test_every_final_that_a_correction_changes_is_flagged(seed):
    random = Random(seed)
    records, correction = wrong(random, *random_log(random, 1, 60))
    before, after = (
        {(one.versions.query.name, one.window, one.start, one.end): one.whole for one in found}
        for found in (
            finals([records], VERSIONS.values(), limit=LIMIT),
            finals([records], VERSIONS.values(), corrections=[correction], limit=LIMIT),
        )
    )
    same = {key for key in before.keys() & after if encode_snapshot(before[key]) == encode_snapshot(after[key])}
    assert all(after[key].flags & CORRECTED for key in (before.keys() & after) - same)


@patch.object(windows, "IDLE", 3)
@pytest.mark.parametrize("seed", range(40))
def test_worker_and_audit_flag_what_a_fold_does_wherever_they_stop(seed):
    random = Random(seed)
    records, correction = wrong(random, *random_log(random, 1, 60))
    folded = fold([records], VERSIONS.values(), corrections=[correction], limit=LIMIT)
    truth = {key: encode_snapshot(total) for key, total in folded.items()}
    topics, found, last = Topics(1), defaultdict(set), 9
    for writer in range(last + 1):
        owner = Owner(topics, [records], 0, f"w{writer}")
        assert owner.source.correct([correction]) is None
        settle(owner)
        for _ in range(random.randrange(4)):
            owner.read(random.randrange(1, 9))
            for _ in range(random.randrange(6)):
                owner.step(random)
        if writer == last:
            owner.read(1000)
            settle(owner)
    Merge(topics, 0, 1).step(Random(1), found)
    assert {key: {value} for key, value in truth.items()} == found

    audit = Fold(Definitions(VERSIONS, corrections=(correction,)), 1, embedded=False, limit=LIMIT)
    while records:
        count = random.randrange(1, 20)
        audit.read(0, records[:count])
        records = records[count:]
    totals = ((versions, final) for versions in VERSIONS.values() for final in audit.finals(versions))
    assert truth == {(of.query.name, one.span.window, one.span.end): encode_snapshot(one.total) for of, one in totals}


def test_one_about_what_is_counted_is_given_back_and_followed_above_it():
    topics = Topics(1)
    owner = Owner(topics, logged(), 0, "one")
    owner.read(50)
    settle(owner)
    assert owner.source.correct([Correction(0, 49, 60, None, 0)]) is not None
    assert owner.source.correct([Correction(1, 0, 60, None, 0)]) is None
    assert owner.source.correct([JUMP]) is None
    assert owner.source.behind, "the changelog has to say so first"
    settle(owner)
    owner.read(1000)
    settle(owner)
    again = Owner(topics, logged(), 0, "two")
    assert again.source.correct([JUMP]) is None
    assert again.source.correct([JUMP, Correction(0, 5, 6, None, 0)]) is not None


def test_a_time_that_is_not_the_logs_own_is_found_where_no_correction_covers_it():
    source = Owner(Topics(1), logged(), 0, "one").source
    run = [(0, 1000, b""), (1, UNTRUSTED, b""), (2, UNTRUSTED, b"")]
    assert source.untrusted(run) == 1
    source.correct([Correction(0, 1, 2, None, 0)])
    assert source.untrusted(run) == 2
    assert source.untrusted(run[:2]) is None


class Loop(asyncio.SelectorEventLoop):
    """Its time passes only where a test says so."""

    now = 0.0

    def time(self):
        return self.now


class Reader:
    """A reader of a slow log: a batch takes more than half of the time that a broker may be silent."""

    def __init__(self, records):
        self.records, self.at = records, 0

    def assign(self, tps):
        pass

    def seek(self, tp, offset):
        self.at = offset

    async def end_offsets(self, tps):
        return dict.fromkeys(tps, len(self.records))

    async def position(self, tp):
        return self.at

    async def getmany(self, tp, timeout_ms):
        asyncio.get_running_loop().now += 0.6 * correct.PATIENCE
        for _ in range(3):
            await asyncio.sleep(0)
        found = self.records[self.at : self.at + 10]
        self.at += len(found)
        return {tp: found}


async def twelve(kafka, *names):
    return dict.fromkeys(names, 12)


def test_a_long_stretch_takes_longer_to_read_than_a_broker_may_be_silent(monkeypatch):
    records = [SimpleNamespace(offset=i, timestamp=1000 + i, timestamp_type=1) for i in range(100)]
    monkeypatch.setattr(correct, "partitions", twelve)
    monkeypatch.setattr(correct, "consumer", lambda kafka: Reader(records))
    monkeypatch.setattr(correct, "started", lambda reader, kafka: nullcontext(reader))
    with asyncio.Runner(loop_factory=Loop) as runner:
        said = runner.run(correct._read(Kafka("a:1"), Correction(0, 3, 99, None, 0)))
    assert said == Correction(0, 3, 99, None, 1098)


def test_a_partition_that_is_not_there_is_told_at_once(monkeypatch):
    monkeypatch.setattr(correct, "partitions", twelve)
    with pytest.raises(ParameterError, match="no partition 12: they are numbered 0 to 11"):
        asyncio.run(correct._read(Kafka("a:1"), Correction(12, 0, 5, None, 0)))
