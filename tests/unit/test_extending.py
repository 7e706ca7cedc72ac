"""An oracle, a method, a metric and a route, added to a copy of the tree by the steps of CONTRIBUTING alone."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.queries import make_text

ROOT = Path(__file__).parents[2]
PARTS = ("oracles", "hubbub", "aggregator", "producers", "tests", "docs", "pyproject.toml")
QUERIES = make_text("toys", domain=20, oracle="toy", budget=100.0, methods=["halved", "norm_sub"], fallback="halved")


def section(title):
    """The code blocks under a heading of CONTRIBUTING, in order."""
    (text,) = re.findall(
        rf"^## {title}\n(.*?)(?=^## |\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return [dedent(block) for block in re.findall(r"^ *```\w+\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)]


def insert(path, mark, line):
    text = path.read_text()
    assert text.count(mark) == 1, (path, mark)
    path.write_text(text.replace(mark, line + mark))


def append(path, text):
    with path.open("a") as file:
        file.write(f"\n\n{text}")


def add_oracle(tree):
    mechanisms = tree / "oracles" / "mechanisms"
    (module,) = section("Adding an oracle")
    (mechanisms / "toy.py").write_text(module)
    insert(mechanisms / "__init__.py", "from oracles.types", "from oracles.mechanisms.toy import Toy\n")
    insert(mechanisms / "__init__.py", '    "ss": Ss,\n', '    "toy": Toy,\n')


def add_method(tree):
    (row,) = section("Adding a method")
    insert(tree / "oracles" / "consistency" / "table.py", '    Method("zero"', f"    {row.strip()},\n")


def add_metric(tree):
    line, row = section("Adding a metric")
    insert(tree / "aggregator" / "process" / "metrics.py", "    lag_records = ", indent(line, " " * 4))
    insert(tree / "docs" / "metrics.md", "| `hubbub_lost_records_total`", row)


def add_route(tree):
    answer, row, page = section("Adding an endpoint")
    append(tree / "aggregator" / "board" / "answers" / "query_list.py", answer)
    insert(
        tree / "aggregator" / "board" / "server" / "route.py",
        '    Route(\n        PREFIX + "/alerts"',
        f"    {row.strip()},\n",
    )
    append(tree / "docs" / "board-api.md", page)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        copy = shutil.copy if (ROOT / part).is_file() else shutil.copytree
        copy(ROOT / part, folder / part)
    for add in (add_oracle, add_method, add_metric, add_route):
        add(folder)
    (folder / "hubbub.toml").write_text(QUERIES)
    return folder


def run(tree, *command):
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def run_tests(tree, files, *options):
    """Run unit tests in the copy, and return how many passed."""
    output = run(tree, "-m", "pytest", "-p", "no:cacheprovider", *options, *(f"tests/unit/{file}" for file in files))
    assert "failed" not in output
    return int(re.search(r"(\d+) passed", output)[1])


CHECK = """
from oracles import oracle
from oracles.conformance import check
from oracles.consistency import METHODS
from oracles.query import load
check(oracle("toy", epsilon=1.0, size=20))
check(METHODS["halved"])
query = load("hubbub.toml")["toys"]
print(query.oracle, *query.methods, query.fallback)
"""


def test_oracle_and_method_conform_and_a_query_can_name_them(tree):
    assert run(tree, "-c", CHECK) == "oracle('toy', epsilon=1.0, size=20) halved norm_sub halved\n"


def test_auto_does_not_choose_the_new_oracle(tree):
    code = "from oracles import oracle; print(*{oracle('auto', epsilon=e, size=3).name for e in (0.5, 1.0, 4.0)})"
    assert run(tree, "-c", code) == "grr\n"


def test_a_plan_compares_the_new_oracle(tree):
    assert "toy" in run(tree, "-m", "hubbub", "plan", "--clients", "1e5", "--size", "20", "--epsilon", "1")


def test_a_query_file_with_both_is_checked(tree):
    assert "toy" in run(tree, "-m", "hubbub", "check", "hubbub.toml")


def test_the_vectors_include_the_new_oracle(tree, tmp_path):
    run(tree, "tests/vectors/make.py", str(tmp_path))
    groups = json.loads((tmp_path / "reports.json").read_text())["oracles"]
    assert [group["width"] for group in groups if group["oracle"] == "toy"]


SUITES = ["test_conformance.py", "test_privacy.py", "test_classes.py", "test_consistency.py", "test_risk.py"]


def test_the_suites_cover_oracle_and_method(tree):
    assert run_tests(tree, SUITES, "-m", "not long", "-k", "toy or halved") > 20


METRIC = """
from aggregator.process.metrics import Metrics
(family,) = (family for family in Metrics().registry.collect() if family.name == "hubbub_pauses")
(line,) = (line for line in open("docs/metrics.md") if "`hubbub_pauses_total`" in line)
kind, labels, text = (cell.strip() for cell in line.split("|")[2:5])
assert (kind, labels, text) == (family.type, "", family.documentation)
print(*(sample.value for sample in family.samples))
"""


def test_a_worker_reports_the_new_metric_as_its_row_describes_it(tree):
    assert run(tree, "-c", METRIC) == "0.0\n"


ROUTE = """
from aggregator.board.server.route import SCHEMAS, describe
operation = describe("1", protected=False)["paths"]["/api/v1/retired"]["get"]
print(operation["operationId"], list(SCHEMAS["retired"]["properties"]))
"""


def test_the_api_describes_the_new_route(tree):
    assert run(tree, "-c", ROUTE) == "retired ['queries']\n"


def test_the_suites_of_the_board_cover_the_new_route(tree):
    assert run_tests(tree, ["test_board_store.py"], "-k", "names or number") > 5
