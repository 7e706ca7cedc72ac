"""The charts after an outage. Unknown windows are a gap, and windows without reports are zero."""

import time
from itertools import chain

import pytest
from playwright.sync_api import expect

from tests.boards import HOMEPAGE, PANE, Board, Crowd, definition_messages, in_thread, publish
from tests.brokers import create_topics

BEFORE, SILENT, AFTER, SINCE = 4, 5, 3, 6
"""The numbers of panes with reports, without reports, with reports again, and without records until now."""

KEEP_CHARTS = """
let current;
window.charts = {};
Object.defineProperty(window, "uPlot", {
  get: () => current,
  set(plot) {
    current = class extends plot {
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
    kafka = in_thread(lambda: create_topics(broker))
    crowd = Crowd(HOMEPAGE, clients=20_000, start=start)
    panes = [list(crowd.next()) for _ in range(BEFORE + SILENT + AFTER)]
    del panes[BEFORE : BEFORE + SILENT]
    publish(kafka, [*definition_messages(), *chain.from_iterable(panes)])
    with Board(kafka) as process:
        yield process.ready()


@pytest.mark.parametrize("window", ["tumbling-10-10", "all-0-0"])
def test_an_outage_is_a_gap_in_the_chart(watch, board, start, window):
    page = watch().page
    page.add_init_script(KEEP_CHARTS)
    page.goto(f"{board.url}#q=homepage&window={window}")
    expect(page.locator("#history canvas")).to_be_visible()
    expect(page.locator("#rates canvas")).to_be_visible()
    ends_with_reports = [start + PANE * (pane + 1) for pane in range(BEFORE + SILENT + AFTER)]
    del ends_with_reports[BEFORE : BEFORE + SILENT]

    ends, *columns = page.evaluate("window.charts.history.data")
    assert len(columns) == 4
    for column in columns:
        assert [end for end, number in zip(ends, column, strict=True) if number is not None] == ends_with_reports
    assert ends_with_reports[BEFORE - 1] < ends[BEFORE] < ends_with_reports[BEFORE], (
        "a point without a number breaks the line"
    )
    assert ends[-1] >= ends_with_reports[-1] + SINCE * PANE, "the chart goes on until now"

    ends, rates, _ = page.evaluate("window.charts.rates.data")
    silent = [
        rate
        for end, rate in zip(ends, rates, strict=True)
        if ends_with_reports[BEFORE - 1] < end < ends_with_reports[BEFORE]
    ]
    assert set(silent) == {0}, "the rate of an outage is zero"
    assert [rate is None for rate in rates] == [False] * (len(ends) - 1) + [True], (
        "the rate of the last pane is unknown"
    )
