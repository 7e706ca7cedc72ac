"""Two windows side by side, two values in one chart, and links that restore the same view."""

import re
import time
from itertools import chain

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from aggregator.records.alert import Alert, StretchRow, encode
from aggregator.records.rows import WindowRow
from tests.boards import HOMEPAGE, PANE, Board, Crowd, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE
from tests.browser.test_outages import KEEP_CHARTS

HOUR = 3600
BEFORE, NOW = 2, 4
"""Panes an hour ago, and panes now."""


@pytest.fixture(scope="module")
def start():
    return int(time.time()) // PANE * PANE - NOW * PANE


@pytest.fixture(scope="module")
def kafka(broker, start):
    early_crowd = Crowd(HOMEPAGE, clients=90_000, start=start - HOUR)
    late_crowd = Crowd(HOMEPAGE, clients=90_000, seed=2, start=start, surge=0)
    kafka = in_thread(lambda: create_topics(broker))
    messages = [message for _ in range(BEFORE) for message in early_crowd.next() if message[0] == "estimates"]
    messages += [*chain.from_iterable(late_crowd.next() for _ in range(NOW))]
    publish(kafka, [*definition_messages(), *messages])
    return kafka


@pytest.fixture(scope="module")
def board(kafka):
    with Board(kafka) as process:
        yield process.ready()


def open_page(watch, board, fragment, **settings):
    view = watch(**settings)
    view.page.add_init_script(KEEP_CHARTS)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator("#rows tr").first).to_be_visible()
    return view


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_now_is_compared_with_an_hour_ago(watch, board, start, size):
    view = open_page(watch, board, "q=homepage", viewport=size)
    page = view.page
    page.locator("#compare").select_option("an hour ago")
    expect(page.locator("#change-rows tr").first).to_be_visible()
    last_end = start + NOW * PANE
    reference_end = start - HOUR + BEFORE * PANE  # the newest window that is at least an hour older
    answer = board.json(f"api/v1/queries/homepage/compare?from={reference_end}&to={last_end}&top=15")
    names = page.locator("#change-rows th").evaluate_all("all => all.map(one => one.firstChild.textContent)")
    assert names == [row["value"] for row in answer["values"]]
    first_row = page.locator("#change-rows tr").first
    expect(first_row).to_contain_text("books.example proved", use_inner_text=True)
    expect(first_row).to_contain_text(f"+{100 * answer['values'][0]['difference']:.2f}%")
    expect(page.locator("#changes-text")).to_contain_text(f"{answer['proofs']} change")
    expect(page.locator("#changes-text")).to_contain_text("All such comparisons of a day together prove a false change")
    assert page.locator("#change-rows .proved").count() == sum(row["proved"] for row in answer["values"])
    expect(page.locator("#change-rows .unproved").first).to_contain_text("may be chance")
    assert "compare=3600" in page.url
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert view.errors == []


def test_a_window_that_the_board_does_not_have_is_named(watch, board):
    page = open_page(watch, board, "q=homepage&compare=604800").page
    expect(page.locator("#changes-text")).to_have_text("This board has no window that ended a week ago or earlier.")
    expect(page.locator("#changes")).to_be_hidden()
    page = open_page(watch, board, "q=homepage&from=1000000").page
    text = re.compile(r"This board does not have the window that ended at 1970-01-12 \d\d:46:40\.")
    expect(page.locator("#changes-text")).to_have_text(text)


def test_two_values_have_their_histories_in_one_chart(watch, board):
    view = open_page(watch, board, "q=homepage&value=news.example")
    page = view.page
    page.get_by_label("Second value in the chart").fill("mail.example")
    page.keyboard.press("Enter")
    expect(page.locator("#second-text")).to_contain_text("mail.example: ")
    points = board.json("api/v1/queries/homepage/history?value=mail.example")["points"]
    ends, *columns = page.evaluate("window.charts.history.data")
    shares = dict(zip(ends, columns[6], strict=True))
    assert [shares[point["end"]] for point in points] == [point["share"] for point in points]
    assert "with=mail.example" in page.url
    assert view.errors == []


def test_the_link_restores_exactly_what_is_seen(watch, kafka, board, start):
    page = open_page(watch, board, "q=homepage&compare=3600&value=mail.example&with=news.example").page
    expect(page.locator("#change-rows tr").first).to_be_visible()
    parts = ("#rows", "#window", "#change-rows", "#changes-text", "#history-text", "#second-text", "#tiles")
    texts = {part: page.locator(part).inner_text() for part in parts}
    link = page.get_by_role("link", name="Link to this view").get_attribute("href")
    later_crowd = Crowd(HOMEPAGE, clients=50_000, seed=3, start=start + NOW * PANE)
    publish(kafka, [message for message in later_crowd.next() if message[0] == "estimates"])
    expect(page.locator("#window")).to_contain_text("50,0")
    copy = open_page(watch, board, link[1:]).page
    expect(copy.locator("#change-rows tr").first).to_be_visible()
    assert {part: copy.locator(part).inner_text() for part in parts} == texts


def test_an_alert_leads_to_its_window(watch, board):
    page = open_page(watch, board, "q=homepage").page
    alerts = board.json("api/v1/alerts?query=homepage")["alerts"]
    row = page.locator("#alerts li", has_text="baseline").first
    row.get_by_role("link").click()
    end = next(alert["window"]["end"] for alert in reversed(alerts) if alert["baseline"])
    expect(page.locator("#status")).to_contain_text("Paused")
    assert f"at={end}" in page.url


def slow_surge(end, scale=16):
    """Return the message of a surge over several windows."""
    middle = end - scale * PANE
    start = end - 5 * scale * PANE
    alert = Alert.of(
        kind="surge",
        query="homepage",
        digest=HOMEPAGE.digest.hex(),
        attribute=None,
        value="wiki.example",
        share=0.081,
        low=0.07,
        high=0.09,
        before=0.062,
        threshold=0.01,
        by="significance",
        baseline=False,
        probability=None,
        scale=scale,
        window=WindowRow(kind="tumbling", start=end - PANE, end=end, size=PANE, step=PANE),
        from_=StretchRow(start, middle),
        to=StretchRow(middle, end),
    )
    return "alerts", alert.key, encode(alert)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_slow_surge_says_over_how_many_windows(watch, kafka, board, start, size):
    view = open_page(watch, board, "q=homepage", viewport=size)
    page = view.page
    expect(page.locator("#status")).to_have_attribute("data-state", re.compile("live|late|stale"))
    end = start + NOW * PANE - (PANE if size is PHONE else 0)
    publish(kafka, [slow_surge(end)])
    text = re.compile(r"over 16 windows, compared with .* to \d\d:\d\d:\d\d")
    expect(page.locator("#news")).to_contain_text("wiki.example has risen")
    expect(page.locator("#news")).to_contain_text(text)
    row = page.locator("#alerts li", has_text="over 16 windows").first
    expect(row).to_contain_text("8.10% (7.00% to 9.00%), before 6.20%")
    expect(row).to_contain_text(text)
    expect(page.locator("#rows tr", has_text="wiki.example").locator(".tag")).to_have_text("risen")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert view.errors == []


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "dark"), (DESK, "light")])
def test_changes_are_accessible(watch, board, size, scheme):
    fragment = "q=homepage&compare=3600&with=mail.example"
    page = open_page(watch, board, fragment, viewport=size, color_scheme=scheme).page
    expect(page.locator("#change-rows tr").first).to_be_visible()
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]


TAGS = """
async () => {
  const { Alerts } = await import("/static/alerts.js");
  const window = (end, size) => ({ kind: "tumbling", start: end - size, end, size, step: size });
  const numbers = { share: 0.1, low: 0, high: 0.2, before: null };
  const alert = (kind, value, end, size = 10, baseline = false) =>
    ({ query: "q", attribute: null, kind, value, baseline, window: window(end, size), ...numbers });
  const alerts = new Alerts(document.createElement("ul"), document.createElement("div"));
  alerts.show([
    alert("enter", "new", 1000), alert("enter", "twice", 1000, 60), alert("enter", "twice", 960),
    alert("enter", "old", 1000, 60), alert("enter", "returned", 990), alert("leave", "returned", 700),
    alert("enter", "returned", 300), alert("enter", "old", 300),
    alert("enter", "first", 1000, 60), alert("enter", "first", 200, 10, true),
    alert("surge", "sudden", 1000), alert("enter", "sudden", 1000), alert("surge", "sudden", 1000, 60),
  ]);
  return Object.fromEntries(alerts.recent(null, 1000));
}
"""


def test_a_value_that_an_earlier_window_proved_is_not_new(watch, board):
    tags = open_page(watch, board, "q=homepage").page.evaluate(TAGS)
    assert tags == {"new": "enter", "twice": "enter", "old": None, "returned": "back", "first": None, "sudden": "new"}


VERDICTS = """
async () => {
  const { verdict } = await import("/static/changes.js");
  const row = (proved, difference) => verdict({ proved, difference });
  return [row(true, 0.1), row(false, 0.1), row(null, 0.1), row(false, null)];
}
"""


def test_a_row_says_what_it_proves(watch, board):
    words = open_page(watch, board, "q=homepage").page.evaluate(VERDICTS)
    assert words == ["proved", "may be chance", "proves nothing: impossible counts", "in one window only"]
