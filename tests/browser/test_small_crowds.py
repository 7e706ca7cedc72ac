"""The page says which windows are withheld, since when a crowd is quiet, and when a query begins."""

import re
import time
from datetime import UTC, datetime
from itertools import chain

import pytest
from playwright.sync_api import expect

from tests import boards
from tests.boards import PANE, Board, Crowd, definition_messages, in_thread, publish, status_message, withheld
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE
from tests.browser.test_outages import KEEP_CHARTS
from tests.queries import make_queries, make_table

PANES, QUIET = 8, 30
"""Panes with reports, and panes without reports after the crowd that stopped."""
NAMES = ("twenty", "fewer", "stopped", "absent", "future")
FEWER = "withheld: fewer than 50 reports"
HELD = "withheld: held back with a neighbour that holds fewer than 50"


def queries(begin):
    """Return a query for each crowd. The last one begins at this time."""
    domain = {"domain": ["a.example", "b.example", "c.example"], "other": False, "oracle": "grr"}
    table = make_table(domain, epsilon=2.0, budget=1e9, pane=f"{PANE}s", windows=[f"{PANE}s"])
    tables = dict.fromkeys(NAMES, table) | {"future": {**table, "from": datetime.fromtimestamp(begin, UTC)}}
    return make_queries(tables)


@pytest.fixture(scope="module")
def begin():
    return (int(time.time()) // 86_400 + 2) * 86_400


@pytest.fixture(scope="module")
def last():
    """Return the end of the newest pane."""
    return int(time.time()) // PANE * PANE


@pytest.fixture(scope="module")
def board(broker, begin, last):
    all_queries = queries(begin)
    twenty = Crowd(all_queries["twenty"], clients=20, start=last - PANES * PANE)
    fewer = Crowd(all_queries["fewer"], clients=500, start=last - PANES * PANE)
    stopped = Crowd(all_queries["stopped"], clients=500, start=last - (PANES + QUIET) * PANE)
    messages = [withheld(message) for message in chain.from_iterable(estimates(twenty) for _ in range(PANES))]
    flags = [None, "small", None, "held", "small", None, "held", "small"]
    messages += [withheld(message, flag) if flag else message for flag in flags for message in estimates(fewer)]
    messages += [*chain.from_iterable(estimates(stopped) for _ in range(PANES))]
    ahead = last + 50 * PANE  # however long the tests take
    messages.append(status_message(all_queries["stopped"], ahead, last - QUIET * PANE))
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages(all_queries), *messages])
    with Board(kafka) as process:
        yield process.ready()


def estimates(crowd):
    return [message for message in crowd.next() if message[0] == "estimates"]


def open_page(watch, board, name, **settings):
    view = watch(**settings)
    view.page.add_init_script(KEEP_CHARTS)
    view.page.goto(f"{board.url}#q={name}")
    return view


def moment(page, end):
    """Return a time as the page shows it."""
    return page.evaluate("end => new Date(1000 * end).toLocaleTimeString('en-GB')", end)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_crowd_of_twenty_is_withheld_in_words(watch, board, last, size):
    view = open_page(watch, board, "twenty", viewport=size)
    page = view.page
    notice = page.locator("#withheld")
    expect(notice).to_contain_text(FEWER)
    expect(notice).to_contain_text(f"since {moment(page, last - (PANES - 1) * PANE)}")
    expect(page.locator("#window")).to_contain_text(FEWER)
    expect(page.locator("#rates-text")).to_contain_text(FEWER)
    expect(page.locator("#status")).to_contain_text(re.compile("Withheld|No window since"))
    assert not re.search(r"\b0 reports|value must|undefined|null|NaN", page.locator("body").inner_text())
    expect(page.locator("#refused")).to_contain_text(f"Withheld windows {PANES}", use_inner_text=True)
    assert view.errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_newest_window_with_values_is_shown(watch, board, last):
    view = open_page(watch, board, "fewer")
    page = view.page
    expect(page.locator("#rows tr")).to_have_count(3)
    expect(page.locator("#window")).to_contain_text("500 reports")
    expect(page.locator("#window")).to_contain_text(moment(page, last - 2 * PANE))
    expect(page.locator("#withheld")).to_have_text(
        f"Windows since {moment(page, last - PANE)} are {FEWER}. Below is the newest window with values."
    )
    expect(page.locator("#refused")).to_contain_text(
        "Counted in 3 windows 1,500 Withheld windows 5", use_inner_text=True
    )
    ends, low, high, share, _ = page.evaluate("window.charts.history.data")
    assert ends == [last - (PANES - 1 - number) * PANE for number in range(PANES)]
    for column in (low, high, share, page.evaluate("window.charts.rates.data")[1]):
        assert [number is not None for number in column] == [True, False, True, False, False, True, False, False]
    expect(page.locator("#history-text")).to_contain_text("5 of 8 windows withheld")
    assert view.errors == []


def test_a_link_to_a_withheld_window_says_why(watch, board, last):
    view = open_page(watch, board, f"fewer&at={last - PANE}")
    expect(view.page.locator("#withheld")).to_have_text(f"This window is {HELD}.")
    expect(view.page.locator("#window")).to_contain_text(HELD)
    assert view.errors == []


def test_a_value_of_a_withheld_window_has_that_reason(watch, board, last):
    view = open_page(watch, board, f"fewer&at={last - PANE}&find=b.example")
    expect(view.page.locator("#absent")).to_have_text(f"b.example: this window is {HELD}.")
    assert view.errors == []


def test_a_name_that_is_misspelt_offers_the_near_one(watch, board):
    page = open_page(watch, board, "fewer&find=b.exampel").page
    expect(page.locator("#absent")).to_contain_text("“b.exampel” is no value of fewer. Do you mean b.example")
    page.locator("#absent").get_by_role("button", name="b.example").click()
    expect(page.locator("#rows tr")).to_have_count(1)
    expect(page.locator("#absent")).to_be_empty()


def test_a_crowd_that_stopped_says_since_when(watch, board, last):
    view = open_page(watch, board, "stopped")
    page = view.page
    expect(page.locator("#rows tr")).to_have_count(3)
    since = moment(page, last - QUIET * PANE)
    expect(page.locator("#status")).to_contain_text(re.compile(rf"Quiet: no reports since (\S+ )?{since}"))
    expect(page.locator("#late")).to_be_empty()
    expect(page.locator("#withheld")).to_be_empty()


def test_a_crowd_that_never_came_has_no_window(watch, board):
    page = open_page(watch, board, "absent").page
    expect(page.locator("#empty")).to_contain_text("no report has been counted")
    expect(page.locator("#status")).to_contain_text("No data yet")


def test_a_query_in_the_future_says_when_it_begins(watch, board, begin):
    page = open_page(watch, board, "future").page
    day = page.evaluate("begin => new Date(1000 * begin).toLocaleDateString('en-CA')", begin)
    for place in ("#empty", "#status"):
        expect(page.locator(place)).to_contain_text(re.compile(f"[Bb]egins at {day} {moment(page, begin)}"))


def test_a_window_with_values_ends_the_notice(watch, broker):
    all_queries = queries(boards.START)
    crowd = Crowd(all_queries["twenty"], clients=500, start=int(time.time()) // PANE * PANE - 3 * PANE)
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages(all_queries), *map(withheld, estimates(crowd))])
    with Board(kafka) as process:
        page = open_page(watch, process.ready(), "twenty").page
        expect(page.locator("#withheld")).to_contain_text(FEWER)
        publish(kafka, estimates(crowd))
        expect(page.locator("#rows tr")).to_have_count(3)
        expect(page.locator("#withheld")).to_be_empty()
        publish(kafka, [withheld(message, "held") for message in estimates(crowd)])
        expect(page.locator("#withheld")).to_contain_text(HELD)
        expect(page.locator("#rows tr")).to_have_count(3)
