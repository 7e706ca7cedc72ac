"""`hubbub init`: its questions, and a query file with the expected results in words."""

import os
import pty
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.plan import init, interview, lifetimes, outlook
from aggregator.plan.collected_names import NameCollection, NameListDraft, add_all, default_name, listable
from oracles.errors import ParameterError
from oracles.query import load_file
from tests.boards import START
from tests.string_crowds import CRASHES, NEW, SHARES, StringCrowd

ROOT = Path(__file__).parents[2]


def run(folder, *arguments, text=None):
    """Run the command in a pseudo-terminal that types `text`. Return its exit code and its output."""
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
    return [" ".join(sentence.split()) for sentence in outlook.sentences(outlook.audiences(query, people)[0])]


def comments(path):
    lines = path.read_text().splitlines()
    return " ".join(line[2:] for line in lines if line.startswith("# "))


def test_five_answers_become_a_file_with_its_sentences(tmp_path):
    text = "real\ncrashes\nnull pointer, out of memory, timeout\n5,000 an hour\n\nvery\nonce\n"
    code, output = run(tmp_path, text=text)
    assert code == 0, output
    file = load_file(tmp_path / "hubbub.toml")
    query = file.queries["crashes"]
    assert file.edition == 2
    assert query.domain.values == ("null pointer", "out of memory", "timeout")
    assert query.epsilon == 1.0
    assert query.answers == "once"
    assert query.period == 3600
    for sentence in sentences(query, 5000):
        assert sentence in comments(tmp_path / "hubbub.toml")
        assert sentence in " ".join(output.split())
    assert "5. Do people answer once, or for life?" in output


def test_a_wrong_answer_is_asked_again(tmp_path):
    text = "perhaps\nreal\ntwo words\nscreens\n1\nunknown\n64\nsome people\n300 a minute\nios\nnone\n"
    text += "perhaps\nlittle\nmaybe\nLife\n"
    code, output = run(tmp_path, text=text)
    assert code == 0, output
    query = load_file(tmp_path / "hubbub.toml").queries["screens"]
    assert query.oracle.size == 64
    assert query.epsilon == 4.0
    assert query.answers == "life"
    assert query.period == 60
    assert output.count("Is this a trial") == output.count("1. What is asked?") == output.count("By which groups") == 2
    assert 'answer "names" for strings that nobody knows yet' in output
    assert output.count("3. How many people answer") == 2


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        ("10 to 60,000 ms", {"low": 10, "high": 60_000, "bins": 256, "scale": "log", "unit": "ms"}),
        ("0..120 years", {"low": 0, "high": 120, "bins": 256, "unit": "years"}),
        ("-40 to 60.5", {"low": -40, "high": 60.5, "bins": 256}),
        ("0.5..3", {"low": 0.5, "high": 3, "bins": 256}),
    ],
)
def test_two_ends_are_a_scale_of_numbers(tmp_path, text, scale):
    code, output = run(tmp_path, text=f"real\nload_time\n{text}\n500 an hour\n\n\n\n")
    assert code == 0, output
    query = load_file(tmp_path / "hubbub.toml").queries["load_time"]
    assert query.oracle.name == "haar"
    assert query.domain.scale.kind == scale.get("scale", "linear")
    assert [query.domain.scale.low, query.domain.scale.high] == [scale["low"], scale["high"]]
    assert query.domain.unit == scale.get("unit")
    assert tomllib.loads((tmp_path / "hubbub.toml").read_text())["queries"]["load_time"]["domain"] == scale
    (sentence,) = sentences(query, 500)
    assert "the median" in sentence
    assert sentence in comments(tmp_path / "hubbub.toml")


def test_a_scale_that_cannot_be_used_is_asked_again(tmp_path):
    code, output = run(tmp_path, text="\nload_time\n60 to 10 ms\n1.2.3 to 5\n10 to 60 ms\n\n\n\n\n")
    assert code == 0, output
    assert output.count("low must be below high") == 1
    assert output.count("10 to 60000 ms or 0 to 120 years") == 1


def test_empty_answers_and_yes_take_the_defaults(tmp_path):
    assert run(tmp_path, text="\n\n\n\n\n\n\n")[0] == 0
    other = tmp_path / "other.toml"
    code, output = run(tmp_path, "--yes", "--queries", str(other))
    assert code == 0
    assert "What is asked" not in output
    assert (tmp_path / "hubbub.toml").read_text() == other.read_text()
    assert load_file(other).queries["homepage"] == init.Interview().query


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
@pytest.mark.parametrize("domain", [['ä "quoted"', "b\\c", "#"], 2, 1000, {"low": 1, "high": 9, "bins": 16}])
@pytest.mark.parametrize("span", interview.SPANS)
def test_every_file_can_be_read(tmp_path, name, domain, span):
    answers = init.Interview(name, domain, 900, span, "very", way="once")
    path = tmp_path / "hubbub.toml"
    path.write_text(init.file_text(answers))
    assert load_file(path).queries == {name: answers.query}


def test_the_names_of_a_query_become_a_list(tmp_path):
    names, others = listable([*SHARES, NEW, 'say "hi"', "tab\tand\x7f", "(other)", ""])
    draft = NameListDraft(default_name(CRASHES), CRASHES, names, 60_000, 0.013, len(others))
    path = tmp_path / "hubbub.toml"
    path.write_text(init.file_text(draft))
    query = load_file(path).queries["crashes_names"]
    assert query.domain.values == tuple(names)
    assert others == ["rangeerror: invalid arra\N{HORIZONTAL ELLIPSIS}", "(other)", ""]
    assert query.epsilon == CRASHES.epsilon
    assert query.period == CRASHES.period
    assert query.pane == CRASHES.pane
    assert "shows shares from 1.3% on" in comments(path)
    assert "3 more names are left out" in comments(path)


def test_a_list_needs_two_names_and_a_name_of_its_own():
    draft = NameListDraft("crashes_names", CRASHES, ["one"], 1000)
    with pytest.raises(ParameterError, match="at least 2"):
        init.file_text(draft)


def test_the_collection_has_all_names_by_their_newest_share():
    crowd = StringCrowd(START)
    messages = [*chain.from_iterable(crowd.next() for _ in range(3))]
    collection = NameCollection(CRASHES.digest.hex())
    records = [SimpleNamespace(key=key, value=value) for topic, key, value in messages if topic == "estimates"]
    add_all(collection, [*records, SimpleNamespace(key=b"", value=b"{}"), SimpleNamespace(key=b"", value=None)])
    assert {*collection.names} == {*SHARES, NEW}
    assert collection.names[0] == next(iter(SHARES))
    assert collection.newest.span.window.size == 3600
    stranger = NameCollection("00" * 8)
    add_all(stranger, records)
    assert stranger.names == []


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (64, ["once", "at most 7.39.", "life", "at most 801.", "hr", "at most 7.39, for 2.6 times the people."]),
        (2, ["once", "at most 7.39.", "life", "at most 7.39."]),
        ({"low": 1, "high": 9, "bins": 16}, ["once", "at most 7.39.", "life", "at most 7.39."]),
    ],
)
def test_the_odds_of_a_life_stand_beside_each_way_to_answer(domain, words):
    ways = lifetimes.ways(lambda way: init.Interview(domain=domain, span="day", way=way).query)
    lines = lifetimes.question(ways).splitlines()[1:-1]
    assert [word for line in lines for word in (line.split()[0], line.partition("Odds: ")[2])] == words


def test_a_file_states_the_odds_of_a_report_and_of_a_life(tmp_path):
    assert run(tmp_path, text="real\nscreens\n64\n\n\nnormal\nlife\n")[0] == 0
    text = (tmp_path / "hubbub.toml").read_text()
    assert "a report changes the odds between two answers by at most 7.39\n" in text
    assert "all answers of a device change these odds by at most 801\n" in text


def test_the_oracle_whose_life_costs_one_answer_can_be_chosen(tmp_path):
    code, output = run(tmp_path, text="real\nscreens\n64\n\n\nnormal\nhr\n")
    assert code == 0, output
    query = load_file(tmp_path / "hubbub.toml").queries["screens"]
    assert query.only_oracle.name == "hr"
    assert query.answers == "life"
    assert query.record_charge == query.epsilon


def test_the_file_of_readme_is_the_output_of_a_trial(tmp_path, capsys):
    path = tmp_path / "hubbub.toml"
    assert init.main(["--yes", "--queries", str(path)]) == 0
    assert f"```toml\n{path.read_text()}```\n" in (ROOT / "README.md").read_text()
    assert "The first result appears on " in capsys.readouterr().out
    query = load_file(path).queries["homepage"]
    assert query.pane == 10
    assert [(window.size, window.step) for window in query.windows] == [(10, 10), (60, 10)]


@pytest.mark.parametrize(("kind", "member"), [("values", "a.example"), ("numbers", None), ("names", None)])
@pytest.mark.parametrize("groups", [None, "platform: ios, android"])
def test_each_kind_of_query_can_be_begun_without_a_question(tmp_path, kind, member, groups, capsys):
    path = tmp_path / "hubbub.toml"
    options = [] if groups is None or kind == "names" else ["--groups", groups]
    arguments = ["--yes", "--queries", str(path), "--kind", kind, "--name", "q", "--people", "500", *options]
    assert init.main(arguments) == 0
    query = load_file(path).queries["q"]
    assert query.domain.kind == kind
    assert member is None or member in query.domain.values
    assert bool(query.groups) == bool(options)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--values", "1"],
        ["--people", "many"],
        ["--groups", "ios"],
        ["--kind", "numbers", "--values", "a,b"],
        ["--kind", "numbers", "--values", "names"],
        ["--kind", "values", "--values", "names"],
        ["--kind", "values", "--values", "10 to 600 ms"],
    ],
)
def test_an_option_that_cannot_be_used_is_an_error(tmp_path, arguments, capsys):
    assert init.main(["--yes", "--queries", str(tmp_path / "hubbub.toml"), *arguments]) == 2
    assert not (tmp_path / "hubbub.toml").exists()


def test_the_first_result_comes_with_the_first_window():
    query = init.Interview(span="day").query
    assert init.first_result(query, START).startswith("The first result appears on 15 November 2023 at 00:0")
