"""The site of the documentation fits the screen of a phone, and its search works."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.chrome import DESK, PHONE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--conf-dir", ROOT / "docs", ROOT, folder]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_no_page_is_wider_than_the_screen(site, size, watch):
    page = watch(viewport=size).page
    widths = {}
    for path in set(site.rglob("*.html")) - {site / "index.html"}:
        page.goto(path.as_uri())
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > size["width"]:
            widths[path.relative_to(site).as_posix()] = width
    assert widths == {}


def test_the_first_page_leads_to_the_index_and_search_finds_a_page(site, watch):
    page = watch(viewport=PHONE).page
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    page.goto(f"{(site / 'search.html').as_uri()}?q=watchdog")
    page.wait_for_selector("ul.search li a")
    assert "watchdog" in page.inner_text("ul.search").lower()
