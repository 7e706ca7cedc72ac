"""The notebooks of docs/, run cell by cell, as they stand there."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_in_order(path, monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    assert notebook["nbformat_minor"] == 5
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    names = {}
    # Another test of this process may have left a figure.
    plt.close("all")
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code):
        exec(compile(cell, f"{path.name}, cell {number}", "exec"), names)  # noqa: S102 - that is the test
    assert len(plt.get_fignums()) == 1
    plt.close("all")
    assert len(code) > 5


def test_there_is_one():
    assert [path.stem for path in NOTEBOOKS] == ["tour"]
