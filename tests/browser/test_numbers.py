"""The page shows numbers as a distribution with quantiles, means and ranges, at every width, and for everybody."""

import math
import re
import time
from itertools import chain

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.boards import (
    LOAD_TIME,
    NUMBERS,
    PANE,
    VISIT,
    Board,
    NumberCrowd,
    definition_messages,
    in_thread,
    publish,
    withheld,
)
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE, TABLET

PANES, SLOW_FROM = 12, 8
DASH = "\u2013"
OF = "api/v1/queries/load_time"
ANSWERS = ["p50", "p90", "p95", "p99", "Geometric mean", "Mean", "slow"]


@pytest.fixture(scope="module")
def start():
    return int(time.time()) // PANE * PANE - PANES * PANE


@pytest.fixture(scope="module")
def crowd(start):
    return NumberCrowd(LOAD_TIME, clients=30_000, start=start, surge=SLOW_FROM)


@pytest.fixture(scope="module")
def kafka(broker, start, crowd):
    visits = NumberCrowd(VISIT, clients=20_000, start=start)
    messages = [*chain.from_iterable(crowd.next() for _ in range(PANES))]
    messages += [*chain.from_iterable(visits.next() for _ in range(2))]
    messages += [withheld(message) for message in visits.next() if message[0] == "estimates"]
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages(NUMBERS), *messages])
    return kafka


@pytest.fixture(scope="module")
def board(kafka):
    with Board(kafka) as process:
        yield process.ready()


def open_page(watch, board, fragment="q=load_time", **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator("#quantities tbody tr").first).to_be_visible()
    return view


def number(text):
    """Return the number at the start of a text such as "1,083 ms"."""
    return float(re.match(r"[\d,.]+", text)[0].replace(",", ""))


def row_of(page, name):
    return page.locator("#quantities tbody tr").filter(has=page.get_by_role("button", name=name, exact=True))


def test_the_page_shows_the_numbers_of_the_api(watch, board):
    view = open_page(watch, board)
    page = view.page
    assert page.locator("#quantities tbody button").all_inner_texts() == ANSWERS
    for row in board.json(f"{OF}/quantiles")["quantiles"]:
        line = row_of(page, row["name"])
        assert number(line.locator(".number").first.inner_text()) == pytest.approx(row["value"], abs=1)
        low, high = line.locator(".interval").inner_text().split(f" {DASH} ")
        assert [number(low), number(high)] == [pytest.approx(row[key], abs=1) for key in ("low", "high")]
        assert number(line.locator(".truth").first.inner_text()) == pytest.approx(row["truth"], abs=1)
        assert line.locator("data").get_attribute("value") == str(row["value"]).removesuffix(".0")
    truths = board.json(f"{OF}/estimate")["truths"]
    for title, name in (("Mean", "mean"), ("Geometric mean", "geometric_mean")):
        truth = row_of(page, title).locator(".truth").first.inner_text()
        assert number(truth) == pytest.approx(truths[name], abs=1)
    (slow_range,) = board.json(f"{OF}/range")["ranges"]
    expect(row_of(page, "slow")).to_contain_text(f"{100 * slow_range['share']:.2f}%")
    expect(row_of(page, "slow")).to_contain_text("1,000 to 60,000 ms")
    expect(page.locator("#tiles")).to_contain_text("p50")
    expect(page.locator("#ranking-title")).to_have_text("Distribution")
    expect(page.locator("#ranking")).to_be_hidden()
    assert view.errors == []


def test_the_picture_has_each_block_each_quantile_and_each_range_in_its_place(watch, board):
    page = open_page(watch, board).page
    numbers = board.json(f"{OF}/estimate")["numbers"]
    assert page.locator(".distribution rect.block").count() == 32
    assert page.locator(".distribution .band").count() == 1
    axis = page.locator(".distribution line.axis").last
    low_end, high_end = (float(axis.get_attribute(name)) for name in ("x1", "x2"))
    dots = page.locator(".distribution circle.quantile").evaluate_all(
        "all => all.map(one => Number(one.getAttribute('cx')))"
    )
    parts = [math.log(row["value"] / 10) / math.log(6_000) for row in numbers["quantiles"].values()]  # 10 to 60,000
    places = [low_end + (high_end - low_end) * part for part in parts]
    assert sorted(dots) == [pytest.approx(place, abs=0.6) for place in sorted(places)]
    labels = page.locator(".distribution .label").all_text_contents()
    assert {"geometric mean", "p50", "p90", "p95", "p99"} < set(labels)
    assert any(re.fullmatch(r"slow \d+\.\d%", label) for label in labels)
    text = page.locator(".distribution").get_attribute("aria-label")
    assert re.search(r"p50 is [\d,]+ ms \([\d,]+ to [\d,]+\)", text), "a screen reader has the numbers"


def test_a_quantile_has_its_history_with_keyboard_only(watch, board):
    view = open_page(watch, board)
    page = view.page
    expect(page.locator("#history-text")).to_contain_text("p50: ")
    button = page.locator("#quantities").get_by_role("button", name="p95", exact=True)
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#history-text")).to_contain_text(
        re.compile(r"p95: [\d,]+ ms \([\d,]+ to [\d,]+, 95% interval\) at")
    )
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_be_focused()
    assert "value=p95" in page.url
    page.locator("#quantities").get_by_role("button", name="slow", exact=True).click()
    expect(page.locator("#history-text")).to_contain_text(re.compile(r"slow: \d+\.\d+% "))
    page.goto(f"{board.url}#q=load_time&value=p97.5&with=p50")
    expect(page.locator("#history-text")).to_contain_text("p97.5: ")
    expect(page.locator("#second-text")).to_contain_text("p50: ")
    assert view.errors == []


def test_two_windows_are_compared_in_the_unit_of_the_query(watch, board, start):
    view = open_page(watch, board, f"q=load_time&from={start + PANE}")
    rows = view.page.locator("#change-rows tr")
    expect(rows).to_have_count(len(ANSWERS))
    expect(rows.first).to_contain_text("p50")
    expect(rows.first).to_contain_text("proved")
    expect(view.page.locator("#changes-text")).to_contain_text("Numbers are in ms.")
    answer = board.json(f"{OF}/compare?kind=tumbling&from={start + PANE}&to={start + PANES * PANE}")
    assert number(rows.first.locator(".number").nth(1).inner_text()) == pytest.approx(
        answer["values"][0]["after"], abs=1
    )
    assert view.errors == []


def test_a_proof_beside_an_interval_with_0_is_explained(watch, board, start):
    view = watch()

    def widen(route):
        answer = route.fetch().json()
        answer["values"][0].update(low=-1e6, high=1e6, proved=True)
        route.fulfill(json=answer)

    view.page.route("**/compare?*", widen)
    view.page.goto(f"{board.url}#q=load_time&from={start + PANE}")
    expect(view.page.locator("#changes-text")).to_contain_text("changes are proved among")
    expect(view.page.locator("#changes-text")).not_to_contain_text("may hold 0")
    assert view.errors == []


def test_the_overview_has_the_median_with_its_interval(watch, board):
    view = watch()
    view.page.goto(board.url)
    row = view.page.locator("#all-rows tr").filter(has_text="load_time")
    expect(row).to_contain_text("p50")
    expect(row).to_contain_text(re.compile(r"[\d,]+ ms\s+[\d,]+ to [\d,]+"))


def test_one_attribute_of_several_may_be_numbers(watch, board):
    page = open_page(watch, board, "q=visit").page
    expect(page.locator("#withheld")).to_contain_text("withheld")
    expect(page.locator("#tiles")).to_contain_text("years")
    page.get_by_label("Attribute").select_option("sex")
    expect(page.locator("#rows tr")).to_have_count(3)
    expect(page.locator("#quantities")).to_be_hidden()
    expect(page.locator("#ranking-title")).to_have_text("Estimates")
    page.get_by_label("Attribute").select_option("age")
    expect(page.locator("#quantities")).to_be_visible()


def test_a_new_window_appears_by_itself(watch, kafka, board, crowd):
    view = open_page(watch, board)
    earlier_text = view.page.locator("#window").inner_text()
    publish(kafka, list(crowd.next()))
    expect(view.page.locator("#window")).not_to_have_text(earlier_text)
    assert view.errors == []


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESK, "dark"), (TABLET, "light"), (PHONE, "dark")])
def test_numbers_are_accessible_and_fit(watch, board, start, size, scheme):
    page = open_page(watch, board, f"q=load_time&from={start + PANE}", viewport=size, color_scheme=scheme).page
    expect(page.locator("#change-rows tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    labels = page.locator(".distribution .label").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(one => [one.left, one.right, one.top, one.bottom])"
    )
    for position, one in enumerate(labels):
        assert one[0] >= 0
        assert one[1] <= size["width"]
        for label in labels[position + 1 :]:
            has_gap = one[1] + 8 <= label[0] or label[1] + 8 <= one[0]
            assert has_gap or one[3] <= label[2] + 4 or label[3] <= one[2] + 4
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]
