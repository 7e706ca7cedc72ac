"""The live page in a real browser, with very much data or with no new data."""

import re
import subprocess
import time
from contextlib import contextmanager
from itertools import chain, pairwise

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.boards import PANE, Board, Crowd, definition_messages, in_thread, publish
from tests.brokers import Tansu, create_topics, skip
from tests.browser.chrome import DESK, PHONE, TABLET
from tests.browser.test_page import SHIFTS, rows
from tests.queries import make_queries, make_table

LONG = pytest.mark.long
PLACE = "https://www.example.org/organisation/department-of-many-things"
VALUES = [f"{PLACE}/{'abcdefgh'[i % 8] * 3}/{i // 8:03}/index.html?session={i:04}" for i in range(1023)]
NAMES = [f"organisation.department.product.release-{number:02}.screen" for number in range(24)]
BIG, SMALL = NAMES[-1], NAMES[:-1]
QUERIES = make_queries(
    {
        **{name: make_table(domain=30, epsilon=2.0, pane=f"{PANE}s") for name in SMALL},
        BIG: make_table(domain=VALUES, epsilon=4.0, budget=1e9, pane=f"{PANE}s", publish="all"),
    }
)


def now():
    return int(time.time()) // PANE * PANE


@contextmanager
def run_board(broker):
    """Start a board of 24 queries. One has 1,024 values and a crowd, one is a little late, and one is very late."""
    kafka = in_thread(lambda: create_topics(broker))
    crowd = Crowd(QUERIES[BIG], clients=40_000, start=now() - 4 * PANE)
    messages = [*chain.from_iterable(crowd.next() for _ in range(4))]
    late = Crowd(QUERIES[SMALL[0]], clients=500, start=now() - 6 * PANE).next()
    old = Crowd(QUERIES[SMALL[1]], clients=500, start=now() - 40 * PANE).next()
    publish(kafka, [*definition_messages(QUERIES), *messages, *late, *old])
    # A board without a broker logs ten times per second. Nobody reads it here, and a full pipe would stop the board.
    with Board(kafka, stderr=subprocess.DEVNULL) as board:
        yield kafka, board.ready(), crowd


@pytest.fixture(scope="module")
def scene(broker):
    with run_board(broker) as parts:
        yield parts


def open_page(watch, board, name, **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#q={name}")
    expect(view.page.locator("#rows tr").first).to_be_visible()
    return view


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (PHONE, "light"),
        (DESK, "dark"),
        pytest.param(PHONE, "dark", marks=LONG),
        pytest.param(DESK, "light", marks=LONG),
        *(pytest.param(TABLET, scheme, marks=LONG) for scheme in ("light", "dark")),
    ],
)
def test_a_thousand_long_names_fit_and_are_accessible(watch, scene, size, scheme):
    _, board, _ = scene
    page = open_page(watch, board, BIG, viewport=size, color_scheme=scheme).page
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#rows tr")).to_have_count(1024)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    visible = page.locator("#rows .ends").evaluate_all(
        """nodes => nodes.map(node => {
          const end = node.getBoundingClientRect();
          const box = node.closest("th").getBoundingClientRect();
          return end.left >= box.left && end.right <= box.right + 1 ? node.textContent : "cut";
        })"""
    )
    assert len(set(visible)) == 1024, "the different part of every value is visible"
    expect(page.locator("#name")).to_have_text(BIG)
    ticks = page.locator("#axis span").evaluate_all(
        "nodes => nodes.map(node => node.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    )
    assert all(left[1] < right[0] for left, right in pairwise(ticks)), "ticks do not overlap"
    page.get_by_label("Find a value").fill("/012/")  # axe is slow on a thousand rows
    expect(page.locator("#rows tr")).to_have_count(8)
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]


def test_a_long_name_can_be_found_and_selected_by_keyboard(watch, scene):
    _, board, _ = scene
    page = open_page(watch, board, BIG).page
    page.get_by_label("Find a value").focus()
    page.keyboard.type("/aaa/012/")
    expect(page.locator("#rows tr")).to_have_count(1)
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#rows') !== null"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#history-text")).to_contain_text(f"{PLACE}/aaa/012/")
    expect(page.get_by_role("button", name=VALUES[96], exact=True)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize(
    ("size", "seconds"), [(PHONE, 4), *(pytest.param(size, 60, marks=LONG) for size in (PHONE, TABLET, DESK))]
)
def test_a_thousand_values_move_nothing_else(watch, broker, size, seconds):
    with run_board(broker) as (kafka, board, crowd):
        page = open_page(watch, board, BIG, viewport=size).page
        page.wait_for_timeout(1_000)
        earlier_rows = rows(page)
        page.evaluate(SHIFTS)
        for _ in range(seconds // 2):
            crowd.clients += 997
            publish(kafka, crowd.next())
            page.wait_for_timeout(2_000)
        assert rows(page) != earlier_rows
        assert page.evaluate("window.shifts") < 0.02


def test_without_new_windows_the_page_turns_amber_then_red_with_a_hint(watch, scene):
    """After a worker has died, board and broker still work, but the data becomes old."""
    _, board, _ = scene
    for name, state in ((SMALL[0], "late|stale"), (SMALL[1], "stale")):
        view = open_page(watch, board, name)
        expect(view.page.locator("#status")).to_have_attribute("data-state", re.compile(f"^({state})$"))
        expect(view.page.locator("#status")).to_contain_text("late by")
        expect(view.page.locator("#late")).to_contain_text("Check /readyz of the workers")
        assert view.errors == []


def test_a_page_that_was_live_turns_amber_by_itself(watch, broker):
    kafka = in_thread(lambda: create_topics(broker))
    crowd = Crowd(QUERIES[SMALL[0]], clients=500, start=int(time.time()) - 32)
    with Board(kafka) as board:
        publish(kafka, [*definition_messages(QUERIES), *crowd.next()])
        page = open_page(watch, board.ready(), SMALL[0]).page
        states = page.evaluate_handle(
            """() => {
              const status = document.getElementById("status"), seen = [status.dataset.state];
              new MutationObserver(() => seen.push(status.dataset.state)).observe(status, { attributes: true });
              return seen;
            }"""
        )
        expect(page.locator("#status")).to_have_attribute("data-state", "late")
        assert "lost" not in states.json_value(), "the connection was never lost"


def test_a_dead_broker_is_reported_without_blaming_workers(watch):
    try:
        broker = Tansu().start()
    except Exception as error:  # noqa: BLE001 - like the fixture `tansu`
        skip(error)
    with broker, run_board(broker) as (_, board, _):
        view = open_page(watch, board, BIG)
        page = view.page
        earlier_rows = rows(view.page)
        broker.__exit__(None, None, None)
        expect(page.locator("#status")).to_have_attribute("data-state", "lost")
        expect(page.locator("#status")).to_have_text(re.compile(r"Kafka at .* does not answer\. Stale since .*"))
        expect(page.locator("#late")).to_contain_text("Check the brokers")
        assert "workers" not in view.text("#late")
        assert rows(page) == earlier_rows, "the old numbers remain"
