"""Windows. All windows with reports are final once and in order, for any order of panes and after any restart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.merging.cumulative_window import IDLE, CumulativeWindow
from aggregator.merging.windows import SizedWindows
from aggregator.records.span import Span
from aggregator.tallies.snapshot import PARTIAL, Snapshot, encode_snapshot, merge_snapshots
from hubbub.definitions.versions import PublicationInterval
from oracles.query.settings import Window
from tests.queries import make_query

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=40)
TUMBLING, HOPPING, ODD = Window("tumbling", 30, 30), Window("hopping", 60, 20), Window("hopping", 50, 30)
ALL = Window("all", 0, 0)
WINDOWS = [TUMBLING, HOPPING, ODD, Window("tumbling", 10, 10), ALL]
PANE = 10


def snapshot(n, flags=0):
    return Snapshot(n, n // 2, n // 3, flags, np.array([n, -n], np.int16))


def brute(window, panes, through):
    """Return every window with reports up to `through`, from a look at each single one."""
    withs = [pane for pane in panes if panes[pane].n]
    if not withs:
        return []
    windows = []
    for end in range(min(withs) - 200, through + 1, PANE):
        if window.kind == "all":
            start = min(withs)
            rests = all(not start <= pane < end or pane + PANE < end - IDLE * PANE for pane in withs)
            if end <= start or (rests and end - PANE not in withs):
                continue
        else:
            start = end - window.size
            if start % window.step:
                continue
        inside = [panes[pane] for pane in panes if start <= pane < end]
        if any(snapshot_of_pane.n for snapshot_of_pane in inside):
            windows.append((start, end, encode_snapshot(merge_snapshots(inside, 2))))
    return windows


def windows_of(window, position):
    if window.kind == "all":
        return CumulativeWindow(PublicationInterval(window), PANE, 2, lambda pane: pane + PANE, position)
    return SizedWindows(PublicationInterval(window), 2, position)


def run(window, panes, steps, position=None):
    """Return the finals with their positions, if `steps` close the panes."""
    rolling, finals, before = windows_of(window, position), [], -(1 << 40)
    for step in steps:
        for pane in sorted(pane for pane in panes if before < pane + PANE <= step):
            rolling.put(pane, panes[pane])
        before = step
        finals += rolling.advance(step)
    return finals


def shown(finals):
    return [(final.span.start, final.span.end, encode_snapshot(final.total)) for final in finals]


panes_ = st.dictionaries(
    st.integers(-8, 60).map(lambda number: number * PANE),
    st.builds(snapshot, st.sampled_from([0, 1, 5, 100]), st.sampled_from([0, 0, 1, 2])),
    max_size=12,
)
steps_ = st.lists(st.integers(-10, 90).map(lambda number: number * PANE), max_size=9).map(sorted)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@EXAMPLES
@given(panes_, steps_)
def test_exactly_the_windows_with_reports_become_final(window, panes, steps):
    finals = run(window, panes, steps)
    assert shown(finals) == (brute(window, panes, steps[-1]) if steps else [])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@EXAMPLES
@given(panes_, steps_, st.integers(0, 200))
def test_a_position_and_its_panes_are_sufficient_to_resume(window, panes, steps, split):
    finals = run(window, panes, steps)
    if finals:
        cut = split % len(finals)
        position = finals[cut].position
        first_pane = windows_of(window, position).needed_from
        rest = {pane: snapshot_of_pane for pane, snapshot_of_pane in panes.items() if pane >= first_pane}
        again = run(window, rest, steps, position)
        assert shown(again) == shown(finals[cut + 1 :])
        assert shown(run(window, panes, steps, position)) == shown(again), "older panes are not taken twice"


def test_windows_that_begin_before_the_first_report_are_emitted():
    finals = run(HOPPING, {100: snapshot(1)}, [1000])
    assert [final.span[1:] for final in finals] == [(60, 120), (80, 140), (100, 160)]


def test_since_starts_at_the_first_pane_with_reports_and_ends_with_each_pane():
    finals = run(ALL, {0: snapshot(0, PARTIAL), 20: snapshot(3), 40: snapshot(4)}, [60])
    assert [(*final.span[1:], final.total.n, final.total.flags) for final in finals] == [
        (20, 30, 3, 0),
        (20, 40, 3, 0),
        (20, 50, 7, 0),
        (20, 60, 7, 0),
    ]


def test_a_long_silence_has_no_windows():
    for window in WINDOWS:
        finals = run(window, {0: snapshot(1), 10**12: snapshot(1)}, [2 * 10**12])
        assert len(finals) <= 2 * (IDLE + 1)
    assert finals[-1].span.end == 10**12 + PANE + IDLE * PANE


@pytest.mark.parametrize(
    ("start", "length", "settings", "n", "independent"),
    [
        (60, 60, {"period": "1m"}, 101, 101),
        (60, 10, {"period": "1m"}, 101, 101),
        (50, 60, {"period": "1m"}, 101, 50),  # it touches two periods
        (50, 20, {"period": "1m"}, 101, 50),
        (60, 61, {"period": "1m"}, 101, 50),
        (0, 600, {"period": "1m"}, 99, 9),
        (0, 600, {"period": "1m"}, 9, 0),
        (0, 600, {"period": "1m", "answers": "once"}, 99, 9),
        (0, 600, {"period": "1m", "answers": "fresh"}, 99, 99),
        (0, 600, {"period": "1m", "renew": "3m"}, 99, 33),
        (0, 120, {"period": "1m", "renew": "3m"}, 99, 49),
    ],
)
def test_reports_of_several_periods_are_counted_as_repeats(start, length, settings, n, independent):
    query = make_query({"domain": 2}, **settings)
    assert Span(ALL, start, start + length).independent(n, query) == independent
