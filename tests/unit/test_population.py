"""Simulated clients, with their values, answers like those of real clients, and repeated reports."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from oracles.errors import ParameterError
from oracles.frame import decode
from oracles.mechanisms.entropy import Source
from oracles.multi.forgery import skewed
from producers.client.client import Client
from producers.publishers.frames import Batches
from producers.simulation.crowd.distribution import read_crowd
from producers.simulation.crowd.population import Population
from producers.simulation.crowd.scenario import Course, Scenario, Surge
from producers.simulation.delivery.simulated_frames import FrameBuilder
from tests.queries import make_query

ALARM = 1e-6
"""The chance of a false alarm of each statistical test, if its seed were not fixed."""


def query(oracle="grr", domain=8, epsilon=1.0, **more):
    return make_query({"domain": domain, "epsilon": epsilon, "budget": 1e9, "oracle": oracle}, **more)


def several(solution="rsfd", **attributes):
    return make_query(attributes=attributes, budget=1e9, solution=solution, oracle="adaptive")


def everyone(population, count=None, seconds=0.0):
    """Return the reports and values of the next answers, by default one of each client."""
    groups = list(population.answers(count or population.clients, seconds))
    return np.concatenate([g.reports for g in groups]), np.concatenate([g.values for g in groups])


def fits(values, shares):
    """Whether the counts of values agree with their shares."""
    counts = np.bincount(values, minlength=len(shares))
    assert not counts[shares == 0].any()
    positive = shares > 0
    return stats.chisquare(counts[positive], len(values) * shares[positive]).pvalue > ALARM


V = np.arange(8)
LAWS = {
    "uniform": np.ones(8),
    "zipf:1.1": 1 / (V + 1) ** 1.1,
    "geometric:0.3": 0.7**V,
    "beta:2,5": ((V + 0.5) / 8) * (1 - (V + 0.5) / 8) ** 4,
    "0.7*zipf:1.1+0.3*uniform": 0.7 * (1 / (V + 1) ** 1.1) / (1 / (V + 1) ** 1.1).sum() + 0.3 / 8,
}


@pytest.mark.parametrize("spec", LAWS)
def test_values_follow_their_distribution(spec):
    _, values = everyone(Population(query(), read_crowd([spec], query()), 50_000, 1))
    assert fits(values, LAWS[spec] / LAWS[spec].sum())


def test_values_follow_a_file_of_counts(tmp_path):
    (tmp_path / "counts.csv").write_text("count,value\n30,a\n10,elsewhere\n60,b\n")
    q = query(domain=["a", "b", "c"])
    _, values = everyone(Population(q, read_crowd([f"file:{tmp_path}/counts.csv"], q), 50_000, 1))
    assert fits(values, np.array([0.3, 0.6, 0.0, 0.1]))


def test_several_attributes_keep_their_joint_counts(tmp_path):
    (tmp_path / "joint.csv").write_text("age,sex,count\n0,f,40\n1,m,50\n1,f,10\n")
    q = several(sex=["f", "m"], age=3)
    _, values = everyone(Population(q, read_crowd([f"file:{tmp_path}/joint.csv"], q), 50_000, 1))
    shares = np.zeros((3, 3))
    shares[0, 0], shares[1, 1], shares[1, 0] = 0.4, 0.5, 0.1  # age, sex
    assert fits(values[:, 0] * 3 + values[:, 1], shares.ravel())


def test_several_attributes_may_be_independent():
    q = several(sex=["f", "m"], age=3)
    _, values = everyone(Population(q, read_crowd(["age=geometric:0.5", "zipf:2"], q), 50_000, 1))
    age = np.array([4, 2, 1]) / 7
    sex = np.array([36, 9, 4]) / 49
    assert fits(values[:, 0] * 3 + values[:, 1], np.outer(age, sex).ravel())


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (["zipf"], "a distribution is uniform, zipf:A"),
        (["zipf:x"], "at least 0, got 'x'"),
        (["gauss:1"], "a distribution is uniform"),
        (["beta:2"], "a distribution is uniform"),
        (["geometric:1"], "below 1"),
        (["beta:1,1e308"], "a finite sum above 0"),
        (["zipf:1e400"], "at least 0"),
        (["0*uniform"], "a finite sum above 0"),
        (["uniform", "zipf:1"], "one distribution"),
        (["file:/nowhere.csv"], "cannot read /nowhere.csv"),
    ],
)
def test_an_invalid_distribution_is_refused(specs, message):
    with pytest.raises(ParameterError, match=message):
        read_crowd(specs, query())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value\na\n", "must name the columns value, count"),
        ("value,count\na,few\n", "line 2.*'few'"),
        ("value,count\nz,1\n", "line 2.*'z' is not in"),
    ],
)
def test_an_error_in_a_file_of_counts_names_the_line(tmp_path, text, message):
    (tmp_path / "counts.csv").write_text(text)
    with pytest.raises(ParameterError, match=message):
        read_crowd([f"file:{tmp_path}/counts.csv"], query(domain=["a", "b"], other=False))


class System(Source):
    """A stream of bytes like that of a single client, but the same in every run."""

    def __init__(self, seed):
        self.bytes = np.random.Generator(np.random.MT19937(seed))

    def raw(self, count):
        return np.frombuffer(self.bytes.bytes(count), np.uint8)


def alike(one, other, values):
    """Return the chance that two samples of reports to the same values differ so much under one law."""
    pairs = np.hstack([np.vstack([one, other]), np.tile(values.reshape(len(values), -1), (2, 1))])
    _, kind = np.unique(pairs, axis=0, return_inverse=True)
    table = np.stack([np.bincount(half, minlength=kind.max() + 1) for half in np.split(kind.ravel(), 2)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) >= 20]).pvalue


QUERIES = {
    **{name: query(name, 4) for name in ("grr", "sue", "oue", "blh", "olh", "hr", "ss")},
    **{solution: several(solution, a=3, b=2) for solution in ("spl", "smp", "rsfd")},
}


@pytest.mark.parametrize("name", QUERIES)
def test_simulated_reports_have_the_distribution_of_single_clients(name):
    q = QUERIES[name]
    reports, values = everyone(Population(q, read_crowd(["zipf:1"], q), 20_000, 5))
    alone = q.oracle.perturb(values, System(6))
    assert alike(reports, alone, values) > ALARM


def test_simulated_frames_have_the_distribution_of_the_sdk():
    q = query("grr", 4)
    values = np.array([0] * 200 + [1] * 200)
    batches = Batches(reports=100)
    people = [Client(q, ":memory:", key=seed.to_bytes(32, "big")) for seed in range(400)]
    client_frames = [
        frame.data
        for person, value in zip(people, values, strict=True)
        for frame in batches.add(q, 0, person.answer(int(value)), 1.0)
    ]
    builder = FrameBuilder(q, 12, 100, np.random.default_rng(8))
    reports = q.oracle.perturb(values, np.random.default_rng(9))
    crowd_frames = [frame.data for frame in builder.put(0, reports, values, np.ones(400, np.bool_), 0)]
    assert [len(data) for data in client_frames] == [len(data) for data in crowd_frames]
    one, other = (np.vstack([decode(data).reports for data in frames]) for frames in (client_frames, crowd_frames))
    assert alike(one, other, values) > ALARM


LIVES = {
    **{name: query(name, 40) for name in ("grr", "oue", "olh", "hr")},
    "grr-few": query("grr", 4),
    "smp": several("smp", a=40, b=3),
    "spl": several("spl", a=3, b=2),
    "smp-hr": make_query(attributes={"a": 40, "b": 3}, oracle="hr"),
}


@pytest.mark.parametrize("name", LIVES)
def test_a_client_that_answers_for_life_repeats_the_report_of_a_value(name):
    q, n, turns = LIVES[name], 600, 25
    population = Population(q, read_crowd(["zipf:1"], q), n, 3, churn=0.5)
    answers = {}
    for _ in range(turns):
        reports, values = everyone(population)
        for client in range(n):
            answers.setdefault(client, {}).setdefault(values[client].tobytes(), set()).add(reports[client].tobytes())
    assert all(len(reports) == 1 for mine in answers.values() for reports in mine.values()), "one report per value"
    maximum = max(len(set.union(*mine.values())) for mine in answers.values())
    assert maximum <= (6 if q.solution == "spl" else q.oracle.life.times)
    assert max(map(len, answers.values())) > 3, "values change"
    assert population.silent == 0.0


def test_the_churn_is_the_share_that_draws_a_new_value_each_period():
    q = query("olh", 1 << 20)
    population = Population(q, read_crowd([], q), 10_000, 3, churn=0.1)
    values = [everyone(population)[1] for _ in range(12)]
    for before_draw, after_draw in pairwise(values):
        # Binomial: 1,000 +- 30; 5.2 standard deviations are exceeded with probability 2e-7, eleven times.
        assert abs(np.count_nonzero(before_draw != after_draw) - 1000) < 5.2 * 30
    assert np.count_nonzero(values[0] == values[-1]) == 0, "each of them once in ten answers"


def test_clients_that_answer_once_repeat_the_first_report_and_the_truth_is_their_present_value():
    q = query("olh", 1024, answers="once")
    population = Population(q, read_crowd(["zipf:1"], q), 5_000, 3, churn=0.5)
    first_clients, values = everyone(population)
    for _ in range(9):
        later_clients, later_values = everyone(population)
    assert np.array_equal(first_clients, later_clients)
    assert not np.array_equal(values, later_values)


def test_fresh_clients_fall_silent_when_their_budget_is_spent():
    q = query("olh", 1024, answers="fresh", budget=4.0)
    population = Population(q, read_crowd(["zipf:1"], q), 5_000, 3)
    rounds = [everyone(population) for _ in range(3)]
    for (first, before_draw), (again, after_draw) in pairwise(rounds):
        assert np.array_equal(before_draw, after_draw)
        assert np.count_nonzero((first == again).all(axis=1)) < 50
    assert population.silent == 0.0
    assert sum(len(group.values) for group in population.answers(2_000, 0.0)) == 2_000
    assert population.silent == 0.4
    assert sum(len(group.values) for group in population.answers(5_000, 0.0)) == 3_000
    assert population.silent == 1.0


def test_a_round_renews_noise_and_charges():
    q = query("olh", 1024, answers="fresh", budget=1.0, period="10s", renew="1m")
    population = Population(q, read_crowd(["zipf:1"], q), 1_000, 3)
    counts = [sum(len(group.values) for group in population.answers(1_000, 0.0, at=600 + 10 * k)) for k in range(12)]
    assert counts == [1_000, 0, 0, 0, 0, 0] * 2
    q = query("hr", 1024, period="10s", renew="1m")
    population = Population(q, read_crowd(["zipf:1"], q), 1_000, 3)
    rounds = [np.vstack([g.reports for g in population.answers(1_000, 0.0, at=600 + 10 * k)]) for k in range(12)]
    assert np.array_equal(rounds[0], rounds[5])
    assert np.array_equal(rounds[6], rounds[11])
    assert np.count_nonzero((rounds[5] == rounds[6]).all(axis=1)) < 50


def test_the_size_of_a_step_changes_no_value():
    q = query("oue", 100)
    scenario = Scenario((Surge(Course(0.5), 0, 3),))
    whole, pieces = (Population(q, read_crowd(["zipf:1"], q), 30_000, 3, scenario, churn=0.5) for _ in range(2))
    for _ in range(3):
        _, values = everyone(whole)
        counts = [1, 499, 15_884, 1, 13_614, 1]
        assert np.array_equal(np.concatenate([everyone(pieces, count)[1] for count in counts]), values)


def test_the_same_seed_repeats_all_reports():
    q = query("olh", 1024)
    runs = [Population(q, read_crowd(["zipf:1"], q), 20_000, 3, churn=0.5) for _ in range(2)]
    for count in (7, 20_000, 30_000):
        first_answers, second_answers = (everyone(population, count) for population in runs)
        assert np.array_equal(first_answers[0], second_answers[0])
        assert np.array_equal(first_answers[1], second_answers[1])


def test_clients_of_a_population_are_independent_of_one_another():
    reports, _ = everyone(Population(query("olh", 1 << 20), read_crowd([], query("olh", 1 << 20)), 50_000, 3))
    assert len(np.unique(reports, axis=0)) == 50_000  # of 2^42: a pair agrees by chance once in 3,500 seeds


def test_another_seed_is_another_crowd():
    q = query("olh", 1024)
    one, two = (everyone(Population(q, read_crowd([], q), 1000, seed))[0] for seed in (1, 2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(("name", "limit"), [("grr", 12), ("olh", 18), ("hr", 16)])
def test_a_client_takes_about_15_bytes(name, limit):
    q = query(name, 1024)
    population = Population(q, read_crowd([], q), 200_000, 1)
    tracemalloc.start()
    for _ in range(200):
        for _ in population.answers(1000, 0.0):
            pass
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < limit * population.clients
    assert peak < size + (10 << 20)


def test_clients_take_no_memory_before_their_first_answer():
    q = query("oue", 1024)
    population = Population(q, read_crowd([], q), 10_000_000, 1)
    tracemalloc.start()
    everyone(population, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 << 20


def supports(oracle, reports):
    state = oracle.zeros()
    assert oracle.add(state, reports) == 0, "all reports are plausible"
    return oracle.support(state, len(reports))


@pytest.mark.parametrize("name", ["sue", "oue", "blh", "olh", "hr", "ss"])
@pytest.mark.parametrize("targets", [[5], [0, 7, 63, 21]])
def test_a_report_of_maximal_gain_supports_all_targets(name, targets):
    oracle = query(name, 64).oracle
    reports = oracle.attack([np.array(targets)], np.zeros(2000, np.int64), np.random.default_rng(1))
    assert supports(oracle, reports)[targets].tolist() == [2000] * len(targets)


def test_a_forged_grr_report_is_a_target():
    oracle = query("grr", 64).oracle
    reports = oracle.attack([np.array([3, 9])], np.zeros(2000, np.int64), np.random.default_rng(1))
    assert supports(oracle, reports)[[3, 9]].sum() == 2000


def test_a_forged_report_supports_all_targets_if_all_values_share_a_bucket():
    oracle = query("olh", 8).oracle
    reports = oracle.attack([np.arange(8)], np.zeros(10, np.int64), np.random.default_rng(1))
    assert supports(oracle, reports).tolist() == [10] * 8


@pytest.mark.parametrize("solution", ["spl", "smp", "rsfd"])
def test_attackers_aim_at_one_of_several_attributes(solution):
    q = several(solution, a=40, b=50)
    values = np.random.default_rng(2).integers(0, 40, (2000, 2))
    reports = q.oracle.attack([np.array([], np.int64), np.array([7])], values, np.random.default_rng(1))
    state = q.oracle.zeros()
    q.oracle.add(state, reports)
    a, b = q.oracle.support(state, 2000)
    assert b[7] >= 1990  # a few may be implausible by the other attribute's honest noise
    assert a.max() < 1800


@pytest.mark.parametrize("name", ["oue", "olh", "hr"])
def test_a_crowd_with_attackers_looks_forged_and_an_honest_one_does_not(name):
    oracle = query(name, 256).oracle
    honest = oracle.perturb(np.zeros(40_000, np.int64), np.random.default_rng(1))
    forgeries = oracle.attack([np.arange(10, 15)], np.zeros(4_000, np.int64), np.random.default_rng(2))
    for reports, result in ((honest, False), (np.vstack([honest, forgeries]), True)):
        state = oracle.zeros()
        oracle.add(state, reports)
        assert skewed(oracle, state[-64:], len(reports), len(reports)) is result
