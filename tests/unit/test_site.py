"""The pages of the documentation are current, and its index lists every page."""

import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from hubbub.texts import odds
from oracles import oracle

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "index.md"


def test_the_index_lists_every_page_once():
    listed = re.findall(r"^- .*?\]\(([^)#:]+)\)", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.name for pattern in ("*.md", "*.ipynb") for path in INDEX.parent.glob(pattern)} - {INDEX.name}
    assert sorted(path for path in listed if "/" not in path) == sorted(pages)
    assert all((INDEX.parent / path).exists() for path in listed)


WAY, HOUSE, MARKS, START, OTHERS = (
    runpy.run_path(str(ROOT / "docs" / f"{name}.py")) for name in ("way", "house", "marks", "start", "alternatives")
)
OPTIONS = runpy.run_path(str(ROOT / "docs" / "options.py"))
KEYS = runpy.run_path(str(ROOT / "docs" / "keys.py"))


def test_the_page_of_options_is_current():
    assert OPTIONS["PAGE"].read_text(encoding="utf-8") == OPTIONS["page"](), "run `make pages`"


def test_the_table_of_keys_is_current():
    text = KEYS["PAGE"].read_text(encoding="utf-8")
    assert text == KEYS["page"](text), "run `make pages`"
    assert f"<!-- keys -->\n{KEYS['table']()}\n" in text


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
    report = oracle("grr", epsilon=1.0, size=4)
    epsilons = (1.0, 4.0)
    assert f"{100 * report.p:.1f}% and each of three other drinks with {100 * report.q:.1f}%" in text
    assert f"by a factor of at most {report.p / report.q:.2f}" in text
    sure, very_sure = (START["share"](math.exp(epsilon) / (1 + math.exp(epsilon))) for epsilon in epsilons)
    assert f"more than {sure} sure" in text
    assert f"a reader {very_sure} sure" in text
    life = float(START["default"](2.0).life.amount)
    sure_of_life = math.exp(life) / (1 + math.exp(life))
    assert f"At epsilon 2 they are {odds(life)}, so all reports" in text
    assert f"can make a reader {100 * sure_of_life:.1f}% sure" in text
    visible = START["default"](4.0).detectable(1_000_000)
    assert visible > 100 / 1_000_000, "one in 100,000 is far below"


def test_the_tables_of_the_alternatives_are_current():
    text = OTHERS["PAGE"].read_text(encoding="utf-8")
    assert text == OTHERS["page"](text), "run `make pages`"
    assert [name for name, table in OTHERS["tables"]().items() if f"<!-- {name} -->\n{table}\n" not in text] == []


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_noise_of_central_ways_has_its_epsilon_and_its_error(epsilon, servers):
    law = OTHERS["chances"](epsilon, servers)
    noise = np.arange(len(law)) - len(law) // 2
    assert law.sum() == pytest.approx(1)
    assert math.sqrt(law @ noise**2) == pytest.approx(OTHERS["central_error"](epsilon, servers))
    steps = np.log(law[1:] / law[:-1])[np.abs(noise[1:]) < 20]
    assert 2 * np.abs(steps).max() <= epsilon * (1 + 1e-6), "an answer changes two counts by one each"


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_visible_group_of_central_ways_is_the_smallest(epsilon, servers):
    law = OTHERS["chances"](epsilon, servers)
    visible = OTHERS["central_visible"](epsilon, servers)
    noise = np.arange(len(law)) - len(law) // 2

    def exceeds(bound):
        return law[noise >= bound].sum()

    critical = next(bound for bound in range(1, 1000) if exceeds(bound) <= 0.05 / 64)
    assert exceeds(critical - visible) >= 0.9 > exceeds(critical - visible + 1)
