"""An outage in the charts: where nothing is known there is no line, and where nobody reported there is none of them."""

import time

import pytest
from playwright.sync_api import expect

from tests.boards import HOMEPAGE, PANE, Board, Crowd, aside, defined, publish
from tests.brokers import prepared

BEFORE, SILENT, AFTER, SINCE = 4, 5, 3, 6
"""Panes: with reports, without any, with reports again, and those that should have come by now."""

KEEP_CHARTS = """
let made;
window.charts = {};
Object.defineProperty(window, "uPlot", {
  get: () => made,
  set(plot) {
    made = class extends plot {
      constructor(options, data, box) {
        super(options, data, box);
        window.charts[box.id] = this;
      }
    };
  },
});
"""


@pytest.fixture(scope="module")
def start():
    return int(time.time()) // PANE * PANE - (BEFORE + SILENT + AFTER + SINCE) * PANE


@pytest.fixture(scope="module")
def board(broker, start):
    kafka = aside(lambda: prepared(broker))
    crowd = Crowd(HOMEPAGE, clients=500, start=start)
    panes = [list(crowd.next()) for _ in range(BEFORE + SILENT + AFTER)]
    del panes[BEFORE : BEFORE + SILENT]
    publish(kafka, [*defined(), *[message for pane in panes for message in pane]])
    with Board(kafka) as started:
        yield started.ready()


@pytest.mark.parametrize("window", ["tumbling-10-10", "all-0-0"])
def test_an_outage_is_a_gap_and_not_a_line(watch, board, start, window):
    page = watch().page
    page.add_init_script(KEEP_CHARTS)
    page.goto(f"{board.url}#q=homepage&window={window}")
    expect(page.locator("#history canvas")).to_be_visible()
    expect(page.locator("#rates canvas")).to_be_visible()
    known = [start + PANE * (pane + 1) for pane in range(BEFORE + SILENT + AFTER)]
    del known[BEFORE : BEFORE + SILENT]

    ends, *columns = page.evaluate("window.charts.history.data")
    assert len(columns) == 4
    for column in columns:
        assert [end for end, number in zip(ends, column, strict=True) if number is not None] == known
    assert known[BEFORE - 1] < ends[BEFORE] < known[BEFORE], "a point without a number breaks the line"
    assert ends[-1] >= known[-1] + SINCE * PANE, "the chart goes on until now"

    ends, counted, _ = page.evaluate("window.charts.rates.data")
    silent = [rate for end, rate in zip(ends, counted, strict=True) if known[BEFORE - 1] < end < known[BEFORE]]
    assert set(silent) == {0}, "nobody reported, and that is known"
    assert [rate is None for rate in counted] == [False] * (len(ends) - 1) + [True], "and now nothing is known"
