"""The overview is the first thing on the page: a row for each query, found by name, at every width."""

import re
import time
from itertools import chain

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.boards import HOMEPAGE, PANE, Board, Crowd, definition_messages, in_thread, publish, status_message, withheld
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE, TABLET
from tests.queries import make_queries

LONG_NAMES = [f"organisation.product.area.release-2026-11.first-start.variant-{x}" for x in "ab"]
TABLE = {"domain": ["a.example", "b.example", "c.example"], "other": False, "oracle": "grr", "epsilon": 2.0}
TABLE |= {"budget": 1e9, "pane": f"{PANE}s", "windows": [f"{PANE}s"]}
QUERIES = {
    "homepage": HOMEPAGE,
    **make_queries(dict.fromkeys(["twenty", "stopped", "absent", *LONG_NAMES], TABLE)),
}
SMALL = {"width": 320, "height": 640}


@pytest.fixture(scope="module")
def last():
    return int(time.time()) // PANE * PANE


@pytest.fixture(scope="module")
def kafka(broker, last):
    home = Crowd(HOMEPAGE, clients=20_000, start=last - 9 * PANE, surge=6)
    twenty = Crowd(QUERIES["twenty"], clients=20, start=last - 4 * PANE)
    stopped = Crowd(QUERIES["stopped"], clients=500, start=last - 60 * PANE)
    longs = [Crowd(QUERIES[name], clients=500, start=last - PANE) for name in LONG_NAMES]
    messages = [*chain.from_iterable(home.next() for _ in range(9))]
    messages += [withheld(message) for _ in range(4) for message in twenty.next() if message[0] == "estimates"]
    messages += [*chain.from_iterable(crowd.next() for crowd in (stopped, *longs))]
    messages.append(
        status_message(QUERIES["stopped"], last + 50 * PANE, last - 59 * PANE)
    )  # however long the tests take
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages(QUERIES), *messages])
    return kafka


@pytest.fixture(scope="module")
def board(kafka):
    with Board(kafka) as process:
        yield process.ready()


def open_overview(watch, board, fragment="", **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}{fragment}")
    expect(view.page.locator("#all-rows tr").first).to_be_visible()
    return view


def row_of(page, name):
    return page.locator("#all-rows tr").filter(has=page.get_by_role("link", name=name, exact=True))


@pytest.mark.parametrize("size", [SMALL, PHONE, TABLET, DESK], ids=["small", "phone", "tablet", "desk"])
def test_each_query_has_a_row_and_no_name_is_cut(watch, board, size):
    view = open_overview(watch, board, viewport=size)
    page = view.page
    rows = board.json("api/v1/overview")["queries"]
    order = ["late", "live", "quiet", "withheld", "waiting"]
    rows.sort(key=lambda row: (order.index(row["state"]), -(-1 if row["n"] is None else row["n"]), row["name"]))
    assert page.locator("#all-rows th").all_inner_texts() == [row["name"] for row in rows]
    assert {*QUERIES} == {row["name"] for row in rows}
    assert page.locator("#all-rows th").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    (row,) = [row for row in board.json("api/v1/overview")["queries"] if row["name"] == "homepage"]
    expect(row_of(page, "homepage")).to_contain_text(f"{row['n']:,} reports")
    expect(row_of(page, "homepage")).to_contain_text(row["value"])
    expect(row_of(page, "homepage")).to_contain_text(f"{100 * row['share']:.2f}%")
    expect(row_of(page, "homepage")).to_contain_text(f"{100 * row['low']:.2f}% to {100 * row['high']:.2f}%")
    expect(row_of(page, "homepage")).to_contain_text(f"{row['alerts']} alert")
    expect(row_of(page, "twenty")).to_contain_text("withheld: fewer than 50 reports")
    expect(row_of(page, "stopped").locator(".pill")).to_have_text("quiet")
    expect(row_of(page, "stopped")).to_contain_text("no reports since")
    expect(row_of(page, "absent").locator(".pill")).to_have_text("waiting")
    assert not re.search(r"\b0 reports", page.locator("#all-rows").inner_text())
    assert view.errors == []


def test_the_counts_show_only_the_queries_of_a_state(watch, board):
    view = open_overview(watch, board)
    page = view.page
    states = [row["state"] for row in board.json("api/v1/overview")["queries"]]
    button = page.get_by_role("button", name=f"{states.count('waiting')} waiting")
    button.click()
    expect(page.locator("#all-rows tr")).to_have_count(states.count("waiting"))
    expect(button).to_have_attribute("aria-pressed", "true")
    assert "state=waiting" in page.url
    button.click()
    expect(page.locator("#all-rows tr")).to_have_count(len(states))
    page.goto(f"{board.url}#state=retired")
    expect(page.locator("#all-none")).to_contain_text("No query is retired now")
    assert view.errors == []


PAGES = """
async () => {
  const { Overview } = await import("/static/overview.js");
  const make = (name) => document.createElement(name);
  const [body, text, none, pages] = ["tbody", "p", "p", "p"].map(make);
  const choices = [];
  const overview = new Overview(body, { text, none, pages, choose: (change) => choices.push(change) });
  const unknown = { value: null, share: null, withheld_reason: null, end: null, latest: null, starts: null, alerts: 0 };
  const queries = Array.from({ length: 120 }, (_, at) => ({ ...unknown, name: `q${at}`, state: "waiting", n: at }));
  overview.show(queries, { search: "", state: null, page: 1 }, 0);
  pages.lastChild.click();
  return [body.children.length, body.querySelector("th").textContent, pages.textContent, choices];
}
"""


def test_many_queries_have_pages_of_50(watch, board):
    page = open_overview(watch, board).page
    assert page.evaluate(PAGES) == [50, "q69", "PreviousPage 2 of 3Next", [{"page": 2}]]


def test_one_request_fills_it_and_its_address_restores_it(watch, board):
    view = open_overview(watch, board, "#find=variant")
    expect(view.page.locator("#all-rows tr")).to_have_count(2)
    expect(view.page.get_by_label("Find a query")).to_have_value("variant")
    paths = [url.split("/api/v1/")[1] for url in view.requests if "/api/v1/" in url]
    assert sorted(set(paths)) == ["events", "overview", "words"]
    view.page.get_by_label("Find a query").fill("nothing like this")
    expect(view.page.locator("#all-none")).to_contain_text("No name of 6 queries contains")


def test_a_row_leads_to_its_query_and_back(watch, board):
    page = open_overview(watch, board).page
    page.get_by_role("link", name="homepage").click()
    expect(page.locator("#rows tr").first).to_be_visible()
    page.get_by_role("link", name="All queries").click()
    expect(page.locator("#all-rows tr")).to_have_count(len(QUERIES))
    page.go_back()
    expect(page.locator("#rows tr").first).to_be_visible()


def test_a_new_window_and_a_new_state_appear_by_themselves(watch, kafka, board, last):
    view = open_overview(watch, board)
    page = view.page
    expect(row_of(page, "absent").locator(".pill")).to_have_text("waiting")
    view.requests.clear()
    crowd = Crowd(QUERIES["absent"], clients=700, start=int(time.time()) // PANE * PANE - PANE)
    publish(kafka, list(crowd.next()))
    expect(row_of(page, "absent")).to_contain_text("700 reports")
    expect(row_of(page, "absent").locator(".pill")).to_have_text("live")
    requests = [url for url in view.requests if "/api/v1/" in url]
    assert len(requests) <= 3, "many events cost one request at the next beat"


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESK, "dark"), (TABLET, "light")])
def test_the_overview_is_accessible(watch, board, size, scheme):
    page = open_overview(watch, board, viewport=size, color_scheme=scheme).page
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]
