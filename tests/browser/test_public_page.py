"""The public page of all questions, in a browser: everybody can read it, on any screen."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from aggregator.reading.publish.page import page as text_of_page
from tests.asked import ask, make_list
from tests.browser.chrome import DESK, PHONE

FIRST = make_list(ask(), ask("a-name-of-a-query-that-is-as-long-as-a-name-may-be-in-a-query-file"[:64]))
LISTS = [FIRST, make_list(ask(contact="x" * 500), previous=FIRST)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_everybody_can_read_the_page_of_all_questions(browser, tmp_path, size, scheme):
    (tmp_path / "index.html").write_text(text_of_page(LISTS), encoding="utf-8")
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.goto((tmp_path / "index.html").as_uri())

    assert page.get_by_role("heading", level=1).inner_text() == "What Example Notes asks"
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    report = Axe().run(page)
    assert report.violations_count == 0, report.generate_report()
    page.close()
