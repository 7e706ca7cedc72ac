"""The tally of a pane. Counting is idempotent by offset, each id counts once, and damaged bytes are refused."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator.tallies import id_log as ids_of
from aggregator.tallies import tally as tally_of
from aggregator.tallies.frame_batch import FrameBatch
from aggregator.tallies.id_log import IdEntry, decode_ids, encode_ids
from aggregator.tallies.snapshot import (
    IDS_OVERFLOW,
    INCOMPLETE,
    PARTIAL,
    Snapshot,
    Sum,
    decode_snapshot,
    encode_snapshot,
    merge_snapshots,
)
from aggregator.tallies.tally import Tally, decode_tally, encode_tally
from oracles import oracle
from oracles.errors import ReportError

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=80)
GRR = oracle("grr", epsilon=1.0, size=5)
OUE = oracle("oue", epsilon=1.0, size=200)


def frames(*parts, oracle=GRR, clock=1000):
    """Return frames from parts of (offset, id, values). A GRR report is its value."""
    reports = [np.array(values, np.uint8).reshape(-1, oracle.width) for _, _, values in parts]
    ids = [name for _, name, _ in parts]
    return FrameBatch(
        [offset for offset, _, _ in parts],
        [len(rows) for rows in reports],
        ids if any(ids) else None,
        np.concatenate(reports),
        parts[-1][0] + 1,
        clock,
    )


def name(number):
    return number.to_bytes(8, "little")


def bytes_of(tally):
    return encode_snapshot(tally.snapshot())


def test_many_frames_in_one_call_equal_single_calls():
    parts = [
        (offset, name(offset % 4 + 1) if offset % 3 else None, [offset % 5] * (offset % 4)) for offset in range(30)
    ]
    whole_tally = Tally(GRR.zeros())
    single_tally = Tally(GRR.zeros())
    duplicate_indexes = whole_tally.add(GRR, frames(*parts), 100)
    one_by_one = [index for index, part in enumerate(parts) if single_tally.add(GRR, frames(part), 100)]
    assert duplicate_indexes == one_by_one != []
    assert encode_tally(whole_tally) == encode_tally(single_tally)
    assert whole_tally.new_ids == single_tally.new_ids
    assert whole_tally.n + whole_tally.duplicates == sum(len(values) for _, _, values in parts)


@EXAMPLES
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8))
def test_reading_again_from_any_older_offset_changes_nothing(starts):
    parts = [(offset, name(offset % 5 + 1), [offset % 5]) for offset in range(12)]
    straight = Tally(GRR.zeros())
    repeated_tally = Tally(GRR.zeros())
    straight.add(GRR, frames(*parts), 100)
    for end in (4, 7, 12):
        repeated_tally.add(GRR, frames(*parts[:end]), 100)
        for start in starts:
            if start < end:
                assert repeated_tally.add(GRR, frames(*parts[start:end]), 100) == []
    assert encode_tally(repeated_tally) == encode_tally(straight)
    assert repeated_tally.duplicates == 7


def test_offsets_that_pass_by_move_the_tally_and_its_clock_together_and_only_forward():
    tally = Tally(GRR.zeros())
    tally.advance(10, 5000)
    tally.advance(7, 9000)
    assert tally.next_offset == 10
    assert tally.clock == 5000


def test_a_closed_tally_never_changes():
    tally = Tally(GRR.zeros())
    tally.add(GRR, frames((0, name(1), [1, 2])), 100)
    earlier_snapshot = encode_snapshot(tally.close())
    assert tally.add(GRR, frames((9, None, [1])), 100) == []
    tally.advance(20, 9000)
    assert bytes_of(tally) == earlier_snapshot
    assert tally.next_offset == 1
    assert tally.ids == set()


def test_implausible_reports_are_left_out_and_counted():
    tally = Tally(OUE.zeros())
    rng = np.random.default_rng(1)
    reports = OUE.perturb(np.zeros(4, int), rng)
    reports[2] = 255
    tally.add(OUE, frames((0, None, reports), oracle=OUE), 100)
    assert tally.n == 3
    assert tally.implausible == 1


def test_beyond_max_ids_frames_count_without_a_check_and_set_a_flag():
    tally = Tally(GRR.zeros())
    parts = [(offset, name(number), [1]) for offset, number in enumerate([1, 2, 3, 3, 1])]
    assert tally.add(GRR, frames(*parts), 2) == [4], "what is remembered is still refused"
    assert tally.n == 4
    assert tally.duplicates == 1
    assert tally.flags == IDS_OVERFLOW
    assert len(tally.ids) == 2


def test_ids_beyond_the_tally_are_forgotten_so_that_their_frames_count_when_read_again():
    parts = [(offset, name(offset + 1), [1]) for offset in range(6)]
    straight = Tally(GRR.zeros())
    straight.add(GRR, frames(*parts[:3]), 100)
    encoding = encode_tally(straight)
    straight.add(GRR, frames(*parts[3:]), 100)
    segment = encode_ids(straight.next_segment())
    assert straight.next_segment() == []
    recovery = decode_tally(encoding, GRR.state_size)
    recovery.recover_ids([decode_ids(segment)])
    assert recovery.ids == {name(1), name(2), name(3)}
    assert recovery.add(GRR, frames(*parts), 100) == []
    assert encode_tally(recovery) == encode_tally(straight)
    assert recovery.next_segment() == [IdEntry(name(number + 1), number) for number in (3, 4, 5)]


def test_many_ids_are_written_in_segments_that_every_broker_accepts(monkeypatch):
    assert len(encode_ids([IdEntry(bytes(8), offset << 40) for offset in range(ids_of.SEGMENT)])) < 1 << 20
    monkeypatch.setattr(tally_of, "SEGMENT", 2)
    tally = Tally(GRR.zeros())
    tally.add(GRR, frames(*[(offset, name(offset + 1), [1]) for offset in range(5)]), 100)
    segments = list(iter(tally.next_segment, []))
    assert [[entry.offset for entry in segment] for segment in segments] == [[0, 1], [2, 3], [4]]
    recovery = decode_tally(encode_tally(tally), GRR.state_size)
    recovery.recover_ids([decode_ids(encode_ids(segment)) for segment in segments])
    assert recovery.ids == tally.ids


integers = st.sampled_from([0, 1, -1, 127, -128, 255, 256, -129, 65_535, 1 << 31, -(1 << 31), 1 << 40, (1 << 63) - 1])
whole = st.integers(0, (1 << 63) - 1)
snapshots = st.builds(
    Snapshot,
    whole,
    whole,
    whole,
    st.integers(0, 7),
    st.lists(integers, min_size=1, max_size=6).map(lambda numbers: np.array(numbers, np.int64)),
    st.none(),
)


@EXAMPLES
@given(snapshots)
def test_a_snapshot_decodes_to_the_same_values_in_the_narrowest_type(snapshot):
    data = encode_snapshot(snapshot)
    back = decode_snapshot(data, len(snapshot.counts))
    assert np.array_equal(back.counts, snapshot.counts)
    assert (back.n, back.implausible, back.duplicates, back.flags) == (
        snapshot.n,
        snapshot.implausible,
        snapshot.duplicates,
        snapshot.flags,
    )
    assert encode_snapshot(back) == data


@pytest.mark.parametrize(
    ("numbers", "width"), [([0, 255], 1), ([-1, 127], 1), ([-1, 128], 2), ([65_536], 4), ([1 << 32], 8), ([-5], 1)]
)
def test_counts_are_stored_in_few_bytes(numbers, width):
    snapshot = Snapshot(1, 0, 0, 0, np.array(numbers, np.int64))
    empty_count = len(encode_snapshot(Snapshot(1, 0, 0, 0, np.zeros(0, np.int64))))
    assert len(encode_snapshot(snapshot)) == empty_count + width * len(numbers)


@EXAMPLES
@given(st.integers(0, 1 << 50), st.none() | st.integers(0, 1 << 50), st.booleans(), snapshots)
def test_a_tally_decodes_to_the_same_values(next_offset, clock, is_closed, snapshot):
    tally = Tally(snapshot.counts.copy(), snapshot.n, 1, 2, snapshot.flags, next_offset, clock, is_closed)
    back = decode_tally(encode_tally(tally), len(snapshot.counts))
    assert back.next_offset == next_offset
    assert back.clock == clock
    assert back.closed == is_closed
    assert back.counts.dtype == np.int64
    assert back.counts.flags.writeable
    assert bytes_of(back) == bytes_of(tally)


steps = st.sampled_from([1, 1, 1, 2, 9, 300]) | st.integers(1, 1 << 33)


@EXAMPLES
@given(st.lists(st.tuples(st.binary(min_size=8, max_size=8), steps), min_size=1, max_size=40))
def test_a_segment_decodes_to_the_same_values(steps):
    offset, segment = -1, []
    for ident, step in steps:
        offset += step
        segment.append(IdEntry(ident, offset))
    assert decode_ids(encode_ids(segment)) == segment


TALLY = encode_tally(Tally(np.array([1, 300, -4], np.int64), 7, 1, 2, 5, 99, 12_345, closed=False))
SEGMENT = encode_ids([IdEntry(name(4), 10), IdEntry(name(9), 11), IdEntry(name(2), 400)])
DENSE = encode_ids([IdEntry(name(4), 10), IdEntry(name(9), 11), IdEntry(name(2), 15)])
FORMS = {
    "tally": (TALLY, lambda data: encode_tally(decode_tally(data, 3))),
    "snapshot": (TALLY[24:], lambda data: encode_snapshot(decode_snapshot(data, 3))),
    "segment": (SEGMENT, lambda data: encode_ids(decode_ids(data))),
    "dense segment": (DENSE, lambda data: encode_ids(decode_ids(data))),
}


def test_a_segment_is_short():
    assert decode_ids(SEGMENT) == [IdEntry(name(4), 10), IdEntry(name(9), 11), IdEntry(name(2), 400)]
    for step, bits in ((1, 1 / 8), (4, 1 / 2), (60, 1), (1000, 2), (1 << 20, 4)):
        segment = [IdEntry(bytes(8), 7 + step * number) for number in range(10_000)]
        assert len(encode_ids(segment)) <= 16 + (8 + bits) * len(segment) + 1


@pytest.mark.parametrize("form", FORMS)
@settings(EXAMPLES, max_examples=200)
@given(position=st.integers(0, 80), byte=st.integers(0, 255), cut=st.integers(0, 3))
@example(position=0, byte=1, cut=0)
def test_changed_bytes_are_refused_or_are_another_good_record(form, position, byte, cut):
    good_form, repeated_form = FORMS[form]
    assert repeated_form(good_form) == good_form
    change = bytearray(good_form)
    change[position % len(good_form)] = byte
    data = bytes(change[: len(change) - cut]) if cut < 3 else bytes(change) + b"\0"
    with suppress(ReportError):
        assert repeated_form(data) == data


def test_a_tally_of_another_query_is_refused():
    with pytest.raises(ReportError, match="the query needs 4"):
        decode_tally(TALLY, 4)


@pytest.mark.parametrize("order", [1, -1])
def test_merging_is_addition_and_can_be_undone(order):
    a = Snapshot(3, 1, 0, PARTIAL, np.array([1, 2], np.uint8))
    b = Snapshot(4, 0, 2, PARTIAL | INCOMPLETE, np.array([5, -6], np.int16))
    total = merge_snapshots([a, b][::order], 2)
    assert encode_snapshot(total) == encode_snapshot(Snapshot(7, 1, 2, 3, np.array([6, -4])))
    running = Sum(np.zeros(2, np.int64))
    running.add(a)
    running.add(b)
    running.add(b, -1)
    assert encode_snapshot(running.snapshot()) == encode_snapshot(a)
