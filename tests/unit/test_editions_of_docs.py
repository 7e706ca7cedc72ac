"""Every query file that a reader may copy has the newest edition."""

import re
import tomllib
from pathlib import Path

import pytest

from hubbub.__main__ import COMMANDS, main
from oracles.errors import ParameterError
from oracles.mechanisms import NEWEST, oracle
from oracles.query import parse

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
BLOCK = re.compile(r"```toml\n(.*?)```", re.DOTALL)
FILES = [ROOT / "deploy" / "hubbub.toml", *sorted((ROOT / "aggregator" / "demo").rglob("*.toml"))]
ADDITIONS = {"crashes.toml"}
"""Queries that the demo adds to its own file, which has the edition."""


def is_query_file(text):
    return "queries" in tomllib.loads(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_query_file_of_a_page_has_the_newest_edition(page):
    for text in filter(is_query_file, BLOCK.findall(page.read_text())):
        assert tomllib.loads(text).get("edition") == NEWEST, text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_query_file_of_the_product_has_the_newest_edition(file):
    if file.name not in ADDITIONS:
        assert tomllib.loads(file.read_text())["edition"] == NEWEST


@pytest.mark.parametrize("name", COMMANDS)
def test_each_query_file_of_the_help_has_the_newest_edition(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    if "[queries." in text:
        assert f"edition = {NEWEST}\n" in text


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("size", [4, 64, 1024, 10_000])
def test_auto_chooses_as_a_new_file_does(epsilon, size):
    table = {"domain": size, "epsilon": epsilon, "pane": "10s", "answers": "fresh"}
    for edition in (1, NEWEST):
        query = parse({"edition": edition, "queries": {"q": table}}, "hubbub.toml", None)["q"]
        assert repr(oracle("auto", epsilon=epsilon, size=size, edition=edition)) == repr(query.only_oracle)
    assert repr(oracle("auto", epsilon=epsilon, size=size)) == repr(query.only_oracle)


def test_an_edition_is_for_auto_alone():
    for name, edition in (("olh", 2), ("auto", 0), ("auto", 9)):
        with pytest.raises(ParameterError, match="edition is for auto, and from 1 to 3"):
            oracle(name, epsilon=1.0, size=8, edition=edition)
