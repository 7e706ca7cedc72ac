"""A gateway cannot make the client ask without a pause, or fall silent for days."""

import json

import pytest

from tests.browser import js_client
from tests.browser.node_device import item_of

PROGRAM = """
import { readFileSync } from "node:fs";
import { Client } from "MODULE";

const { queries, header } = JSON.parse(readFileSync(0, "utf8"));
let requests = 0;
const fetch = async (url) => {
  if (url.endsWith("/queries")) return Response.json({ queries });
  requests++;
  return Response.json({ reason: "rate" }, { status: 429, headers: { "Retry-After": header } });
};
const delays = [];
const { setTimeout } = globalThis;
globalThis.setTimeout = (act, delay) => {
  delays.push(delay);
  return setTimeout(act, delay);
};
const settings = { gateway: "https://gateway.example", store: ":memory:", query: "screens", clock: () => 10 };
const client = new Client({ ...settings, fetch });
await client.answer(3);
const longest = Math.max(...delays);
// A timer that overflows ends at once, and again. None of these turns lets another end.
for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setTimeout(resolve, 0));
await client.close();
console.log(JSON.stringify({ requests, longest }));
"""


LONG = ("2592000", "1e400", "3601", "Infinity")


@pytest.mark.parametrize("header", [*LONG, "-5", "soon", "Fri, 31 Dec 2099 23:59:59 GMT"])
def test_a_pause_is_an_hour_at_most_and_never_nothing(tmp_path, header):
    program = tmp_path / "retry.mjs"
    program.write_text(PROGRAM.replace("MODULE", (js_client.built() / "dist" / "index.js").as_uri()))
    output = js_client.run("node", program, text=json.dumps({"queries": [item_of()], "header": header}))
    result = json.loads(output)
    assert 0 < result["longest"] <= 3_600_000
    if header in LONG:
        assert result == {"requests": 1, "longest": 3_600_000}
