"""The page shows the names of unknown strings, answers for any string, and stays calm if strangers choose names."""

import re
import subprocess
import sys
import time
from itertools import chain

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from oracles.query import load_file
from tests.boards import Board, definition_messages, in_thread, publish
from tests.brokers import create_topics
from tests.browser.chrome import DESK, PHONE, TABLET
from tests.slowness import patience
from tests.string_crowds import HOSTILE_NAMES, HOUR, NEW, SHARES, STRINGS, StringCrowd, empty_message, hostile_message

HOURS = 3
OF = "api/v1/queries/crashes/estimate"


@pytest.fixture(scope="module")
def crowd():
    return StringCrowd(int(time.time()) // HOUR * HOUR - (HOURS + 1) * HOUR)


@pytest.fixture(scope="module")
def kafka(broker, crowd):
    kafka = in_thread(lambda: create_topics(broker))
    messages = [*chain.from_iterable(crowd.next() for _ in range(HOURS))]
    hour = next(message for message in messages if message[0] == "estimates" and b"|3600|3600|" in message[1])
    publish(kafka, [*definition_messages(STRINGS), *messages, hostile_message(hour), empty_message(hour)], 0)
    return kafka


@pytest.fixture(scope="module")
def board(kafka):
    with Board(kafka) as process:
        yield process.ready()


def open_page(watch, board, fragment="q=crashes", **settings):
    view = watch(**settings)
    view.page.goto(f"{board.url}#{fragment}")
    expect(view.page.locator("#strings")).to_be_visible()
    return view


def test_the_page_lists_the_names_of_the_record(watch, board):
    view = open_page(watch, board)
    page = view.page
    answer = board.json(OF)
    rows = page.locator("#names tbody tr")
    expect(rows).to_have_count(len(SHARES) + 1)
    assert page.locator("#names .string").all_inner_texts() == [row["value"] for row in answer["values"]]
    for place, row in enumerate(answer["values"]):
        assert rows.nth(place).locator("data").get_attribute("value") == str(row["share"])
        expect(rows.nth(place).locator(".interval")).to_contain_text(f"{100 * row['low']:.2f}%")
    expect(rows.filter(has_text=NEW).locator(".tag")).to_have_text("newly proved")
    expect(page.locator("#names .tag")).to_have_count(1)
    expect(page.locator("#ranking-title")).to_have_text("Names found")
    expect(page.locator("#strings")).to_contain_text(f"at least {100 * answer['discover']['smallest']:.2f}%")
    expect(page.locator("#strings")).to_contain_text("Names that were known before have 95% intervals.")
    for absent in ("#ranking", "#comparison", "#find", "#ranking-foot"):
        expect(page.locator(absent)).to_be_hidden()
    expect(page.locator("#tiles")).to_contain_text("Smallest share")
    expect(page.locator("#alerts li").filter(has_text=NEW).locator(".tag")).to_have_text("found")
    expect(page.locator("#alerts")).to_contain_text(f"{len(SHARES)} names were found in the first search:")
    assert view.errors == []


def test_a_name_of_the_query_file_is_not_new(watch, board):
    view = watch()

    def make_known(route):
        answer = route.fetch()
        content = answer.json()
        names = (content.get("discover") or {}).get("names", [])
        for name in names:
            name["level"] = 0.95
        route.fulfill(response=answer, json=content)

    view.page.route("**/queries/crashes/estimate*", make_known)
    view.page.goto(f"{board.url}#q=crashes")
    expect(view.page.locator("#names tbody tr").filter(has_text=NEW)).to_be_visible()
    expect(view.page.locator("#names .tag")).to_have_count(0)
    assert view.errors == []


def test_a_name_has_its_history_with_keyboard_only(watch, board):
    view = open_page(watch, board)
    button = view.page.locator("#names").get_by_role("button", name=NEW, exact=True)
    button.focus()
    view.page.keyboard.press("Enter")
    expect(view.page.locator("#history-text")).to_contain_text(f"{NEW}: ")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_be_focused()
    assert view.errors == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("out of memory", r"“out of memory” has a share of \d+\.\d+% .* is a name above \(95% interval, by [\d,]+"),
        ("OUT of memory", r"“OUT of memory” counts as “out of memory”, which has a share of"),
        ("rare 7", r"“rare 7” has a share of .* and may be zero \(95% interval"),
        ("<b>bold</b>", r"“<b>bold</b>” counts as “ b bold /b ”, which has a share of"),
        ("", r"“\(empty\)” has a share of .* may be zero"),
        pytest.param("字" * 2000, "counts as “ +….*has a share of", id="long"),
    ],
)
def test_any_string_has_an_answer(watch, board, text, sentence):
    view = open_page(watch, board)
    view.page.get_by_label("Share of any string").fill(text)
    view.page.keyboard.press("Enter")
    expect(view.page.locator("#answer")).to_have_text(re.compile(sentence))
    expect(view.page.locator("#ask")).to_contain_text("protects a string that somebody asks for")
    assert "ask=" in view.page.url
    assert view.errors == []


def test_a_window_without_maps_or_names_says_what_is_missing(watch, board):
    view = open_page(watch, board, "q=empty&ask=rare")
    expect(view.page.locator("#strings .none")).to_have_text(
        re.compile(r"No name is proved yet\. With [\d,]+ reports a name needs a share of about \d+\.\d+%\.")
    )
    expect(view.page.locator("#answer")).to_contain_text("no maps of this window")
    expect(view.page.locator("#names")).to_be_hidden()


def test_short_windows_show_the_names_that_were_found_before(watch, board):
    page = open_page(watch, board, "q=crashes&window=tumbling-300-300").page
    expect(page.locator("#strings")).to_contain_text("Names are searched in windows of 1 h or more.")
    expect(page.locator("#names tbody tr").first).to_contain_text("typeerror")


@pytest.mark.parametrize("fragment", ["q=terms", "q=terms&value=" + "%E2%80%AEtxt.exe", ""])
def test_names_of_strangers_are_text_and_nothing_else(watch, board, fragment):
    view = watch()
    view.page.goto(f"{board.url}#{fragment}")
    if fragment:
        names = view.page.locator("#names .string")
        expect(names).to_have_count(len(HOSTILE_NAMES))
        texts = names.all_inner_texts()
        assert texts[:2] == list(HOSTILE_NAMES[:2])
        assert texts[2] == r"\u{202e}txt.exe"
        assert texts[3] == r"tab\u{9}here, bell\u{7}, escape\u{1b}[2J"
        assert texts[5] == "(empty)"
    else:
        expect(view.page.locator("#all-rows")).to_contain_text("terms")
    assert view.page.locator("script:not([src]), img[src=x]").count() == 0
    text = view.page.locator("body").inner_text()
    assert not set(text) & {"\u202e", "\x1b", "\x07"}
    assert view.errors == []
    assert view.foreign_requests(board.url) == []


@pytest.mark.parametrize(("query", "code"), [("crashes", 0), ("empty", 2), ("strange", 2)])
def test_the_names_become_a_query_file(kafka, tmp_path, query, code):
    path = tmp_path / "names.toml"
    command = [sys.executable, "-m", "hubbub", "init", "--query", query, "--yes", "--queries", str(path)]
    address = ["--kafka", kafka.servers, "--prefix", kafka.prefix]
    result = subprocess.run([*command, *address], capture_output=True, text=True, check=False, timeout=patience(60))
    assert result.returncode == code, result.stderr
    assert path.exists() == (code == 0)
    if code == 0:
        values = load_file(path).queries["crashes_names"].domain.values
        assert {*values} == {NEW, *(name for name in SHARES if not name.endswith("\N{HORIZONTAL ELLIPSIS}"))}
        assert "hubbub check" in result.stdout


def test_a_first_proof_appears_by_itself(watch, kafka, board, crowd):
    view = open_page(watch, board)
    earlier_text = view.page.locator("#window").inner_text()
    publish(kafka, crowd.next(), 0)
    expect(view.page.locator("#window")).not_to_have_text(earlier_text)
    assert view.errors == []


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (DESK, "dark"), (TABLET, "light"), (PHONE, "dark")])
@pytest.mark.parametrize("query", ["crashes", "terms"])
def test_names_are_accessible_and_fit(watch, board, query, size, scheme):
    page = open_page(watch, board, f"q={query}&ask=rare+7", viewport=size, color_scheme=scheme).page
    expect(page.locator("#answer")).not_to_be_empty()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    violations = Axe().run(page).response["violations"]
    serious = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    assert serious == [], [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in serious]
