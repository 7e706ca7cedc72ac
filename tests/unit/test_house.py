"""The house is as its documents say: a path that they name is there, and what the floor offers has its types."""

import ast
import re
from pathlib import Path

import pytest

import hubbub
from oracles.consistency import METHODS

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")]
ROOMS = ("aggregator", "oracles", "producers", "hubbub", "benchmarks", "deploy", "docs", "helm", "tests")
WORD = re.compile(rf"(?<![\w/.-])(?:{'|'.join(ROOMS)})/[\w./-]*\w")
PLACEHOLDER = re.compile(r"\b(NAME|VERSION)\b|^deploy/secrets\b")
"""Of who reads: the file of an oracle to be written, a version to come, the operator's own secrets."""

PRODUCT = {
    path: ast.parse(path.read_text(encoding="utf-8")) for room in ROOMS[:4] for path in ROOT.glob(f"{room}/**/*.py")
}


def named(page):
    return sorted({word for word in WORD.findall(page.read_text(encoding="utf-8")) if not PLACEHOLDER.search(word)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_that_a_page_names_exists(page):
    assert [word for word in named(page) if not (ROOT / word).exists()] == []


def test_paths_are_found_where_they_are_named():
    assert "aggregator/board/route.py" in named(ROOT / "CONTRIBUTING.md")
    assert WORD.findall("see `oracles/gone.py`, and hubbub/.") == ["oracles/gone.py"]


def test_what_hubbub_offers_has_its_types():
    stub = ast.parse((ROOT / "hubbub/__init__.pyi").read_text(encoding="utf-8"))
    typed = {alias.asname: node.module for node in stub.body for alias in node.names}
    assert typed == {name: home for name, (home, _) in hubbub._HOMES.items()}
    assert sorted(typed) == hubbub.__all__


def test_a_method_s_name_stands_in_its_row_alone():
    def typed(module):
        listed = {
            text
            for node in module.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
            for text in ast.walk(node.value)
        }
        return {
            node.value
            for node in ast.walk(module)
            if isinstance(node, ast.Constant) and node not in listed and node.value in METHODS
        }

    assert {path.name: found for path, module in PRODUCT.items() if (found := typed(module))} == {
        "consistency.py": {*METHODS}
    }
