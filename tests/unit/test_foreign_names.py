"""Names of strangers in a table: no terminal obeys them, and no spreadsheet computes them."""

import io
import json

import pytest

from aggregator.reading.export.command import _write
from aggregator.records.decoder import decode
from aggregator.records.rows import cell
from aggregator.records.span import Span
from aggregator.tallies.snapshot import Snapshot
from tests.queries import make_query
from tests.results import build

TITLE = "\x1b]0;owned\x07"
NAMES = [TITLE, "left\u202eright", "csi\x9b2J", "rubout\x7f", "blank\u200b", "family \U0001f468\u200d\U0001f469"]
FILLERS = "\u034f\u115f\u3164\uffa0\u2800\ufe00\U000e0100"
"""Characters that show nothing, although Python calls them printable."""
NAMES += ["heart \u2764\ufe0f", f"filled{FILLERS}"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def record():
    query = make_query(domain=NAMES, oracle="grr", epsilon=2.0, crowd=1, budget=1e9)
    state = query.oracle.zeros()
    state[: len(NAMES)] = 100
    window = query.windows[0]
    total = Snapshot(600, 0, 0, 0, state)
    [(_, value)] = build(query, Span(window, 0, window.size), total).records
    return decode(value)


def written(form, file):
    _write([record()], form, file)
    return file.getvalue()


def invisible(text):
    return {char for char in text if not (char.isprintable() or char in "\r\n\u200d") or char in FILLERS}


def test_a_terminal_gets_no_control_and_no_invisible_characters():
    text = written("csv", Terminal())
    assert not invisible(text)
    assert r"\x1b]0;owned\x07" in text
    assert "\u2764\ufe0f" in text


def test_a_file_keeps_the_characters_of_names():
    text = written("csv", io.StringIO())
    assert TITLE in text
    assert invisible(text) == {"\x1b", "\x07", "\u202e", "\x9b", "\x7f", "\u200b", *FILLERS}


@pytest.mark.parametrize("file", [Terminal, io.StringIO])
def test_json_escapes_them_always_and_changes_no_value(file):
    text = written("jsonl", file())
    assert not invisible(text)
    assert {json.loads(line)["value"] for line in text.splitlines()} >= set(NAMES)


@pytest.mark.parametrize(
    "sign", [*"=+-@|", *"\u207c\u208a\ufe62\uff0b\ufe66\uff0d\ufe63\u208b\u2212\ufe6b\uff20\uff5c"]
)
@pytest.mark.parametrize("before", ["", " ", "\u200b", "\u2003", *FILLERS, "\ufe0f"])
def test_a_cell_never_begins_like_a_formula(sign, before):
    assert cell(f"{before}{sign}1+1") == f"'{before}{sign}1+1"


@pytest.mark.parametrize("text", ["a=b", "1-2", "\u2013 dash", "name"])
def test_an_ordinary_text_stays(text):
    assert cell(text) == text
