"""The answers of simulated clients that note at random are those of recorders."""

import math

import numpy as np
import pytest

from oracles.errors import ParameterError
from producers.client.note_rules import NoteRules
from producers.simulation import simulate
from producers.simulation.crowd.note_crowd import read_notes
from tests.queries import make_query, make_text

USUAL = {"epsilon": 2.0, "pane": "1h", "period": "1d", "answers": "fresh"}
NAMED = {"domain": ["none", "1", "2-4", "5 or more"], **USUAL}
COUNT = {"keep": "count", "edges": [0, 1, 2, 5]}
Z = 4.9
"""Standard errors of a bound that one honest crowd in a million exceeds."""


def test_the_shares_of_counts_are_those_of_poisson_numbers():
    weights = read_notes("poisson:3", make_query(NAMED, recorder=COUNT)).weights
    chances = [math.exp(-3) * 3**number / math.factorial(number) for number in range(5)]
    expected = [chances[0], chances[1], sum(chances[2:5]), 1 - sum(chances)]
    assert weights == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("recorder", "keys"),
    [
        (COUNT, {}),
        ({"keep": "days"}, {"domain": 8, "period": "7d"}),
        ({"keep": "since", "edges": [0, 2, 3, 5], "empty": "5 or more"}, {}),
    ],
)
def test_devices_with_recorders_answer_with_these_shares(recorder, keys):
    query = make_query({**NAMED, **keys}, recorder=recorder)
    rate = 0.7
    weights = read_notes(f"poisson:{rate}", query).weights
    rules = NoteRules(query.recorder, query.domain)
    rng = np.random.default_rng(1)
    answers = np.zeros(query.domain.size)
    for _ in range(1_000):
        state = None
        for period in range(12):
            state = rules.turn(state, period)
            for offset in rng.uniform(0, query.period, rng.poisson(rate)):
                state = rules.add(state, 1, period * query.period + offset)
        answers[rules.answer(rules.turn(state, 12))] += 1
    errors = np.sqrt(weights * (1 - weights) / 1_000)
    assert (np.abs(answers / 1_000 - weights) <= Z * errors + 1e-3).all()


@pytest.mark.parametrize(
    ("spec", "recorder", "text"),
    [
        ("poisson", COUNT, "notes are poisson:RATE"),
        ("poisson:0", COUNT, "above 0 and at most 1000"),
        ("poisson:1e9", COUNT, "above 0 and at most 1000"),
        ("zipf:1", COUNT, "notes are poisson:RATE"),
        ("poisson:3", {"keep": "step", "empty": "none"}, 'are for count, days, since, and the query has keep = "step"'),
        ("poisson:3", None, "has no recorder"),
    ],
)
def test_wrong_notes_are_an_error(spec, recorder, text):
    query = make_query(NAMED, **({} if recorder is None else {"recorder": recorder}))
    with pytest.raises(ParameterError, match=text):
        read_notes(spec, query)


@pytest.mark.parametrize("more", [["--values", "uniform"], ["--groups", "ios=1"]])
def test_notes_replace_the_values(tmp_path, capsys, more):
    (tmp_path / "hubbub.toml").write_text(make_text("uses", NAMED, recorder=COUNT))
    with pytest.raises(SystemExit) as error:
        simulate.main(["--queries", str(tmp_path / "hubbub.toml"), "--query", "uses", "--notes", "poisson:3", *more])
    assert error.value.code == 2
    assert "--notes gives the values" in capsys.readouterr().err
