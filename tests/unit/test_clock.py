"""The clock of a partition. It never moves back, and late, future and closed each begin at one point."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.tallies.clock import advance
from aggregator.tallies.progress import Progress, TopicIds, combine, decode, encode, encode_ends, resume
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from producers.gateway.intake.timeliness import untimely
from producers.simulation.delivery.true_answers import in_time
from tests.queries import make_query

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=100)


def query(pane=10, lateness=5, skew=60):
    return Versions.of(make_query(domain=3, pane=f"{pane}s", lateness=f"{lateness}s", skew=f"{skew}s"))


queries = st.builds(query, st.integers(1, 30), st.integers(0, 40), st.integers(0, 90))
clocks = st.integers(-100_000, 2_000_000_000_000)


def test_the_clock_is_the_running_maximum():
    clock = None
    clock_values = []
    for timestamp in (5, 3, 9, 9, 1):
        clock = advance(clock, timestamp)
        clock_values.append(clock)
    assert clock_values == [5, 5, 9, 9, 9]


def test_a_report_is_late_from_the_first_millisecond_after_end_and_lateness():
    q = query(pane=10, lateness=5)
    assert q.closes_after(1000) == 1_015_000
    assert not q.is_late(1000, 1_015_000)
    assert q.is_late(1000, 1_015_001)


def test_a_report_is_future_if_its_pane_starts_after_clock_and_skew():
    q = query(pane=10, skew=60)
    assert not q.is_future(1000, 940_000)
    assert q.is_future(1000, 939_999)


def test_without_a_clock_nothing_is_late_or_future():
    q = query()
    for pane in (0, 1_700_000_000, 1 << 52):
        assert not q.is_late(pane, None)
        assert not q.is_future(pane, None)


def test_times_out_of_range_are_refused_even_without_a_clock():
    q = query(pane=1)
    assert q.is_late(-(1 << 63), None)
    assert q.is_future(1 << 62, None)


@EXAMPLES
@given(queries, clocks)
def test_a_pane_is_closed_exactly_when_its_reports_are_late(q, clock):
    through = q.closed_through(clock)
    assert through % q.query.pane == 0
    assert q.is_late(through - q.query.pane, clock)
    assert not q.is_late(through, clock)


@EXAMPLES
@given(queries, st.integers(10**6, 2 * 10**12), st.integers(-20, 20))
def test_worker_gateway_and_simulator_judge_alike(q, clock, ahead):
    pane = clock // 1000 // q.query.pane * q.query.pane + ahead * q.query.pane
    reason = None
    if q.is_late(pane, clock):
        reason = "late"
    elif q.is_future(pane, clock):
        reason = "future"
    refusal = untimely(q, pane, clock)
    assert (refusal and refusal[0]) == q.untimely(pane, clock) == reason
    assert in_time(q.query, pane, clock) == (reason is None)


@EXAMPLES
@given(queries, clocks)
def test_open_panes_are_bounded(q, clock):
    first_open = clock // 1000 // q.query.pane * q.query.pane
    far = (q.query.lateness + q.skew) // q.query.pane + 5
    panes = range(first_open - far * q.query.pane, first_open + far * q.query.pane, q.query.pane)
    assert sum(not q.is_late(pane, clock) and not q.is_future(pane, clock) for pane in panes) <= q.most_open


def test_reading_resumes_at_the_oldest_record_with_its_clock():
    progress = Progress(90, 9_000)
    assert resume(progress, []) == (90, 9_000)
    assert resume(progress, [(95, 9_500), (40, 4_000)]) == (40, 4_000)
    assert resume(Progress(), [(40, 4_000)]) == (0, None)


def test_progress_records_combine_to_the_furthest():
    a, b = b"a" * 8, b"b" * 8
    records = [Progress(50, 5_000, {a: 100}), Progress(40, 4_000, {a: 90, b: 70})]
    for order in (records, records[::-1]):
        assert combine(order) == Progress(50, 5_000, {a: 100, b: 70})
    assert combine([]) == Progress()
    records = [Progress(50, 5_000, closed_clock=5_100), Progress(40, 4_000, {a: 90}, closed_clock=5_200), Progress(3)]
    for order in permutations(records):
        assert combine(order) == Progress(50, 5_000, {a: 90}, closed_clock=5_200)


def test_only_a_closed_pane_is_covered():
    versions = query()
    clock = 1_000_000_000
    end = versions.closed_through(clock)
    pane = versions.query.pane
    for progress in (Progress(1, 1, {versions.query.digest: end}), Progress(1, 1, closed_clock=clock)):
        assert progress.covers(versions, end - pane)
        assert not progress.covers(versions, end)
    for progress in (Progress(1, 1), Progress(1, 1, {b"b" * 8: end})):
        assert not progress.covers(versions, end - pane)
    both = Progress(1, 1, {versions.query.digest: end + pane}, closed_clock=clock)
    assert both.covers(versions, end), "an end of an older release counts until a closed clock has passed it"


@EXAMPLES
@given(
    st.integers(0, (1 << 63) - 1),
    st.none() | clocks,
    st.dictionaries(st.binary(min_size=8, max_size=8), st.integers(-(1 << 62), 1 << 62), max_size=5),
)
def test_progress_decodes_to_the_same_values(next_offset, clock, ends):
    progress = Progress(next_offset, clock, ends)
    assert decode(encode_ends(progress)) == progress
    for closed_clock in (None, 5):
        progress = Progress(next_offset, clock, topic_ids=TopicIds(b"r" * 16, b"s"), closed_clock=closed_clock)
        assert decode(encode(progress)) == progress
        assert len(encode(progress)) == 57


@EXAMPLES
@given(st.binary(max_size=80))
def test_bytes_that_are_no_progress_are_refused(data):
    good_frame = encode_ends(Progress(7, None, {b"a" * 8: 1, b"b" * 8: 2}))
    assert decode(good_frame).next_offset == 7
    for wrong_value in (data, good_frame + data[:1] + b"x", good_frame[: len(data) % len(good_frame)]):
        try:
            progress = decode(wrong_value)
        except ReportError:
            continue
        assert encode_ends(progress) == wrong_value, "what is read is what would be written"


def test_repeated_digests_are_refused():
    good_frame = encode_ends(Progress(7, None, {b"a" * 8: 1, b"b" * 8: 2}))
    with pytest.raises(ReportError, match="out of order"):
        decode(good_frame.replace(b"b" * 8, b"a" * 8))
