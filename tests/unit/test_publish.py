"""`hubbub publish`: the public page of all questions."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from aggregator.reading.publish.page import page
from aggregator.reading.publish.question_history import histories
from hubbub.__main__ import main
from hubbub.asked.asked_list import AskedQuestion
from tests.asked import KEYS, ask, make_list

FIRST = make_list(ask(), ask("crashes"))
SECOND = make_list(ask(budget=6.0), previous=FIRST)
THIRD = make_list(ask(budget=6.0), ask("crashes"), previous=SECOND)
LISTS = [FIRST, SECOND, THIRD]


class TextOfPage(HTMLParser):
    """The text of each element, and the names of all elements and attributes."""

    def __init__(self, html):
        super().__init__()
        self.texts = []
        self.tags = []
        self.attributes = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts += [data.strip()] if data.strip() else []


def test_a_question_has_all_its_facts_since_its_first_list():
    text = " | ".join(TextOfPage(page(LISTS)).texts)

    assert "saves | What | How often a person saved a document | Why | Decide whether saving needs a button" in text
    assert "One report | changes the odds of any guess by a factor of at most 2.72" in text
    assert "Asked since | 2027-01-15 08:00:00 UTC, list 1" in text
    assert "Changed in list 2 | 2027-01-16 08:00:00 UTC: budget was 4.0, is 6.0" in text
    assert f"Signed by | {KEYS[0]}, {KEYS[1]}" in text
    for signed_list in LISTS:
        assert f"| {signed_list.hash}" in text


def test_a_question_that_ends_and_comes_back_has_two_histories():
    ends = [(history.name, history.first_list.number, history.end) for history in histories(LISTS)]
    assert ends == [("crashes", 1, SECOND), ("crashes", 3, None), ("saves", 1, None)]


def test_equal_lists_give_equal_text():
    assert page(LISTS) == page([FIRST, SECOND, THIRD])


def test_it_has_no_script_and_asks_nobody_else():
    html = TextOfPage(page(LISTS))

    assert not {"script", "img", "link", "iframe", "form"} & set(html.tags)
    assert not [name for name, _ in html.attributes if name.startswith("on")]
    assert {value for name, value in html.attributes if name in ("href", "src")} == {
        f"asked/{number}.json" for number in (1, 2, 3)
    }
    assert "url(" not in page(LISTS)


@pytest.mark.parametrize("key", ["about", "purpose", "contact"])
def test_a_text_of_a_query_is_text_and_no_markup(key):
    html = page([make_list(ask(**{key: '<script>alert(1)</script> & "quoted"'}))])

    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quoted&quot;" in html


def test_of_a_long_document_it_shows_the_hash():
    questions = {"saves": (AskedQuestion(FIRST.queries["saves"][0].sha256),)}
    assert f"its SHA-256 is {FIRST.queries['saves'][0].sha256}" in page([replace(FIRST, queries=questions)])


def test_the_command_writes_page_and_lists_twice_the_same(tmp_path, capsys):
    (tmp_path / "asked").mkdir()
    for signed_list in LISTS:
        (tmp_path / "asked" / f"{signed_list.number}.json").write_bytes(signed_list.file)

    command = ["publish", str(tmp_path / "public"), "--asked", str(tmp_path / "asked")]
    assert main(command) == 0
    assert "shows 3 lists of Example Notes" in capsys.readouterr().out
    contents = {path.name: path.read_bytes() for path in (tmp_path / "public").rglob("*.*")}
    assert contents == {"index.html": page(LISTS).encode()} | {f"{each.number}.json": each.file for each in LISTS}

    assert main(command) == 0
    assert contents == {path.name: path.read_bytes() for path in (tmp_path / "public").rglob("*.*")}


def test_lists_that_do_not_follow_each_other_make_no_page(tmp_path, capsys):
    for signed_list in (FIRST, THIRD):
        (tmp_path / f"{signed_list.number}.json").write_bytes(signed_list.file)

    assert main(["publish", str(tmp_path / "public"), "--asked", str(tmp_path)]) == 1
    assert re.search("list 3 does not come after list 1", capsys.readouterr().err)
    assert not (tmp_path / "public").exists()
