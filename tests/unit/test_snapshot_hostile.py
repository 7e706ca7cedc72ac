"""Hostile records in the topics of a worker: unreadable ones are skipped and counted."""

import random

import numpy as np
import orjson
import pytest

from aggregator.counting.changelog import ChangelogUnreadable, sort_records
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_records import encode_state
from aggregator.merging.windows import Position
from aggregator.publishing.alerts.state import Reference, State, check_states, dump
from aggregator.tallies import keys
from aggregator.tallies.id_log import IdEntry, encode_ids
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey
from aggregator.tallies.progress import Progress, encode
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, encode_snapshot
from aggregator.tallies.tally import Tally, encode_tally
from hubbub.definitions.versions import Versions
from oracles.query import parse

PANE = 10
TABLE = {
    "domain": 3,
    "other": False,
    "oracle": "grr",
    "epsilon": 1.0,
    "budget": 1e9,
    "pane": "10s",
    "windows": ["10s", "30s/10s", "all"],
}
QUERY = parse({"queries": {"q": TABLE}}, "test", ".")["q"]
TUMBLING, HOPPING, ALL = QUERY.windows
CELLS = QUERY.oracle.state_size
KNOWN = {QUERY.digest: Versions.of(QUERY)}
JUNK = (b"", b"x", b"\x01" * 40, bytes(1000), b'{"version":1}')


def snapshot(n, flags=0):
    return Snapshot(n, 0, 0, flags, np.full(CELLS, n, np.int64))


def closed(pane, n, partition=0):
    return PaneKey("closed", QUERY.digest, pane, partition).encode(), encode_snapshot(snapshot(n))


def mark(end, partition=0):
    return PartitionKey("watermark", partition, "w").encode(), encode(Progress(closed={QUERY.digest: end}))


def state(window, end, alerts=(), shown=(), total=None):
    position = Position(end, 0, end, total) if total else Position(end)
    return StateKey(QUERY.digest, window, end).encode(), encode_state(position, alerts, shown)


ALERTS = dump(State(50, {1: 0.5}, ((2, 50),), (Reference(50, 7, 7, np.array([1, 2, 3], np.uint8)),), has_values=True))
GOOD = [
    *(closed(pane, 5) for pane in range(0, 100, PANE)),
    (PaneKey("open", QUERY.digest, 100, 0).encode(), encode_tally(Tally(np.ones(CELLS, np.int64), 3, next_offset=9))),
    mark(100),
    state(TUMBLING, 50, [ALERTS]),
    state(HOPPING, 50, [ALERTS]),
    state(ALL, 50, [ALERTS], total=snapshot(25)),
]


def load(records, live=()):
    """Return a partition that is loaded from `records` and then gets the `live` records."""
    made = SnapshotPartition(0, 1, KNOWN, check_states)
    for name, value in records:
        made.put(name, value, 0)
    made.load()
    for name, value in live:
        made.put(name, value, 0)
    return made


def finals(made):
    found = made.queries[QUERY.digest].merger.finals()
    return {(f.span.window, f.span.end): (f.total.n, bool(f.total.flags & INCOMPLETE)) for f in found}


def test_of_each_key_the_newest_value_that_can_be_read_counts():
    wanted = finals(load(GOOD))
    assert (wanted[TUMBLING, 60], wanted[ALL, 100]) == ((5, False), (50, False))
    for junk in JUNK:
        assert finals(load([*GOOD, *((name, junk) for name, _ in GOOD)])) == wanted
        assert finals(load([*((name, junk) for name, _ in GOOD), *GOOD])) == wanted
        assert finals(load(GOOD, [(name, junk) for name, _ in GOOD])) == wanted
    assert load([*GOOD, (GOOD[0][0], b"x"), (b"x", b"y"), (None, b"z")]).take_unreadable_count() == 3


@pytest.mark.parametrize("live", [False, True])
def test_a_closed_snapshot_that_cannot_be_read_makes_its_windows_incomplete(live):
    spoilt, watermark = (closed(20, 0)[0], b"junk"), mark(60)
    records = [closed(pane, 5) for pane in range(0, 60, PANE) if pane != 20]
    made = load(records, [spoilt, watermark]) if live else load([*records, spoilt, watermark])
    found = finals(made)
    assert {window for window, (_, incomplete) in found.items() if incomplete} == {
        *((HOPPING, end) for end in (30, 40, 50)),
        *((ALL, end) for end in (30, 40, 50, 60)),
    }
    assert (TUMBLING, 30) not in found, "nothing is known of it"
    assert found[ALL, 60] == (25, True)
    again = [spoilt, closed(20, 5), watermark]
    whole = finals(load(records, again) if live else load([*records, *again]))
    assert whole == finals(load([*records, closed(20, 5), watermark]))


@pytest.mark.parametrize("junk", JUNK)
def test_where_no_state_can_be_read_nothing_is_published_twice_and_what_is_lost_is_said(junk):
    panes = [closed(pane, 5) for pane in range(30, 100, PANE)]  # those before are deleted
    lost = [(state(window, 50)[0], junk) for window in QUERY.windows]
    found = finals(load([*panes, *lost, mark(100)]))
    assert min(end for _, end in found) == 60
    assert found[TUMBLING, 60] == (5, False)
    assert min(end for window, end in found if window == HOPPING) == 80, "none overlaps what was shown"
    assert found[HOPPING, 80] == (15, False)
    assert found[ALL, 100] == (25, True)
    ahead = [(state(window, 1000)[0], junk) for window in QUERY.windows]
    whole = [closed(pane, 5) for pane in range(0, 100, PANE)]
    assert finals(load([*whole, *ahead, mark(100)])) == finals(load([*whole, mark(100)])), "nobody was so far"


def test_states_of_other_contents_than_a_worker_writes_are_none():
    def spoilt(**changes):
        line, _, body = ALERTS.partition(b"\n")
        return orjson.dumps(orjson.loads(line) | changes) + b"\n" + body

    bad = [
        b"x",
        ALERTS + b"x",
        spoilt(entered=[[3, 0.5]]),
        spoilt(entered=[[1, 7.0]]),
        spoilt(entered=[["1", 0.5]]),
        spoilt(entered=[[True, 0.5]]),
        spoilt(surged=[[2, 1e300]]),
        spoilt(kept=[[50, 0, 0, 3, 1]]),
        spoilt(kept=[[50, 7, 9, 3, 1]]),
        spoilt(kept=[[50, 7, 7, -1, 1]]),
        spoilt(kept=[[50, 7, 7, 3, "4,f8"]]),
        spoilt(kept={"a": 1}),
        spoilt(end=None),
        spoilt(version=3),
    ]
    for alerts in [*([one] for one in bad), [ALERTS, ALERTS]]:
        made = load([state(TUMBLING, 50, [ALERTS]), state(TUMBLING, 60, alerts)])
        assert made.queries[QUERY.digest].positions[TUMBLING].end == 50, alerts
        assert made.take_unreadable_count() == 1
    name, value = state(ALL, 50, total=snapshot(5))
    for start, newest in ((60, 50), (0, 60), (0, 1 << 62)):
        odd = encode_state(Position(50, start, newest, snapshot(5)))
        assert load([(name, value), (name, odd)]).take_unreadable_count() == 1
    assert load([(name, encode_state(Position(60, 0, 60, snapshot(5))))]).take_unreadable_count() == 1


def test_keys_that_no_worker_writes_are_passed_over():
    name, value = closed(20, 5)
    digest = QUERY.digest.hex()
    odd = [
        name.replace(b"|20|0", b"|+20|0"),
        name.replace(b"|20|0", b"|2_0|0"),
        name.replace(b"|20|0", b"|21|0"),
        name.replace(b"|20|0", b"|20|1"),
        name.replace(b"|20|0", b"|20|-1"),
        name.replace(b"|20|0", b"|-20|0"),
        name.replace(b"|20|0", b"|%d|0" % (1 << 60)),
        name.replace(b"|20|0", b"|" + b"9" * 5_000 + b"|0"),
        name.replace(digest.encode(), digest.upper().encode()),
        name.replace(b"closed", b"tally"),
        b"progress|0|w",
        b"watermark|1|w",
        b"watermark|-1|w",
        b"watermark|0|" + bytes(300),
        b"state|%s|tumbling|10|10|+50" % digest.encode(),
    ]
    made = load([(name, value) for name in odd], [(name, value) for name in odd])
    assert made.take_unreadable_count() == 2 * len(odd)
    assert not made.queries[QUERY.digest].stored_keys
    assert not finals(load([*((name, value) for name in odd), mark(100)]))
    assert load([(b"watermark|0|w", encode(Progress(closed={QUERY.digest: 1 << 60})))]).take_unreadable_count() == 1


def test_records_of_what_nobody_defined_take_no_memory_and_are_read_anew_once_it_is_defined(monkeypatch):
    monkeypatch.setattr("aggregator.merging.snapshot_partition._MOST_UNKNOWN", 10)
    strangers = [PaneKey("closed", bytes([0, *[number] * 7]), 20, 0).encode() for number in range(200)]
    made = SnapshotPartition(0, 1, {}, check_states)
    for name in [*strangers, closed(20, 5)[0]]:
        made.put(name, closed(20, 5)[1], 0)
    assert not len(made._latest)
    assert len(made._unknown) == 10
    made.define(KNOWN)
    assert made.must_reload, "it may be among those that were passed over"


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_whatever_stands_among_them_the_finals_are_those_of_what_can_be_read(count):
    draw, wanted = random.Random(14), finals(load(GOOD))
    for _ in range(count):
        junk = []
        for _ in range(draw.randrange(1, 8)):
            name, value = (bytearray(part) for part in draw.choice(GOOD))
            for part in (value, name)[: draw.randrange(1, 3)]:
                for _ in range(draw.randrange(1, 4)):
                    part[draw.randrange(len(part))] = draw.randrange(256)
            junk.append((bytes(name), bytes(value[: draw.randrange(len(value))])))  # cut off: none can be read
        for records, live in (([*junk, *GOOD], junk), ([*GOOD, *junk], ())):
            assert finals(load(records, live)) == wanted


def test_a_record_of_the_changelog_that_cannot_be_read_ends_the_worker_and_is_named():
    tally = PaneKey("tally", QUERY.digest, 20, 0).encode(), encode_tally(Tally(np.ones(CELLS, np.int64), 3))
    ids = PaneKey("ids", QUERY.digest, 20, 0, (1, 1)).encode(), encode_ids([IdEntry(b"12345678", 1)])
    progress = PartitionKey("progress", 0, "w.0").encode(), encode(Progress(7))
    good = [tally, ids, progress]
    assert sort_records(good, KNOWN)[0].progress
    for name, _ in good:
        with pytest.raises(ChangelogUnreadable, match=name.decode().replace("|", r"\|")) as caught:
            sort_records([*good, (name, b"junk")], KNOWN)
        assert caught.value.exit_code == 4
        assert sort_records([*good, (name + b" ", b"junk")], KNOWN)[0].progress, "not a key of ours"
    for name in (b"closed|%s|20|0" % QUERY.digest.hex().encode(), b"watermark|0|w", b"x", b"\xff"):
        assert keys.decode(name) is None or sort_records([*good, (name, b"junk")], KNOWN)
