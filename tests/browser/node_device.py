"""A device in Node: the built client answers at given times, by given listings."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from oracles.query import parse
from producers.gateway.intake.active_definitions import public_definition
from tests.browser import js_client

DAY = 86_400
PROGRAM = """
import { readFileSync } from "node:fs";
import { Client, FileKeyStore } from "MODULE";

const { listings, steps, ...input } = JSON.parse(readFileSync(0, "utf8"));
const warnings = [];
console.warn = (text) => warnings.push(text);
const bytes = (digits) => digits && Uint8Array.from(Buffer.from(digits, "hex"));
const results = [];
for (const { at, listing = 0, ...settings } of steps) {
  const result = {};
  const fetch = async (url, request) => {
    if (url.endsWith("/queries")) return Response.json({ queries: listings[listing] });
    result.frame = Buffer.from(request.body).toString("hex");
    if (input.keyStore) result.item = JSON.parse(readFileSync(input.keyStore, "utf8"));
    return Response.json({ accepted: 1 }, { status: 202 });
  };
  const { value, key, keyStore, writes = Infinity, ...options } = { ...input, ...settings };
  if (key) options.key = bytes(key);
  let left = writes;
  if (keyStore) {
    const file = new FileKeyStore(keyStore);
    const write = async (item) => (left-- > 0 ? file.write(item) : Promise.reject(new Error("locked")));
    options.keyStore = { read: async () => file.read(), write };
  }
  let client;
  try {
    client = new Client({ gateway: "https://gateway.example", clock: () => at, fetch, ...options });
    await client.answer(value);
  } catch (error) {
    Object.assign(result, { error: error.name, message: error.message, due: error.due });
  }
  result.status = await client?.status().catch(() => null);
  await client?.close().catch(() => {});
  results.push(result);
}
console.log(JSON.stringify({ results, warnings }));
"""


@dataclass
class Device:
    """A device with its store in a folder. Each step opens the store anew, so a listing is read again.

    A step may set any option of a client, the `listing` by number, and how many `writes` of the key item succeed.
    """

    folder: Path
    options: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)

    def live(self, steps, *listings, **options):
        """Return the result of each step: a frame or an error, and the status. A step is a time, or its settings."""
        client = js_client.built() / "dist" / "node.js"
        program = self.folder / "device.mjs"
        program.write_text(PROGRAM.replace("MODULE", client.as_uri()))
        steps = [step if isinstance(step, dict) else {"at": step} for step in steps]
        name = listings[0][0]["name"]
        settings = {"store": str(self.folder / "device"), "query": name, "value": 3, **self.options, **options}
        text = json.dumps({"listings": listings, "steps": steps, **settings})
        output = json.loads(js_client.run("node", program, folder=self.folder, text=text))
        self.warnings = output["warnings"]
        return output["results"]

    def outcomes(self, steps, *listings, **options):
        """Return the error of each step, or "ok"."""
        return [result.get("error", "ok") for result in self.live(steps, *listings, **options)]

    def state(self):
        return json.loads((self.folder / "device").read_text())


def query_of(name="screens", **settings):
    """Return a query, by default of 64 values with tables."""
    table = {"epsilon": 1.0, "pane": "10s", "period": "1d", **settings}
    if "attributes" not in table:
        table.setdefault("domain", 64)
    if table.get("domain") == 64:
        table = {"oracle": "olh", "noise": "table", **table}
    return parse({"edition": 2, "queries": {name: table}}, "tests", None)[name]


def item_of(name="screens", **settings):
    """Return a query as a gateway lists it."""
    return public_definition(query_of(name, **settings))
