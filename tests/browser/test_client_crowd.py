"""Fifty pages of the client, a gateway, a broker, a worker and a board: the shares come out within their intervals."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.boards import Board, in_thread
from tests.browser import js_client
from tests.integration.gateways import TOKEN, Site
from tests.integration.workers import until
from tests.queries import make_text

TIMES = {"crowd": 1, "pane": "2s", "lateness": "20s", "period": "1d", "windows": ["all"], "publish": "all"}
SCREENS = {"domain": ["home", "search", "settings", "help"], "other": False, "oracle": "grr"}
QUERY = make_text("screens", TIMES | SCREENS, epsilon=3.0, answers="once")
PAGES, DEVICES = 50, 8
SHARES = {"home": 0.5, "search": 0.25, "settings": 0.25, "help": 0.0}
Z = 5.2
"""Standard errors that four shares together exceed with a probability below 1e-6."""
PAGE = """<!doctype html><link rel="icon" href="data:,"><script type="module">
import { Client } from "./hubbub.min.js";
globalThis.answers = (gateway, token, values) => Promise.all(values.map(async ([device, value]) => {
  const pinned = { epsilon: 3, domain: ["home", "search", "settings", "help"] };
  const client = new Client({ gateway, token, query: "screens", store: `device-${device}`, pinned });
  await client.answer(value);
  await client.flush();
  await client.close();
}));
</script>"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def pages_address(tmp_path):
    """The address of a server of the page."""
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "hubbub.min.js").write_bytes((js_client.built() / "dist" / "hubbub.min.js").read_bytes())
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def values_of(page):
    """Return the devices of a page with their values: all pages together have exactly the shares."""
    numbers = range(page * DEVICES, (page + 1) * DEVICES)
    names = [name for name, share in SHARES.items() for _ in range(int(4 * share))]
    return [[number, names[number % 4]] for number in numbers]


@pytest.mark.long
def test_fifty_pages_come_out_within_their_intervals(broker, browser, pages_address, tmp_path_factory, record_property):
    folder = tmp_path_factory.mktemp("site")
    place = in_thread(lambda: Site(broker, folder, QUERY))
    with place as site, site.gateway_with_tokens("--origins", pages_address) as gateway:
        site.start().ready()
        gateway.ready()
        context = browser.new_context()
        pages = [context.new_page() for _ in range(PAGES)]
        for page in pages:
            page.goto(pages_address)
            page.wait_for_function("globalThis.answers !== undefined")
        call = "([gateway, token, values]) => { globalThis.done = answers(gateway, token, values) }"
        for number, page in enumerate(pages):
            page.evaluate(call, [gateway.url[0].rstrip("/"), TOKEN, values_of(number)])
        for page in pages:
            page.evaluate("done")
        context.close()
        with Board(site.kafka) as board:
            path = "api/v1/queries/screens/estimate?kind=all&method=unbiased"

            def whole():
                answer = board.get(path)
                record = json.loads(answer.body) if answer.status == 200 else {}
                return record if record.get("n") == PAGES * DEVICES else None

            record = until(whole)
        record_property("note", f"{PAGES} pages of the client sent {record['n']} reports, and the board shows all")
        rows = {row["value"]: row for row in record["values"]}
        assert rows.keys() == SHARES.keys()
        for name, share in SHARES.items():
            assert abs(rows[name]["share"] - share) < Z * rows[name]["stderr"]
