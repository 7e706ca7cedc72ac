"""`hubbub plan`. Its numbers follow the formulas, and the required clients and epsilon are minimal."""

import json
import math
from bisect import bisect_left
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal, stats

from aggregator.plan import command
from aggregator.plan.prospect import MOST_CLIENTS, Plan, enough, least, need, prospects
from oracles import ORACLES, oracle

MILLION = Plan(clients=1_000_000, size=1024, epsilon=1.0)


def by_name(plan):
    results, _ = prospects(plan)
    return {result.oracle.name: result for result in results}


def detects(plan, name, share):
    """Whether a share is significant with probability 0.9, by the law of errors of the oracle."""
    return enough(oracle(name, epsilon=plan.epsilon, size=plan.size), plan.clients, share, plan.family_error)


def test_errors_follow_the_closed_forms():
    e, s, d, n = math.e, math.exp(0.5), 1024, 1_000_000
    variances = {
        "grr": (d - 2 + e) / (e - 1) ** 2,
        "sue": s / (s - 1) ** 2,
        "oue": 4 * e / (e - 1) ** 2,
        "blh": (e + 1) ** 2 / (e - 1) ** 2,
        "olh": (e + 3) ** 2 / (3 * (e - 1) ** 2),
        "hr": (e + 1) ** 2 / (e - 1) ** 2,
    }
    results = by_name(MILLION)
    for name, variance in variances.items():
        assert results[name].sigma == pytest.approx(math.sqrt(variance / n), rel=1e-12)
    assert results["ss"].sigma < min(results[name].sigma for name in variances)


def test_a_fake_report_shifts_a_share_as_predicted():
    for way in by_name(MILLION).values():
        o, n = way.oracle, MILLION.clients
        support = np.array([n // 2])
        fake_effect = o.shares(support + 1, n) - o.shares(support, n)  # a fake report that supports the value
        honest_effect = o.q / o.gap / n  # the honest report that the fake one replaces
        assert way.shift_per_fake == pytest.approx(float(fake_effect[0]) - honest_effect, rel=1e-6)
        assert way.fake_clients == pytest.approx(way.shift_per_fake * n, rel=1e-12)


@pytest.mark.parametrize("name", ["grr", "blh", "olh", "hr"])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_work_is_the_number_of_integers_that_a_report_changes(name, epsilon):
    method = oracle(name, epsilon=epsilon, size=1000)
    reports = method.perturb(np.arange(300), np.random.default_rng(1))
    change_counts = []
    for report in reports:
        state = method.zeros()
        method.add(state, report[None])
        change_counts.append(np.abs(state[:-64]).sum())
    assert max(change_counts) == method.work


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("share", [0.05, 0.006])
def test_the_required_clients_and_epsilon_are_minimal(name, share):
    plan = replace(MILLION, size=64)
    needs = need(plan, name, share)
    assert detects(replace(plan, clients=needs.clients), name, share)
    assert not detects(replace(plan, clients=needs.clients - 1), name, share)
    assert needs.epsilon == round(needs.epsilon, 3)
    assert detects(replace(plan, epsilon=needs.epsilon), name, share)
    assert not detects(replace(plan, epsilon=needs.epsilon - 0.001), name, share)


@pytest.mark.parametrize(
    ("name", "size", "epsilon", "share"),
    [
        ("grr", 1024, 8.0, 0.01),
        ("oue", 1024, 8.0, 0.01),
        ("hr", 64, 2.0, 0.3),
        ("grr", 2, 4.0, 0.05),
        ("oue", 9, 0.5, 0.4),
    ],
)
def test_power_reaches_the_promise_by_exact_convolution(name, size, epsilon, share):
    plan = Plan(1000, size, epsilon)
    n = need(plan, name, share).clients
    o = oracle(name, epsilon=epsilon, size=size)
    k = math.ceil(n * share - 1e-9)
    law = np.convolve(stats.binom.pmf(np.arange(k + 1), k, o.p), stats.binom.pmf(np.arange(n - k + 1), n - k, o.q))
    critical = int(np.argmax(stats.binom.sf(np.arange(n) - 1, n, o.q) <= plan.family_error / size))
    assert law[critical:].sum() >= 0.9 - 0.003


def power(o, n, share, family_error):
    """Return the probability that a value of this share is significant, by exact convolution without far tails."""
    k = math.ceil(n * share - 1e-9)
    starts, laws = zip(*(most_of(*way) for way in ((k, o.p), (n - k, o.q))), strict=True)
    law = signal.fftconvolve(*laws) if min(map(len, laws)) > 3000 else np.convolve(*laws)
    critical = bisect_left(range(n + 2), -family_error / o.size, key=lambda c: -stats.binom.sf(c - 1, n, o.q))
    return law[max(0, critical - sum(starts)) :].sum()


def most_of(n, p):
    """Return the start and the probabilities of a binomial law within twelve standard deviations."""
    reach = 12 * math.sqrt(n * p * (1 - p)) + 12
    low = max(0, int(n * p - reach))
    high = min(n, int(n * p + reach))
    return low, stats.binom.pmf(np.arange(low, high + 1), n, p)


@pytest.mark.long
def test_power_reaches_the_promise_over_a_whole_table():
    """Power is within 0.01 if a hundred clients hold the value, and higher if fewer hold it."""
    common = 0
    for size, name in ((2, "grr"), (16, "olh"), (64, "grr"), (128, "oue"), (1024, "olh"), (16_384, "hr")):
        for epsilon in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0):
            for share in (0.003, 0.01, 0.03):
                plan = Plan(1000, size, epsilon)
                n = need(plan, name, share).clients
                probability = power(oracle(name, epsilon=epsilon, size=size), n, share, plan.family_error)
                assert probability >= 0.89, (size, name, epsilon, share)
                if n * share >= 100:
                    common += 1
                    assert probability == pytest.approx(0.9, abs=0.01), (size, name, epsilon, share)
    assert common >= 60


def test_an_impossible_goal_is_not_promised():
    assert need(MILLION, "blh", 1e-4).epsilon is None  # its error ends at 1/sqrt(n), however large epsilon is
    assert need(MILLION, "olh", 1e-9).clients is None
    assert not detects(replace(MILLION, clients=MOST_CLIENTS), "olh", 1e-9)


def test_least_finds_every_boundary():
    for maximum in (1, 2, 3, 10, 17):
        for boundary in range(1, maximum + 3):
            result = least(lambda number, boundary=boundary: number >= boundary, maximum)
            assert result == (boundary if boundary <= maximum else None)


def test_unavailable_oracles_are_named_with_the_reason():
    results, reasons = prospects(Plan(1000, 1_000_000, 0.5))
    assert {result.oracle.name for result in results} == {"grr", "blh", "olh", "hr", "full", "short", "sub"}
    assert all("65535 bytes" in reason for reason in reasons.values())


def output(capsys, *arguments):
    assert command.main([*arguments]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    return out


def test_the_choice_of_auto_is_recommended_with_the_reason(capsys):
    few_output = output(capsys, "--clients", "1e6", "--size", "5")
    assert "recommended: grr" in few_output
    assert "from ss" not in few_output
    many_output = output(capsys, "--clients", "1e6", "--size", "1024", "--epsilon", "1")
    assert "recommended: olh. Of the oracles that fit it has the fewest bytes within 2% of the optimum" in many_output
    assert "0.1% above the smallest one, from full" in " ".join(many_output.split())
    assert "ss      not available: answers for life charge 1,024, above the budget of 4" in many_output
    once = output(capsys, "--clients", "1e6", "--size", "1024", "--epsilon", "1", "--answers", "once")
    assert "0.2% above the smallest one, from ss" in " ".join(once.split())


def test_a_target_gives_clients_and_epsilon_for_each_oracle(capsys):
    out = output(capsys, "--clients", "1e6", "--size", "1024", "--target-share", "0.001", "--answers", "once")
    needs = need(MILLION, "olh", 0.001)
    row = next(line for line in out.splitlines() if line.endswith("recommended"))
    assert f"olh {needs.clients:,} clients epsilon {needs.epsilon:g} recommended" == " ".join(row.split())
    assert "no epsilon up to 16" in out


def test_risky_settings_give_warnings(capsys):
    assert "gives little privacy" in output(capsys, "--clients", "1e6", "--size", "400", "--epsilon", "9")
    assert "too few clients" in output(capsys, "--clients", "5", "--size", "2")
    assert "warning:" not in output(capsys, "--clients", "1e6", "--size", "1024")
    output(capsys, "--clients", "1e15", "--size", "4294967296", "--epsilon", "16", "--target-share", "1e-9")


def people_of_arms(capsys, *arguments):
    return json.loads(output(capsys, "--arms", *arguments, "--json"))["arms"]


@pytest.mark.parametrize(("values", "epsilon", "delta"), [(8, 1.0, 0.03), (2, 0.5, 0.01), (64, 4.0, 0.005)])
def test_arms_need_the_least_people_with_which_a_difference_is_proved(values, epsilon, delta, capsys):
    """The law is written here once more, with a simulation of a single look."""
    plan = Plan(1, values, epsilon, answers="once")
    arguments = "2", "--delta", str(delta), "--values", str(values), "--epsilon", str(epsilon), "--answers", "once"
    people = people_of_arms(capsys, *arguments)
    o = plan.query.oracle
    before, after = shares = np.array([1 / values, 1 / values + delta])

    def stderr(n):
        rates = o.q + shares * o.gap
        noise = (rates * (1 - rates) / o.gap**2 - shares * (1 - shares)).sum() / n
        return math.sqrt(noise + (shares * (1 - shares)).sum() / n)

    def reach(n, name):
        alpha = 0.05 / values
        if name == "one":
            return stats.norm.isf(alpha / 2)
        x = n / 1_000
        return math.sqrt((1 + 1 / x) * (math.log1p(x) + 2 * math.log(1 / alpha)))

    for name, n in people.items():
        far, too_far = (stderr(m) * (reach(m, name) + stats.norm.isf(0.1)) / delta for m in (n, n - 1))
        assert far <= 1 + 1e-12 < too_far

    rng = np.random.default_rng(5)
    n = people["one"]
    differences = [rng.binomial(n, o.q + share * o.gap, 20_000) / n / o.gap for share in (before, after)]
    power = np.mean(differences[1] - differences[0] > reach(n, "one") * stderr(n))
    # Five standard errors of the simulation: a false alarm has less than 1e-6.
    assert power == pytest.approx(0.9, abs=0.011)


def test_arms_in_words_share_the_error_of_all_pairs(capsys):
    words = output(capsys, "--arms", "2", "--delta", "0.03", "--answers", "once")
    people = people_of_arms(capsys, "2", "--delta", "0.03", "--answers", "once")
    assert f"\none look: {people['one']:,} people an arm\n" in words
    assert f"\nread at every final: {people['always']:,} people an arm\n" in words
    three = people_of_arms(capsys, "3", "--delta", "0.03", "--answers", "once")
    assert three == people_of_arms(capsys, "2", "--delta", "0.03", "--answers", "once", "--family-error", "0.025")


def test_wrong_options_are_usage_errors(capsys):
    assert command.main(["--clients", "10", "--size", "2", "--epsilon", "17"]) == 2
    assert capsys.readouterr().err == "hubbub plan: epsilon must be a number above 0 and at most 16, got 17.0\n"
    assert command.main(["--arms", "2", "--values", "2", "--delta", "0.6"]) == 2
    assert capsys.readouterr().err == "hubbub plan: a value of share 1/2 cannot have 0.6 more\n"
    for wrong_value in (
        ["--clients", "0", "--size", "2"],
        ["--clients", "1.5", "--size", "2"],
        ["--clients", "1e99", "--size", "2"],
        ["--clients", "10", "--size", "1"],
        ["--clients", "10", "--size", "two"],
        ["--clients", "10", "--size", "2", "--target-share", "1"],
        ["--clients", "10", "--size", "2", "--family-error", "0"],
        ["--size", "2"],
        ["--arms", "2"],
        ["--arms", "1", "--delta", "0.1"],
        ["--arms", "2", "--delta", "0.1", "--clients", "10"],
    ):
        with pytest.raises(SystemExit) as error_info:
            command.main(wrong_value)
        assert error_info.value.code == 2
        assert "hubbub plan: error:" in capsys.readouterr().err
