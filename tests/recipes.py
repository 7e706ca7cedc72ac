"""The recipes of CONTRIBUTING, and a copy of the tree to which they are applied by their blocks alone.

A block names its file after its language. A block of the language `diff` changes a file, and any other is a new file.
A diff has no line numbers. `@@` parts its hunks, and the lines of a hunk must be in the file once. The last line may be
the start of a line.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parent.parent
PARTS = ("oracles", "hubbub", "aggregator", "producers", "tests", "docs", "pyproject.toml", "CONTRIBUTING.md")
PAGES = ("options", "keys", "fields", "examples")
"""The programs in docs that write from code what a recipe may change."""
_BLOCK = re.compile(r"^( *)```(\w+) (\S+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def blocks(title):
    """Return the language, the path and the text of each block under a heading of CONTRIBUTING, in order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return [
        (language, path, re.sub(rf"^{indent}", "", block, flags=re.MULTILINE))
        for indent, language, path, block in _BLOCK.findall(text)
    ]


def files(title):
    """Return the paths of a recipe."""
    return {path for _, path, _ in blocks(title)}


def apply(tree, title):
    """Change a tree by the blocks of a recipe."""
    for language, name, block in blocks(title):
        path = tree / name
        if language == "diff":
            path.write_text(changed(path.read_text(encoding="utf-8"), block, name), encoding="utf-8")
        else:
            assert not path.exists(), f"{name} is no new file"
            path.write_text(dedent(block), encoding="utf-8")


def changed(text, diff, name=""):
    """Return a text after a diff."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = hunk.removesuffix("\n").split("\n")
        old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
        assert f"\n{text}".count(f"\n{old}") == 1, f"{name} does not have these lines once:\n{old}"
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    return text


def copy_tree(folder, *titles):
    """Copy the tree to a folder, apply recipes, and write the pages that follow from the code."""
    for part in PARTS:
        if (ROOT / part).is_file():
            shutil.copy(ROOT / part, folder / part)
        else:
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "vendor"))
    for title in titles:
        apply(folder, title)
    for page in PAGES:
        run(folder, f"docs/{page}.py")
    return folder


def run(tree, *command):
    """Run Python in a copy of the tree, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    process = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def run_tests(tree, names, *options):
    """Run unit tests in the copy, and return how many passed."""
    output = run(tree, "-m", "pytest", "-p", "no:cacheprovider", *options, *(f"tests/unit/{name}" for name in names))
    assert "failed" not in output
    return int(re.search(r"(\d+) passed", output)[1])
