"""The charts after an outage. Unknown windows are a gap, and windows without reports are zero."""

import re
import socket
import time
from contextlib import ExitStack
from itertools import chain

import pytest
from playwright.sync_api import expect

from aggregator.board.server.events import LISTENERS
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


def test_a_page_without_a_place_for_its_events_asks_every_ten_seconds(watch, board):
    """All 200 places are held from the same address, so the board refuses the page's own stream."""
    host, port = board.url.removeprefix("http://").strip("/").split(":")
    page = watch().page
    page.clock.install()
    with ExitStack() as stack:
        for _ in range(LISTENERS):
            stream = stack.enter_context(socket.create_connection((host, int(port))))
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert stream.recv(12) == b"HTTP/1.1 200"

        page.goto(board.url)
        page.clock.run_for(1000)
        expect(page.locator("#status-text")).to_have_text(re.compile("^Connected"))
        with page.expect_response(re.compile("/api/v1/overview")):
            page.clock.run_for(10_500)
        expect(page.locator("#status-text")).to_have_text(re.compile("^Connected"))
