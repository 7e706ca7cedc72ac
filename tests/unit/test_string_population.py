"""Simulated clients that answer with words: `--values words:FILE`, generated words, scenarios and files of answers."""

import numpy as np
import pytest

from oracles.discover import ask, search
from oracles.errors import ParameterError
from oracles.query.settings import Place
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import find_scenario, parse_scenario
from producers.simulation.crowd.words import read_words
from producers.simulation.delivery.true_answers import TrueAnswers
from producers.simulation.replay import Positions
from tests.queries import make_query, make_table

PANE = 1_700_000_100


def query_of(**settings):
    table = make_table(domain={"discover": "text", "length": 24, "cells": 12}, epsilon=6.0, pane="5m", period="1h")
    return make_query(table, name="crashes", **settings, edition=2)


def written(tmp_path, text):
    path = tmp_path / "words.txt"
    path.write_text(text, encoding="utf-8")
    return f"words:{path}"


def tally_of(population, count, seconds=0.0):
    oracle = population.query.oracle
    state, n = oracle.zeros(), 0
    for answers in population.answers(count, seconds):
        oracle.add(state, answers.reports)
        n += len(answers.reports)
    return state, n


def test_words_of_a_file_fall_like_zipf_or_have_counts(tmp_path):
    words = read_words([written(tmp_path, "oom\nTypeError: x\n\n日本語\n")], query_of())
    assert words.texts == ("oom", "TypeError: x", "", "日本語")
    assert words.weights.tolist() == [rank**-1.1 for rank in (1, 2, 3, 4)]
    words = read_words([written(tmp_path, "a\t3\nb\t0.5\na\t1\n")], query_of())
    assert words.texts == ("a", "b")
    assert words.weights.tolist() == [4.0, 0.5]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("zipf:1.1", "words:FILE or generated:COUNT,A"),
        ("generated:0", "COUNT from 1"),
        ("generated:9999999", "COUNT from 1"),
        ("words:nowhere.txt", "cannot read nowhere.txt"),
    ],
)
def test_other_specs_are_refused(spec, message):
    with pytest.raises(ParameterError, match=message):
        read_words([spec], query_of())


def test_a_wrong_count_names_its_line(tmp_path):
    with pytest.raises(ParameterError, match="line 2: the count after the tab"):
        read_words([written(tmp_path, "a\t1\nb\t-2\n")], query_of())


def test_generated_words_are_the_same_in_all_runs():
    first_words, second_words = (read_words(["generated:500,1.2"], query_of()) for _ in range(2))
    assert first_words.texts == second_words.texts
    assert len(set(first_words.texts)) == 500
    assert {len(text) for text in first_words.texts} <= set(range(4, 25))


@pytest.mark.parametrize("answers", ["life", "once", "fresh"])
def test_a_search_finds_the_words_of_a_crowd(tmp_path, answers):
    spec = written(
        tmp_path, "oom\t30\nsegfault\t20\nrangeerror: y\t15\n" + "".join(f"w{i}\t0.01\n" for i in range(900))
    )
    query = query_of(answers=answers)
    population = Population(query, read_words([spec], query), 60_000, seed=3, churn=0.1)
    state, n = tally_of(population, 60_000)
    assert n == 60_000
    assert {name.text for name in search(query.oracle, state, n).names} == {"oom", "segfault", "rangeerror: y"}


def test_the_bundled_scenario_brings_a_new_signature(tmp_path):
    query = query_of(answers="fresh", budget=100.0)
    words = read_words([written(tmp_path, "oom\t30\nsegfault\t60\n")], query)
    population = Population(query, words, 60_000, seed=5, scenario=find_scenario("crash", query))
    for seconds, is_there in ((0.0, False), (600.0, True)):
        state, n = tally_of(population, 60_000, seconds)
        names = {name.text.removesuffix("…") for name in search(query.oracle, state, n).names}
        assert ("typeerror: x is undefined"[:24] in names) is is_there
    assert ask(query.oracle, state, n, None, "TypeError: x is undefined").low > 0.04


def test_a_scenario_may_fade_and_attack_words(tmp_path):
    query = query_of()
    changes = {
        "fade": [{"value": "oom", "share": 1.0}],
        "attack": [{"targets": ["evil", "oom"], "kind": "maximal_gain", "share": 0.1}],
    }
    scenario = parse_scenario(changes, Place("file"), query)
    words = read_words([written(tmp_path, "oom\t30\nsegfault\t60\n")], query)
    population = Population(query, words, 2_000, seed=5, scenario=scenario)
    (answers,) = population.answers(2_000, 1.0)
    assert 100 < np.count_nonzero(~answers.honest) < 300
    assert {population.dictionary.words.texts[value] for value in answers.values[answers.honest]} == {"segfault"}
    assert query.oracle.check(answers.reports) is None


def test_two_runs_with_a_seed_are_the_same(tmp_path):
    query = query_of()
    words = read_words(["generated:100"], query)
    first_run, second = (
        [answers.reports.tolist() for answers in Population(query, words, 500, seed=9).answers(800, 0.0)]
        for _ in range(2)
    )
    assert first_run == second


def test_strings_have_no_true_counts():
    truth = TrueAnswers(query_of(), "source")
    truth.expect(PANE)
    truth.count(PANE, np.array([3, 4]), PANE * 1000)
    assert truth.due_panes(PANE + 900.0) == []


def test_replay_reads_any_text(tmp_path):
    path = tmp_path / "crashes.csv"
    path.write_text('crash\n"TypeError: x, y"\n""\nnaïve\n', encoding="utf-8")
    query = query_of()
    rows = list(Positions(path, query, "crash"))
    assert rows == [query.strings.cells_of(text).tolist() for text in ("TypeError: x, y", "", "naïve")]
    assert query.oracle.check(query.oracle.perturb(rows)) is None
