"""The site of the documentation. It builds without a warning, and its index lists every page."""

import math
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from oracles import oracle

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"


def test_the_site_builds_and_every_internal_link_and_anchor_exists(tmp_path):
    builder = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", ROOT / "docs"]
    process = subprocess.run(
        [*builder, "--doctree-dir", tmp_path / "trees", ROOT, tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert {"index.html", "search.html", "searchindex.js"} <= {path.name for path in (tmp_path / "site").iterdir()}
    assert (tmp_path / "site" / "docs" / "tour.html").exists()


def test_the_index_lists_every_page_once():
    listed = re.findall(r"^- .*?\]\(([^)#:]+)\)", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.name for pattern in ("*.md", "*.ipynb") for path in INDEX.parent.glob(pattern)} - {INDEX.name}
    assert sorted(path for path in listed if "/" not in path) == sorted(pages)
    assert all((INDEX.parent / path).exists() for path in listed)


WAY, HOUSE, MARKS, START = (
    runpy.run_path(str(ROOT / "docs" / f"{name}.py")) for name in ("way", "house", "marks", "start")
)
OPTIONS = runpy.run_path(str(ROOT / "docs" / "options.py"))


def test_the_page_of_options_is_current():
    assert OPTIONS["PAGE"].read_text(encoding="utf-8") == OPTIONS["page"](), "run `make pages`"


def test_a_variable_without_a_meaning_fails(monkeypatch):
    monkeypatch.delitem(OPTIONS["VARIABLES"], "HUBBUB_KERNELS")
    with pytest.raises(RuntimeError, match="HUBBUB_KERNELS"):
        OPTIONS["page"]()


def test_the_bytes_of_a_report_are_those_of_the_code():
    text = WAY["PAGE"].read_text(encoding="utf-8")
    assert text == WAY["page"](text), "run `make pages`"


def test_the_picture_is_current_and_names_every_stop():
    assert HOUSE["PICTURE"].read_text(encoding="utf-8") == HOUSE["picture"](), "run `make pages`"
    stops = ("Device", "Gateway", "reports", "Worker: count", "snapshots", "estimates, alerts", "Board, tail, export")
    assert [name for name in stops if f">{name}</text>" not in HOUSE["picture"]()] == []


def test_the_picture_of_marks_is_current():
    assert MARKS["PICTURE"].read_text(encoding="utf-8") == MARKS["picture"](), "run `make pages`"


def test_the_pictures_and_the_table_of_the_five_minutes_are_current():
    page = START["PAGE"]
    text = page.read_text(encoding="utf-8")
    assert START["table"]() in text, "run `make pages`"
    for name, picture in START["pictures"]().items():
        assert page.with_name(name).read_text(encoding="utf-8") == picture, "run `make pages`"
        assert f"]({name})" in text


def test_the_figures_in_the_text_of_the_five_minutes_are_those_of_the_code():
    text = " ".join(START["PAGE"].read_text(encoding="utf-8").split())
    report, epsilons = oracle("grr", epsilon=1.0, size=4), (1.0, 4.0)
    assert f"{100 * report.p:.1f}% and each of three other drinks with {100 * report.q:.1f}%" in text
    assert f"by a factor of at most {report.p / report.q:.2f}" in text
    sure, very_sure = (START["share"](math.exp(epsilon) / (1 + math.exp(epsilon))) for epsilon in epsilons)
    assert f"more than {sure} sure" in text
    assert f"a reader {very_sure} sure" in text
    assert f"Above, it is {float(START['default'](1.0).life.amount):.4g} for the whole life" in text
    visible = START["default"](4.0).detectable(1_000_000)
    assert visible > 100 / 1_000_000, "one in 100,000 is far below"
