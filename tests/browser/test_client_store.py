"""The client's store in a file of Node: several processes at once, a process that ended, damaged files."""

import json
import subprocess

import pytest

from producers.gateway.intake.active_definitions import public_definition
from tests.browser import js_client
from tests.queries import make_queries, make_table

PROCESSES, QUERIES = 4, 6
SETTINGS = make_table(domain=3, oracle="grr", epsilon=0.1, answers="once", pane="1s", period="1d", other=False)
NAMES = [f"query-{number}" for number in range(PROCESSES * QUERIES)]
DEFINITIONS = [public_definition(query) for query in make_queries(dict.fromkeys(NAMES, SETTINGS)).values()]
PROGRAM = """
import { Client } from "MODULE";
import { readFileSync } from "node:fs";

const queries = JSON.parse(readFileSync("definitions.json", "utf8"));
const accepted = () => Response.json({}, { status: 202 });
const fetch = async (url) => (url.endsWith("/queries") ? Response.json({ queries }) : accepted());
const settings = { gateway: "https://gateway.example", store: "device", maxEpsilon: 100, clock: () => 10, fetch };
const outcome = async (query) => {
  const client = new Client({ ...settings, query });
  const result = await client.answer(1).then(() => "ok", (error) => error.name);
  await client.close().catch(() => {});
  return result;
};
console.log(JSON.stringify(await Promise.all(process.argv.slice(2).map(outcome))));
"""


@pytest.fixture
def folder(tmp_path):
    module = (js_client.built() / "dist" / "index.js").as_uri()
    (tmp_path / "definitions.json").write_text(json.dumps(DEFINITIONS))
    (tmp_path / "answer.mjs").write_text(PROGRAM.replace("MODULE", module))
    return tmp_path


def answers(folder, *names):
    """Start a process of Node for each list of names, all at once. Return the outcomes of each."""
    command = [js_client.program("node"), "answer.mjs"]
    processes = [
        subprocess.Popen([*command, *name], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in names
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(names), outputs
    return [json.loads(output) for output, _ in outputs]


def state(folder):
    return json.loads((folder / "device").read_text())


def leave_lock(folder):
    """Leave the lock of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    (folder / "device.lock").write_text(str(process.pid))


def test_processes_at_once_lose_no_charge(folder):
    parts = [NAMES[number::PROCESSES] for number in range(PROCESSES)]
    leave_lock(folder)
    assert answers(folder, *parts) == [["ok"] * QUERIES] * PROCESSES
    charges = state(folder)["charges"]
    assert sorted(row["name"] for row in charges) == sorted(NAMES)
    assert [row["times"] for row in charges] == [1] * len(NAMES)
    assert state(folder)["queue"] == []
    assert sorted(path.name for path in folder.glob("device*")) == ["device", "device.key"]


def test_processes_at_once_answer_a_query_once(folder):
    results = [result for (result,) in answers(folder, *[[NAMES[0]]] * PROCESSES)]
    assert sorted(results) == ["NotYet"] * (PROCESSES - 1) + ["ok"]
    (charge,) = state(folder)["charges"]
    assert charge["times"] == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("device", None), ("device", "{"), ("device", "{}"), ("device.key", None), ("device.key", "short")],
)
def test_a_damaged_store_sends_nothing(folder, name, content):
    assert answers(folder, [NAMES[0]]) == [["ok"]]
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    assert answers(folder, [NAMES[1]]) == [["StoreError"]]
