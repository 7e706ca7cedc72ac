"""The values of the accuracy studies, and their page. It names absent values, and stored sections decode again."""

import re
from pathlib import Path

import pytest

from benchmarks.accuracy import calibrate, page, paper_claims, populations
from benchmarks.accuracy.__main__ import STUDIES
from benchmarks.accuracy.study import Claim, Figure, Line, Panel, Plot, Section, Table

ROOT = Path(__file__).parents[2]
PLOTS = sorted((ROOT / "docs").glob("accuracy-*.png"))
LARGEST = 80_000
"""Bytes of a plot."""


def made():
    plot = Plot("none", "A caption.", [Panel("one", "x", "y", [Line("a", [1.0], [2.0])])])
    return Section("Text.", [Table("T", "", ["a"], [["1"]])], [plot], [Claim("w", "c", "yes", "1")], ["B"])


def test_a_section_decodes_to_the_same_values(tmp_path):
    made().save(tmp_path / "some.json")
    assert Section.load(tmp_path / "some.json") == made()


def test_a_study_without_its_data_names_the_gap(tmp_path):
    section = calibrate.run(None, tmp_path)
    assert section.tables == []
    assert section.omissions == [f"{name}, because its file is missing" for name in ("Retail", "Kosarak", "POS")]
    assert populations.marginals(tmp_path, "adult") is None


def test_the_page_names_gaps_and_values_without_a_measurement(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "DOCS", tmp_path)
    monkeypatch.setattr(page, "draw", lambda plot, path: path.touch())
    made().save(tmp_path / "a.json")
    page.write({"a": "A study", "b": "Another"})
    text = (tmp_path / "accuracy.md").read_text()
    assert "*Left out: B*" in text
    assert "## Another\n\nNot measured yet." in text
    assert "| w | c | yes | 1 |" in text
    assert (tmp_path / "accuracy-none.png").exists()


def test_figures_show_as_many_digits_as_their_errors_have():
    texts = [str(Figure(*figure)) for figure in [(0.12345, 0.012), (0.5, 0.003), (123.4, 5.0), (1.0, float("nan"))]]
    assert texts == ["0.123 ± 0.012", "0.500 ± 0.003", "123 ± 5", "1"]
    assert str(Figure.rate(0, 100)) == "0.000 ± 0.010"


def test_every_study_has_its_section():
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert [title for title in STUDIES.values() if f"\n## {title}\n" not in text] == []


def test_each_claim_of_the_papers_has_an_answer():
    """All 50 names stand on the page as they are in the code, and a quoted table is a heading of the page."""
    names = [*(f"J{n}" for n in range(1, 17)), *(f"W{n}" for n in range(1, 25)), *(f"V{n}" for n in range(1, 11))]
    rows = paper_claims.table().rows
    assert [row[0] for row in rows] == names
    text = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    for row in rows:
        assert f"| {' | '.join(row)} |" in text
        tables = re.findall(r'"([A-Z][^"]+|[a-z]+: averaged MSE)"', row[3])
        assert [table for table in tables if not any(heading.startswith(table) for heading in headings)] == []


def anchors(text):
    """Return the anchors of all headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_figures_of_each_advice_exist():
    anchors_in_page = re.findall(r"accuracy\.md#([\w-]+)", (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8"))
    assert len(anchors_in_page) > 10
    assert set(anchors_in_page) <= anchors((ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("plot", PLOTS, ids=lambda path: path.name)
def test_every_plot_is_small_and_shown(plot):
    assert plot.stat().st_size < LARGEST
    assert f"]({plot.name})" in (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
