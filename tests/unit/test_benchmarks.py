"""Benchmarks run seldom. This checks that they can be loaded, and that the names that they import exist."""

import ast
import importlib.util
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


@pytest.mark.parametrize("file", [file for file in FILES if not file.stem.startswith("__")], ids=lambda file: file.stem)
def test_a_benchmark_is_a_module_of_a_package(file):
    """It starts with `python -m`, and loading it starts nothing."""
    text = file.read_text()
    assert "sys.path" not in text
    assert "E402" not in text
    importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
