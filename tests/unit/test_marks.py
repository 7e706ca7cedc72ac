"""Marks: nothing smaller than `crowd` follows from all windows that show values, whatever their kinds.

A window is a sum over panes. So all that a reader can compute are sums of rows of a matrix, one row a window. A group
of panes is revealed if some sum of rows is about this group alone: if the rank falls when its columns are left out.
"""

import itertools

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from aggregator.merging.marks import Marks, QueryMarks, decode, spans
from hubbub.definitions.versions import Version, Versions
from oracles.errors import ReportError
from tests.queries import make_query

PANE = 10
CROWD = 10
FIXED = settings(derandomize=True, deadline=None, max_examples=60, phases=[Phase.generate])
KINDS = ["10s", "20s", "30s", "40s", "20s/10s", "30s/10s", "40s/10s", "40s/30s", "30s/20s", "all"]


def ask(*windows, crowd=CROWD):
    return make_query(domain=3, oracle="grr", budget=1e9, crowd=crowd, windows=list(windows))


def revealed(rows, n, crowd):
    """The smallest group of reports that rows reveal, or None if it is no smaller than the crowd."""
    live = [j for j, size in enumerate(n) if size]
    rows = np.array(rows, float).reshape(-1, len(n))[:, live]
    size = [n[j] for j in live]
    small = [j for j in range(len(live)) if size[j] < crowd]
    rank = np.linalg.matrix_rank(rows) if len(rows) else 0
    best = None
    for count in range(1, len(small) + 1):
        for group in itertools.combinations(small, count):
            total = sum(size[j] for j in group)
            rest = [j for j in range(len(live)) if j not in group]
            if (
                total < min(crowd, best or crowd)
                and np.linalg.matrix_rank(rows[:, rest] if rest else np.zeros((1, 1))) < rank
            ):
                best = total
    return best


def windows_of(versions, panes):
    """All windows of so many panes, as (kind, start, end), whether they show values or not."""
    for window, since, until in versions.intervals:
        for end in range(PANE, PANE * panes + 1, PANE):
            start = end - window.size if window.step else max(since, 0)
            if max(since, 0) <= start < end <= until and (not window.step or start % window.step == 0):
                yield window, start, end


def row(start, end, panes):
    return [float(start <= PANE * j < end) for j in range(panes)]


def marks_after(versions, n, restarts=()):
    marks = QueryMarks(versions)
    for position, count in enumerate(n):
        if position in restarts:
            marks = decode(marks.encode(), versions)
        marks.count(PANE * position, [count])
    marks.advance(PANE * len(n))
    return marks


def shown(versions, n, marks):
    """The windows that show values."""
    for window, start, end in windows_of(versions, len(n)):
        inside = [sum(n[start // PANE : end // PANE])]
        if marks.withheld(start if window.step else None, end, inside) == (None,):
            yield window, start, end


sizes = st.lists(st.sampled_from([0, 0, 1, 2, 4, 5, 8, 9, 12, 15, 40]), min_size=3, max_size=11)
kinds = st.lists(st.sampled_from(KINDS), min_size=1, max_size=4, unique=True)


@FIXED
@given(sizes, kinds)
def test_no_group_smaller_than_the_crowd_follows_from_what_is_shown(n, names):
    versions = Versions.of(ask(*names))
    marks = marks_after(versions, n)
    rows = [row(start, end, len(n)) for _, start, end in shown(versions, n, marks)]
    assert revealed(rows, n, CROWD) is None


def test_the_check_finds_the_smallest_group_that_sums_and_differences_reveal():
    n = [12, 12, 1, 12, 3, 12]
    assert revealed([row(0, 40, 6), row(0, 20, 6)], n, 10) is None
    assert revealed([row(0, 40, 6), row(0, 20, 6), row(30, 50, 6), row(40, 60, 6)], n, 10) == 4
    assert revealed([row(0, 40, 6), row(0, 20, 6), row(30, 60, 6), row(40, 60, 6)], n, 10) == 1
    assert revealed([row(40, 50, 6)], n, 10) == 3


@FIXED
@given(sizes, kinds, st.sets(st.integers(0, 10)))
def test_a_restart_changes_nothing(n, names, restarts):
    versions = Versions.of(ask(*names))
    marks = marks_after(versions, n)
    repeated_marks = marks_after(versions, n, restarts)
    assert repeated_marks.encode() == marks.encode()
    assert list(shown(versions, n, repeated_marks)) == list(shown(versions, n, marks))


@settings(FIXED, max_examples=150)
@given(sizes, kinds, kinds, st.sampled_from([1, 4, 10, 15]), st.sampled_from([4, 10, 15]), st.integers(1, 9))
def test_versions_that_change_the_crowd_and_the_windows_reveal_nothing(
    n, names, later, crowd, first_crowd, first_change
):
    """No group smaller than the crowds of all versions, nor one smaller than the crowd of the panes that it is in."""
    first_change *= PANE
    versions = Versions.of(ask(*names, crowd=first_crowd)).with_version(Version(first_change, ask(*later, crowd=crowd)))
    marks = marks_after(versions, n)
    windows = list(shown(versions, n, marks))
    rows = [row(start, end, len(n)) for window, start, end in windows if window.step]
    assert revealed(rows, n, min(first_crowd, crowd)) is None
    old = [count if PANE * position < first_change else 10**6 for position, count in enumerate(n)]
    assert revealed(rows, old, first_crowd) is None, "panes of the first version need its crowd for ever"


def test_a_stretch_over_two_versions_needs_the_larger_crowd():
    """Later reports under a smaller crowd must not reveal the five reports of the first version."""
    versions = Versions.of(ask("20s", "10s")).with_version(Version(2 * PANE, ask("20s", "10s", crowd=2)))
    marks = marks_after(versions, [5, 0, 3, 0, 2, 0])
    assert [edge for edge in range(PANE, 7 * PANE, PANE) if edge in marks.places[0]] == [60]


def test_a_window_is_withheld_for_its_size_or_for_its_ends():
    marks = marks_after(Versions.of(ask("20s", "10s")), [9, 3, 12, 12, 0, 4])
    assert marks.withheld(0, 10, [9]) == ("small",)
    assert marks.withheld(0, 20, [12]) == (None,)
    assert marks.withheld(20, 30, [12]) == (None,)
    assert marks.withheld(20, 40, [24]) == (None,)
    assert marks.withheld(10, 30, [15]) == ("held",)
    assert marks.withheld(40, 60, [4]) == ("small",)


def test_a_short_window_does_not_take_the_marks_of_a_long_one():
    """Six reports a pane: every 40 s is shown, and no 10 s, although 20 s would have been enough for a mark."""
    n = [6] * 24
    marks = marks_after(Versions.of(ask("10s", "40s")), n)
    assert all(marks.withheld(number, number + 40, [24]) == (None,) for number in range(0, 240, 40))
    assert not any(number in marks.places[0] for number in range(10, 240, 10) if number % 40)


@pytest.mark.parametrize(
    ("windows", "lengths"),
    [
        (["1m"], [60]),
        (["1m/10s"], [60, 10]),
        (["90s/60s"], [90, 60, 30]),
        (["1m", "all"], [60, 10]),
        (["1h/10s", "20s"], [3600, 20, 10]),
    ],
)
def test_spans_are_sizes_and_steps_and_the_pane_of_all(windows, lengths):
    assert spans(ask(*windows)) == lengths


def test_ninety_seconds_every_sixty_are_shown():
    marks = marks_after(Versions.of(ask("90s/60s")), [12] * 30)
    assert [start for start in range(0, 210, 60) if marks.withheld(start, start + 90, [108]) == (None,)] == [
        0,
        60,
        120,
        180,
    ]


def test_a_long_silence_is_passed_at_once():
    versions = Versions.of(ask("1m/10s", "1d"))
    marks = QueryMarks(versions)
    for pane, n in ((0, 3), (10**12, 3), (10**12 + 10, 8), (2 * 10**12, 1)):
        marks.count(pane, [n])
    assert marks.places[0].newest_mark == 2 * 10**12
    assert 10**12 not in marks.places[0]


def test_lost_marks_begin_again_after_a_crowd():
    marks = QueryMarks.lost(Versions.of(ask("10s")), 100)
    assert not any(edge in marks.places[0] for edge in range(0, 110, 10))
    marks.count(150, [9])
    assert not any(edge in marks.places[0] for edge in range(0, 170, 10))
    marks.count(160, [12])
    assert [edge for edge in range(0, 180, 10) if edge in marks.places[0]] == [170]


def test_lost_marks_lose_nothing_if_any_group_may_be_shown():
    marks = QueryMarks.lost(Versions.of(ask("10s", crowd=1)), 100)
    assert all(edge in marks.places[0] for edge in range(0, 110, 10))


def test_marks_that_no_window_needs_are_forgotten():
    marks = marks_after(Versions.of(ask("1m/10s", "10s")), [6] * 90)
    edges = [edge for edge in range(600, 900, 10) if edge in marks.places[0]]
    marks.forget(600, 890, [10])
    assert [edge for edge in range(600, 900, 10) if edge in marks.places[0]] == edges
    assert len(marks.places[0].stretches) <= 6
    marks.forget(600, 890, [60])
    assert len(marks.places[0].stretches) <= 1


def test_bytes_that_are_no_marks_are_refused():
    versions = Versions.of(ask("10s", "40s"))
    data = marks_after(versions, [3] * 20).encode()
    assert decode(data, versions).encode() == data
    strange = [b"", b"[]", b"{}", data[:-1], data.replace(b'"through":200', b'"through":"x"')]
    strange += [data.replace(b"[[", b"[[],["), data.replace(b":200", b":1e300"), data.replace(b"marks", b"mars")]
    strange += [b'{"through":1,"marks":[[0,-1,0,[],[]]]}', b'{"through":1,"marks":[[0,0,0,[],[5,-3]]]}']
    strange += [b'{"through":1,"marks":[[0,0,0,[],[5]]]}', b'{"through":1,"marks":[[0,0,0,[[1]],[]]]}']
    for text in strange:
        with pytest.raises(ReportError):
            decode(text, versions)


def test_the_marks_of_attributes_are_their_own():
    assert QueryMarks(Versions.of(ask("10s"))).places == [Marks(PANE)]


LEVELS = 4


def ask_number(*windows, crowd=CROWD):
    return make_query(domain={"low": 0, "high": 9, "bins": 1 << LEVELS}, budget=1e9, crowd=crowd, windows=list(windows))


def test_numbers_need_the_crowd_in_each_level():
    """Four levels of 16 bins: 44 reports are a crowd, but 9 of one level are none."""
    versions = Versions.of(ask_number("10s"))
    marks = QueryMarks(versions)
    marks.count(100, [(12, 12, 11, 9)])
    assert marks.withheld(100, 110, [(12, 12, 11, 9)]) == ("small",)
    marks.count(110, [(10, 10, 10, 1)])
    assert 110 not in marks.places[0]
    assert 120 in marks.places[0]
    assert marks.withheld(110, 120, [(10, 10, 10, 10)]) == ("held",)
    marks.count(120, [(10, 10, 10, 10)])
    assert marks.withheld(120, 130, [(10, 10, 10, 10)]) == (None,)


def test_a_tally_of_numbers_is_counted_by_level():
    query = ask_number("10s")
    state = query.oracle.zeros()
    query.oracle.add(state, query.oracle.perturb(np.arange(64) % 16, np.random.default_rng(1)))
    [levels] = query.oracle.answer_counts(state, 64)
    assert (len(levels), sum(levels)) == (LEVELS, 64)
    several = make_query(attributes={"a": {"low": 0, "high": 9, "bins": 16}, "b": 3}, solution="spl", budget=1e9)
    assert several.oracle.count_parts == (LEVELS, 1)
    assert [np.shape(count) for count in several.oracle.answer_counts(several.oracle.zeros(), 0)] == [(LEVELS,), ()]


def test_marks_of_numbers_without_levels_begin_again():
    versions = Versions.of(ask_number("10s"))
    marks = QueryMarks(versions)
    marks.count(100, [(3, 3, 3, 3)])
    data = marks.encode()
    assert decode(data, versions).encode() == data
    assert decode(data.replace(b"[3,3,3,3]", b"12"), versions) is None
    with pytest.raises(ReportError):
        decode(data.replace(b"[3,3,3,3]", b"[3,3]"), versions)
