"""The page by group: a menu, small charts side by side, a weighted total, and the difference of two groups."""

import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from aggregator.records.alert import Alert, StretchRow, encode
from aggregator.records.rows import WindowRow
from tests.boards import GROUPS, LOAD, PANE, SCREENS, Board, GroupCrowd, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE

PANES = 3
LABELS = ["ios", "android", "web", "(none)"]


def surge(end):
    """Return the message of a surge of the total."""
    earlier_row = StretchRow(end - 2 * PANE, end - PANE)
    newest_row = StretchRow(end - PANE, end)
    about = {"query": "screens", "digest": SCREENS.digest.hex(), "attribute": None, "value": "cart"}
    shares = {"share": 0.2, "low": 0.19, "high": 0.21, "before": 0.1, "probability": None}
    window = WindowRow(kind="tumbling", start=end - PANE, end=end, size=PANE, step=PANE)
    limit = {"threshold": 0.01, "by": "significance", "baseline": False}
    alert = Alert.of(kind="surge", **about, window=window, **shares, **limit, scale=1, from_=earlier_row, to=newest_row)
    return "alerts", alert.key, encode(alert)


@pytest.fixture(scope="module")
def board(broker):
    start = int(time.time()) // PANE * PANE - PANES * PANE
    crowds = [GroupCrowd(query, start=start) for query in (SCREENS, LOAD)]
    messages = [message for _ in range(PANES) for crowd in crowds for message in crowd.next()]
    messages = [message for message in messages if not (b"load" in message[1] and b"web" in message[1])]
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages(GROUPS), *messages, surge(start + PANES * PANE)])
    with Board(kafka) as process:
        yield process.ready()


def open_page(watch, board, fragment, **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator(".multiple").first).to_be_visible()
    return view


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_groups_stand_side_by_side(watch, board, size, scheme):
    view = open_page(watch, board, "q=screens", viewport=size, color_scheme=scheme)
    page = view.page
    answer = board.json("api/v1/queries/screens/groups?top=8")
    assert page.locator(".multiple h3 button").all_inner_texts() == LABELS
    for label in LABELS[:3]:
        rows = page.locator(".multiple").filter(has=page.get_by_role("button", name=label)).locator("tbody tr")
        shares = [row["share"] for row in answer["values"] if row["group"] == label]
        assert rows.count() == len(shares) == 8
        for row, share in zip(rows.all(), shares, strict=True):
            expect(row.locator(".number")).to_contain_text(f"{100 * share:.2f}%")
    expect(page.locator(".multiple").last).to_contain_text("withheld: fewer than 50 reports")
    expect(page.locator("#flags")).to_contain_text("The total lacks groups")
    expect(page.locator("#rows tr").first).to_contain_text("% weighted")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]
    assert view.errors == []


def test_a_group_has_a_page_and_a_difference_from_another_group(watch, board):
    view = open_page(watch, board, "q=screens")
    page = view.page
    page.locator("#group").select_option("ios")
    expect(page.locator("#window")).to_contain_text("9,000 reports")
    expect(page.locator(".multiple.chosen h3 button")).to_have_text("ios")
    expect(page.locator(".by-weight").first).to_be_hidden()
    page.locator("#compare").select_option("group android")
    expect(page.locator("#changes thead")).to_contain_text("android")
    expect(page.locator("#change-rows tr").first).to_contain_text("cart")
    expect(page.locator("#change-rows tr").first).to_contain_text("proved")
    assert "group=ios" in page.url
    page.locator(".multiple h3 button", has_text="ios").click()
    expect(page.locator("#window")).to_contain_text("15,000 reports")
    assert "group=" not in page.url
    assert view.errors == []


def test_quantiles_stand_side_by_side(watch, board):
    view = open_page(watch, board, "q=load")
    rows = view.page.locator(".multiple").first.locator("tbody tr")
    assert rows.locator("th").all_inner_texts() == ["p50", "p90", "p95", "p99", "Mean", "Geometric mean", "slow"]
    assert view.errors == []


def test_an_alert_is_about_the_total_on_the_page_of_a_group_too(watch, board):
    view = open_page(watch, board, "q=screens")
    page = view.page
    cart = page.locator("#rows tr", has_text="cart")
    expect(cart.locator(".tag")).to_have_text("risen")
    page.locator("#group").select_option("ios")
    expect(page.locator("#window")).to_contain_text("9,000 reports")
    expect(cart.locator(".tag")).to_be_hidden()
    page.locator("#alerts li").get_by_role("link").click()
    expect(page.locator("#window")).to_contain_text("15,000 reports")
    expect(page.locator("#status")).to_contain_text("Paused")
    assert "group=" not in page.url
    assert view.errors == []


def test_a_group_without_reports_leads_to_the_total(watch, board):
    page = watch().page
    page.goto(f"{board.url}#q=load&group=web")
    expect(page.locator("#empty")).to_contain_text("No final window of load has reports of platform web.")
    page.get_by_role("button", name="Show the total").click()
    expect(page.locator(".multiple").first).to_be_visible()
    assert "group=" not in page.url
    page.goto(f"{board.url}#q=load&group=web&at={1_700_000_000}")
    expect(page.locator("#empty")).to_contain_text("the window of load, platform web, that ended at")


def test_values_keep_their_names_and_weights_their_digits(watch, board):
    """A value can have the name of an answer about numbers, or of something in JavaScript."""
    view = watch()

    def rename(route):
        answer = route.fetch()
        text = answer.text().replace('"cart"', '"constructor"').replace('"home"', '"mean"')
        route.fulfill(response=answer, body=text)

    def weigh(route):
        answer = route.fetch()
        content = answer.json()
        for query in content["queries"]:
            query["groups"]["weights"] = {"ios": 0.004, "android": 0.996}
        route.fulfill(response=answer, json=content)

    view.page.route("**/queries/screens/groups*", rename)
    view.page.route("**/api/v1/queries", weigh)
    view.page.goto(f"{board.url}#q=screens")
    names = view.page.locator(".multiple").first.locator("tbody th")
    expect(names.first).to_be_visible()
    assert {"constructor", "mean"} <= {*names.all_inner_texts()}
    expect(view.page.locator("#groups .sub")).to_contain_text("Known shares: ios 0.4%, android 99.6%.")
    assert view.errors == []


def test_a_comparison_with_a_group_without_reports_says_so(watch, board):
    page = open_page(watch, board, "q=load&group=ios&compare=group+web").page
    expect(page.locator("#changes-text")).to_have_text("platform web has no reports in this window.")
