"""The table of a pair: cells by share, what is proved, and the shares within one row."""

import time

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from tests.boards import PANE, Board, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE
from tests.queries import make_query
from tests.results import build

VERSIONS, CRASHES = ["3.0", "3.1", "3.2"], ["TypeError", "RangeError", "OutOfMemory", "Timeout"]
ATTRIBUTES = {"attributes": {"version": VERSIONS, "crash": CRASHES}, "pairs": [["version", "crash"]]}
QUERY = make_query(ATTRIBUTES, name="crashes", oracle="ss", epsilon=2.0, pane=f"{PANE}s", answers="once")
LAWS = np.array([[5, 3, 1, 1, 0], [2, 5, 2, 1, 0], [1, 1, 7, 1, 0]]) / 10
"""The share of each crash in each version, "(other)" last."""
LARGEST = '["3.2","OutOfMemory"]'
N = 60_000


@pytest.fixture(scope="module")
def board(broker):
    rng = np.random.default_rng(4)
    end = int(time.time()) // PANE * PANE
    version = rng.choice(3, N, p=[0.2, 0.3, 0.5])
    crash = np.array([rng.choice(5, p=LAWS[position]) for position in version])
    state = QUERY.oracle.zeros()
    QUERY.oracle.add(state, QUERY.oracle.perturb(np.column_stack([crash, version]), rng))
    records = build(QUERY, Span(QUERY.windows[0], end - PANE, end), Snapshot(N, 0, 0, 0, state)).records
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages({QUERY.name: QUERY}), *(("estimates", *record) for record in records)])
    with Board(kafka) as process:
        yield process.ready()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pair_is_shown_as_a_table(watch, board, size, scheme):
    view = watch(viewport=size, color_scheme=scheme)
    page = view.page
    page.goto(f"{board.url}#q=crashes&attribute=version*crash")
    expect(page.locator("#pairs tbody tr").first).to_be_visible()
    answer = board.json("api/v1/queries/crashes/estimate?attribute=version*crash")
    cells = {row["value"]: row for row in answer["values"]}
    assert page.locator("#pairs tbody td:not(.margin)").count() == len(cells) == 20
    assert page.locator("#pairs td.proved").count() == sum(row["present"] for row in cells.values())
    first_row = page.locator("#pairs tbody tr").first
    expect(first_row.locator("th")).to_have_text("3.2")
    text = f"{100 * cells[LARGEST]['share']:.1f}%"
    expect(page.locator("#pairs td.proved").filter(has_text=text)).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert view.errors == []
    violations = Axe().run(page).response["violations"]
    assert [violation["id"] for violation in violations if violation["impact"] in ("serious", "critical")] == []


def test_a_click_on_a_row_shows_the_shares_within_it(watch, board):
    page = watch().page
    page.goto(f"{board.url}#q=crashes&attribute=version*crash")
    page.get_by_role("button", name="3.2", exact=True).click()
    within = page.locator("#pairs .within")
    expect(within).to_contain_text("Among clients with version = 3.2")
    answer = board.json("api/v1/queries/crashes/given?attribute=version&value=3.2&of=crash")
    maximum = max(answer["values"], key=lambda row: row["share"])
    assert maximum["value"] == "OutOfMemory"
    assert maximum["low"] < 0.7 < maximum["high"]
    expect(within.locator("li").first).to_contain_text(f"OutOfMemory: {100 * maximum['share']:.1f}%")
    assert "given=3.2" in page.url
    page.get_by_role("button", name="3.2", exact=True).click()
    expect(within).to_be_hidden()


def test_a_single_attribute_has_no_table(watch, board):
    page = watch().page
    page.goto(f"{board.url}#q=crashes&attribute=version")
    expect(page.locator("#rows tr").first).to_be_visible()
    expect(page.locator("#pairs")).to_be_hidden()
