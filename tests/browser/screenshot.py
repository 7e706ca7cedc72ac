"""Pictures of the page for the documentation: `python -m tests.browser.screenshot [FOLDER]`."""

import math
import sys
import time
from pathlib import Path

from playwright.sync_api import expect

from tests import boards
from tests.brokers import Tansu, prepared
from tests.browser.chrome import DESK, PHONE, TABLET, launched

PANES = 40
SURGE = 34
AT_REST = """
  () => document.getAnimations().every(
    (each) => each.playState !== "running" || each.effect.getComputedTiming().endTime === Infinity)
"""
"""Whether all that moves has come to its end, but for what never does."""
PICTURES = (
    ("page-light", DESK, "light"),
    ("page-dark", DESK, "dark"),
    ("page-tablet", TABLET, "light"),
    ("page-phone", PHONE, "light"),
)


def busy(crowd, pane):
    """The messages of a pane in which more or fewer clients answer."""
    crowd.clients = int(60_000 + 12_000 * math.sin(pane / 5) + 3_000 * math.cos(2.3 * pane))
    return crowd.next()


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Tansu() as broker:
        kafka = prepared(broker)
        # A minute or two ahead, so that the windows are still new when the last picture is taken; all to the minute,
        # so that the last window of one holds each client once, whenever they are taken.
        start = (int(time.time()) // 60 + 2) * 60 - PANES * boards.PANE
        crowd = boards.Crowd(boards.HOMEPAGE, start=start, surge=SURGE)
        told = [message for pane in range(SURGE) for message in busy(crowd, pane)]
        other = boards.Crowd(boards.PROFILE, start=start)
        boards.publish(kafka, [*boards.defined(), *told, *[message for _ in range(3) for message in other.next()]])
        with boards.Board(kafka) as board, launched() as browser:
            board.ready()
            page = browser.new_context(viewport=DESK).new_page()
            page.goto(f"{board.url}#q=homepage&window=hopping-60-10&value=books.example")
            page.wait_for_selector("#rows tr")
            boards.publish(kafka, [message for pane in range(SURGE, PANES) for message in busy(crowd, pane)])
            page.wait_for_selector("#news p")
            last = start + PANES * boards.PANE
            board.until(lambda: board.json("api/v1/queries/homepage/windows?limit=1")["windows"][0]["end"] == last)
            n = board.json("api/v1/queries/homepage/estimate?kind=hopping")["n"]
            expect(page.locator("#window")).to_contain_text(f"{n:,} reports")
            for name, size, scheme in PICTURES:
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(500)  # what the new size changes has begun to move
                # News tell of what comes: what they lie over is to be seen.
                page.locator("#news button").evaluate_all("buttons => buttons.forEach(button => button.click())")
                page.wait_for_function(AT_REST)
                page.screenshot(path=folder / f"{name}.png", full_page=True, animations="disabled")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "docs")
