"""Code in strings, which tests and benchmarks run in other processes. All its names exist in the product."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("aggregator", "hubbub", "oracles", "producers")
FILES = sorted(path for folder in ("tests", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py"))
NOT_YET = {("oracles.mechanisms.toy", "Toy")}
"""Modules that a test writes."""


def code(path, mark):
    """Return the syntax trees of the strings of a file that hold a mark and are Python."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and mark in node.value:
            try:
                yield ast.parse(node.value)
            except SyntaxError:
                continue  # prose, or a template


def imports(tree):
    """Return module, name and alias of each import of the product."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name, None, alias.asname) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module, alias.name, alias.asname or alias.name) for alias in node.names]
        else:
            continue
        yield from (name for name in names if name[0].partition(".")[0] in PACKAGES and name[:2] not in NOT_YET)


def load(module, name):
    home = importlib.import_module(module)
    if name is None or hasattr(home, name):
        return getattr(home, name) if name else home
    return importlib.import_module(f"{module}.{name}")


def resolve(node, names):
    """Return the value of an expression like `app.Counting`, or None if its first name is not imported."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (home := resolve(node.value, names)) is not None:
        return getattr(home, node.attr)
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_name_of_code_in_strings_exists(path):
    names = {}
    for tree in code(path, "import "):
        for module, name, alias in imports(tree):
            names[alias] = load(module, name)
    for tree in code(path, " = ") if names else ():
        for node in ast.walk(tree):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                resolve(target, names)
