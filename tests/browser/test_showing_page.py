"""The page shows numbers that say something, and words in place of others: crowds of a few and of many people."""

import json
import re
import time
from itertools import chain
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests import boards
from tests.boards import PANE, Board, Crowd, NumberCrowd, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE
from tests.queries import make_queries, make_table

PANES = 8
FOREIGN_TEXT = "<b>half</b> price & more"
COUNTRIES = ["DE", "FR", "IT", "ES", "PL", "NL"]
MILLISECONDS = {"low": 10, "high": 60_000, "bins": 64, "scale": "log", "unit": "ms"}
TABLE = make_table(crowd=1, budget=1e9, windows=[f"{PANE}s"])
QUERIES = make_queries(
    {
        "few": TABLE | {"domain": COUNTRIES},
        "many": TABLE | {"domain": COUNTRIES},
        "few.first": TABLE | {"domain": COUNTRIES, "publish": 3},
        "few.numbers": TABLE | {"domain": MILLISECONDS},
        "many.numbers": TABLE | {"domain": MILLISECONDS, "ranges": {"slow": [1000, 60_000]}},
    },
    edition=2,
)


@pytest.fixture(scope="module")
def board(broker, tmp_path_factory):
    start = int(time.time()) // PANE * PANE - PANES * PANE
    crowds = []
    for name, query in QUERIES.items():
        kind = NumberCrowd if "numbers" in name else Crowd
        crowds.append(kind(query, clients=55 if "few" in name else 50_000, start=start))
    messages = [*chain.from_iterable(crowd.next() for crowd in crowds for _ in range(PANES))]
    kafka = in_thread(lambda: create_topics(broker))
    publish(kafka, [*definition_messages({**boards.QUERIES, **QUERIES}), *messages])
    notes = tmp_path_factory.mktemp("notes") / "notes.txt"
    # The last note is of no window, so no chart has it.
    times = [(start + 2 * PANE, "version 3.2 is out"), (start + 4 * PANE, FOREIGN_TEXT), (1, "long ago")]
    notes.write_text("".join(f"{time} {text}\n" for time, text in times))
    with Board(kafka, "--notes", str(notes)) as process:
        yield process.ready()


def open_page(watch, board, fragment, **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator("#window")).not_to_be_empty()
    return view


def shown_shares(page):
    """Return all percentages on the page. The page writes a minus sign before those below 0."""
    text = page.locator("#board").inner_text().replace("\N{MINUS SIGN}", "-")
    return [float(share) for share in re.findall(r"(-?[\d.]+)%", text)]


@pytest.mark.parametrize("name", ["few", "few.numbers"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_small_crowd_has_a_sentence_in_place_of_numbers(watch, board, name, size):
    view = open_page(watch, board, f"q={name}", viewport=size)
    page = view.page
    answer = board.json(f"api/v1/queries/{name}/estimate")
    assert answer["nothing_proved"]
    expect(page.locator("#nothing")).to_have_text(answer["nothing_text"])
    expect(page.locator("#history-text")).to_contain_text("nothing can be told yet")
    expect(page.locator("#history")).to_contain_text("There is nothing to draw yet")
    expect(page.locator("#history-picture")).to_be_disabled()
    expect(page.locator("#rates-picture")).to_be_enabled()
    expect(page.locator("#tiles")).to_contain_text(re.compile("more reports needed|too few reports"))
    assert all(0.0 <= share <= 100.0 for share in shown_shares(page))
    assert not re.search(r"significant above", page.locator("#board").inner_text())
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert view.errors == []


def test_the_overview_names_no_value_of_a_small_crowd(watch, board):
    page = watch().page
    page.goto(board.url)
    row = page.locator("#all-rows tr").filter(has=page.get_by_role("link", name="few", exact=True))
    expect(row).to_contain_text("55 reports: nothing can be told yet. About")
    large_row = page.locator("#all-rows tr").filter(has=page.get_by_role("link", name="many", exact=True))
    expect(large_row.locator(".share")).to_contain_text("%")


def test_a_chosen_value_keeps_its_level_everywhere(watch, board):
    answer = board.json("api/v1/queries/many/estimate?top=15")
    page = open_page(watch, board, "q=many").page
    level = f"{100 * answer['level']:.2f}".rstrip("0").rstrip(".")
    expect(page.locator("#level")).to_have_text(f"{level}% interval")
    expect(page.locator("#history-text")).to_contain_text(f"{level}% interval")
    value = answer["values"][1]["value"]
    page.get_by_role("button", name=value, exact=True).click()
    expect(page.locator("#history-text")).to_contain_text("95% interval")
    expect(page.locator("#rows tr.chosen .interval")).to_contain_text("(95%)")


def test_a_value_that_does_not_exist_is_named(watch, board):
    page = open_page(watch, board, "q=many&find=ZZ").page
    expect(page.locator("#absent")).to_contain_text("“ZZ” is no value of many.")


def test_a_value_that_is_not_published_has_a_bound(watch, board):
    view = open_page(watch, board, "q=few.first&find=NL")
    [reason] = board.json("api/v1/queries/few.first/estimate?value=NL")["missing_reasons"].values()
    bound = f"{100 * reason['below']:.1f}%"
    text = f"NL is not among the 3 published values; its share is below {bound}."
    expect(view.page.locator("#absent")).to_have_text(text)
    expect(view.page.locator("#rows")).to_be_hidden()
    assert view.errors == []


def test_a_range_names_its_edges(watch, board):
    page = open_page(watch, board, "q=many.numbers").page
    ends = board.json("api/v1/queries/many.numbers/estimate")["numbers"]["ranges"]["slow"]
    assert ends["from"] < 1000
    start = f"{float(format(ends['from'], '.3g')):,.0f}"
    text = f"1,000 to 60,000 ms, counted from {start} to 60,000, the nearest edges of bins"
    expect(page.locator("#quantities")).to_contain_text(text)
    expect(page.locator(".distribution")).to_contain_text("geometric mean")


def test_changes_offers_only_windows_that_exist(watch, board):
    page = open_page(watch, board, "q=many").page
    options = page.locator("#compare option")
    expect(options).to_have_text(["nothing", "the window before", "5 windows before", "the first window"])
    page.locator("#compare").select_option("5 windows before")
    expect(page.locator("#change-rows tr").first).to_be_visible()
    assert "compare=-5" in page.url


def test_keys_move_and_search_and_can_be_turned_off(watch, board):
    view = open_page(watch, board, "q=many")
    page = view.page
    expect(page.locator("#rows tr").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("#rows .value button").nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#rows .value button").nth(0)).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("?j")
    expect(page.locator("#find")).to_have_value("?j")
    page.locator("#find").fill("")
    page.locator("#theme").focus()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    page.get_by_label("Keys are on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    assert "q=many" in page.url
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Keys are on").check()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    expect(page.locator("#overview")).to_be_visible()
    # The board does not know the value that was typed, and a browser logs each such answer.
    assert all("Not Found" in error for error in view.errors)


def test_the_theme_is_remembered(watch, board):
    page = open_page(watch, board, "q=many", color_scheme="light").page
    button = page.locator("#theme")
    expect(button).to_have_text("Theme: system")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    dark_paper = "rgb(15, 18, 25)"
    expect(page.locator("body")).to_have_css("background-color", dark_paper)
    page.reload()
    expect(button).to_have_text("Theme: dark")
    expect(page.locator("body")).to_have_css("background-color", dark_paper)
    page.keyboard.press("t")
    expect(button).to_have_text("Theme: system")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).to_have_css("background-color", dark_paper)


def test_a_stretch_of_time_and_the_one_before_are_in_the_address(watch, board):
    view = open_page(watch, board, "q=many&range=windows")
    page = view.page
    expect(page.locator("#rows tr").first).to_be_visible()
    expect(page.locator("#zone")).not_to_be_empty()
    page.get_by_role("button", name="Previous").click()
    expect(page.locator("#ends")).to_be_visible()
    expect(page.locator("#range")).to_have_value("free")
    assert re.search(r"since=\d+&until=\d+", page.url)
    since, until = (int(re.search(rf"{name}=(\d+)", page.url)[1]) for name in ("since", "until"))
    assert until - since == 10 * PANE
    page.locator("#range").select_option("1 h")
    expect(page.locator("#ends")).to_be_hidden()
    assert "since" not in page.url
    assert view.errors == []


def test_what_is_seen_is_saved_with_its_levels(watch, board):
    page = open_page(watch, board, "q=many").page
    expect(page.locator("#rows tr").first).to_be_visible()
    answer = board.json("api/v1/queries/many/estimate?top=15")
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    seen = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert [row["value"] for row in seen["values"]] == [row["value"] for row in answer["values"]]
    assert {row["level"] for row in seen["values"]} == {answer["level"]}
    assert seen["window"] == answer["window"]


@pytest.mark.parametrize("chart", ["history", "rates"])
def test_a_chart_is_a_picture_of_its_own(watch, board, chart):
    page = open_page(watch, board, "q=many").page
    expect(page.locator(f"#{chart} canvas")).to_be_visible()
    text = page.locator(f"#{chart}-text").inner_text()
    with page.expect_download() as download:
        page.locator(f"#{chart}-picture").click()
    picture = Path(download.value.path()).read_text(encoding="utf-8")
    assert f">{text}</text>" in picture
    assert picture.count("<polyline") >= 1
    assert download.value.suggested_filename.endswith(f"-{chart}.svg")


def test_notes_are_numbered_lines_of_the_charts_and_of_their_pictures(watch, board):
    view = open_page(watch, board, "q=many")
    page = view.page
    for chart in ("history", "rates"):
        rows = page.locator(f"#{chart}-annotations li")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("version 3.2 is out")
        expect(rows.nth(1)).to_contain_text(FOREIGN_TEXT)
        with page.expect_download() as download:
            page.locator(f"#{chart}-picture").click()
        picture = Path(download.value.path()).read_text(encoding="utf-8")
        assert re.search(r">1 .* version 3\.2 is out</text>", picture)
        assert re.search(r">2 .* &lt;b&gt;half&lt;/b&gt; price &amp; more</text>", picture)
        assert picture.count('stroke-dasharray="2 4"') == 2
    assert view.errors == []


LABELS = """
async () => {
  const { labels, numbered } = await import("/static/annotations.js");
  const annotations = [50, 10, 12, 90, 20, 30, 80, 70].map((time) => ({ time, kind: "note" }));
  annotations.push({ time: 31, kind: "alert" }, { time: 10, kind: "alert" });
  const all = numbered(annotations, [10, 80]);
  const texts = labels(all, (time) => time).map(({ position, text }) => [position, text]);
  return [all.map(({ time, number }) => [time, number]), texts];
}
"""


def test_close_annotations_share_a_label_and_all_but_alerts_are_numbered(watch, board):
    page = open_page(watch, board, "q=many").page
    numbers, labels = page.evaluate(LABELS)
    assert numbers == [[10, None], [12, 1], [20, 2], [30, 3], [31, None], [50, 4], [70, 5], [80, 6]]
    assert labels == [[10, "1\N{EN DASH}2 !"], [30, "3 !"], [50, "4"], [70, "5\N{EN DASH}6"]]


RATES = """
async () => {
  const { Rates } = await import("/static/charts.js");
  const chart = new Rates(document.createElement("div"));
  return [0, 0.5, 1, 1.5, 2, 50, 8000].map(chart.label);
}
"""


def test_the_marks_of_a_small_rate_differ(watch, board):
    page = open_page(watch, board, "q=many").page
    assert page.evaluate(RATES) == ["0", "0.5", "1", "1.5", "2", "50", "8,000"]
