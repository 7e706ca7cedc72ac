"""A new oracle and a new method, added to a copy of the tree by the steps of CONTRIBUTING.md and by nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("oracles", "hubbub", "aggregator", "producers", "tests", "pyproject.toml")
QUERIES = """
[queries.toys]
domain = 20
oracle = "toy"
epsilon = 1.0
budget = 100.0
pane = "10s"
methods = ["halved", "norm_sub"]
fallback = "halved"
"""


def steps():
    """The oracle's file and the method's row, as CONTRIBUTING.md has them."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    module, row = re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return dedent(module), row


def insert(path, before, line):
    text = path.read_text()
    assert text.count(before) == 1
    path.write_text(text.replace(before, line + before))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        copy = shutil.copy if (ROOT / part).is_file() else shutil.copytree
        copy(ROOT / part, folder / part)
    module, row = steps()
    mechanisms = folder / "oracles" / "mechanisms"
    (mechanisms / "toy.py").write_text(module)
    insert(mechanisms / "__init__.py", "from oracles.types", "from oracles.mechanisms.toy import Toy\n")
    insert(mechanisms / "__init__.py", '    "ss": Ss,\n', '    "toy": Toy,\n')
    insert(folder / "oracles" / "consistency.py", '    Method("zero"', f"    {row.strip()},\n")
    (folder / "hubbub.toml").write_text(QUERIES)
    return folder


def run(tree, *command):
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CHECK = """
from oracles import oracle
from oracles.conformance import check
from oracles.consistency import METHODS
from oracles.mechanisms.protocol import Oracle
from oracles.query import load
check(oracle("toy", epsilon=1.0, size=20))
check(METHODS["halved"])
query = load("hubbub.toml")["toys"]
print(query.oracle, *query.methods, query.fallback)
"""


def test_both_conform_and_a_query_can_ask_for_them(tree):
    assert run(tree, "-c", CHECK) == "oracle('toy', epsilon=1.0, size=20) halved norm_sub halved\n"


def test_a_plan_weighs_the_new_oracle(tree):
    assert "toy" in run(tree, "-m", "hubbub", "plan", "--clients", "1e5", "--size", "20", "--epsilon", "1")


def test_a_query_file_with_both_is_checked(tree):
    assert "toy" in run(tree, "-m", "hubbub", "check", "hubbub.toml")


SUITES = ["test_conformance.py", "test_privacy.py", "test_classes.py", "test_consistency.py", "test_risk.py"]


def test_the_suites_run_over_both_and_pass(tree):
    arguments = ["-p", "no:cacheprovider", "-m", "not long", "-k", "toy or halved"]
    said = run(tree, "-m", "pytest", *arguments, *(f"tests/unit/{suite}" for suite in SUITES))
    assert int(re.search(r"(\d+) passed", said)[1]) > 20
    assert "failed" not in said
