"""Merging: each newest snapshot counts once, in any order. A pane is final once all partitions have closed it."""

from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.merging.marks import QueryMarks
from aggregator.merging.merger import Merger
from aggregator.merging.pane_parts import ALL as MERGED
from aggregator.merging.snapshot_records import decode_state, encode_state
from aggregator.merging.windows import Position
from aggregator.tallies.snapshot import (
    IDS_OVERFLOW,
    INCOMPLETE,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
    merge_snapshots,
)
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query.settings import Window
from tests.queries import make_query, make_table

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=40)
TABLE = make_table(domain=3, oracle="grr", budget=1e9, windows=["10s", "30s/20s", "all"], crowd=1)
QUERY = make_query(TABLE)
TUMBLING, HOPPING, ALL = QUERY.windows
CELLS = QUERY.oracle.state_size
VERSIONS = Versions.of(QUERY)
PANE = 10


def snapshot(n, flags=0):
    return Snapshot(n, n // 3, n // 4, flags, np.full(CELLS, n, np.int64))


def merger(partitions=2, states=()):
    return Merger(Versions.of(QUERY), partitions, states)


def shown(finals):
    return {(final.span, encode_snapshot(final.total)) for final in finals}


def spans(finals, window):
    return [(final.span.start, final.span.end, final.total.n) for final in finals if final.span.window == window]


def world(random, partitions):
    """Return snapshots as {(pane, partition): Snapshot}."""
    snapshots = {}
    for pane in range(0, 120, PANE):
        for partition in range(partitions):
            if random.random() < 0.4:
                n = random.choice([0, 1, 7, 50])
                snapshots[pane, partition] = snapshot(n, random.choice([0, 0, IDS_OVERFLOW]))
    return snapshots


def straight(snapshots, partitions, through=1000):
    """Return all finals if every snapshot arrives once and in order."""
    whole_merger = merger(partitions)
    for (pane, partition), snapshot in snapshots.items():
        whole_merger.take(pane, partition, snapshot)
    for partition in range(partitions):
        whole_merger.mark(partition, through)
    return list(whole_merger.finals())


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 4))
def test_order_and_repetition_change_nothing(seed, partitions):
    random = Random(seed)
    snapshots = world(random, partitions)
    messages = [(*key, snapshot) for key, snapshot in snapshots.items()] * 2
    random.shuffle(messages)
    many_merger = merger(partitions)
    for message in messages:
        many_merger.take(*message)
    for partition in random.sample(range(partitions), partitions):
        assert not list(many_merger.finals())
        many_merger.mark(partition, 1000)
    finals = list(many_merger.finals())
    assert shown(finals) == shown(straight(snapshots, partitions))
    for final in finals:
        inside = [snapshot for (pane, _), snapshot in snapshots.items() if final.span.start <= pane < final.span.end]
        assert encode_snapshot(final.total) == encode_snapshot(merge_snapshots(inside, CELLS))


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 4))
def test_a_merged_snapshot_replaces_those_of_all_partitions_even_if_some_remain(seed, partitions):
    random = Random(seed)
    snapshots = world(random, partitions)
    earlier_merger = merger(partitions)
    for (pane, partition), snapshot in snapshots.items():
        earlier_merger.take(pane, partition, snapshot)
    for partition in range(partitions):
        earlier_merger.mark(partition, 1000)
    finals = shown(earlier_merger.finals())
    several = {pane for pane, _ in snapshots if sum(of == pane for of, _ in snapshots) > 1}
    totals = [(pane, MERGED, decode_snapshot(total, CELLS)) for pane, total in earlier_merger.take_totals()]
    assert [pane for pane, *_ in totals] == sorted(several)
    rest = [(*key, one) for key, one in snapshots.items() if key[0] not in several or random.random() < 0.5]
    # Everything comes twice and in any order, as after a restart of two workers.
    messages = [*rest, *totals] * 2
    random.shuffle(messages)
    later_merger = merger(partitions)
    for message in messages:
        later_merger.take(*message)
        if random.random() < 0.1:
            later_merger.mark_unreadable(*message[:2])  # what can be read counts, whenever it comes
    for message in messages:
        later_merger.take(*message)
    for partition in range(partitions):
        later_merger.mark(partition, 1000)
    assert shown(later_merger.finals()) == finals
    assert not later_merger.take_totals(), "they stand there already"


def test_an_unreadable_merged_snapshot_makes_its_windows_incomplete_and_is_not_written_again():
    q = merger(2)
    q.mark_unreadable(0, MERGED)
    q.take(0, 1, snapshot(4))
    for partition in (0, 1):
        q.mark(partition, 10)
    finals = list(q.finals())
    assert {(final.total.n, final.total.flags) for final in finals} == {(4, INCOMPLETE)}
    assert not q.take_totals()


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 4))
def test_finals_do_not_depend_on_the_order_of_watermarks(seed, partitions):
    random = Random(seed)
    snapshots = world(random, partitions)
    slow_merger, marks, finals = merger(partitions), [0] * partitions, []
    for pane in range(0, 120, PANE):
        for partition in range(partitions):
            if (pane, partition) in snapshots:
                slow_merger.take(pane, partition, snapshots[pane, partition])
    while min(marks) < 1000:
        partition = random.randrange(partitions)
        # A watermark of a slow worker can be older than the one before.
        marks[partition] += random.choice([-50, 10, 40, 300])
        slow_merger.mark(partition, marks[partition])
        if random.random() < 0.7:
            finals += slow_merger.finals()
    finals += slow_merger.finals()
    assert len(finals) == len({final.span for final in finals})
    ends = [final.span.end for final in finals if final.span.window == HOPPING]
    # A reader takes the newest final as the last one, so none may come after a later one.
    assert ends == sorted(ends)
    assert shown(finals) == shown(straight(snapshots, partitions, slow_merger.closed_through))


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(1, 3))
def test_a_reader_resumes_from_states_and_their_snapshots(seed, partitions):
    random = Random(seed)
    snapshots = world(random, partitions)
    finals = straight(snapshots, partitions, 200)
    for _ in range(4):
        counts = {window: random.randint(0, 20) for window in QUERY.windows}
        earlier_finals = [final for final in finals if final.span.end <= PANE * counts[final.span.window]]
        values = [(final.span.window, encode_state(final.position, [], query_marks())) for final in earlier_finals]
        states = [(window, decode_state(value, VERSIONS).position) for window, value in values]
        random.shuffle(states)
        repeated_merger = merger(partitions, states)
        first_pane = repeated_merger.needed_from
        for (pane, partition), snapshot in snapshots.items():
            useful = first_pane is None or pane >= first_pane
            if useful or random.random() < 0.5:
                assert repeated_merger.take(pane, partition, snapshot) == useful
        for partition in range(partitions):
            repeated_merger.mark(partition, 200)
        assert shown(repeated_merger.finals()) == shown(finals) - shown(earlier_finals)


def test_a_pane_is_final_once_all_partitions_have_passed_it_and_an_empty_one_counts_as_empty():
    q = merger(3)
    q.take(0, 0, snapshot(5))
    for partition in (0, 1):
        q.mark(partition, 10)
    assert q.closed_through is None
    q.mark(2, 9)
    assert q.closed_through == 9
    assert list(q.finals()) == []
    q.mark(2, 10)
    assert q.closed_through == 10
    assert spans(q.finals(), TUMBLING) == [(0, 10, 5)]
    assert not list(q.finals()), "once is enough"


def test_a_watermark_never_moves_back():
    q = merger(1)
    q.mark(0, 30)
    q.mark(0, 10)
    assert q.closed_through == 30


def test_a_snapshot_without_news_is_reported():
    q = merger(1)
    assert q.take(20, 0, snapshot(2))
    assert not q.take(20, 0, snapshot(2))
    q.mark(0, 30)
    assert [final.total.n for final in q.finals()] == [2, 2, 2]
    assert not q.take(20, 0, snapshot(2)), "final already"
    assert q.take(30, 0, snapshot(2))


def test_no_snapshot_is_deleted_before_every_kind_of_window_has_a_state():
    at = Position(40, 0, 30, snapshot(3))
    # The window `all` has no state yet, so it needs every pane.
    assert merger(1, [(TUMBLING, Position(40)), (HOPPING, Position(50))]).needed_from is None
    assert merger(1, [(TUMBLING, Position(40)), (HOPPING, Position(50)), (ALL, at)]).needed_from == 40
    assert merger(1, [(TUMBLING, Position(60)), (HOPPING, Position(30)), (ALL, at)]).needed_from == 20


positions = st.builds(Position, st.integers(-(1 << 62), 1 << 62)) | st.builds(
    Position, *[st.integers(-(1 << 62), 1 << 62)] * 3, st.integers(0, 1 << 40).map(snapshot)
)


def query_marks():
    result = QueryMarks(VERSIONS)
    for pane in range(0, 100, PANE):
        result.count(pane, [pane % 7])
    return result


@EXAMPLES
@given(positions, st.lists(st.binary(max_size=5), max_size=3))
def test_a_state_decodes_to_the_same_values(position, alerts):
    back, back_alerts, marks, names = decode_state(encode_state(position, alerts, query_marks()), VERSIONS)
    assert names is None
    assert back_alerts == alerts
    assert back.end == position.end
    assert back.start == position.start
    assert back.newest == position.newest
    assert (back.total is None) == (position.total is None)
    assert encode_state(back, back_alerts, marks) == encode_state(position, alerts, query_marks())


STATES = [
    encode_state(Position(40, 0, 30, snapshot(3)), [b"x", b"yz"], query_marks()),
    encode_state(Position(40), [b""], query_marks()),
]


@pytest.mark.parametrize("good", STATES, ids=["all", "sized"])
@settings(EXAMPLES, max_examples=150)
@given(at=st.integers(0, 150), byte=st.integers(0, 255), cut=st.integers(0, 12))
@example(at=0, byte=2, cut=0)
@example(at=47, byte=255, cut=0)
def test_changed_bytes_are_refused_or_are_another_good_state(good, at, byte, cut):
    damage = bytearray(good)
    damage[at % len(good)] = byte
    for data in (bytes(damage), bytes(good[: len(good) - cut]), good + bytes(cut)):
        try:
            position, alerts, marks, _ = decode_state(data, VERSIONS)
        except ReportError:
            continue
        assert data[0] in (2, 3, 4, 5)
        assert (marks is None) == (data[0] < 4)
        if marks is not None:
            assert decode_state(encode_state(position, alerts, marks), VERSIONS).position.end == position.end


def test_a_state_of_another_query_is_refused():
    other_query = make_query(TABLE, domain=4)
    with pytest.raises(ReportError, match="but the query needs"):
        decode_state(STATES[0], Versions.of(other_query))


def test_windows_that_a_query_no_longer_has_are_left_alone():
    q = merger(1, [(Window("tumbling", 60, 60), Position(1000))])
    assert q.take(0, 0, snapshot(1))


@EXAMPLES
@given(st.integers(0, 1 << 32), st.integers(0, 30))
def test_finals_come_by_their_ends_and_are_counted_before_they_are_made(seed, made):
    """At one end `all` comes first, then the larger window. A restart may have published one kind further."""
    random = Random(seed)
    states = [(window, Position(30)) for window in (TUMBLING, HOPPING) if random.random() < 0.3]
    whole_merger = merger(1, states)
    for (pane, partition), snapshot_of_part in world(random, 1).items():
        whole_merger.take(pane, partition, snapshot_of_part)
    whole_merger.mark(0, random.choice([55, 60, 200, 2000]))
    due = whole_merger.count_due()
    finals = whole_merger.finals()
    assert whole_merger.count_due() == due
    first = list(islice(finals, made))
    assert whole_merger.count_due() == due - len(first)
    found = [*first, *finals]
    assert len(found) == due
    keys = [(final.span.end, [ALL, HOPPING, TUMBLING].index(final.span.window)) for final in found]
    assert keys == sorted(keys)
