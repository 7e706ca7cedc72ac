"""A browser, and pages that keep note of what they should not do."""

import re

import pytest

from tests.brokers import Tansu, missing
from tests.browser import chrome


@pytest.fixture(scope="module")
def browser():
    """Not for longer: its event loop runs in the main thread, where other suites want to run theirs."""
    if chrome.executable() is None:
        missing(RuntimeError("no browser: chromium is not installed (apt-get install chromium)"))
    with chrome.launched() as launched:
        yield launched


@pytest.fixture(scope="session")
def broker(tansu: Tansu):
    return tansu


class Watched:
    """A page, and what its console and its network have seen."""

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

    def elsewhere(self, url):
        """The requests that left for another host than the board's."""
        return [request for request in self.requests if not request.startswith((url, "data:"))]

    def text(self, selector):
        return re.sub(r"\s+", " ", self.page.locator(selector).inner_text()).strip()


@pytest.fixture
def watch(browser):
    """A new page: `watch(viewport=..., color_scheme=...)`."""
    contexts = []

    def watch(**settings):
        contexts.append(browser.new_context(**{"viewport": chrome.DESK, **settings}))
        return Watched(contexts[-1])

    yield watch
    for context in contexts:
        context.close()
