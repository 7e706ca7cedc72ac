"""The client's store in a file of Node: several processes at once, processes that end, damaged files."""

import json
import random
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from producers.gateway.intake.active_definitions import public_definition
from tests.browser import js_client
from tests.queries import make_queries, make_table
from tests.slowness import patience

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
    outputs = [process.communicate(timeout=patience(120)) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(names), outputs
    return [json.loads(output) for output, _ in outputs]


def state(folder):
    return json.loads((folder / "device").read_text())


def test_processes_at_once_lose_no_charge(folder):
    parts = [NAMES[number::PROCESSES] for number in range(PROCESSES)]
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


LOCKS = ("", "1", "00000000-0000-4000-8000-000000000000")


def test_a_lock_that_nobody_changes_is_taken_over_whatever_it_holds(folder):
    """A process of a container may have the number of every other one, and a process may end before it writes."""
    rest = shutil.ignore_patterns("own-*")
    folders = [shutil.copytree(folder, folder / f"own-{number}", ignore=rest) for number in range(len(LOCKS))]
    for own_folder, content in zip(folders, LOCKS, strict=True):
        (own_folder / "device.lock").write_text(content)
        (own_folder / "device.lock.ended").write_text("")

    # Each waits for ten seconds.
    with ThreadPoolExecutor() as threads:
        texts = threads.map(lambda own_folder: answers(own_folder, [NAMES[0]], [NAMES[1]]), folders)
        assert [*texts] == [[["ok"], ["ok"]]] * len(LOCKS)
    for own_folder in folders:
        assert sorted(row["name"] for row in state(own_folder)["charges"]) == sorted(NAMES[:2])
        assert not (own_folder / "device.lock").exists()


@pytest.mark.long
def test_a_lock_that_another_process_renews_is_an_error(folder):
    lock = folder / "device.lock"
    command = [js_client.program("node"), "answer.mjs", NAMES[0]]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    number = 0
    while process.poll() is None:
        number += 1
        lock.write_text(str(number))
        time.sleep(0.5)
    assert json.loads(process.stdout.read()) == ["StoreError"]
    assert not (folder / "device").exists()


LIFE = """
import { Client } from "MODULE";
import { appendFileSync, readFileSync } from "node:fs";

const query = process.argv[2];
const queries = JSON.parse(readFileSync("many.json", "utf8"));
const accepted = () => Response.json({}, { status: 202 });
const fetch = async (url) => (url.endsWith("/queries") ? Response.json({ queries }) : accepted());
let now = 0;
const settings = { gateway: "https://gateway.example", store: "device", maxEpsilon: 1e6, clock: () => now, fetch };
const client = new Client({ ...settings, query });
now = (await client.status()).due;
for (;;) {
  const { due, spent } = await client.status();
  // The last draw of a killed process may wait for its answer, which the next step gives.
  if (spent >= ANSWERS) break;
  now = due;
  const begun = performance.now();
  await client.answer(1);
  appendFileSync(`${query}.waits`, `${performance.now() - begun}\\n`);
}
now += 1e9;
await client.close();
"""


def waits(folder, name):
    """Return the seconds that each answer of a query took."""
    path = folder / f"{name}.waits"
    return [float(line) / 1000 for line in path.read_text().split()] if path.exists() else []


@pytest.mark.parametrize(
    ("devices", "answers", "kills"), [(3, 20, 2), pytest.param(8, 1_000, 12, marks=pytest.mark.long)]
)
def test_processes_that_are_killed_lose_no_charge_and_keep_nobody_waiting(
    folder, devices, answers, kills, record_property
):
    settings = {**SETTINGS, "answers": "fresh", "epsilon": 1.0, "budget": 1e6}
    names = [f"query-{number}" for number in range(devices)]
    definitions = [public_definition(query) for query in make_queries(dict.fromkeys(names, settings)).values()]
    (folder / "many.json").write_text(json.dumps(definitions))
    module = (js_client.built() / "dist" / "index.js").as_uri()
    (folder / "life.mjs").write_text(LIFE.replace("MODULE", module).replace("ANSWERS", str(answers)))

    def start(name):
        return subprocess.Popen([js_client.program("node"), "life.mjs", name], cwd=folder, stderr=subprocess.PIPE)

    generator = random.Random(48)
    processes = {name: start(name) for name in names}
    for kill in range(kills):
        # The answers of all devices tell how far they are: a kill comes after each share of them.
        while sum(len(waits(folder, name)) for name in names) < (kill + 1) * answers * devices // (kills + 2):
            time.sleep(0.05 * generator.random())
        victim = generator.choice(names)
        processes[victim].kill()
        processes[victim].communicate()
        processes[victim] = start(victim)
    for process in processes.values():
        _, errors = process.communicate()
        assert process.returncode == 0, errors

    charges = state(folder)["charges"]
    for name in names:
        rows = [row for row in charges if row["name"] == name]
        assert sum(Fraction(row["epsilon"]) * row["times"] for row in rows) == answers
    longest = max(max(waits(folder, name)) for name in names)
    record_property("note", f"the longest answer of {devices} processes with {kills} kills took {longest:.1f} s")
    # A lock is taken over after 10 s. The rest is waiting for others, which a slow machine makes longer.
    assert longest < 10 + patience(5)
