"""Batches close frames by count, bytes and time. Each frame has its own id, and each report is in one frame."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.errors import ParameterError
from oracles.frame import decode
from oracles.mechanisms.entropy import System
from producers.publishers.frames import BYTES, COST, Batches, pane_of, wait
from tests.queries import make_query

FOREVER = 1e9


def query(name="q", domain=1 << 16, pane=10):
    return make_query(domain=domain, oracle="grr", budget=1e9, pane=f"{pane}s", name=name)


def numbers(count, first=0):
    """Return the reports 0, 1, 2, ... in two bytes each."""
    return np.arange(first, first + count, dtype="<u2").view(np.uint8).reshape(-1, 2)


def read(frames):
    return [decode(frame.data).reports.copy().view("<u2").ravel().tolist() for frame in frames]


def test_a_frame_is_full_at_its_count():
    batches = Batches(reports=3)
    assert list(batches.add(query(), 10, numbers(2), FOREVER)) == []
    assert read(batches.add(query(), 10, numbers(5, 2), FOREVER)) == [[0, 1, 2], [3, 4, 5]]
    assert read(batches.rest()) == [[6]]
    assert batches.rest() == []


def test_a_frame_is_full_at_its_bytes():
    batches = Batches(size=40 + 2 * 7)
    frames = list(batches.add(query(), 10, numbers(7), FOREVER))
    assert [len(frame.data) for frame in frames] == [40 + 2 * 7]
    batches = Batches(size=40 + 2 * 7 + 1)
    assert [len(frame.data) for frame in batches.add(query(), 10, numbers(7), FOREVER)] == [40 + 2 * 7]


def test_a_report_wider_than_a_frame_travels_alone():
    wide_query = query(domain=4096)
    batches = Batches(size=41)
    assert [frame.n for frame in batches.add(wide_query, 10, numbers(2), FOREVER)] == [1, 1]


def test_a_frame_closes_when_its_first_report_has_waited_long_enough():
    batches = Batches()
    list(batches.add(query(), 10, numbers(1), 5.0))
    list(batches.add(query(), 10, numbers(1, 1), 9.0))
    assert batches.until == 5.0
    assert batches.overdue(4.9) == []
    assert read(batches.overdue(5.0)) == [[0, 1]]
    assert batches.until is None


def test_queries_and_panes_are_never_mixed():
    batches = Batches()
    first_query = query("one")
    other_query = query("other")
    for position, (q, pane) in enumerate([(first_query, 0), (other_query, 0), (first_query, 10), (first_query, 0)]):
        list(batches.add(q, pane, numbers(1, position), FOREVER))
    frames = {(frame.digest, frame.pane, frame.n) for frame in (decode(batch.data) for batch in batches.rest())}
    assert frames == {(first_query.digest, 0, 2), (other_query.digest, 0, 1), (first_query.digest, 10, 1)}


def test_a_batch_describes_its_bytes():
    batches = Batches(reports=4)
    [batch] = batches.add(query(), 20, numbers(4), FOREVER)
    frame = decode(batch.data)
    assert frame.id == batch.id
    assert frame.pane == batch.pane
    assert frame.n == batch.n
    assert batch.weight == 8 + COST


def test_ids_are_random_and_never_zero(monkeypatch):
    batches = Batches(reports=1)
    ids = {frame.id for frame in batches.add(query(), 0, numbers(2000), FOREVER)}
    assert len(ids) == 2000
    draws = iter([0, 0, 7])
    monkeypatch.setattr(System, "raw", lambda self, count: np.full(count, next(draws), np.uint8))
    [frame] = batches.add(query(), 0, numbers(1), FOREVER)
    assert frame.id == bytes([7] * 8)


def test_an_open_frame_keeps_no_reference_to_the_array_of_its_reports():
    batches = Batches()
    rows = numbers(3)
    list(batches.add(query(), 0, rows[:2], FOREVER))
    rows[:] = 255
    assert read(batches.rest()) == [[0, 1]]


@settings(derandomize=True, deadline=None, max_examples=100)
@given(
    st.integers(1, 9),
    st.integers(41, 90),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 30), st.integers(0, 30)), max_size=12),
)
def test_every_report_is_in_exactly_one_frame_and_the_weight_is_that_of_open_frames(reports, size, steps):
    batches = Batches(reports, size)
    closed_frames = []
    put = 0
    waiting = 0
    for pane, count, until, now in steps:
        frames = [*batches.add(query(), 10 * pane, numbers(count, put), until), *batches.overdue(now)]
        put += count
        closed_frames += frames
        waiting = put - sum(frame.n for frame in closed_frames)
        assert 2 * waiting <= batches.weight <= 2 * waiting + COST * min(waiting, 3)
        assert batches.until is None or batches.until > now
    closed_frames += batches.rest()
    assert Counter(number for number in chain.from_iterable(read(closed_frames))) == Counter(range(put))
    assert batches.weight == 0
    maximum = batches.capacity(2)
    assert all(1 <= frame.n <= maximum for frame in closed_frames)


def test_a_pane_is_all_that_remains_of_a_time():
    assert [pane_of(query(), position) for position in (0, 9.999, 10, 1_700_000_009.7)] == [0, 0, 10, 1_700_000_000]


def test_a_report_waits_until_its_pane_ends_at_most():
    assert wait(query(), 102.0, 1.0) == 1.0
    assert wait(query(), 109.75, 1.0) == 0.25
    assert wait(query(), 109.75, 0.0) == 0.0


def test_limits_that_fit_no_report_are_refused():
    for wrong_value in ({"reports": 0}, {"size": 40}):
        with pytest.raises(ParameterError):
            Batches(**wrong_value)
    assert Batches().capacity(1) == 1000
    assert Batches(1 << 20).capacity(4) == (BYTES - 40) // 4
