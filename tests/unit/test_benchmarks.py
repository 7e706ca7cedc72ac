"""Benchmarks run seldom. This checks that their imports exist."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("oracles", "hubbub", "aggregator", "producers")
FILES = sorted((ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_import_of_a_benchmark_exists(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS:
            module = importlib.import_module(node.module)
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            modules = [name for name in missing if importlib.util.find_spec(f"{node.module}.{name}")]
            assert missing == modules, f"{node.module} has no {missing}"


def test_no_benchmark_hides_a_module_of_python():
    """A script's folder comes first on the path: a file named numbers.py there would break NumPy."""
    assert {file.stem for file in FILES if file.parent.name == "benchmarks"} & sys.stdlib_module_names == set()
