"""The page on which the viewer is a device: alone with a simulated crowd, and in a running demo."""

import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from aggregator.demo.device.static_page import PAGE, static_page
from oracles import oracle
from oracles.frame import decode
from tests.browser.chrome import DESK, PHONE
from tests.browser.js_client import ROOT, program
from tests.browser.js_client import built as client_is_built
from tests.integration.demos import running
from tests.slowness import patience

NARROW = {"width": 360, "height": 740}
QUIET = "import sys; from aggregator.demo import command; command.DEVICE_RATE = 1; sys.exit(command.main(sys.argv[1:]))"
"""A demo whose crowd sends one report a second."""
SCRIPT = """
import {{ readFileSync }} from "node:fs";
const load = (name) => import({folder} + name);
const [{{ RandomisedResponse }}, {{ encodeFrame, decodeFrame, hex }}, {{ estimate }}, observer] = await Promise.all(
  ["grr.js", "frame.js", "simulation.js", "observer.js"].map(load));
const input = JSON.parse(readFileSync(0, "utf8"));
const tape = (digits) => {{
  const bytes = digits.match(/../g).map((pair) => parseInt(pair, 16));
  return {{ take: (count) => bytes.splice(0, count), left: () => bytes.length }};
}};
const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const output = {{
  reports: input.reports.map(({{ size, T, value, entropy }}) => {{
    const oracle = new RandomisedResponse(size, T);
    const bytes = tape(entropy);
    const {{ report }} = oracle.answer(value, bytes.take);
    return [hex(oracle.encode(report)), bytes.left()];
  }}),
  frames: input.frames.map(({{ digest, pane, width, reports }}) =>
    hex(encodeFrame({{ digest, pane, width, reports: unhex(reports) }}))),
  fields: input.fields.map((digits) =>
    decodeFrame(unhex(digits), hex).map(({{ bytes, meaning }}) => [hex(bytes), meaning])),
  estimates: input.estimates.map(({{ counts, n, p, q }}) => estimate(counts, n, p, q)),
  posteriors: input.posteriors.map(({{ prior, p, q }}) =>
    prior.map((_, value) => observer.posterior(prior, value, p, q))),
}};
console.log(JSON.stringify(output));
"""


def in_node(**about):
    """Run the page's own modules in Node."""
    client_is_built()  # so that a machine without Node skips
    empty = {"reports": [], "frames": [], "fields": [], "estimates": [], "posteriors": []}
    script = SCRIPT.format(folder=json.dumps(f"{PAGE.as_uri()}/"))
    command = [program("node"), "--input-type=module", "--no-warnings", "--eval", script]
    text = json.dumps({**empty, **about})
    process = subprocess.run(command, input=text, capture_output=True, text=True, timeout=patience(60), check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def vectors(name):
    return json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text())


def test_the_page_perturbs_as_the_golden_vectors_ask():
    groups = [group for group in vectors("reports")["oracles"] if group["oracle"] == "grr"]
    cases = [{"size": group["size"], "T": group["T"], **case} for group in groups for case in group["cases"]]
    results = in_node(reports=cases)["reports"]
    assert results == [[case["report"], 0] for case in cases]
    assert len(results) >= 60


def test_the_page_encodes_frames_as_the_golden_vectors_ask():
    frames = [each for each in vectors("frames")["good"] if each.get("hex") and not each["tick"] and not each["id"]]
    plain = [frame for frame in frames if frame["hex"][72:80] == "00000000"]
    assert in_node(frames=plain)["frames"] == [frame["hex"] for frame in plain]
    assert len(plain) >= 3


def test_the_fields_of_a_frame_are_all_its_bytes():
    (example,) = [vector for vector in vectors("frames")["good"] if vector["name"] == "no id"]
    (fields,) = in_node(fields=[example["hex"]])["fields"]
    assert "".join(digits for digits, _ in fields) == example["hex"]
    meanings = [meaning for _, meaning in fields]
    assert meanings[0] == "HBB1, version 1, 4 bytes a report"
    assert meanings[1] == f"digest {example['digest']}"
    assert example["pane"] in meanings[2]
    assert meanings[3:] == ["none: all zero", "2", "1a000000, 0c000000"]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_simulated_board_estimates_as_hubbub_does(epsilon):
    law = oracle("grr", epsilon=epsilon, size=4)
    tally = law.tally()
    tally.add(law.perturb(np.repeat(np.arange(4), [9000, 5000, 900, 100]), np.random.default_rng(1)))
    result = tally.estimate()
    low, high = result.interval()
    about = {"counts": tally.estimate().counts.tolist(), "n": result.n, "p": law.p, "q": law.q}
    (rows,) = in_node(estimates=[about])["estimates"]
    for name, expected in (("share", result.shares), ("low", low), ("high", high)):
        assert [row[name] for row in rows] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_no_observer_gains_more_than_epsilon(epsilon):
    law = oracle("grr", epsilon=epsilon, size=4)
    priors = np.random.default_rng(2).dirichlet(np.ones(4), 50).tolist()
    results = in_node(posteriors=[{"prior": prior, "p": law.p, "q": law.q} for prior in priors])["posteriors"]
    for prior, posteriors in zip(priors, results, strict=True):
        for report, posterior in enumerate(posteriors):
            assert sum(posterior) == pytest.approx(1.0)
            factors = [posterior[value] / prior[value] for value in range(4)]
            assert max(factors) / min(factors) == pytest.approx(math.exp(epsilon), rel=1e-9)
            odds = [chance / (1 - chance) for chance in (posterior[report], prior[report])]
            assert odds[0] / odds[1] <= math.exp(epsilon) * (1 + 1e-9)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("device") / "device.html"
    path.write_text(static_page())
    return path.as_uri()


def open_file(watch, file, **settings):
    view = watch(**settings)
    view.page.goto(file)
    expect(view.page.locator("#board tr")).to_have_count(5)
    return view


def reports(page):
    return int(page.locator("#n").inner_text().replace(",", ""))


def test_an_answer_leaves_the_true_value_inside_and_moves_the_board(watch, file):
    view = open_file(watch, file)
    page = view.page
    earlier_reports = reports(page)
    expect(page.locator("#own")).to_have_text("0")
    page.get_by_role("button", name="coffee").click()
    expect(page.locator("#own")).to_have_text("1")
    assert reports(page) > earlier_reports
    expect(page.locator("#tosses .secret")).to_have_text("coffee")
    report = page.locator("#tosses .report").inner_text()
    # Outside of the browser everything names the report alone.
    expect(page.locator("#observer .report")).to_have_text(report)
    expect(page.locator(".fields .own td").first).to_have_text(report)
    digits = page.locator(".dump i").all_inner_texts()
    frame = decode(bytes.fromhex("".join(digits)))
    assert [frame.reports.tolist(), len(digits)] == [[[["tea", "coffee", "juice", "water"].index(report)]], 41]
    assert view.errors == []
    assert view.requests == [file]


def test_many_people_move_the_shares_and_nobody_gets_more_certain_about_one(watch, file):
    view = open_file(watch, file)
    page = view.page
    share = "#board [data-value='3'] .number"
    share_before = float(page.locator(share).inner_text().rstrip("%"))
    page.get_by_text("1,000 people", exact=True).click()
    for _ in range(4):
        page.get_by_role("button", name="water").click()
    expect(page.locator("#own")).to_have_text("4,000")
    share_after = float(page.locator(share).inner_text().rstrip("%"))
    assert share_after - share_before > 40.0  # 4,000 of less than 6,000 people, with a standard error of 2% at most
    expect(page.locator("#frame")).to_contain_text("1,040 bytes")
    expect(page.locator("#observer")).to_contain_text("One of 1,000 reports says")


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2", "4"])
def test_the_page_says_how_much_an_observer_learns(watch, file, epsilon):
    page = open_file(watch, file).page
    page.locator("#epsilons").get_by_text(epsilon, exact=True).click()
    page.get_by_role("button", name="tea").click()
    for chance in ("25", "90"):
        page.locator("#before").fill(chance)
        about = page.locator("#observer .limit").evaluate("line => ({ ...line.dataset })")
        assert float(about["limit"]) == pytest.approx(math.exp(float(epsilon)))
        for name in ("odds", "factor"):
            assert float(about[name]) == pytest.approx(float(about["limit"]), rel=1e-9)
        expect(page.locator("#prior-text")).to_contain_text(f"{chance}%")
        odds = float(epsilon) + math.log(int(chance) / (100 - int(chance)))
        expect(page.locator("#observer tr.own")).to_contain_text(f"{100 / (1 + math.exp(-odds)):.1f}%")


def test_the_keyboard_suffices(watch, file):
    page = open_file(watch, file).page
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="tea")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="coffee")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("status")).to_have_text(
        re.compile(r"Your device reports \w+\. 41 bytes have left your browser\.")
    )
    slider = page.locator("#before")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("26")
    expect(slider).to_have_attribute("aria-valuetext", "26%")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [NARROW, PHONE, DESK], ids=["narrow", "phone", "desk"])
def test_the_page_fits_and_is_accessible(watch, file, size, scheme):
    view = open_file(watch, file, viewport=size, color_scheme=scheme, reduced_motion="reduce")
    for people in ("one person", "1,000 people"):
        view.page.get_by_text(people, exact=True).click()
        view.page.get_by_role("button", name="juice").click()
        assert view.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        result = Axe().run(view.page)
        assert result.violations_count == 0, result.generate_report()


def test_a_choice_moves_the_board_of_a_running_demo(watch, tmp_path):
    with running(tmp_path, "--device", command=(sys.executable, "-c", QUIET)) as run:
        address = run.until(r"^device: (http://\S+)")[1]
        view = watch()
        page = view.page
        page.goto(address)
        expect(page.locator("#board tr")).to_have_count(5)
        page.get_by_role("button", name="tea").click()
        expect(page.locator("#own")).to_have_text("1")
        expect(page.locator("#frame")).to_contain_text("The gateway has accepted it")
        earlier_reports = reports(page)
        page.get_by_text("1,000 people", exact=True).click()
        page.get_by_role("button", name="tea").click()
        expect(page.locator("#own")).to_have_text("1,001")
        assert reports(page) >= earlier_reports + 1_000
        # Before its first window the board answers 404.
        assert [error for error in view.errors if "404" not in error] == []
        assert view.foreign_requests(address) == []
        board = page.get_by_role("link", name="the whole board").get_attribute("href")
        page.goto(f"{board}#q=drinks")
        expect(page.locator("#rows tr").first).to_contain_text("tea")
        run.process.terminate()
        assert run.ended() == 0
