"""The chromium of Debian, which Playwright controls without a download."""

import shutil
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
TABLET = {"width": 768, "height": 1024}


def executable():
    """Return the path of chromium, or None if it is not installed."""
    return shutil.which("chromium")


@contextmanager
def launch_browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
