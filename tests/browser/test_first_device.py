"""docs/device.md, from an empty folder to shares on the board: every step as it is written."""

import json
import re
import shutil

import pytest
from playwright.sync_api import expect

from aggregator.demo.broker import free_port
from tests.blocks import ROOT, Session, blocks
from tests.browser import js_client

PAGE = ROOT / "docs" / "device.md"
SHARES = {"search": 0.6, "home": 0.3, "settings": 0.1}
Z = 5.2
"""Standard errors that three shares together exceed with a probability below 1e-6."""


@pytest.fixture
def session(tmp_path):
    """An empty folder beside a copy of the client's source. Addresses are free ports."""
    js_client.built()
    source = tmp_path / "hubbub" / "clients" / "js"
    for path in js_client.files():
        copy = source / path.relative_to(js_client.SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    folder = tmp_path / "first-device"
    folder.mkdir()
    ports = {port: str(free_port()) for port in ("8000", "8801", "8802", "8803", "9092")}
    environment = {"HUBBUB_KAFKA": f"127.0.0.1:{ports['9092']}", "HUBBUB_PREFIX": "hubbub."}
    session = Session(folder, ports, environment)
    yield session
    session.close()


def choose(watch, session):
    """Open the example page and choose an answer, again, and again after a reload."""
    view = watch()
    gateway = session.replaced("http://127.0.0.1:8802")
    view.page.goto(f"{session.replaced('http://127.0.0.1:8000/example.html')}?gateway={gateway}")
    state = view.page.get_by_role("status")
    expect(state).to_contain_text("Your browser changes the answer at random")
    view.page.get_by_role("button", name="search").click()
    expect(state).to_contain_text("Thank you")
    expect(view.page.locator("#life")).to_have_text(
        re.compile(r"have cost epsilon 1\.\d\d\. 1\.\d\d of at most 8\.00 count")
    )
    view.page.get_by_role("button", name="home").click()
    expect(state).to_contain_text("You have answered. The next answer is possible at")
    view.page.reload()
    view.page.get_by_role("button", name="home").click()
    expect(state).to_contain_text("You have answered")
    assert view.errors == []


def test_every_step_leads_to_shares_on_the_board(session, watch):
    for block in blocks(PAGE):
        if block.reason is None:
            session.run(block)
            if "http.server" in block.text:
                choose(watch, session)
    answer = json.loads((session.folder / "shares.json").read_text())
    shares = {row["value"]: row for row in answer["values"]}
    assert answer["n"] == 1_002
    assert shares.keys() == SHARES.keys()
    for name, share in SHARES.items():
        # Two of the reports are those of the device and of the page.
        assert abs(shares[name]["share"] - share) < Z * shares[name]["stderr"] + 2 / 1_002
    page = watch().page
    page.goto(f"{session.replaced('http://127.0.0.1:8803/')}#q=screens")
    expect(page.locator("#rows tr")).to_have_count(3)
    expect(page.locator("#window")).to_contain_text("1,002 reports")


def test_the_page_of_a_device_has_only_known_languages():
    assert {block.language for block in blocks(PAGE)} == {"console", "js", "python", "toml"}
