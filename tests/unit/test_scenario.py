"""Scenarios, with their changes over time, the clients that take part, and the files."""

import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import producers
from oracles.errors import ParameterError, QueryError
from oracles.query.settings import Place
from producers.simulation import simulate
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import (
    BUNDLED,
    Attack,
    Conduct,
    Course,
    Fade,
    Rhythm,
    Scenario,
    Shift,
    Surge,
    find_scenario,
    parse_scenario,
    read_scenario,
)
from tests.queries import make_query, make_table

CRASHES = make_query(name="crashes", domain={"discover": "text", "length": 24}, epsilon=2.0, pane="5m")
EXAMPLES = sorted((Path(producers.__file__).parent / "simulation" / "crowd" / "scenarios").glob("*.toml"))
CLIENTS = 40_000
SPREAD = 5.0 / math.sqrt(CLIENTS)
"""At most ten standard deviations of a share, so that no test fails by chance."""


def query(**table):
    table = make_table({"domain": 8, "budget": 1e9, "oracle": "olh"}, **table)
    return make_query(table)


Q = query()
PAGES = query(domain=[f"page-{number}" for number in range(100)])
LOADS = make_query(domain={"low": 10, "high": 60_000, "scale": "log"})
PROFILE = make_query(name="p", attributes={"a": 3, "b": ["x", "y"]}, budget=1e9)


def scenario(text, q=PAGES):
    return parse_scenario(tomllib.loads(text), Place("s.toml"), q)


def population(scenario, q=Q, spec="zipf:1", **more):
    return Population(q, read_crowd([spec], q), CLIENTS, 11, scenario, **more)


def everyone(population, seconds):
    """Return the reports, values and honesty of all clients at a time."""
    groups = list(population.answers(population.clients, seconds))
    return tuple(np.concatenate([getattr(g, name) for g in groups]) for name in ("reports", "values", "honest"))


@pytest.mark.parametrize(
    ("seconds", "share"),
    [(-1, 0), (59.9, 0), (60, 0), (65, 0.25), (70, 0.5), (80, 0.5), (90, 0.5), (95, 0.25), (100, 0), (1e9, 0)],
)
def test_a_course_rises_stays_and_falls_as_fast(seconds, share):
    assert Course(0.5, begins=60, rises=10, lasts=20).at(seconds) == pytest.approx(share)


def test_a_course_without_an_end_stays():
    assert [Course(0.5, 60, 10).at(seconds) for seconds in (59, 60, 70, 1e9)] == [0, 0, 0.5, 0.5]
    assert [Course(0.5, 60).at(seconds) for seconds in (59.9, 60, 1e9)] == [0, 0.5, 0.5]


def test_a_rhythm_peaks_once_a_day():
    rhythm = Rhythm(quiet=0.2, peak=20 * 3600)
    assert [rhythm.at(day * 86_400 + 20 * 3600) for day in (0, 9)] == pytest.approx([1.0, 1.0])
    assert rhythm.at(8 * 3600) == pytest.approx(0.2)
    assert rhythm.at(14 * 3600) == pytest.approx(0.6)


def test_a_surge_takes_its_share_of_all_clients_and_gives_them_back_as_they_were():
    crowd = population(Scenario((Surge(Course(0.3, begins=60, rises=10, lasts=20), 0, 5),)))
    earlier_answers, values_before, _ = everyone(crowd, 0)
    share = np.count_nonzero(values_before == 5) / CLIENTS
    samples = []
    for seconds, surge in ((65, 0.15), (75, 0.3), (95, 0.15)):
        _, values, honest = everyone(crowd, seconds)
        assert abs(np.count_nonzero(values == 5) / CLIENTS - (share + surge * (1 - share))) < SPREAD
        assert honest.all()
        samples.append(values)
    assert np.array_equal(samples[0], samples[2]), "the same clients at the same share"
    assert (samples[1][samples[0] == 5] == 5).all(), "the first clients still take part at the peak"
    later_answers, values_after, _ = everyone(crowd, 200)
    assert np.array_equal(earlier_answers, later_answers)
    assert np.array_equal(values_before, values_after)


def test_a_client_repeats_its_report_of_the_value_of_a_surge():
    crowd = population(Scenario((Surge(Course(0.3, lasts=20), 0, 5),)))
    first_answers, _, _ = everyone(crowd, 1)
    everyone(crowd, 30)
    repeated_answers, _, _ = everyone(crowd, 2)
    assert np.array_equal(first_answers, repeated_answers)


def test_reports_in_a_surge_follow_the_values():
    crowd = population(Scenario((Surge(Course(0.4), 0, 5),)), query(oracle="oue"))
    reports, values, _ = everyone(crowd, 1)
    oracle = crowd.query.oracle
    state = oracle.zeros()
    oracle.add(state, reports)
    estimate = oracle.estimate(state, len(reports))
    true = np.bincount(values, minlength=8) / CLIENTS
    assert (np.abs(estimate.shares - true) < 6 * estimate.stderr).all()  # false once in 6e7 seeds


def test_a_value_fades_to_others_in_proportion():
    crowd = population(Scenario((Fade(Course(1.0, rises=10), 0, 0),)))
    _, earlier_answers, _ = everyone(crowd, 0)
    for seconds, rest in ((5, 0.5), (10, 0.0)):
        _, values, _ = everyone(crowd, seconds)
        own = np.count_nonzero(earlier_answers == 0) / CLIENTS
        assert abs(np.count_nonzero(values == 0) / CLIENTS - rest * own) < SPREAD
        assert np.array_equal(values[earlier_answers != 0], earlier_answers[earlier_answers != 0])
    assert abs(np.count_nonzero(values == 1) / CLIENTS - (1 / 2) / (1 / np.arange(2, 9)).sum()) < SPREAD


def test_a_surge_in_one_attribute_leaves_the_others():
    crowd = population(Scenario((Surge(Course(0.5), 1, 1),)), PROFILE)
    _, earlier_answers, _ = everyone(population(Scenario(), PROFILE), 0)
    _, later_answers, _ = everyone(crowd, 0)
    assert np.array_equal(earlier_answers[:, 0], later_answers[:, 0])
    assert np.count_nonzero(later_answers[:, 1] == 1) > np.count_nonzero(earlier_answers[:, 1] == 1)


@pytest.mark.parametrize("kind", ["maximal_gain", "random_value"])
def test_attackers_push_their_targets_and_are_not_honest(kind):
    targets = ([6, 7],)
    crowd = population(Scenario((Attack(Course(0.2, begins=10), kind, targets),)))
    _, _, honest = everyone(crowd, 9)
    assert honest.all()
    reports, _, honest = everyone(crowd, 10)
    assert abs(np.count_nonzero(~honest) / CLIENTS - 0.2) < SPREAD
    oracle = crowd.query.oracle
    state = oracle.zeros()
    oracle.add(state, reports[~honest])
    shares = oracle.estimate(state, np.count_nonzero(~honest)).shares[[6, 7]]
    # olh with epsilon 1: a forged report counts as (1 - q)/(p - q) reports, and a lie that follows the protocol as one.
    share = (1 - oracle.q) / oracle.gap if kind == "maximal_gain" else 0.5
    assert shares == pytest.approx([share] * 2, abs=0.1)


def test_attackers_repeat_their_reports():
    crowd = population(Scenario((Attack(Course(0.2), "maximal_gain", ([6, 7],)),)))
    first_answers, _, _ = everyone(crowd, 0)
    repeated_reports = np.concatenate([g.reports for g in crowd.answers(CLIENTS, 9)])
    assert np.array_equal(first_answers, repeated_reports)


def test_no_client_has_two_conducts_and_each_keeps_its_own():
    crowd = population(Scenario(conducts=(Conduct(0.1, late=5), Conduct(0.2, clock=-3600))))
    first_conduct, repeated_conduct = (np.concatenate([g.conduct for g in crowd.answers(CLIENTS, 0)]) for _ in range(2))
    assert np.array_equal(first_conduct, repeated_conduct)
    shares = np.bincount(first_conduct, minlength=3) / CLIENTS
    assert np.abs(shares - [0.1, 0.2, 0.7]).max() < SPREAD


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_valid(path):
    assert read_scenario(path, {"regress": LOADS, "crash": CRASHES}.get(path.stem, PAGES)) != Scenario()


def test_the_demo_s_surge_begins_after_a_minute_with_a_rare_page():
    [surge] = read_scenario(EXAMPLES[0].with_name("surge.toml"), PAGES).changes
    assert surge.course.at(60) == 0
    assert surge.course.at(90) == surge.course.share > 0.05
    assert PAGES.domain.name(surge.value) == "page-42"


def test_a_file_may_contain_all_kinds_of_changes():
    changes = scenario(
        """
        late = { share = 0.1 }
        duplicate = { share = 0.2 }
        rhythm = { quiet = 0.5, peak = "20h" }
        clock = [{ share = 0.1, by = "-1h" }, { share = 0.2, by = "30s" }]
        surge = [{ value = "page-1", share = 0.5, begins = "1m", rises = "10s", lasts = "2m" }]
        fade = [{ value = "page-2", falls = "10s" }]
        attack = [{ kind = "random_value", share = 0.1, targets = ["page-3", "page-4"] }]
        """
    )
    assert changes == Scenario(
        changes=(
            Surge(Course(0.5, 60, 10, 120), 0, 1),
            Fade(Course(1.0, 0, 10), 0, 2),
            Attack(Course(0.1), "random_value", ((3, 4),)),
        ),
        conducts=(Conduct(0.1, late=5), Conduct(0.1, clock=-3600), Conduct(0.2, clock=30)),
        rhythm=Rhythm(0.5, 20 * 3600),
        duplicates=0.2,
    )


def test_with_several_attributes_a_change_names_its_attribute():
    changes = scenario('attack = [{ attribute = "b", targets = ["x"], share = 0.1, kind = "maximal_gain" }]', PROFILE)
    assert changes.changes[0].targets == ((), (0,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("surges = []", "s.toml: surges: unknown key; did you mean 'surge'?"),
        ("surge = 3", "s.toml: surge: must be one or more tables [[surge]], got 3"),
        ('surge = [{ value = "page-1" }]', "s.toml: surge.0.share: is missing; it must be a number above 0"),
        ('surge = [{ value = "page-1", share = 0 }]', "s.toml: surge.0.share: must be a number above 0"),
        ('surge = [{ value = "nowhere", share = 0.1 }]', "s.toml: surge.0.value: must be a value of the domain"),
        (
            'surge = [{ value = "page-1", share = 0.1, attribute = "a" }]',
            "s.toml: surge.0.attribute: query 'q' has no attributes",
        ),
        ('fade = [{ value = "page-1", rises = "1s" }]', "s.toml: fade.0.rises: unknown key"),
        ('attack = [{ share = 0.1, kind = "random_value" }]', "s.toml: attack.0.targets: is missing"),
        ('attack = [{ share = 0.1, kind = "all", targets = ["page-1"] }]', "s.toml: attack.0.kind: must be one of"),
        ('clock = [{ share = 0.1, by = "0s" }]', "s.toml: clock.0.by: must be a duration other than 0"),
        ('late = { share = 0.1, by = "0s" }', "s.toml: late.by: must be a duration"),
        ("late = [0.1]", "s.toml: late: must be a table"),
        ('late = { share = 0.6 }\nclock = [{ share = 0.5, by = "1s" }]', "s.toml: the shares of late clients"),
        ("rhythm = { quiet = 2 }", "s.toml: rhythm.quiet: must be a number from 0 to 1"),
    ],
)
def test_an_error_names_the_key(text, message):
    with pytest.raises(QueryError) as error:
        scenario(text)
    assert str(error.value).startswith(message)


def test_with_several_attributes_the_attribute_is_required():
    with pytest.raises(QueryError, match=r"surge\.0\.attribute: is missing; it must be one of a, b"):
        scenario("surge = [{ value = 1, share = 0.1 }]", PROFILE)


@pytest.mark.parametrize("content", [None, b"surge = [", b"\xff"])
def test_the_error_of_an_unreadable_file_names_it(tmp_path, content):
    if content is not None:
        (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(QueryError, match=r"s\.toml"):
        read_scenario(tmp_path / "s.toml", Q)


def test_bundled_scenarios_are_listed_and_found_by_name(capsys):
    with pytest.raises(SystemExit):
        simulate.main(["--help"])
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert f"or a bundled one: {', '.join(path.stem for path in EXAMPLES)}" in text
    assert [BUNDLED[path.stem] for path in EXAMPLES] == EXAMPLES


def test_the_error_of_an_unknown_name_lists_the_bundled_scenarios():
    with pytest.raises(ParameterError, match=r"named 'surges'; bundled scenarios: .*surge, .*"):
        find_scenario("surges", Q)
    assert find_scenario("day", Q) == read_scenario(BUNDLED["day"], Q)


def test_p95_regresses_after_a_minute_and_the_median_hardly_moves():
    [shift] = find_scenario("regress", LOADS).changes
    assert isinstance(shift, Shift)
    people = Population(LOADS, read_crowd(["lognormal:6.3,0.8"], LOADS), CLIENTS, 11, Scenario((shift,)))
    edges = LOADS.domain.scale.edges

    def quantiles(seconds):
        values = np.concatenate([answer.values for answer in people.answers(CLIENTS, seconds)])
        return [edges[int(position)] for position in np.quantile(values, [0.5, 0.95])]

    earlier_quantiles = quantiles(59.0)
    later_quantiles = quantiles(70.0)
    assert earlier_quantiles[0] == pytest.approx(math.exp(6.3), rel=0.05)
    assert earlier_quantiles[1] == pytest.approx(math.exp(6.3 + 1.645 * 0.8), rel=0.05)
    assert later_quantiles[0] < 1.2 * earlier_quantiles[0]
    assert later_quantiles[1] > 1.5 * earlier_quantiles[1]


def test_a_shift_needs_numbers_and_a_factor():
    for text, q, message in (
        ("[[shift]]\nfactor = 2.0", PAGES, r"shift\.0.*needs a query of numbers"),
        ("[[shift]]\nshare = 0.1", LOADS, r"factor.*is missing"),
        ("[[shift]]\nfactor = 0.0", LOADS, "above 0"),
    ):
        with pytest.raises(QueryError, match=message):
            scenario(text, q)
