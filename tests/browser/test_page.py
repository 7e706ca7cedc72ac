"""The live page in a real browser shows the numbers of the API, is accessible, and runs no foreign code."""

import math
import os
import re
import signal
import time
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests import boards
from tests.boards import HOMEPAGE, HOSTILE, PANE, PROFILE, Board, Crowd, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE, TABLET
from tests.queries import make_queries, make_table

OF = "api/v1/queries/homepage"
PANES = 9
MINUS, DASH = "\u2212", "\u2013"
CONNECTION_STATE = re.compile("live|late|stale")
WORD = "sesame-and-a-half"
SMALL = {"width": 320, "height": 640}


@pytest.fixture(scope="module")
def start():
    return int(time.time()) // PANE * PANE - PANES * PANE


@pytest.fixture(scope="module")
def messages(start):
    """Return the messages of the first panes, for both queries."""
    home = Crowd(HOMEPAGE, start=start)
    profile = Crowd(PROFILE, clients=2_000, start=start)
    early_messages = [*chain.from_iterable(home.next() for _ in range(PANES))]
    return [*definition_messages(), *early_messages, *chain.from_iterable(profile.next() for _ in range(3))]


@pytest.fixture
def crowd(start):
    """Return the same crowd after these panes. A value surges in its next pane."""
    crowd = Crowd(HOMEPAGE, start=start, surge=PANES)
    for _ in range(PANES):
        list(crowd.next())
    crowd.clients = 60_000
    return crowd


@pytest.fixture
def place(broker, messages):
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, messages)
    return kafka


@pytest.fixture
def board(place):
    """Return a board for tests that add records to its topics."""
    with Board(place) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def still(broker, messages):
    """Return a board for all tests that only read."""
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, messages)
    with Board(kafka) as process:
        yield process.ready()


def open_page(watch, board, fragment="q=homepage", **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator("#rows tr").first).to_be_visible()
    return view


STILL = """
async () => {
  // Two frames, so that the newest rows have begun to move.
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  const ends = (animation) => animation.effect.getComputedTiming().endTime < Infinity;
  await Promise.allSettled(document.getAnimations().filter(ends).map((animation) => animation.finished));
}
"""
"""Waits until all animations have ended, except the one that goes on for ever."""


def rows(page):
    """Return the rows of the table as (value, exact share, interval)."""
    return page.locator("#rows tr").evaluate_all(
        "rows => rows.map(row => [row.querySelector('button').textContent, Number(row.querySelector('data').value),"
        " row.querySelector('.interval').textContent])"
    )


def percent(share):
    return f"{100 * share:.2f}%".replace("-0.00", "0.00").replace("-", MINUS)


@pytest.mark.parametrize(
    ("method", "name", "size", "step"),
    [("unbiased", "tumbling", 10, 10), ("norm_sub", "hopping", 60, 10), ("calibrate", "all", 0, 0)],
)
def test_the_page_shows_the_numbers_of_the_api(watch, still, method, name, size, step):
    view = open_page(watch, still, f"q=homepage&method={method}&window={name}-{size}-{step}")
    answer = still.json(f"{OF}/estimate?kind={name}&method={method}&top=15")
    page = view.page
    expect(page.locator(f"#methods input[value={method}]")).to_be_checked()
    assert rows(page) == [
        [row["value"], row["share"], f"{percent(row['low'])} {DASH} {percent(row['high'])}"]
        for row in answer["values"][:15]
    ]
    first_row = page.locator("#rows tr").first
    row = answer["values"][0]
    assert percent(row["share"]) in first_row.inner_text()
    assert percent(row["truth"]) in first_row.inner_text()
    assert f"{answer['n']:,} reports" in view.text("#window")
    assert f"above {percent(answer['threshold'])}" in view.text("#threshold-text")
    tiles = view.text("#tiles")
    assert f"± {percent(answer['sigma'])}" in tiles
    assert f"{answer['error']['covered']} of {answer['error']['values']} intervals hold the truth" in tiles
    assert f"{answer['refused']['duplicate']} twice" in tiles or answer["refused"]["duplicate"] == 0
    assert view.errors == []


@pytest.mark.parametrize("size", [PHONE, TABLET, DESK], ids=["phone", "tablet", "desk"])
def test_the_possible_ranks_are_visible_at_every_width(watch, still, size):
    page = open_page(watch, still, viewport=size).page
    row = still.json(f"{OF}/estimate")["values"][0]
    assert row["ranks"][0] == 1
    text = "surely 1st" if row["ranks"] == [1, 1] else re.compile(r"1st to \d")
    expect(page.locator("#rows tr").first.get_by_text(text).locator("visible=true")).to_have_count(1)
    noise = page.locator("#rows tr.noise").first
    expect(noise.get_by_text("may be zero").locator("visible=true")).to_have_count(1)


def test_values_that_may_be_zero_have_rows_of_the_usual_height(watch, still):
    page = open_page(watch, still, "q=homepage&all=1").page
    heights = page.locator("#rows tr").evaluate_all("rows => rows.map(row => [row.className, row.offsetHeight])")
    assert "noise" in {name for name, _ in heights}
    assert len({height for _, height in heights}) == 1


def test_the_page_says_what_one_record_reveals(watch, still, start):
    view = open_page(watch, still)
    central = still.json(f"{OF}/estimate")["central"]
    assert 0 < central["epsilon"] < HOMEPAGE.epsilon
    text = view.page.locator("#central")
    odds = float(f"{math.exp(central['epsilon']):.3g}")
    expect(text).to_contain_text(f"sees this window and no other learns less: the odds change at most {odds:g} times")
    together = math.exp(central["together"]["epsilon"])
    shown = f"{together:,.0f}" if together >= 100 else f"{float(f'{together:.3g}'):g}"
    expect(text).to_contain_text(f"change the odds of any guess about a person at most {shown} times.")
    expect(text).to_contain_text(f"{central['honest']:,} reports of other people")
    expect(text).to_contain_text("Whoever sees two windows learns the report of a person who changed, came or went.")
    end = start + PANES * PANE
    end -= 0 if end % HOMEPAGE.period else PANE  # so that the window is in two rounds
    long_page = open_page(watch, still, f"q=homepage&window=hopping-60-10&at={end}").page
    answer = still.json(f"{OF}/estimate?kind=hopping&window={end}")
    assert answer["central"] is None, "a person may be in the window twice"
    expect(long_page.locator("#central")).to_be_empty()


def test_bars_whiskers_and_threshold_have_the_right_positions(watch, still):
    page = open_page(watch, still).page
    answer = still.json(f"{OF}/estimate?top=15")
    page.evaluate(STILL)
    boxes = page.locator("#rows tr").evaluate_all(
        "rows => rows.map(row => ['track', 'bar', 'whisker', 'threshold', 'true'].map(name => {"
        " const box = row.querySelector(`.${name}`).getBoundingClientRect();"
        " return [box.left, box.width] }))"
    )
    widest = max(max(row["high"], row["truth"]) for row in answer["values"][:15])
    for (track, bar, whisker, threshold, true), row in zip(boxes, answer["values"], strict=False):
        unit = track[1] / (1.03 * widest)
        assert bar[1] == pytest.approx(row["share"] * unit, abs=3)
        assert whisker[0] - track[0] == pytest.approx(row["low"] * unit, abs=2)
        assert whisker[1] == pytest.approx((row["high"] - row["low"]) * unit, abs=2)
        assert threshold[0] - track[0] == pytest.approx(answer["threshold"] * unit, abs=3)
        assert true[0] + true[1] / 2 - track[0] == pytest.approx(row["truth"] * unit, abs=3)


def test_the_page_updates_without_a_reload_and_reports_a_surge(watch, place, board, crowd):
    view = open_page(watch, board)
    page = view.page
    page.evaluate("window.same = true")
    earlier_rows = rows(page)
    expect(page.locator("#news")).to_be_empty()
    publish(place, crowd.next())
    expect(page.locator("#news")).to_contain_text("books.example")
    answer = board.json(f"{OF}/estimate")
    expect(page.locator("#window")).to_contain_text(f"{answer['n']:,} reports")
    assert rows(page) != earlier_rows
    assert [row[:2] for row in rows(page)] == [[row["value"], row["share"]] for row in answer["values"][:15]]
    expect(page.locator("#alerts li").first).to_contain_text("books.example")
    expect(page.locator("#rows tr", has_text="books.example").locator(".tag")).to_be_visible()
    page.get_by_role("button", name="Dismiss").first.click()
    assert page.evaluate("window.same")
    assert view.errors == []


def test_the_page_can_show_the_provisional_window(watch, place, board, crowd):
    page = open_page(watch, board).page
    publish(place, [crowd.provisional()])
    expect(page.locator("#window")).to_contain_text("Window from")
    page.get_by_label("Provisional").check()
    expect(page.locator("#window")).to_contain_text("Provisional window from")
    assert "filling=1" in page.url


def test_the_page_survives_a_restart_of_its_board(watch, place, crowd):
    with Board(place) as first_board:
        view = open_page(watch, first_board.ready())
        page = view.page
        expect(page.locator("#status")).to_have_attribute("data-state", CONNECTION_STATE)
        earlier_rows = rows(page)
        first_board.stop(signal.SIGKILL)
        expect(page.locator("#status")).to_have_attribute("data-state", "lost")
        expect(page.locator("#status")).to_contain_text("Stale since")
        assert rows(page) == earlier_rows, "the old numbers remain"
        publish(place, crowd.next())
        with Board(place, port=first_board.port) as second:
            second.ready()
            expect(page.locator("#status")).to_have_attribute("data-state", CONNECTION_STATE)
            answer = second.json(f"{OF}/estimate")
            expect(page.locator("#window")).to_contain_text(f"{answer['n']:,} reports")


def test_a_lost_connection_is_reported(watch, still):
    view = open_page(watch, still)
    status = view.page.locator("#status")
    expect(status).to_have_attribute("data-state", CONNECTION_STATE)
    os.kill(still.process.pid, signal.SIGSTOP)  # the connection is open, but silent
    try:
        expect(status).to_have_attribute("data-state", "lost")
    finally:
        os.kill(still.process.pid, signal.SIGCONT)
    expect(status).to_have_attribute("data-state", CONNECTION_STATE)


def test_the_page_reports_late_numbers_on_a_good_connection(watch, broker):
    kafka = in_thread(lambda: create_topics(broker))
    crowd = Crowd(HOMEPAGE, clients=500, start=int(time.time()) // PANE * PANE - 24 * PANE)
    with Board(kafka) as board:
        publish(kafka, [*definition_messages(), *chain.from_iterable(crowd.next() for _ in range(3))])
        page = open_page(watch, board.ready()).page
        status = page.locator("#status")
        late = page.locator("#late")
        expect(status).to_have_attribute("data-state", "stale")
        expect(status).to_have_text(re.compile(r"No window since .*, late by \d+ min"))
        expect(late).to_contain_text("hubbub_lag_seconds")
        for side in ("color", "background-color"):
            expect(late).to_have_css(side, status.evaluate("(node, side) => getComputedStyle(node)[side]", side))
        expect(page.locator("#window")).to_contain_text("500 reports")
        new_crowd = Crowd(HOMEPAGE, clients=500, start=int(time.time()) // PANE * PANE - PANE)
        publish(kafka, new_crowd.next())
        expect(status).to_have_attribute("data-state", "live")
        expect(late).to_be_empty()


def test_values_are_always_text(watch, still):
    view = open_page(watch, still)
    page = view.page
    page.get_by_role("button", name="Show all").click()
    button = page.get_by_role("button", name=HOSTILE)
    expect(button).to_be_visible()
    button.click()
    expect(page.locator("#history-text")).to_contain_text(HOSTILE)
    assert page.locator("#board script").count() == 0
    assert view.errors == []
    page.goto(f"{still.url}#q=homepage&value=<img src=x onerror=alert(1)>")
    page.reload()
    expect(page.locator("#history-text")).to_contain_text("<img src=x onerror=alert(1)>: not among")
    assert [error for error in view.errors if "404" not in error] == []


def test_a_search_covers_all_values_and_the_head_stays(watch, still):
    page = open_page(watch, still).page
    page.get_by_label("Find a value").fill("A,")
    expect(page.locator("#rows tr")).to_have_count(1)
    assert rows(page)[0][0] == "a,b"
    page.get_by_label("Find a value").fill("")
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#rows tr")).to_have_count(22)
    assert page.locator("#ranking thead th").first.evaluate("node => getComputedStyle(node).position") == "sticky"


def test_a_search_finds_an_accent_however_it_was_typed(watch, still):
    view = watch()

    def accent(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("books.example", "cafe\u0301.example"))

    view.page.route("**/queries/homepage/estimate*", accent)
    view.page.goto(f"{still.url}#q=homepage&value=news.example&find=CAF%C3%89")
    expect(view.page.locator("#rows tr")).to_have_count(1)
    assert view.errors == []


def test_a_bound_beyond_all_numbers_is_said_in_one_way(watch, still):
    page = open_page(watch, still).page
    text = page.evaluate("""
async () => {
  const { readers } = await import("/static/words.js");
  const central = { epsilon: 2, delta: 1e-6, honest: 100, together: { epsilon: 64, windows: "one" } };
  return readers({ answers: "life" }, { central, n: 200, readable_below: 30 });
}
""")
    assert "change the odds of any guess about a person perhaps more than 10^12 times." in text
    assert "the odds change at most 7.39 times" in text


PARTS = """
async (values) => {
  const { ends } = await import("/static/format.js");
  const { Ranking } = await import("/static/ranking.js");
  const body = document.getElementById("rows");
  const none = Object.fromEntries(["truth", "by_weight", "ranks"].map((name) => [name, null]));
  const row = { share: 0.1, low: 0, high: 0.2, listed: true, decided: true, present: true, ...none };
  const rows = values.map((value) => ({ ...row, value }));
  const estimate = { values: rows, detectable: null, threshold: null, sigma: 0.01 };
  new Ranking(body, document.getElementById("axis"), () => {}).show(estimate, null, new Map(), "present");
  const part = (node) => [encodeURIComponent(node.textContent), node.getBoundingClientRect().left];
  const parts = (name) => [...name.children].map(part);
  return [...body.querySelectorAll("button")].map((name, at) => [encodeURIComponent(ends(values[at])), ...parts(name)]);
}
"""
"""A half emoji has no UTF-8, so that its encoding is an error."""
FAMILY = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
EMOJI, INNER = "\N{GRINNING FACE}", "\u0301\N{ZERO WIDTH JOINER}"


def test_a_long_name_is_cut_between_its_letters(watch, still):
    values = ["a" * 21 + EMOJI * 20 + "x", "e\u0301" * 40 + "x", FAMILY * 10, "א" * 40 + "ב" * 8]
    page = open_page(watch, still).page
    rows = page.evaluate(PARTS, values)
    for value, (short, begin, end) in zip(values, rows, strict=True):
        texts = [*unquote(short).split("…"), *(unquote(part) for part, _ in (begin, end))]
        assert "".join(texts[-2:]) == value
        assert value.startswith(texts[0])
        assert all(value.endswith(ending) for ending in (texts[1], texts[3]))
        assert {texts[1][0], texts[3][0]}.isdisjoint(INNER)
        is_rtl = value == values[3]
        assert (begin[1] > end[1]) == is_rtl, "a name from right to left begins on the right"


def test_a_wide_name_keeps_its_end(watch, still):
    """17 Chinese letters need more room than 24 others."""
    values = [f"東京都新宿区西新宿二丁目の庁舎{end}" for end in "甲乙"]
    rows = open_page(watch, still).page.evaluate(PARTS, values)
    assert [unquote(end)[-1:] for _, _, (end, _) in rows] == ["甲", "乙"]


def test_csv_has_the_visible_table(watch, still):
    page = open_page(watch, still).page
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    end = still.json(f"{OF}/estimate")["window"]["end"]
    assert download.value.suggested_filename == f"homepage-tumbling-10-10-{end}-unbiased.csv"
    table = still.get(f"{OF}/estimate?kind=tumbling&size=10&step=10&method=unbiased&top=10000&format=csv").body
    assert Path(download.value.path()).read_bytes() == table


def test_csv_has_the_visible_provisional_window(watch, place, board, crowd):
    publish(place, [crowd.provisional()])
    search = "kind=tumbling&size=10&step=10&method=norm_sub"
    provisional = board.until(lambda: not board.json(f"{OF}/estimate?provisional=true")["final"])
    assert provisional
    page = open_page(watch, board, "q=homepage&method=norm_sub&filling=1").page
    expect(page.locator("#window")).to_contain_text("Provisional window from")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    table = board.get(f"{OF}/estimate?{search}&provisional=true&top=10000&format=csv").body
    assert Path(download.value.path()).read_bytes() == table
    assert table != board.get(f"{OF}/estimate?{search}&top=10000&format=csv").body


def test_a_link_to_a_missing_window_or_query_leads_on(watch, still):
    view = watch()
    page = view.page
    page.goto(f"{still.url}#q=homepage&at=1000")
    expect(page.locator("#empty")).to_contain_text("This board does not have the window")
    page.get_by_role("button", name="Show the newest").click()
    expect(page.locator("#rows tr").first).to_be_visible()
    page.goto(f"{still.url}#q=homepage&at=soon&range=-4")
    expect(page.locator("#empty")).to_contain_text("window must be a whole number")
    expect(page.locator("#status")).to_have_text("No such window")
    page.get_by_role("button", name="Show the newest").click()
    expect(page.locator("#range")).to_have_value("")
    expect(page.locator("#history canvas")).to_be_visible()
    page.goto(f"{still.url}#q=nobody")
    expect(page.locator("#empty")).to_have_text("There is no query nobody here.")
    expect(page.locator("#status")).to_have_text("No such query")
    page.get_by_role("link", name="All queries").click()
    page.get_by_role("link", name="homepage").click()
    expect(page.locator("#rows tr").first).to_be_visible()


def test_a_pause_and_its_link_keep_the_window(watch, place, board, crowd):
    page = open_page(watch, board).page
    earlier_rows = rows(page)
    heading = page.locator("#window").inner_text()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#status")).to_contain_text("Paused")
    publish(place, crowd.next())
    board.until(lambda: board.json(f"{OF}/windows")["windows"][-1]["n"] > 25_000)
    assert rows(page) == earlier_rows
    copy = open_page(watch, board, page.url.split("#")[1]).page
    assert (rows(copy), copy.locator("#window").inner_text()) == (earlier_rows, heading)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#window")).to_contain_text(f"{board.json(f'{OF}/estimate')['n']:,} reports")


def test_unchanged_answers_are_not_requested_again(watch, place, board, crowd):
    view = open_page(watch, board)
    page = view.page
    page.wait_for_timeout(6_000)  # a beat, after which the page lists the queries
    view.requests.clear()
    publish(place, crowd.next())
    expect(page.locator("#window")).to_contain_text("60,0")

    def paths():
        return [request.split("/api/v1/")[1].split("?")[0] for request in view.requests]

    routes = {"alerts", *(f"queries/homepage/{route}" for route in ("estimate", "history", "windows", "annotations"))}
    while not {*paths()} >= routes:
        page.wait_for_timeout(50)  # the limit of the test ends a hang
    page.wait_for_timeout(500)
    assert {*paths()} == routes
    assert len(paths()) <= 10  # alerts and records may arrive separately
    view.requests.clear()
    profile = Crowd(PROFILE, clients=2_000, start=int(time.time()) // PANE * PANE - PANE)
    publish(place, profile.next())
    board.until(lambda: board.json("api/v1/queries/profile/estimate")["n"] > 0)
    page.wait_for_timeout(500)
    assert view.requests == []


SHIFTS = """
window.shifts = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: false });
"""


NOTES = """
async () => {
  const { Alerts } = await import("/static/alerts.js");
  const news = document.getElementById("news");
  const alerts = new Alerts(document.createElement("ul"), news);
  const window = { kind: "all", start: 0, end: 10, size: 0, step: 0 };
  const places = () => new Map([...news.children].map((note) => [note.dataset.key, note.getBoundingClientRect().top]));
  const moved = [];
  const counts = [];
  for (let at = 0; at < 6; at += 1) {
    const before = places();
    const value = `${"long/".repeat(8 * (at % 2))}${at}`;
    const numbers = { share: 0.1, low: 0, high: 0.2, before: null };
    alerts.notify({ query: "q", attribute: null, kind: "enter", value, window, ...numbers });
    if (at === 4) news.children[1].remove();
    for (const [key, top] of places()) if (before.has(key) && before.get(key) !== top) moved.push(key);
    counts.push(news.children.length);
  }
  return { moved, counts };
}
"""


def test_notes_keep_their_places(watch, still):
    page = open_page(watch, still, viewport=DESK).page
    page.evaluate("document.getElementById('news').replaceChildren()")
    assert page.evaluate(NOTES) == {"moved": [], "counts": [1, 2, 3, 3, 2, 3]}
    expect(page.locator("#news p").first).to_contain_text("(q, since the start)")


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.long)])
def test_an_update_moves_nothing(watch, broker, messages, start, seconds):
    """All sizes of the page see the same updates of one board."""
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, messages)
    crowd = Crowd(HOMEPAGE, start=start)
    for _ in range(PANES):
        list(crowd.next())
    with Board(kafka) as board:
        sizes = {"phone": PHONE, "tablet": TABLET, "desk": DESK}
        pages = {name: open_page(watch, board.ready(), viewport=size).page for name, size in sizes.items()}
        pages["desk"].wait_for_timeout(1_000)
        for page in pages.values():
            page.evaluate(SHIFTS)

        for _ in range(seconds // 2):
            crowd.clients += 997
            publish(kafka, crowd.next())
            pages["desk"].wait_for_timeout(2_000)
        assert {
            name: shifts for name, page in pages.items() if (shifts := page.evaluate("window.shifts")) >= 0.02
        } == {}

        # A page that draws nothing in the background would see no shift at all.
        for page in pages.values():
            page.evaluate("document.body.prepend(Object.assign(document.createElement('p'), { textContent: 'shift' }))")
            page.wait_for_function("window.shifts > 0")


def test_the_charts_and_a_link_keep_the_selected_time(watch, still):
    view = open_page(watch, still)
    page = view.page
    since = f"from={still.json(f'{OF}/estimate')['window']['end'] - 900}"

    def request_of(route):
        return page.expect_request(lambda request: f"/{route}?" in request.url and since in request.url)

    with request_of("history"), request_of("windows"):
        page.locator("#range").select_option("900")
    expect(page).to_have_url(re.compile("range=900"))
    copy = open_page(watch, still, page.url.split("#")[1])
    expect(copy.page.locator("#range")).to_have_value("900")
    assert any(since in request for request in copy.requests)
    assert view.errors == copy.errors == []


VISIBLE_TEXT = "nodes => nodes.map(node => node.scrollWidth <= node.clientWidth ? node.textContent : 'cut')"


def test_many_queries_with_long_names_fit_a_phone(watch, broker):
    kafka = in_thread(lambda: create_topics(broker))
    names = [f"organisation.department.product.release-{number:02}.screen" for number in range(24)]
    table = make_table(domain=30, epsilon=2.0, pane=f"{PANE}s")
    queries = make_queries(dict.fromkeys(names, table))
    crowd = Crowd(queries[names[3]], clients=500)
    with Board(kafka) as board:
        publish(kafka, [*definition_messages(queries), *crowd.next()])
        view = watch(viewport=PHONE)
        page = view.page
        page.goto(board.ready().url)
        expect(page.locator("#all-rows tr")).to_have_count(24)
        texts = page.locator("#all-rows th").evaluate_all(VISIBLE_TEXT)
        assert sorted(texts) == names, "no name is cut"
        page.get_by_label("Find a query").fill("-03")
        expect(page.locator("#all-rows tr")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        page.get_by_role("link", name="release-03").click()
        expect(page.locator("#rows tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert view.text("#path").endswith("03.screen")


def test_a_content_security_policy_backs_the_escaping(watch, still):
    view = open_page(watch, still)
    view.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert view.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in view.errors)


def test_no_request_leaves_the_host_and_the_console_is_quiet(watch, place, board, crowd):
    view = open_page(watch, board)
    publish(place, crowd.next())
    expect(view.page.locator("#news")).to_contain_text("books.example")
    view.page.get_by_role("link", name="All queries").click()
    view.page.get_by_role("link", name="profile").click()
    expect(view.page.locator("#attribute")).to_be_visible()
    assert view.foreign_requests(board.url) == []
    assert any("uPlot.js" in request for request in view.requests)
    assert view.page.locator("canvas").count() == 2
    assert view.errors == []


def test_the_page_works_with_the_keyboard_only(watch, still):
    page = open_page(watch, still).page
    keys = page.keyboard
    keys.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    second = rows(page)[1][0]
    for _ in range(40):
        keys.press("Tab")
        if page.evaluate("document.activeElement.textContent") == second:
            break
    keys.press("Enter")
    expect(page.locator("#history-text")).to_contain_text(second)
    expect(page.get_by_role("button", name=second)).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.activeElement.textContent") == second, "the focus stays"
    page.locator("#methods input:checked").focus()
    keys.press("ArrowRight")
    expect(page.locator("#methods input[value=norm_sub]")).to_be_checked()
    expect(page.locator("#legend-bar")).to_have_text("consistent estimate (norm_sub)")
    outline = page.locator("#methods label:has(:focus-visible)").evaluate("node => getComputedStyle(node).outlineStyle")
    assert outline == "solid"


def test_the_address_holds_the_settings(watch, still):
    page = open_page(watch, still).page
    page.locator("#kind").select_option("since the start")
    page.locator("#methods label", has_text="unbiased").click()
    page.get_by_role("link", name="All queries").click()
    page.get_by_role("link", name="profile").click()
    expect(page.locator("#attribute")).to_be_visible()
    page.locator("#attribute").select_option("sex")
    expect(page.locator("#rows tr")).to_have_count(3)
    selection = rows(page)
    answer = still.json("api/v1/queries/profile/estimate?attribute=sex")
    assert [row[:2] for row in selection] == [[row["value"], row["share"]] for row in answer["values"]]
    other_page = open_page(watch, still, page.url.split("#")[1]).page
    expect(other_page.locator("#attribute")).to_have_value("sex")
    assert rows(other_page) == selection


def test_the_page_asks_for_the_token_once(watch, place):
    with Board(place, env=os.environ | {"HUBBUB_TOKEN": WORD}) as board:
        board.ready()
        view = watch()
        page = view.page
        page.goto(board.url)
        for word in ("wrong", WORD):
            expect(page.get_by_label("Token")).to_be_visible()
            page.get_by_label("Token").fill(word)
            page.get_by_role("button", name="Show the board").click()
        expect(page.locator("#all-rows tr").first).to_be_visible()
        page.reload()
        expect(page.locator("#all-rows tr").first).to_be_visible()
        assert WORD not in page.url


def test_the_page_explains_the_wait_before_the_first_report(watch, broker):
    kafka = in_thread(lambda: create_topics(broker))
    with Board(kafka) as board:
        view = watch()
        view.page.goto(board.ready().url)
        expect(view.page.locator("#all-none")).to_contain_text("There are no queries yet.")
        publish(kafka, definition_messages({"homepage": HOMEPAGE}))
        view.page.get_by_role("link", name="homepage").click()
        expect(view.page.locator("#empty")).to_contain_text("has waited since")
        crowd = Crowd(HOMEPAGE, clients=500)
        list(crowd.next())
        publish(kafka, [crowd.provisional()])
        expect(view.page.locator("#window")).to_contain_text("Provisional window from")


def test_a_kind_without_windows_leads_to_others_and_an_older_record_needs_no_new_method(watch, broker):
    kafka = in_thread(lambda: create_topics(broker))
    start = int(time.time()) // PANE * PANE - PANE
    older = Crowd(replace(HOMEPAGE, methods=("norm_sub",)), clients=2_000, start=start)
    publish(kafka, [*definition_messages({"homepage": HOMEPAGE}), *older.next()])
    with Board(kafka) as board:
        page = watch().page
        page.goto(f"{board.ready().url}#q=homepage&window=hopping-60-10&method=calibrate")
        expect(page.locator("#empty")).to_contain_text("No window of homepage (1 min, every 10 s) is final yet.")
        page.get_by_role("button", name="Show windows: 10 s").click()
        expect(page.locator("#rows tr").first).to_be_visible()
        expect(page.locator("#methods input[value=unbiased]")).to_be_checked()
        expect(page.locator("#history-text")).to_contain_text("%")


@pytest.mark.parametrize(
    ("size", "scheme"),
    [*product((PHONE, DESK), ("light", "dark")), (TABLET, "light")],
)
def test_the_page_is_accessible(watch, place, board, crowd, size, scheme):
    view = open_page(watch, board, viewport=size, color_scheme=scheme)
    page = view.page
    publish(place, crowd.next())
    expect(page.locator("#news")).to_contain_text("homepage")
    page.evaluate(STILL)
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) > 380) == (scheme == "light")


WCAG_RULES = """
tags => tags.forEach((tag) => { tag.hidden = false; tag.className = "tag surge"; tag.textContent = "risen"; })
"""
CUT = "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"


TICKS = """
async () => {
  const { ticks } = await import("/static/format.js");
  const tops = [0.0013, 0.045, 0.1, 0.21, 0.45, 0.49, 0.5, 0.51, 0.99, 1];
  return tops.flatMap((top) => [1, 2, 3, 4, 5, 6, 7].map((most) => [top, most, ticks(top, most)]));
}
"""


def test_an_axis_has_at_least_two_ticks_and_few_in_little_space(watch, still):
    for top, maximum, ticks in open_page(watch, still).page.evaluate(TICKS):
        assert 2 <= len(ticks) <= maximum + 1, (top, maximum)
        assert ticks[0] == 0
        assert 0.3 * top < ticks[-1] <= top * (1 + 1e-9)


BASELINE = """
async () => {
  const { Alerts } = await import("/static/alerts.js");
  const list = document.createElement("ul");
  const window = { kind: "all", start: 0, end: 10, size: 0, step: 0 };
  const numbers = { share: 0.1, low: 0, high: 0.2, before: null, baseline: true };
  const alert = { query: "q", attribute: null, kind: "enter", window, ...numbers };
  const textOf = (...values) => {
    new Alerts(list, document.createElement("div")).show(values.map((value) => ({ ...alert, value })));
    return list.textContent;
  };
  return [textOf("a"), textOf("a", "b")];
}
"""


def test_baselines_are_counted_in_words(watch, still):
    one, two = open_page(watch, still).page.evaluate(BASELINE)
    assert "1 value was frequent from the start: a" in one
    assert "2 values were frequent from the start: " in two


RIGHT = "all => Math.max(...all.map((one) => one.getBoundingClientRect().right))"


@pytest.mark.parametrize("size", [SMALL, PHONE, TABLET, DESK], ids=["small", "phone", "tablet", "desk"])
def test_short_names_are_never_cut(watch, still, size):
    page = open_page(watch, still, viewport=size).page
    page.locator("#rows .tag").evaluate_all(WCAG_RULES)
    assert page.locator("#rows .begins").evaluate_all(CUT) == []
    assert page.locator("main *:not(.hidden)").evaluate_all(RIGHT) <= size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_epsilon_is_explained_in_words(watch, still):
    home = open_page(watch, still).text("#privacy")
    assert "epsilon of one report is 1:" in home
    assert "2.72 times" in home
    assert "A reader of one report can be at most 73% sure" in home
    assert "everything that one client ever sends can be at most 98% sure, because that is charged 4" in home
    assert "is charged 4, however often" in home
    profile = open_page(watch, still, "q=profile").text("#privacy")
    assert "7.39 times" in profile
    assert "one attribute, drawn at random" in profile
    assert boards.PROFILE.record_epsilon == 2.0
