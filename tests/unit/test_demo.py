"""`hubbub demo` refuses options that cannot work."""

import tomllib

import numpy as np
import pytest

from aggregator.demo import command as demo
from aggregator.demo import surge
from oracles.query import load, parse
from oracles.query.settings import Place
from producers.simulation.crowd.crowd_groups import read_groups
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.scenario import parse_scenario


def test_a_missing_requirement_is_an_error(tmp_path, capsys):
    assert demo.main(["--kafka", "127.0.0.1:1", "--no-browser"]) == 3
    assert "hubbub demo: Kafka at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err
    assert demo.main(["--queries", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: cannot be read" in capsys.readouterr().err
    for wrong in (["--seconds", "0"], ["--kafka", "here"], ["--prefix", "a b"]):
        with pytest.raises(SystemExit) as ending:
            demo.main(wrong)
        assert ending.value.code == 2


LOG = {"low": 10, "high": 60_000, "scale": "log"}


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"domain": LOG}, "lognormal:6.304,0.8004"),
        ({"domain": {"low": 0, "high": 100}}, "normal:46,9.2"),
        ({"domain": {"low": -100, "high": 0}}, "uniform"),
        ({"attributes": {"age": LOG, "sex": ["f", "m"]}, "solution": "smp"}, "zipf:1.1"),
    ],
)
def test_the_crowd_of_a_demo_fits_any_numbers(settings, values):
    query = parse({"queries": {"q": {"epsilon": 1.0, "pane": "10s", "budget": 1e9, **settings}}}, "test", ".")["q"]
    assert surge.values(query) == values
    read_crowd([values], query)
    (change,) = parse_scenario(tomllib.loads(surge.scenario(query)), Place("test"), query).changes
    assert change.factor == surge.FACTOR
    assert change.course.at(surge.BEGINS - 1) == 0.0
    assert surge.event(query) == "regression: p95 of q, 60 s from now"


def test_the_demo_shows_a_number_beside_the_homepages():
    queries = load(demo.QUERIES)
    assert list(queries) == ["homepage", "load_time"]
    assert queries["load_time"].domain.unit == "ms"
    assert surge.values(queries["load_time"]).startswith("lognormal:6.3")


def test_the_platforms_of_the_demo_differ():
    query = load(demo.QUERIES)["homepage"]
    option, shares, *own = surge.groups(query)
    assert (option, own[::2]) == ("--groups", ["--group-values"] * 3)
    crowd = read_groups(shares, [surge.values(query)], own[1::2], query)
    assert [round(share, 2) for share in crowd.shares.values()] == [0.55, 0.27, 0.18]
    first = [law.weights[0] / law.weights.sum() for law in crowd.crowds.values()]
    assert min(np.diff(sorted(first))) > 0.05


@pytest.mark.parametrize("count", [1, 2, 255])
def test_a_demo_of_other_groups_has_them_all(count):
    groups = {"v": [f"v{number}" for number in range(count)]}
    table = {"domain": LOG, "epsilon": 1.0, "pane": "10s", "groups": groups}
    query = parse({"queries": {"q": table}}, "test", ".")["q"]
    _, shares, *own = surge.groups(query)
    crowd = read_groups(shares, [], own[1::2], query)
    assert list(crowd.shares) == list(range(1, 1 + count))
    assert sum(crowd.shares.values()) == pytest.approx(1.0)
