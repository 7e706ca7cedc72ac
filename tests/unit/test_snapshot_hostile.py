"""Hostile records in the topics of a worker. Unreadable ones are skipped and counted."""

import random

import numpy as np
import orjson
import pytest

from aggregator.counting.changelog import ChangelogUnreadable, sort_records
from aggregator.merging.marks import QueryMarks
from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.merging.snapshot_records import encode_state
from aggregator.merging.windows import Position
from aggregator.publishing.alerts.state import Reference, Silence, State, check_states, dump
from aggregator.tallies import keys
from aggregator.tallies.id_log import IdEntry, encode_ids
from aggregator.tallies.keys import PaneKey, PartitionKey, StateKey
from aggregator.tallies.progress import Progress, encode, encode_ends
from aggregator.tallies.snapshot import INCOMPLETE, Snapshot, encode_snapshot
from aggregator.tallies.tally import Tally, encode_tally
from hubbub.definitions.versions import Versions
from tests.queries import make_query, make_table

PANE = 10
TABLE = make_table(domain=3, other=False, oracle="grr", budget=1e9, windows=["10s", "30s/10s", "all"], crowd=1)
QUERY = make_query(TABLE)
TUMBLING, HOPPING, ALL = QUERY.windows
CELLS = QUERY.oracle.state_size
DEFINITIONS = {QUERY.digest: Versions.of(QUERY)}
JUNK = (b"", b"x", b"\x01" * 40, bytes(1000), b'{"version":1}')


def snapshot(n, flags=0):
    return Snapshot(n, 0, 0, flags, np.full(CELLS, n, np.int64))


def closed(pane, n, partition=0):
    return PaneKey("closed", QUERY.digest, pane, partition).encode(), encode_snapshot(snapshot(n))


def mark(end, partition=0):
    return PartitionKey("watermark", partition, "w").encode(), encode_ends(Progress(closed={QUERY.digest: end}))


def state(window, end, alerts=(), total=None):
    position = Position(end, 0, end, total) if total else Position(end)
    return StateKey(QUERY.digest, window, end).encode(), encode_state(position, alerts, marks(end))


def marks(through):
    return QueryMarks(DEFINITIONS[QUERY.digest], through)


ALERTS = dump(
    State(
        50,
        {1: 0.5},
        (Silence(2, "surge", 50, 0.1),),
        (Reference(50, 7, 7, np.array([1, 2, 3], np.uint8)),),
        has_values=True,
    )
)
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
    partition = SnapshotPartition(0, 1, DEFINITIONS, check_states)
    for name, value in records:
        partition.put(name, value)
    partition.load()
    for name, value in live:
        partition.put(name, value)
    return partition


def finals(partition):
    due = partition.queries[QUERY.digest].merger.finals()
    return {(f.span.window, f.span.end): (f.total.n, bool(f.total.flags & INCOMPLETE)) for f in due}


def test_the_newest_readable_value_of_each_key_counts():
    expected = finals(load(GOOD))
    assert expected[TUMBLING, 60] == (5, False)
    assert expected[ALL, 100] == (50, False)
    for junk in JUNK:
        assert finals(load([*GOOD, *((name, junk) for name, _ in GOOD)])) == expected
        assert finals(load([*((name, junk) for name, _ in GOOD), *GOOD])) == expected
        assert finals(load(GOOD, [(name, junk) for name, _ in GOOD])) == expected
    assert load([*GOOD, (GOOD[0][0], b"x"), (b"x", b"y"), (None, b"z")]).take_unreadable_count() == 3


@pytest.mark.parametrize("live", [False, True])
def test_an_unreadable_closed_snapshot_makes_its_windows_incomplete(live):
    spoilt = (closed(20, 0)[0], b"junk")
    watermark = mark(60)
    records = [closed(pane, 5) for pane in range(0, 60, PANE) if pane != 20]
    partition = load(records, [spoilt, watermark]) if live else load([*records, spoilt, watermark])
    results = finals(partition)
    assert {window for window, (_, incomplete) in results.items() if incomplete} == {
        *((HOPPING, end) for end in (30, 40, 50)),
        *((ALL, end) for end in (30, 40, 50, 60)),
    }
    assert (TUMBLING, 30) not in results, "nothing is known of it"
    assert results[ALL, 60] == (25, True)
    spoilt_records = [spoilt, closed(20, 5), watermark]
    whole_finals = finals(load(records, spoilt_records) if live else load([*records, *spoilt_records]))
    assert whole_finals == finals(load([*records, closed(20, 5), watermark]))


@pytest.mark.parametrize(
    "records",
    [GOOD, [*GOOD[:-3], *((state(window, 50)[0], b"x") for window in QUERY.windows)], GOOD[:-3], GOOD[-3:]],
    ids=["all", "unreadable states", "no states", "states alone"],
)
def test_a_definition_that_is_forgotten_while_its_partition_is_read_is_read_again_if_it_returns(records):
    """Its records came before the end of the partition, and the worker then learns that the definition is over."""
    partition = SnapshotPartition(0, 1, DEFINITIONS, check_states)
    for name, value in records:
        partition.put(name, value)
    partition.define({})
    partition.load()
    assert partition.queries == {}
    assert not partition.must_reload

    partition.define(DEFINITIONS)
    assert partition.must_reload


@pytest.mark.parametrize("junk", JUNK)
def test_without_a_readable_state_nothing_is_published_twice_and_losses_are_logged(junk):
    panes = [closed(pane, 5) for pane in range(30, 100, PANE)]  # those before are deleted
    unreadable = [(state(window, 50)[0], junk) for window in QUERY.windows]
    results = finals(load([*panes, *unreadable, mark(100)]))
    assert min(end for _, end in results) == 60
    assert results[TUMBLING, 60] == (5, False)
    assert results[HOPPING, 60] == (15, False)
    assert results[ALL, 100] == (25, True)
    ahead = [(state(window, 1000)[0], junk) for window in QUERY.windows]
    whole = [closed(pane, 5) for pane in range(0, 100, PANE)]
    assert finals(load([*whole, *ahead, mark(100)])) == finals(load([*whole, mark(100)])), "nobody was so far"


def test_states_with_invalid_contents_are_skipped():
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
        *(spoilt(silent=[each]) for each in ([2, 1, 1e300, 0.1, 127], [3, 1, 50, 0.1, 127], [2, 0, 50, 0.1, 127])),
        spoilt(kept=[[50, 0, 0, 3, 1]]),
        spoilt(kept=[[50, 7, 9, 3, 1]]),
        spoilt(kept=[[50, 7, 7, -1, 1]]),
        spoilt(kept=[[50, 7, 7, 3, "4,f8"]]),
        spoilt(kept={"a": 1}),
        spoilt(end=None),
        spoilt(version=4),
    ]
    for alerts in [*([alert] for alert in bad), [ALERTS, ALERTS]]:
        partition = load([state(TUMBLING, 50, [ALERTS]), state(TUMBLING, 60, alerts)])
        assert partition.queries[QUERY.digest].positions[TUMBLING].end == 50, alerts
        assert partition.take_unreadable_count() == 1
    name, value = state(ALL, 50, total=snapshot(5))
    for start, newest in ((60, 50), (0, 60), (0, 1 << 62)):
        odd_state = encode_state(Position(50, start, newest, snapshot(5)), [], marks(50))
        assert load([(name, value), (name, odd_state)]).take_unreadable_count() == 1
    assert load([(name, encode_state(Position(60, 0, 60, snapshot(5)), [], marks(60)))]).take_unreadable_count() == 1


def test_unknown_keys_are_skipped():
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
    partition = load([(name, value) for name in odd], [(name, value) for name in odd])
    assert partition.take_unreadable_count() == 2 * len(odd)
    assert not partition.queries[QUERY.digest].stored_panes
    assert not finals(load([*((name, value) for name in odd), mark(100)]))
    assert (
        load([(b"watermark|0|w", encode_ends(Progress(closed={QUERY.digest: 1 << 60})))]).take_unreadable_count() == 1
    )


def test_records_of_unknown_queries_need_no_memory_and_are_read_after_the_definition(monkeypatch):
    monkeypatch.setattr("aggregator.merging.snapshot_partition._MOST_UNKNOWN", 10)
    strangers = [PaneKey("closed", bytes([0, *[number] * 7]), 20, 0).encode() for number in range(200)]
    partition = SnapshotPartition(0, 1, {}, check_states)
    for name in [*strangers, closed(20, 5)[0]]:
        partition.put(name, closed(20, 5)[1])
    assert not len(partition._latest)
    assert len(partition._unknown) == 10
    partition.define(DEFINITIONS)
    assert partition.must_reload, "it may be among those that were passed over"


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.long)])
def test_finals_depend_only_on_readable_records(count):
    draw = random.Random(14)
    expected = finals(load(GOOD))
    for _ in range(count):
        junk = []
        for _ in range(draw.randrange(1, 8)):
            name, value = (bytearray(part) for part in draw.choice(GOOD))
            for part in (value, name)[: draw.randrange(1, 3)]:
                for _ in range(draw.randrange(1, 4)):
                    part[draw.randrange(len(part))] = draw.randrange(256)
            junk.append((bytes(name), bytes(value[: draw.randrange(len(value))])))  # cut off: none can be read
        for records, live in (([*junk, *GOOD], junk), ([*GOOD, *junk], ())):
            assert finals(load(records, live)) == expected


def test_an_unreadable_record_of_the_changelog_stops_the_worker_and_is_named():
    tally = PaneKey("tally", QUERY.digest, 20, 0).encode(), encode_tally(Tally(np.ones(CELLS, np.int64), 3))
    ids = PaneKey("ids", QUERY.digest, 20, 0, (1, 1)).encode(), encode_ids([IdEntry(b"12345678", 1)])
    progress = PartitionKey("progress", 0, "w.0").encode(), encode(Progress(7))
    good = [tally, ids, progress]
    assert sort_records(good, DEFINITIONS)[0].progress
    for name, _ in good:
        with pytest.raises(ChangelogUnreadable, match=name.decode().replace("|", r"\|")) as error:
            sort_records([*good, (name, b"junk")], DEFINITIONS)
        assert error.value.exit_code == 4
        assert sort_records([*good, (name + b" ", b"junk")], DEFINITIONS)[0].progress, "not a key of ours"
    for name in (b"closed|%s|20|0" % QUERY.digest.hex().encode(), b"watermark|0|w", b"x", b"\xff"):
        assert keys.decode(name) is None or sort_records([*good, (name, b"junk")], DEFINITIONS)
