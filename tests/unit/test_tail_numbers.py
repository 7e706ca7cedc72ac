"""`hubbub tail` shows quantiles, means and ranges of numbers with their intervals."""

import io

import pytest
from rich.console import Console, Group

from aggregator.reading.tail.overview import Overview
from aggregator.reading.tail.pages import Pages
from aggregator.reading.tail.summary import Summary
from aggregator.reading.tail.table import page
from aggregator.records.decoder import decode
from tests.boards import LOAD_TIME, NUMBERS, PANE, START, VISIT, NumberCrowd, definition_messages, withheld

PANES = 4
NOW = START + PANES * PANE + 5


@pytest.fixture(scope="module")
def messages():
    crowds = NumberCrowd(LOAD_TIME, clients=40_000), NumberCrowd(VISIT, clients=20_000)
    return [message for _ in range(PANES) for crowd in crowds for message in crowd.next() if message[0] == "estimates"]


@pytest.fixture
def overview(messages):
    overview = Overview()
    for _, key, value in definition_messages(NUMBERS):
        overview.define(key, value, 0)
    for _, _, value in messages:
        overview.add_record(value)
    return overview


def text_of(overview, key=None, width=120):
    pages, screen = Pages(), io.StringIO()
    if key is not None:
        pages.press(key, overview.names, 30)
    Console(file=screen, width=width, height=40).print(Group(*page(overview, pages, 15, width, 40, NOW)))
    return screen.getvalue()


def numbers_of(overview, name, attribute=""):
    return overview.tracks[name, attribute].newest.record.rest()["numbers"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_overview_has_the_first_quantile_with_its_interval(overview, width):
    lines = [line for line in text_of(overview, width=width).splitlines() if "load_time" in line]
    median = numbers_of(overview, "load_time")["quantiles"]["0.5"]
    (line,) = lines
    assert "p50" in line
    assert f"{median['value']:,.0f} ms ({median['low']:,.0f} to {median['high']:,.0f})" in line
    assert "years (" in text_of(overview, width=width)


def test_the_page_of_a_query_has_all_that_it_asks_for(overview):
    text = text_of(overview, "1", 160)
    numbers = numbers_of(overview, "load_time")
    for name in ("p50", "p90", "p95", "p99", "mean", "geometric mean", "slow"):
        assert any(line.split()[: len(name.split())] == name.split() for line in text.splitlines()), name
    p95 = numbers["quantiles"]["0.95"]
    slow = numbers["ranges"]["slow"]
    line = next(line for line in text.splitlines() if line.split()[:1] == ["p95"])
    assert f"{p95['value']:,.0f} ms" in line
    assert f"{p95['low']:,.0f} to {p95['high']:,.0f}" in line
    assert any(block in line for block in "▄▅▆▇█"), "it has its history"
    assert f"{100 * slow['share']:.1f}%" in text
    assert "may be 0" not in text
    assert f"known to ± {100 * numbers['resolution']:.1f}%" in text
    several = text_of(overview, "2", 160)
    assert "visit, age" in several
    assert "● proved" in several, "the other attribute has values"


def test_a_line_has_each_quantile(messages):
    summary = Summary.of(decode(messages[0][2]))
    line = summary.line(2)
    assert "load_time 10s: 40,000 reports" in line
    assert ": p50 " in line
    assert ", p90 " in line
    assert "p95" not in line
    assert line.endswith("; 95% intervals")


def test_a_withheld_window_has_no_numbers(messages):
    overview = Overview()
    overview.add_record(withheld(messages[0])[2])
    assert "withheld" in Summary.of(decode(withheld(messages[0])[2])).line(5)
    assert "p50" not in text_of(overview)
