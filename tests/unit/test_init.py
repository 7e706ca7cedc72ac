"""`hubbub init`: five questions, and a query file that says in words what people will show."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.plan import init, outlook
from oracles.query import load_file

ROOT = Path(__file__).parents[2]


def run(folder, *arguments, text=None):
    """Run the command in a pseudo-terminal that types `text`. Return its exit code and what it printed."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "hubbub", "init", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    environment.pop("HUBBUB_QUERIES", None)
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, (text or "").encode())
    output = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:  # the command closed the terminal
            break
        if not data:
            break
        output += data
    os.close(master)
    return process.wait(), output.decode().replace("\r\n", "\n")


def sentences(query, people):
    return [" ".join(each.split()) for each in outlook.sentences(outlook.audiences(query, people)[0])]


def comments(path):
    lines = path.read_text().splitlines()
    return " ".join(line[2:] for line in lines if line.startswith("# "))


def test_five_answers_become_a_file_with_its_sentences(tmp_path):
    text = "crashes\nnull pointer, out of memory, timeout\n5,000 an hour\nvery\nno\n"
    code, output = run(tmp_path, text=text)
    assert code == 0, output
    file = load_file(tmp_path / "hubbub.toml")
    query = file.queries["crashes"]
    assert (file.edition, query.domain.values) == (2, ("null pointer", "out of memory", "timeout"))
    assert (query.epsilon, query.answers, query.period) == (1.0, "once", 3600)
    for sentence in sentences(query, 5000):
        assert sentence in comments(tmp_path / "hubbub.toml")
        assert sentence in " ".join(output.split())
    assert "5. May an answer of a person change? [yes]:" in output


def test_a_wrong_answer_is_asked_again(tmp_path):
    text = "two words\nscreens\n1\n64\nsome people\n300 a minute\nperhaps\nlittle\nmaybe\ny\n"
    code, output = run(tmp_path, text=text)
    assert code == 0, output
    query = load_file(tmp_path / "hubbub.toml").queries["screens"]
    assert (query.oracle.size, query.epsilon, query.answers, query.period) == (64, 4.0, "life", 60)
    assert output.count("1. What is asked?") == 2
    assert output.count("3. How many people answer") == 2


def test_empty_answers_and_yes_take_the_defaults(tmp_path):
    assert run(tmp_path, text="\n\n\n\n\n")[0] == 0
    other = tmp_path / "other.toml"
    code, output = run(tmp_path, "--yes", "--queries", str(other))
    assert (code, "What is asked" in output) == (0, False)
    assert (tmp_path / "hubbub.toml").read_text() == other.read_text()
    assert load_file(other).queries["screens"] == init.Interview().query


def test_an_existing_file_is_never_overwritten(tmp_path):
    path = tmp_path / "hubbub.toml"
    path.write_text("mine")
    code, output = run(tmp_path, "--yes")
    assert code == 2
    assert "hubbub.toml exists" in output
    assert path.read_text() == "mine"


def test_without_answers_it_says_what_to_do(tmp_path):
    code, output = run(tmp_path, text="\x04")
    assert code == 2
    assert "--yes takes the defaults" in output
    assert not (tmp_path / "hubbub.toml").exists()


@pytest.mark.parametrize("name", ["a.b", "screens"])
@pytest.mark.parametrize("domain", [['ä "quoted"', "b\\c", "#"], 2, 1000])
@pytest.mark.parametrize("span", init.SPANS)
def test_every_file_can_be_read(tmp_path, name, domain, span):
    answers = init.Interview(name, domain, 900, span, "very", may_change=False)
    path = tmp_path / "hubbub.toml"
    path.write_text(init.file_text(answers))
    assert load_file(path).queries == {name: answers.query}
