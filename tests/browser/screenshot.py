"""Pictures of the page for the documentation: `python -m tests.browser.screenshot [FOLDER]`."""

import math
import sys
import time
from itertools import chain
from pathlib import Path

from playwright.sync_api import expect

from tests import boards
from tests.brokers import Tansu, create_topics
from tests.browser.chrome import DESK, PHONE, TABLET, launch_browser
from tests.queries import make_queries, make_table
from tests.string_crowds import CRASHES, HOUR, NEW, SHARES, StringCrowd

PANES = 40
TABLE = make_table(domain=8, epsilon=2.0, pane=f"{boards.PANE}s", windows=[f"{boards.PANE}s"])
QUERIES = {
    **boards.QUERIES,
    "load_time": boards.LOAD_TIME,
    **make_queries(dict.fromkeys(("beta.screens", "night.errors", "next.release"), TABLE)),
}
SURGE = 34
AT_REST = """
  () => document.getAnimations().every(
    (each) => each.playState !== "running" || each.effect.getComputedTiming().endTime === Infinity)
"""
"""Whether all animations have ended, except endless ones."""
PICTURES = (
    ("page-light", DESK, "light"),
    ("page-dark", DESK, "dark"),
    ("page-tablet", TABLET, "light"),
    ("page-phone", PHONE, "light"),
)


def busy(crowd, pane):
    """Return the messages of a pane in which the number of clients varies."""
    crowd.clients = int(60_000 + 12_000 * math.sin(pane / 5) + 3_000 * math.cos(2.3 * pane))
    return crowd.next()


def others(start):
    """Return the messages of the other queries: a small crowd, one that sleeps, and one that has not come."""
    end = start + PANES * boards.PANE
    profile = boards.Crowd(boards.PROFILE, start=start + (PANES - 3) * boards.PANE)
    small = boards.Crowd(QUERIES["beta.screens"], clients=20, start=end - 3 * boards.PANE)
    asleep = boards.Crowd(QUERIES["night.errors"], clients=900, start=end - 90 * boards.PANE)
    loads = boards.NumberCrowd(boards.LOAD_TIME, clients=60_000, start=start, surge=SURGE)
    messages = [*chain.from_iterable(loads.next() for _ in range(PANES))]
    messages += [*chain.from_iterable(profile.next() for _ in range(3))]
    messages += [boards.withheld(message) for _ in range(3) for message in small.next() if message[0] == "estimates"]
    messages += asleep.next()
    return [*messages, boards.status_message(QUERIES["night.errors"], end, end - 89 * boards.PANE)]


def take_overview(browser, board, folder):
    """Take the picture of the first page, when its rows are current."""
    page = browser.new_context(viewport={"width": 1200, "height": 640}).new_page()
    page.goto(board.url)
    expect(page.locator("#all-rows tr")).to_have_count(len(QUERIES))
    page.screenshot(path=folder / "page-overview.png", animations="disabled")


def take_numbers(browser, board, start, folder):
    """Take the picture of a distribution and of its changes since the first window of a minute."""
    page = browser.new_context(viewport=DESK).new_page()
    early_end = start + 6 * boards.PANE
    page.goto(f"{board.url}#q=load_time&window=hopping-60-{boards.PANE}&value=p95&from={early_end}")
    expect(page.locator("#change-rows tr").first).to_be_visible()
    page.wait_for_function(AT_REST)
    boxes = [page.locator(name).bounding_box() for name in (".card:has(#numbers)", ".card:has(#changes)")]
    edge = 16
    top = boxes[0]["y"] - edge
    clip = {"x": boxes[0]["x"] - edge, "y": top, "width": boxes[0]["width"] + 2 * edge}
    clip["height"] = boxes[1]["y"] + boxes[1]["height"] + edge - top
    page.screenshot(path=folder / "page-numbers.png", clip=clip, full_page=True, animations="disabled")


def take_strings(browser, kafka, folder):
    """Take the picture of the names that searches have found, and of the answer about another string."""
    hours = 6
    crowd = StringCrowd(int(time.time()) // HOUR * HOUR - hours * HOUR, new_from=hours - 1)
    messages = [*chain.from_iterable(crowd.next() for _ in range(hours))]
    # The last window may have ended long ago. A crowd that has just come back is not late.
    now = int(time.time())
    messages.append(boards.status_message(CRASHES, now, now, reports_since=now))
    boards.publish(kafka, [*boards.definition_messages({"crashes": CRASHES}), *messages], 0)
    with boards.Board(kafka) as board:
        board.ready()
        board.until(lambda: board.get("api/v1/queries/crashes/estimate?value=x").status == 200)
        page = browser.new_context(viewport=DESK).new_page()
        page.goto(f"{board.url}#q=crashes&value={NEW}&ask=stack overflow")
        expect(page.locator("#names tbody tr")).to_have_count(len(SHARES) + 1)
        expect(page.locator("#answer")).to_contain_text("stack overflow")
        page.wait_for_function(AT_REST)
        page.locator(".card:has(#names)").screenshot(path=folder / "page-strings.png", animations="disabled")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Tansu() as broker:
        kafka = create_topics(broker)
        strings = create_topics(broker)
        # The last pane ends one or two minutes in the future, so the windows are still new at the last picture.
        # The first pane starts at a full minute, so the last window of a minute has each client once.
        start = (int(time.time()) // 60 + 2) * 60 - PANES * boards.PANE
        crowd = boards.Crowd(boards.HOMEPAGE, start=start, surge=SURGE)
        messages = [*chain.from_iterable(busy(crowd, pane) for pane in range(SURGE))]
        boards.publish(kafka, [*boards.definition_messages(QUERIES), *messages, *others(start)])
        with boards.Board(kafka) as board, launch_browser() as browser:
            board.ready()
            page = browser.new_context(viewport=DESK).new_page()
            page.goto(f"{board.url}#q=homepage&window=hopping-60-10&value=books.example")
            page.wait_for_selector("#rows tr")
            boards.publish(kafka, [*chain.from_iterable(busy(crowd, pane) for pane in range(SURGE, PANES))])
            page.wait_for_selector("#news p")
            last_end = start + PANES * boards.PANE
            board.until(lambda: board.json("api/v1/queries/homepage/windows?limit=1")["windows"][0]["end"] == last_end)
            n = board.json("api/v1/queries/homepage/estimate?kind=hopping")["n"]
            expect(page.locator("#window")).to_contain_text(f"{n:,} reports")
            take_overview(browser, board, folder)
            take_numbers(browser, board, start, folder)
            take_strings(browser, strings, folder)
            for name, size, scheme in PICTURES:
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(500)  # the changes of the new size have started
                # Close the news, because they cover parts of the page.
                page.locator("#news button").evaluate_all("buttons => buttons.forEach(button => button.click())")
                page.wait_for_function(AT_REST)
                page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs")
