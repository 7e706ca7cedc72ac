"""`hubbub probe` does not accuse the client for browsers and Node."""

import json
import shlex

import pytest

from hubbub.__main__ import main
from oracles.query import load
from producers.gateway.intake.active_definitions import public_definition
from tests.browser import js_client
from tests.queries import make_text

QUERIES = (
    make_text("screens", domain=64, oracle="olh", period="1d", noise="table")
    + make_text("each", domain=9, oracle="olh", period="1d", noise="each")
    + make_text("weak", domain=5, oracle="grr", epsilon=3.0, answers="once", period="1d")
    + make_text("strong", domain=2, oracle="grr", epsilon=0.5, answers="once", period="1d")
    + make_text("speed", domain={"low": 0, "high": 100, "bins": 16}, epsilon=2.0, period="1d", noise="table")
)
PROGRAM = """
import {{ readFileSync }} from "node:fs";
import {{ reports }} from {module};
const lines = readFileSync(0, "utf8").trimEnd().split("\\n");
console.log((await reports({definition}, lines, "probe")).join("\\n"));
"""


@pytest.fixture
def queries(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text(QUERIES)
    return path


def ask(queries, name, command, *options):
    return main(["probe", "--query", str(queries), "--name", name, "--exec", shlex.join(map(str, command)), *options])


def long(*about):
    return pytest.param(*about, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("name", "periods", "reports"),
    [
        ("screens", 1, 4_000),
        ("each", 2, 12_000),
        ("speed", 3, 6_000),
        ("weak", 1, 3_000),
        ("strong", 1, 4_000),
        long("screens", 1, 200_000),
        long("each", 3, 200_000),
        long("speed", 3, 200_000),
    ],
)
def test_the_client_for_browsers_keeps_its_promise(name, periods, reports, queries, tmp_path, capsys):
    js_client.built()
    program = tmp_path / "program.mjs"
    definition = json.dumps(public_definition(load(queries)[name]))
    program.write_text(PROGRAM.format(module=json.dumps(js_client.DEVICE.as_uri()), definition=definition))
    command = [js_client.program("node"), program]
    assert ask(queries, name, command, "--reports", str(reports), "--periods", str(periods)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert float(lines[0].split()[4].rstrip(",")) > 0.1
    assert lines[-1] == "no violation found"
