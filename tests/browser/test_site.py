"""The site of the documentation builds without a warning, fits the screen of a phone, and its search works."""

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser.chrome import DESK, PHONE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site. A link or an anchor that does not exist is a warning, and fails the build."""
    folder = tmp_path_factory.mktemp("site")
    builder = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", ROOT / "docs"]
    command = [*builder, "--doctree-dir", tmp_path_factory.mktemp("trees"), ROOT, folder]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return folder


def test_the_site_builds_and_every_internal_link_and_anchor_exists(site):
    names = {path.name for path in site.iterdir()}
    assert {"index.html", "search.html", "searchindex.js", "device.html"} <= names
    assert '<a href="../device.html">' in (site / "docs" / "start.html").read_text(encoding="utf-8")
    assert (site / "docs" / "tour.html").exists()


def test_no_page_is_wider_than_the_screen(site, watch):
    page = watch().page
    widths = {}
    for path in set(site.rglob("*.html")) - {site / "index.html"}:
        page.goto(path.as_uri())
        for size in (PHONE, DESK):
            page.set_viewport_size(size)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > size["width"]:
                widths[path.relative_to(site).as_posix(), size["width"]] = width
    assert widths == {}


def test_the_first_page_leads_to_the_index_and_search_finds_a_page(site, watch):
    page = watch(viewport=PHONE).page
    page.goto((site / "index.html").as_uri())
    page.wait_for_url("**/docs/index.html")
    page.goto(f"{(site / 'search.html').as_uri()}?q=watchdog")
    page.wait_for_selector("ul.search li a")
    assert "watchdog" in page.inner_text("ul.search").lower()


SEARCHES = [
    ("add a value", "query-file.html"),
    ("TLS", "gateway.html"),
    ("curl", "gateway-api.html"),
    ("GDPR", "gdpr.html"),
    ("delete", "deletion.html"),
]
"""What people look for, each with the page that answers it."""


@pytest.mark.parametrize(("words", "name"), SEARCHES)
def test_a_search_has_its_page_among_the_first_ten(site, watch, words, name):
    page = watch().page
    page.goto(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
    # The results come one after another, and the summary last.
    page.wait_for_function("/found/.test(document.querySelector('.search-summary')?.textContent)")
    links = page.locator("ul.search > li > a").evaluate_all("all => all.map((one) => one.pathname)")
    assert name in {Path(link).name for link in links[:10]}, links
