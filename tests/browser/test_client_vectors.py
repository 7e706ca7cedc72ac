"""The client for browsers and Node makes every report of the golden vectors, and its package is small and complete."""

import base64
import gzip
import json
import tarfile

import pytest

from tests.browser import js_client
from tests.browser.js_client import ROOT, run

FILES = ("reports", "keyed", "tables", "frames", "definitions", "histories", "strings", "items")
VECTORS = {name: json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text()) for name in FILES}
NODE = """
import {{ readFileSync }} from "node:fs";
import {{ run }} from {module};
console.log(JSON.stringify(await run(JSON.parse(readFileSync({vectors}, "utf8")))));
"""
COMPRESSION = 'require("zlib").gzipSync(require("fs").readFileSync({}), {{ level: 9 }}).length'
LIMIT = 15_000
"""Bytes of the client's main entry for a page, minified and compressed."""


@pytest.fixture(scope="module")
def client():
    return js_client.built()


def cases():
    """Return a lower bound of the number of vectors, from the files alone."""
    reports = VECTORS["reports"]
    groups = reports["oracles"] + [group for group in reports["solutions"] if group["solution"] != "rsfd"]
    groups += VECTORS["keyed"]["answers"] + VECTORS["tables"]["answers"] + VECTORS["tables"]["laws"]
    lives = sum(len(group["steps"]) for group in VECTORS["histories"])
    texts = sum(len(group["texts"]) + len(group["reports"]) for group in VECTORS["strings"]["definitions"])
    return (
        sum(len(group["cases"]) for group in groups)
        + lives
        + texts
        + len(VECTORS["items"]["cases"])
        + len(VECTORS["definitions"]["refused"])
    )


def check_result(result, record_property, where):
    record_property("note", f"the client in {where} holds {result['held']:,} golden vectors")
    assert result["wrong"] == []
    assert result["held"] >= cases()


def in_node(vectors, folder):
    """Run the vectors in Node."""
    path, script = folder / "vectors.json", folder / "run.mjs"
    path.write_text(json.dumps(vectors))
    script.write_text(NODE.format(module=json.dumps(js_client.VECTORS.as_uri()), vectors=json.dumps(str(path))))
    return json.loads(run("node", script))


def test_node_makes_every_report(client, tmp_path, record_property):
    check_result(in_node(VECTORS, tmp_path), record_property, f"Node {run('node', '--version').strip()}")


@pytest.fixture
def page(client, browser):
    """A page that has imported the vectors' module."""
    page = browser.new_page()
    module = base64.b64encode(js_client.VECTORS.read_bytes()).decode()
    page.add_init_script(f"globalThis.ready = import('data:text/javascript;base64,{module}')")
    page.goto("about:blank")
    yield page
    page.close()


def test_chromium_makes_every_report(page, record_property):
    check_result(
        page.evaluate("vectors => ready.then(({ run }) => run(vectors))", VECTORS), record_property, "chromium"
    )


@pytest.mark.parametrize("name", ["a table", "hr at 2^k values", "a table of grr"])
def test_the_time_of_an_answer_is_printed(page, name, record_property):
    [case] = [group for group in VECTORS["definitions"]["good"] if group["name"] == name]
    about = [case["definition"], case["values"][0]["value"]]
    times = page.evaluate("about => ready.then(({ pace }) => pace(...about))", about)
    law = case["definition"]["oracle"]
    record_property(
        "note",
        f"chromium makes a report of {law} in {times['report']:.2f} ms, and an answer with a store in memory in "
        f"{times['answer']:.2f} ms",
    )
    assert 0 < times["report"] <= times["answer"]


def test_a_wrong_vector_is_found(client, tmp_path):
    """The harness compares: a other report, charge or position is not passed over."""
    other = json.loads(json.dumps(VECTORS))
    other["reports"]["oracles"][0]["cases"][0]["report"] = "ff"
    other["histories"][0]["steps"][0]["spent"] = 1.0
    other["definitions"]["good"][0]["values"][0]["positions"] = [3]
    other["strings"]["definitions"][0]["texts"][0]["cells"][0] ^= 1
    assert len(in_node(other, tmp_path)["wrong"]) == 4


def test_the_client_is_small(client, tmp_path, record_property):
    """Node's compressor and Python's make files of different sizes, and both are below the limit."""
    page, bundle = client / "dist" / "hubbub.min.js", tmp_path / "bundle.js"
    js_client.bundle(client / "dist" / "index.js", bundle, "--minify", "--target=es2022")
    sizes = [int(run("node", "--print", COMPRESSION.format(json.dumps(str(path))))) for path in (page, bundle)]
    sizes += [len(gzip.compress(path.read_bytes(), 9)) for path in (page, bundle)]
    record_property("note", f"the client has {max(sizes):,} bytes, minified and compressed")
    assert max(sizes) < LIMIT


def test_the_package_has_what_it_names(client):
    with tarfile.open(js_client.PACKAGE) as package:
        names = {name.removeprefix("package/") for name in package.getnames()}
        about = json.load(package.extractfile("package/package.json"))
    assert {"README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "dist/hubbub.min.js"} <= names
    assert "dist/hubbub.min.js.LEGAL.txt" in names  # the license of its dependency
    assert not [name for name in names if name.startswith(("src/", "test/", "node_modules/"))]
    assert set(about["dependencies"]) == {"@noble/hashes"}
    for entry in about["exports"].values():
        assert {path.removeprefix("./") for path in (entry.values() if isinstance(entry, dict) else [entry])} <= names


def test_the_package_works_in_a_clean_folder(client, tmp_path):
    """Installed from the tarball, it answers in Node, and a bundler for browsers takes it."""
    (tmp_path / "package.json").write_text('{"type": "module"}')
    run("npm", "install", "--no-audit", "--no-fund", js_client.PACKAGE, folder=tmp_path)
    life = VECTORS["histories"][0]
    script = tmp_path / "answer.js"
    script.write_text(CLEAN.format(definition=json.dumps(life["definition"]), key=json.dumps(life["key"])))
    result = json.loads(run("node", script, folder=tmp_path))
    assert result == {"frames": [life["steps"][0]["frame"]], "error": "NotYet", "store": ["device", "device.key"]}
    page, bundle = tmp_path / "page.js", tmp_path / "bundle.js"
    page.write_text('import { Client } from "hubbub-client"; globalThis.Client = Client;')
    js_client.bundle(page, bundle)
    assert '"node:' not in bundle.read_text(), "a page does not load the store of Node"


CLEAN = """
import {{ readdirSync }} from "node:fs";
import {{ Client, NotYet }} from "hubbub-client";

const definition = {definition};
const frames = [];
const fetch = async (url, request) => {{
  if (url.endsWith("/v1/queries")) return Response.json({{ queries: [definition] }});
  frames.push(Buffer.from(request.body).toString("hex"));
  return Response.json({{ accepted: 1 }}, {{ status: 202 }});
}};
const key = Uint8Array.from(Buffer.from({key}, "hex"));
const settings = {{ gateway: "https://gateway.example", query: definition.name, clock: () => 10, fetch }};
const own = new Client({{ ...settings, store: "device" }});
await own.answer(3);
const client = new Client({{ ...settings, store: ":memory:", key }});
frames.length = 0;
await client.answer(3);
let error = "";
try {{
  await client.answer(3);
}} catch (early) {{
  if (early instanceof NotYet) error = early.name;
}}
await own.close();
const store = readdirSync(".").filter((name) => name.startsWith("device")).sort();
console.log(JSON.stringify({{ frames, error, store }}));
"""
