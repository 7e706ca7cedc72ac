"""Named figures of docs are those that `make figures` has recorded, and it refuses a busy machine."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import figures

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
RECORDS = json.loads((DOCS / "figures.json").read_text(encoding="utf-8"))


def test_each_figure_in_docs_is_the_recorded_one():
    marks = [figure for page in PAGES for figure in figures.figures_of(page.read_text(encoding="utf-8"))]
    assert {name for name, _ in marks} == RECORDS.keys()
    assert [(name, text) for name, text in marks if text != RECORDS[name]["text"]] == []


def test_no_mark_of_a_figure_is_damaged():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("<!-- figure") == text.count("<!-- /figure -->") == len(figures.figures_of(text)), page


def test_each_figure_says_where_it_was_measured():
    for name, record in RECORDS.items():
        assert name.split(".")[0] in figures.GROUPS
        assert record["machine"]
        assert re.fullmatch(r"[0-9a-f]{10}\+?", record["commit"])
        assert record["load"] >= 0


def test_a_page_gets_the_recorded_figures():
    page = "a <!-- figure x.a -->1<!-- /figure --> and <!-- figure x.b -->2<!-- /figure -->."
    result = figures.replaced(page, {"x.a": {"text": "3"}})
    assert result == "a <!-- figure x.a -->3<!-- /figure --> and <!-- figure x.b -->2<!-- /figure -->."


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--load", "0.3"], 0)])
def test_a_busy_machine_is_refused(monkeypatch, capsys, tmp_path, options, code):
    monkeypatch.setattr("sys.argv", ["figures", *options])
    monkeypatch.setattr("os.getloadavg", lambda: (0.25, 0.0, 0.0))
    monkeypatch.setattr(figures, "GROUPS", {"x": lambda: {"a": "3"}})
    monkeypatch.setattr(figures, "DOCS", tmp_path)
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    page = tmp_path / "page.md"
    page.write_text("<!-- figure x.a -->1<!-- /figure -->\n")
    assert figures.main() == code
    if code:
        output = capsys.readouterr().out
        assert "the load of the last minute is 0.25, above 0.2" in output
        assert "make figures LOAD=0.25" in output
        assert not (tmp_path / "figures.json").exists()
    else:
        record = json.loads((tmp_path / "figures.json").read_text())["x.a"]
        assert record["text"] == "3"
        assert record["load"] == 0.25
        assert page.read_text() == "<!-- figure x.a -->3<!-- /figure -->\n"
