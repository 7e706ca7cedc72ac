"""Groups of a simulated crowd: their shares, their own distributions, and frames of one group."""

from itertools import chain

import numpy as np
import pytest

from oracles.errors import ParameterError
from oracles.frame import decode
from producers.simulation import simulate
from producers.simulation.crowd.crowd_groups import read_groups
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import Conduct, Course, Fade, Scenario
from producers.simulation.delivery.schedule import STEP
from producers.simulation.traffic import Traffic
from tests.queries import make_query, make_table, make_text

TABLE = make_table(domain=4, oracle="grr", epsilon=5.0, budget=1e9)
PLATFORMS = TABLE | {"groups": {"platform": ["ios", "android", "web"]}}
START, CLIENTS = 1_700_000_000, 40_000
SIX_SIGMA = 6.0
"""Standard errors that no share differs by. Of 100 shares one differs by more with a probability below 1e-6."""


def query(**keys):
    return make_query(PLATFORMS, **keys)


def population(text, *own, scenario=None, q=None, churn=0.0):
    q = q or query()
    groups = read_groups(text, ["uniform"], own, q)
    return Population(q, read_crowd([], q), CLIENTS, 11, scenario or Scenario(), churn=churn, groups=groups)


def everyone(people, seconds=0.0):
    parts = list(people.answers(people.clients, seconds))
    return np.concatenate([part.groups for part in parts]), np.concatenate([part.values for part in parts])


def close(share, probability, count):
    return abs(share - probability) <= SIX_SIGMA * max(np.sqrt(probability * (1 - probability) / count), 1 / count)


def test_groups_have_their_shares_and_the_rest_has_no_group():
    groups, _ = everyone(population("ios=0.5, web=0.2"))
    counts = np.bincount(groups, minlength=4)
    for number, share in enumerate([0.3, 0.5, 0.0, 0.2]):
        assert close(counts[number] / CLIENTS, share, CLIENTS)


@pytest.mark.parametrize("churn", [0.0, 1.0])
def test_each_group_has_its_own_distribution(churn):
    people = population("ios=0.5,android=0.5", "ios=zipf:1", churn=churn)
    everyone(people)
    groups, values = everyone(people)
    zipf = (1 / np.arange(1, 5)) / (1 / np.arange(1, 5)).sum()
    for number, law in ((1, zipf), (2, np.full(4, 0.25))):
        own_values = values[groups == number]
        shares = np.bincount(own_values, minlength=4) / len(own_values)
        assert all(close(share, part, len(own_values)) for share, part in zip(shares, law, strict=True))


def test_a_fade_moves_clients_by_the_distribution_of_their_group():
    scenario = Scenario((Fade(Course(1.0), 0, 0),))
    groups, values = everyone(population("ios=0.5,android=0.5", "ios=zipf:3", scenario=scenario), seconds=1.0)
    assert 0 not in values
    assert close(np.mean(values[groups == 1] == 1), 0.125 / (0.125 + 1 / 27 + 1 / 64), np.sum(groups == 1))
    assert close(np.mean(values[groups == 2] == 1), 1 / 3, np.sum(groups == 2))


def test_groups_of_several_attributes_have_specs_by_attribute():
    keys = {key: value for key, value in PLATFORMS.items() if key != "domain"}
    keys |= {"attributes": {"age": 4, "sex": ["f", "m"]}, "solution": "spl", "answers": "once"}
    q = make_query(keys)
    groups, values = everyone(population("ios=0.5,web=0.5", "web=sex=zipf:20", q=q))
    assert set(values[groups == 3][:, 1]) == {0}
    assert set(values[groups == 1][:, 1]) > {0}


def test_frames_are_of_one_group_and_hold_its_answers():
    scenario = Scenario(conducts=(Conduct(0.1, clock=-20),))
    people = population("ios=0.6,web=0.3", "ios=zipf:20", scenario=scenario)
    traffic = Traffic(people, START, 3, 100)
    simulated = [*chain.from_iterable(traffic.step(1000 * START + number, 400) for number in range(0, 5000, STEP))]
    simulated += traffic.rest()
    counts = np.zeros(4, int)
    for message in simulated:
        frame = decode(message.data)
        counts[frame.group] += frame.n
        assert frame.group != 1 or set(message.values) <= {0}
    assert counts.sum() == 20_000
    assert counts[2] == 0 < min(counts[[0, 1, 3]])
    assert {decode(message.data).pane for message in simulated} == {START, START - 20}


def test_a_crowd_without_groups_is_the_same_as_before():
    plain = make_query(TABLE)
    one, two = (Traffic(Population(q, read_crowd([], q), 500, 3), START, 3) for q in (plain, query()))
    assert [message.data for message in one.step(1000 * START, 500)] == [
        message.data for message in two.step(1000 * START, 500)
    ]


@pytest.mark.parametrize(
    ("text", "own", "fault"),
    [
        ("tv=0.5", [], "each of ios, android, web once at most, got 'tv'"),
        ("ios=0.5,ios=0.2", [], "once at most, got 'ios'"),
        ("(none)=0.5", [], "got '\\(none\\)'"),
        ("ios=0.7,web=0.4", [], "sum to at most 1, got 1.1"),
        ("ios=0", [], "shares above 0"),
        ("ios=-1", [], "shares above 0"),
        ("ios=nan", [], "shares above 0"),
        ("ios", [], "shares above 0"),
        ("ios=0.5,", [], "got ''"),
        ("ios=0.5", ["web=uniform"], "a group of --groups, got 'web=uniform'"),
        ("ios=0.5", ["ios"], "GROUP=SPEC"),
        ("ios=0.5", ["ios=gauss"], "a distribution is uniform"),
    ],
)
def test_impossible_groups_are_an_error(text, own, fault):
    with pytest.raises(ParameterError, match=fault):
        population(text, *own)


def test_the_command_says_why_it_cannot_have_groups(tmp_path, capsys):
    file = tmp_path / "hubbub.toml"
    file.write_text(make_text("q", domain=4))
    assert simulate.main(["--queries", str(file), "--groups", "ios=0.5"]) == 2
    assert "query 'q' has no groups" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        simulate.main(["--queries", str(file), "--group-values", "ios=uniform"])
    assert "--group-values needs --groups" in capsys.readouterr().err
