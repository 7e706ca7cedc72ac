"""A browser, and pages that record errors and requests."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.brokers import Tansu, skip
from tests.browser import chrome
from tests.slowness import patience

SECONDS = 60.0
"""Seconds after which an expected state of a page counts as absent, on an idle machine."""


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Run all tests of a module in one process, because the module has one browser and often one board."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def browser():
    """Start a browser per module. Its event loop blocks the main thread, which other suites need."""
    if chrome.executable() is None:
        skip(RuntimeError("no browser: chromium is not installed (apt-get install chromium)"))
    expect.set_options(timeout=1000 * patience(SECONDS))
    with chrome.launch_browser() as process:
        yield process


@pytest.fixture(scope="session")
def broker(tansu: Tansu):
    return tansu


class PageRecorder:
    """A page with its console errors and its requests."""

    def __init__(self, context):
        self.page = context.new_page()
        self.errors, self.requests = [], []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def foreign_requests(self, url):
        """Return the requests to other hosts than the board."""
        return [request for request in self.requests if not request.startswith((url, "data:"))]

    def text(self, selector):
        return re.sub(r"\s+", " ", self.page.locator(selector).inner_text()).strip()


@pytest.fixture
def watch(browser):
    """Return a function that opens a new page: `watch(viewport=..., color_scheme=...)`."""
    contexts = []

    def watch(**settings):
        contexts.append(browser.new_context(**{"viewport": chrome.DESK, **settings}))
        contexts[-1].set_default_timeout(1000 * patience(SECONDS))
        return PageRecorder(contexts[-1])

    yield watch
    for context in contexts:
        context.close()
