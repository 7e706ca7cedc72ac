"""A device in a browser: offline, reloads, clocks that go back, two tabs at once, cleared storage, closed pages."""

import json
from itertools import chain

import pytest

from oracles.frame import decode
from tests.browser import js_client

ORIGIN, GATEWAY = "https://app.example", "https://gateway.example"
DAY = 86_400
DEFINITION = next(
    life["definition"]
    for life in json.loads((js_client.ROOT / "tests" / "vectors" / "histories.json").read_text())
    if life["name"] == "life, a table"
)
CORS = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
PAGE = """<!doctype html><title>device</title><script type="module">
import { Client } from "./hubbub.min.js";
globalThis.now = Number(localStorage.now);
globalThis.device = (settings) => new Client({
  gateway: "https://gateway.example", query: "screens", clock: () => globalThis.now, ...settings,
});
const persist = navigator.storage.persist.bind(navigator.storage);
navigator.storage.persist = () => { globalThis.asked = true; return persist(); };
globalThis.client = device();
globalThis.answer = (value) => client.answer(value).then(() => "ok", (error) => error.name);
</script>"""


class FakeGateway:
    """A gateway that a test switches off, with the keys and frames of all requests."""

    def __init__(self):
        self.requests = []
        self.online = True
        self.status = 202

    def handle(self, route):
        request = route.request
        if request.method == "OPTIONS":
            route.fulfill(status=204, headers=CORS)
        elif not self.online:
            route.abort()
        elif request.url.endswith("/v1/queries"):
            route.fulfill(json={"queries": [DEFINITION]}, headers=CORS)
        else:
            self.requests.append((request.headers["idempotency-key"], request.post_data_buffer))
            route.fulfill(status=self.status, json={"accepted": 1, "reason": "late"}, headers=CORS)

    @property
    def frames(self):
        return {key: decode(body) for key, body in self.requests}


@pytest.fixture
def gateway():
    return FakeGateway()


@pytest.fixture
def context(browser, gateway):
    script = (js_client.built() / "dist" / "hubbub.min.js").read_text()
    context = browser.new_context()
    context.route(f"{ORIGIN}/**", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    context.route(f"{ORIGIN}/hubbub.min.js", lambda route: route.fulfill(body=script, content_type="text/javascript"))
    context.route(f"{GATEWAY}/**", gateway.handle)
    yield context
    context.close()


def tab(context, now=10):
    page = context.new_page()
    page.add_init_script(f"localStorage.now ??= {now}")
    page.goto(ORIGIN)
    page.wait_for_function("globalThis.answer !== undefined")
    return page


def answer(page, value):
    return page.evaluate("value => answer(value)", value)


def spent(page):
    return page.evaluate("client.status().then((status) => status.spent)")


def test_a_device_answers_once_in_a_period_through_reloads(context, gateway):
    page = tab(context)
    assert [answer(page, 3), answer(page, 4)] == ["ok", "NotYet"]
    charge = spent(page)
    page.reload()
    page.wait_for_function("globalThis.answer !== undefined")
    assert answer(page, 3) == "NotYet"
    page.evaluate("now += 86400")
    assert [answer(page, 3), spent(page)] == ["ok", charge]
    first_frames, second_frames = gateway.frames.values()
    assert first_frames.reports.tobytes() == second_frames.reports.tobytes(), "the same answer has the same report"
    assert [first_frames.pane, second_frames.pane] == [10, DAY + 10]


def test_a_clock_that_goes_back_brings_no_second_answer(context, gateway):
    page = tab(context, 5 * DAY)
    answers = [answer(page, 3)]
    for seconds in (4 * DAY, 5 * DAY + 9, 6 * DAY):
        page.evaluate("time => { now = time }", seconds)
        answers.append(answer(page, 3))
    assert answers == ["ok", "NotYet", "NotYet", "ok"]
    assert len(gateway.frames) == 2


def test_two_tabs_at_once_answer_once(context, gateway):
    tabs = [tab(context) for _ in range(2)]
    for page in tabs:
        page.evaluate("globalThis.results = Promise.all(Array.from({ length: 5 }, (_, i) => answer(i)))")
    results = [*chain.from_iterable(page.evaluate("results") for page in tabs)]
    assert sorted(results) == ["NotYet"] * 9 + ["ok"]
    assert len(gateway.frames) == 1
    assert spent(tabs[0]) == pytest.approx(DEFINITION["record_charge"])


def test_without_web_locks_two_tabs_answer_once_too(context, gateway):
    context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    tabs = [tab(context) for _ in range(2)]
    for page in tabs:
        page.evaluate("globalThis.results = Promise.all(Array.from({ length: 5 }, (_, i) => answer(i)))")
    assert sorted(result for page in tabs for result in page.evaluate("results")) == ["NotYet"] * 9 + ["ok"]
    assert len(gateway.frames) == 1


def test_an_answer_without_a_connection_is_sent_later_under_one_key(context, gateway):
    page = tab(context)
    page.evaluate("client.status()")
    gateway.online = False
    assert answer(page, 3) == "ok"
    assert gateway.requests == []
    page.reload()
    gateway.online = True
    page.wait_for_function("globalThis.answer !== undefined")
    page.evaluate("client.flush()")
    assert len(gateway.frames) == 1


def test_a_retry_has_the_same_key_and_body(context, gateway):
    page = tab(context)
    gateway.status = 503
    assert answer(page, 3) == "ok"
    gateway.status = 202
    page.evaluate("client.flush()")
    assert len(gateway.requests) >= 2
    assert len({key for key, _ in gateway.requests}) == len({body for _, body in gateway.requests}) == 1
    assert 16 <= len(gateway.requests[0][0]) <= 256


def test_a_refusal_for_good_is_an_error_and_leaves_the_queue(context, gateway):
    page = tab(context)
    gateway.status = 409
    assert answer(page, 3) == "DeliveryError"
    gateway.status = 202
    page.evaluate("client.flush()")
    assert len(gateway.requests) == 1


def test_a_page_that_closes_does_not_lose_its_answer(context, gateway):
    page = tab(context)
    page.evaluate("client.status()")
    page.evaluate("void answer(3)")
    page.close()
    later_tab = tab(context)
    later_tab.evaluate("client.flush()")
    expected = "NotYet" if gateway.frames else "ok"  # the page may close before its answer is in the queue
    assert answer(later_tab, 3) == expected
    assert len(gateway.frames) == 1


def test_cleared_storage_makes_a_new_device(context, gateway):
    page = tab(context)
    answer(page, 3)
    session = context.new_cdp_session(page)
    session.send("Storage.clearDataForOrigin", {"origin": ORIGIN, "storageTypes": "indexeddb"})
    page.reload()
    page.wait_for_function("globalThis.answer !== undefined")
    assert spent(page) == 0
    assert answer(page, 3) == "ok"
    one, second_frames = gateway.frames.values()
    assert one.reports.tobytes() != second_frames.reports.tobytes(), "rows of 14 bits and a table agree by chance only"


def test_the_browser_is_asked_to_keep_the_store(context):
    assert tab(context).evaluate("client.status().then(() => asked)")


@pytest.mark.parametrize("pin", [{"epsilon": 0.5}, {"domain": 63}, {"domain": ["home"]}])
def test_a_definition_that_is_not_pinned_sends_nothing(context, gateway, pin):
    page = tab(context)
    failure = "(pinned) => device({ pinned, store: 'other' }).answer(3).then(() => 'ok', (error) => error.name)"
    assert page.evaluate(failure, pin) == "NotAllowed"
    assert gateway.requests == []
