"""Records. They have the documented content for every query, and their bytes follow from the tally alone."""

import json
import os
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.records.digits import rounded
from aggregator.records.field import declarations
from aggregator.records.findings import Findings
from aggregator.records.keys import provisional_key
from aggregator.records.record import Record
from aggregator.records.span import Span
from aggregator.tallies.snapshot import FLAGS, IDS_OVERFLOW, INCOMPLETE, PARTIAL, Snapshot
from oracles import ORACLES
from oracles.calibrate import calibrate
from oracles.consistency import METHODS, answer, apply
from oracles.heavy import heavy_hitters
from oracles.multi.rsfd import FAKES
from oracles.query.domain import VALUES
from oracles.risk import risk
from tests import schemas
from tests.queries import make_query, make_table
from tests.results import build, window_result

ROOT = Path(__file__).parents[2]
ALL = [name for name in METHODS if name != "base"]
START = 1_700_000_000
KEYS = {
    "version",
    *(name for name, field in declarations(Record).items() if VALUES in field.kinds and not field.is_optional),
    "central",
}
"""The members of a final record of values without groups."""


def seeded(*label):
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def ask(**settings):
    table = make_table(epsilon=2.0, budget=1e9) | settings
    return make_query(table, name="visits")


def hold(query, values, rng, **counters):
    """Return the snapshot of a window with honest reports of these values."""
    state = query.oracle.zeros()
    left_out = query.oracle.add(state, query.oracle.perturb(values, rng))
    return Snapshot(len(values) - left_out, left_out, 0, 0, state)._replace(**counters)


def supported(query, true_counts, rng):
    """Return the snapshot of a window of a unary query, by the law of its support counts."""
    n, o = int(true_counts.sum()), query.oracle
    counts = rng.binomial(true_counts, o.p) + rng.binomial(n - true_counts, o.q)
    # A tally ends with 64 marks of forged reports, which a drawn one does not have.
    return Snapshot(n, 0, 0, 0, np.append(counts, np.zeros(64, np.int64)))


def emit(query, total, *, final=True, window=0, start=START, end=START + 10):
    """Return the valid record of a query with one answer, and the result that contains it."""
    (record,), result = emit_all(query, total, final=final, window=window, start=start, end=end)
    return record, result


def emit_all(query, total, *, final=True, window=0, start=START, end=START + 10):
    """Return the valid record of each attribute, and the result that contains them."""
    span = Span(query.windows[window], start, end)
    result = window_result(query, span, total, through=None if final else end)
    return [schemas.record(value) for _, value in result.window.records], result


def key(result):
    """Return the key of a record of a query with one answer."""
    ((key, _),) = result.window.records
    return key.decode()


def short(content):
    """Return the same content with numbers of seven digits, which all numbers but unbiased shares have."""
    if isinstance(content, dict):
        return {name: short(part) for name, part in content.items()}
    if isinstance(content, list | tuple | np.ndarray):
        return [short(part) for part in content]
    return rounded(float(content)) if isinstance(content, float) else content


def nothing(query):
    return Snapshot(0, 0, 0, 0, query.oracle.zeros())


LETTERS = list("abcdefghijklmnop")
VISITS = ask(domain=LETTERS, oracle="grr", epsilon=1.0, methods=["norm_sub", "calibrate"], sets={"ac": ["a", "c"]})
VALUES = np.repeat(np.arange(17), 6_000 // np.arange(1, 18) ** 2)


def test_a_record_of_one_answer_has_the_documented_content():
    total = hold(VISITS, VALUES, seeded("one"), duplicates=12)
    record, result = emit(VISITS, total)
    e = VISITS.oracle.estimate(total.counts, total.n)
    c = calibrate(e)
    order = np.argsort(-e.shares, kind="stable")
    low, high = e.interval()
    assert key(result) == f"visits|{VISITS.digest.hex()}|tumbling|10|10|{START + 10}"
    assert set(record) == KEYS
    assert record["window"] == {"kind": "tumbling", "start": START, "end": START + 10, "size": 10, "step": 10}
    assert record["version"] == 3
    assert record["query"] == "visits"
    assert record["digest"] == VISITS.digest.hex()
    assert record["attribute"] is None
    assert record["final"] is True
    assert record["n"] == len(VALUES)
    assert record["n_independent"] == len(VALUES)
    assert record["refused"] == {"duplicate": 12, "implausible": 0}
    oracle = {
        "name": "grr",
        "p": VISITS.oracle.p,
        "q": VISITS.oracle.q,
        "epsilon": 1.0,
        "record_epsilon": 1.0,
    }
    assert record["oracle"] == oracle
    assert record["sigma"] == short(e.sigma)
    assert record["significance"] == short(e.significance())
    assert record["detectable"] == short(e.detectable())
    assert record["shift_per_fake"] == short(VISITS.oracle.shift_per_fake(len(VALUES)))
    assert record["values"] == [[*LETTERS, "(other)"][position] for position in order]
    assert record["values"][:2] == ["a", "b"]
    assert record["shares"] == {
        "unbiased": e.shares[order].tolist(),
        "norm_sub": short(apply("norm_sub", e)[order]),
        "calibrate": short(c.shares[order]),
    }
    assert record["stderr"] == short(e.stderr[order])
    assert record["low"] == short(low[order])
    assert record["high"] == short(high[order])
    share, stderr, minimum, maximum = e.of_set([0, 2])
    assert record["sets"]["ac"] == {
        "share": short(share),
        "stderr": short(stderr),
        "low": short(minimum),
        "high": short(maximum),
        "norm_sub": short(answer("norm_sub", e, [0, 2])[0]),
        "calibrate": short(answer("calibrate", e, [0, 2], calibrated=c)[0]),
    }
    quality = record["quality"]
    assert quality["sum"] == short(float(e.shares.sum()))
    assert quality["risk"] == {
        name: short(risk(name, e, calibrated=c)) for name in ("unbiased", "norm_sub", "calibrate")
    }
    assert (quality["prior_rejected"], quality["flags"]) == (c.rejected, []) == (False, [])
    assert quality["prior"]["parameters"] == short(c.prior.parameters)
    assert quality["prior"]["kolmogorov_smirnov"] == short(c.prior.kolmogorov_smirnov)


def test_a_named_prior_is_that_of_the_shares():
    """Equal values fit no power law, so the best prior has no family."""
    query = ask(domain=LETTERS, oracle="grr", epsilon=8.0, methods=["calibrate"], prior="best", crowd=1)
    total = hold(query, np.arange(query.domain.size * 2_000) % query.domain.size, seeded("named prior"))
    e = query.oracle.estimate(total.counts, total.n)
    record, _ = emit(query, total)
    quality = record["quality"]
    assert (quality["prior"]["family"], quality["prior"]["parameters"]) == ("free", {})
    shares = dict(zip(record["values"], record["shares"]["calibrate"], strict=True))
    expected = calibrate(e, "best").shares
    assert shares == {query.domain.name(v): short(float(expected[v])) for v in range(len(expected))}

    for prior in ("best", "power_law"):
        nobody, _ = emit(replace(query, prior=prior), hold(query, np.zeros(0, np.int64), seeded("nobody")))
        assert nobody["quality"]["prior"]["family"] is None


def test_hitters_are_listed_for_the_unbiased_shares_and_each_method_only():
    total = hold(VISITS, VALUES, seeded("hitters"))
    e = VISITS.oracle.estimate(total.counts, total.n)
    c = calibrate(e)
    record, _ = emit(VISITS, total)
    assert set(record["hitters"]) == {"unbiased", "norm_sub", "calibrate"}
    for name, listed in record["hitters"].items():
        hitters = heavy_hitters(e, apply(name, e, calibrated=c), posterior=c)
        assert listed == [
            {
                "value": VISITS.domain.name(hitter.position),
                "share": hitter.share if name == "unbiased" else short(hitter.share),
                "decided": hitter.decided,
                "p_value": short(hitter.p_value),
                "probability": short(hitter.probability),
                "ranks": list(hitter.ranks),
            }
            for hitter in hitters
        ]
        assert len(listed) >= 2
        expected = hitters.expected
        numbers = {"precision": short(expected.precision), "recall": short(expected.recall)}
        assert record["quality"]["expected"][name] == numbers

    plain, _ = emit(replace(VISITS, methods=("norm_sub",)), total)
    assert set(plain["hitters"]) == set(plain["shares"]) == {"unbiased", "norm_sub"}
    assert {hitter["probability"] for hitter in plain["hitters"]["norm_sub"]} == {None}
    assert not plain["quality"].keys() & {"prior", "expected"}


def test_the_query_defines_a_heavy_hitter():
    total = hold(VISITS, VALUES, seeded("threshold"))
    for threshold, values in ((0.1, ["a", "b"]), ({"count": 3_000}, ["a"])):
        query = ask(domain=LETTERS, oracle="grr", epsilon=1.0, threshold=threshold)
        record, _ = emit(query, total)
        assert [hitter["value"] for hitter in record["hitters"]["unbiased"]] == values
    strict = replace(VISITS, family_error=1e-9)
    e = VISITS.oracle.estimate(total.counts, total.n)
    assert emit(strict, total)[0]["detectable"] == short(e.detectable(1e-9))


def test_values_are_in_the_order_of_the_unbiased_share_and_ties_in_that_of_the_domain():
    query = ask(domain=["a", "b", "c", "d", "e"], oracle="grr", methods=["base_cut", "norm"], other=False)
    # Two pairs of equal counts, so only the order of the domain decides.
    counts = np.append([10, 500, 12, 500, 10], np.zeros(64, np.int64))
    assert emit(query, Snapshot(1_032, 0, 0, 0, counts))[0]["values"] == ["b", "d", "c", "a", "e"]


def test_publish_cuts_only_the_values():
    whole_answer = ask(domain=300, oracle="oue", publish="all", sets={"rare": [250, 299]}, threshold=0.001)
    total = supported(whole_answer, np.arange(300, 0, -1) ** 2, seeded("publish"))
    few_record, _ = emit(replace(whole_answer, publish=7), total)
    record, _ = emit(whole_answer, total)
    assert sorted(map(int, record["values"])) == list(range(300))
    proved = [hitter["value"] for hitter in record["hitters"]["unbiased"] if hitter["decided"]]
    count = max(7, len(proved))
    assert set(proved) <= set(few_record["values"])
    for vector in ("values", "stderr", "low", "high"):
        assert few_record[vector] == record[vector][:count]
    for method, shares in few_record["shares"].items():
        assert shares == record["shares"][method][:count]
    for same in ("hitters", "sets", "quality", "detectable"):
        assert few_record[same] == record[same]
    assert len(few_record["hitters"]["norm_sub"]) > 7
    calm = hold(ask(domain=300, oracle="oue"), np.arange(3_000) % 300, seeded("calm"))
    assert len(emit(ask(domain=300, oracle="oue"), calm)[0]["values"]) == 100


def test_sets_are_answered_by_the_rule_of_each_method():
    half = tuple(range(0, 300, 2))
    query = replace(ask(domain=300, oracle="oue", methods=ALL), sets=(("half", half), ("one", (299,))))
    total = supported(query, np.arange(300, 0, -1) ** 2 // 400, seeded("sets"))
    e = query.oracle.estimate(total.counts, total.n)
    c = calibrate(e)
    for name, values in query.sets:
        numbers = emit(query, total)[0]["sets"][name]
        assert [numbers.pop(key) for key in ("share", "stderr", "low", "high")] == short(e.of_set(values))
        assert numbers == {method: short(float(answer(method, e, values, calibrated=c)[0])) for method in ALL}
    upper_set = emit(query, total)[0]["sets"]["half"]
    assert upper_set["post_pos"] == upper_set["share"] < upper_set["base_pos"] - 0.05


def support(record, size):
    """Return the support counts of a record of all values, by the documented formula."""
    p, q, n = record["oracle"]["p"], record["oracle"]["q"], record["n"]
    counts = np.zeros(size, np.int64)
    counts[[int(value) for value in record["values"]]] = [
        round(n * (share * (p - q) + q)) for share in record["shares"]["unbiased"]
    ]
    return counts


@pytest.mark.parametrize("name", ORACLES)
def test_support_counts_follow_from_the_record(name):
    query = ask(domain=50, oracle=name, publish="all")
    total = hold(query, seeded(name).integers(0, 50, 2_000), seeded(name, 1))
    record, _ = emit(query, total)
    assert np.array_equal(support(record, 50), query.oracle.support(total.counts, total.n))


SOLUTIONS = [*product(("spl", "smp"), (*sorted(ORACLES.keys() - {"sub"}), "adaptive"))]
SOLUTIONS += [("rsfd", name) for name in (*FAKES, "adaptive")]


def ask_several(solution, name="adaptive", **settings):
    attributes = {"sex": ["f", "m"], "age": 7, "Job": 30}
    return ask(attributes=attributes, solution=solution, oracle=name, publish="all", **settings)


def several_values(n, rng):
    """Return job, age and sex, in the order of the attributes by code points."""
    return np.column_stack([rng.integers(0, size, n) for size in (30, 7, 2)])


@pytest.mark.parametrize(("solution", "name"), SOLUTIONS)
def test_records_of_several_attributes_have_an_estimate_of_each(solution, name):
    query = ask_several(solution, name, sets={"Job": {"first": [0, 1]}})
    total = hold(query, several_values(1_500, seeded(solution, name)), seeded(solution, name, 1))
    records, result = emit_all(query, total)
    assert [record["attribute"] for record in records] == ["Job", "age", "sex"]
    name = f"visits|{query.digest.hex()}|tumbling|10|10|{START + 10}|a:"
    assert [key.decode() for key, _ in result.window.records] == [
        name + attribute for attribute in ("Job", "age", "sex")
    ]
    estimates = query.oracle.estimate(total.counts, total.n)
    supports = query.oracle.support(total.counts, total.n)
    for content, e, counts, findings in zip(records, estimates, supports, result.findings.of_totals, strict=True):
        assert set(content) == KEYS
        assert content["n"] == e.n
        assert content["n_independent"] == e.n_independent
        assert content["refused"]["implausible"] == total.implausible
        assert content["oracle"] == {
            "name": e.oracle.name,
            "p": e.oracle.p,
            "q": e.oracle.q,
            "epsilon": 2.0,
            "record_epsilon": short(query.oracle.record_epsilon),
        }
        assert content["sigma"] == short(e.sigma)
        assert content["detectable"] == short(findings.detectable)
        assert sorted(content["stderr"]) == sorted(short(e.stderr))
        if content["attribute"] != "sex":
            assert np.array_equal(support(content, len(counts)), counts)
    job, age, sex = records
    assert sorted(sex["values"]) == ["(other)", "f", "m"]
    assert job["sets"]["first"]["share"] == short(float(estimates[0].answer([0, 1])[0]))
    assert age["sets"] == sex["sets"] == {}
    if solution == "smp":
        assert sum(content["n"] for content in records) == total.n
    if solution == "rsfd":
        assert job["oracle"]["record_epsilon"] > 3


def crowd(law):
    """Return a million oue clients at epsilon 4, with equal values or by Zipf's law."""
    query = ask(domain=1024, oracle="oue", epsilon=4.0, methods=["norm_cut", "calibrate", "calibrate_norm_sub"])
    weights = {"uniform": np.ones(1024), "zipf": np.arange(1, 1025) ** -1.1}[law]
    rng = seeded(law)
    return replace(query, fallback="norm_cut"), supported(
        query, rng.multinomial(1_000_000, weights / weights.sum()), rng
    )


def test_if_the_prior_is_rejected_the_fallback_is_used():
    query, total = crowd("uniform")
    query = replace(query, sets=(("half", tuple(range(0, 1024, 2))),))
    record, result = emit(query, total)
    quality = record["quality"]
    assert quality["prior_rejected"]
    assert quality["flags"] == ["prior_rejected"]
    assert result.findings.of_totals[0].prior_rejected
    assert quality["prior"]["family"] == "power_law"
    for name in ("calibrate", "calibrate_norm_sub"):
        for part in (record["shares"], record["hitters"], record["sets"]["half"], quality["risk"]):
            assert part[name] == part["norm_cut"]
    assert {hitter["probability"] for hitter in record["hitters"]["calibrate"]} == {None}
    assert "expected" not in quality


def test_if_the_prior_fits_its_numbers_and_chances_are_used():
    query, total = crowd("zipf")
    record, result = emit(query, total)
    assert not record["quality"]["prior_rejected"]
    assert record["quality"]["flags"] == []
    assert record["quality"]["risk"]["calibrate"] < record["quality"]["risk"]["unbiased"]
    assert record["shares"]["calibrate"] != record["shares"]["norm_cut"]
    chances = [hitter["probability"] for hitter in record["hitters"]["norm_cut"]]
    assert all(0 <= chance <= 1 for chance in chances)
    assert chances[0] > 0.999
    assert result.findings.of_totals[0].likely[0] == chances[0]
    assert record["quality"]["expected"]["calibrate"]["precision"] > 0.5


def test_flags_are_in_their_order():
    query = replace(VISITS, methods=("norm_sub",))
    for flags, names in (
        (PARTIAL, ["partial"]),
        (INCOMPLETE, ["incomplete"]),
        (IDS_OVERFLOW, ["ids_overflow"]),
        (sum(FLAGS.values()), ["partial", "incomplete", "ids_overflow"]),
    ):
        assert emit(query, hold(query, VALUES, seeded("flags"), flags=flags))[0]["quality"]["flags"] == names
    query, total = crowd("uniform")
    counts = total.counts.copy()
    # All reports with one mark look forged.
    counts[-64] = 1_000_000
    record, _ = emit(query, total._replace(counts=counts, flags=sum(FLAGS.values())))
    assert record["quality"]["flags"] == ["partial", "incomplete", "skewed", "ids_overflow", "prior_rejected"]


def test_only_the_attacked_attribute_has_the_flag_skewed():
    query = ask_several("spl", "olh")
    rng = seeded("skewed")
    state = query.oracle.zeros()
    honest = query.oracle.perturb(several_values(5_000, rng), rng)
    fake = query.oracle.perturb(several_values(1_000, rng), rng)
    # With spl a report holds one part for each attribute, so the second part begins after the first.
    start = query.oracle.encoders[0].width
    fake[:, start : start + query.oracle.encoders[1].width] = fake[0, start : start + query.oracle.encoders[1].width]
    for reports in (honest, fake):
        query.oracle.add(state, reports)
    records, _ = emit_all(query, Snapshot(6_000, 0, 0, PARTIAL, state))
    flags = [record["quality"]["flags"] for record in records]
    # So many copies of one report are more than any crowd gives.
    assert flags == [["partial"], ["partial", "skewed", "impossible"], ["partial"]]


@pytest.mark.parametrize("first_end", ALL)
def test_a_window_without_reports_has_no_numbers(first_end):
    """All reports of the window were implausible."""
    methods = [first_end, *(name for name in ALL if name != first_end)]
    for query in (ask(domain=["a", "b"], oracle="oue", methods=methods), ask_several("smp", methods=methods)):
        records, result = emit_all(query, Snapshot(0, 5, 0, 0, query.oracle.zeros()))
        last_record = records[-1]
        assert last_record["n"] == 0
        assert last_record["refused"]["implausible"] == 5
        assert last_record["values"] == (["a", "b", "(other)"] if query.domain else ["f", "m", "(other)"])
        for name in ("sigma", "detectable", "shift_per_fake"):
            assert last_record[name] is None
        for name in ("stderr", "low", "high"):
            assert last_record[name] == [None] * 3
        for name, shares in last_record["shares"].items():
            equal = name != "unbiased" and METHODS[name].sums_to_one == "yes"
            assert shares == [short(1 / 3) if equal else None] * 3
        assert not any(last_record["hitters"].values())
        assert last_record["quality"]["sum"] is None
        assert isinstance(result.findings.of_totals[0], Findings)


def test_an_attribute_that_nobody_answered_has_no_numbers():
    query = ask_several("smp", "grr")
    reports = query.oracle.perturb(several_values(300, seeded("smp")), seeded("smp", 1))
    state = query.oracle.zeros()
    query.oracle.add(state, reports[reports[:, 0] != 1])
    n = int((reports[:, 0] != 1).sum())
    job, age, sex = emit_all(query, Snapshot(n, 0, 0, 0, state))[0]
    assert job["n"] + sex["n"] == n
    assert age["n"] == 0
    assert age["sigma"] is None
    assert age["shares"]["norm_sub"] == [short(1 / 7)] * 7


def test_errors_are_those_of_the_independent_reports():
    """A client answers once in 10 s and repeats its noise, so a minute has six reports of each."""
    query = ask(domain=20, oracle="olh", windows=["10s", "1m/10s", "all"], period="10s", methods=ALL)
    total = hold(query, seeded("period").integers(0, 20, 6_005), seeded("period", 1))
    minute, _ = emit(query, total, window=1, end=START + 60)
    assert minute["n"] == 6_005
    assert minute["n_independent"] == 1_000
    e = query.oracle.estimate(total.counts, 6_005, 1_000)
    assert minute["sigma"] == short(e.sigma)
    assert minute["shift_per_fake"] == short(query.oracle.shift_per_fake(6_005))
    at_once, _ = emit(query, total)
    assert at_once["n_independent"] == 6_005
    assert minute["sigma"] > 2.4 * at_once["sigma"]
    ever, result = emit(query, total, window=2, end=START + 10 * 7_000)
    assert ever["n"] == 6_005
    assert ever["n_independent"] == 0
    assert ever["sigma"] is None
    assert ever["window"]["size"] == 0
    assert ever["window"]["step"] == 0
    assert key(result) == f"visits|{query.digest.hex()}|all|0|0|{START + 70_000}"
    assert None not in ever["shares"]["unbiased"] + ever["shares"]["norm_sub"]


def test_a_provisional_record_has_a_key_of_its_own():
    query = ask(domain=20, windows=["1m/10s"])
    total = hold(query, [3, 4, 5], seeded("provisional"))
    final, result = emit(query, total, end=START + 60)
    early_record, early_result = emit(query, total, final=False, end=START + 60)
    assert key(result) == f"visits|{query.digest.hex()}|hopping|60|10|{START + 60}"
    assert key(early_result) == key(result) + "|p"
    assert provisional_key(key(result).encode()) == key(early_result).encode()
    assert final.pop("final") is True
    assert early_record.pop("final") is False
    assert early_record["window"].pop("through") == START + 60
    assert final == early_record


TWO_WAYS = """
import sys
import numpy as np
from tests.results import build
from aggregator.tallies.snapshot import Snapshot
from aggregator.records.span import Span
from tests.unit.test_record import ALL, ask, supported
for size in (1_000, 20_000):
    query = ask(domain=size, oracle="oue", methods=ALL)
    rng = np.random.default_rng(size)
    weights = np.arange(1, size + 1) ** -1.1
    total = supported(query, rng.multinomial(1_000_000, weights / weights.sum()), rng)
    sys.stdout.buffer.write(build(query, Span(query.windows[0], 0, 10), total).records[0][1])
"""


def test_the_bytes_do_not_depend_on_the_number_of_cores():
    """They do not depend on the kernels that the linear algebra library picks for a processor either."""

    def written(**environment):
        process = subprocess.run(
            [sys.executable, "-c", TWO_WAYS], env=os.environ | environment, cwd=ROOT, capture_output=True, check=True
        )
        return process.stdout

    # Hashes of texts differ from process to process too, and a set in the way would show here.
    alone = written(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONHASHSEED="1")
    # A short output would mean that the estimates of large domains were not written.
    assert len(alone) > 20_000
    assert alone == written(
        OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2", OPENBLAS_CORETYPE="Prescott", PYTHONHASHSEED="2"
    )


def test_the_bytes_do_not_depend_on_the_type_of_the_counts():
    methods = ["norm_sub", "base_cut", "calibrate"]
    for query in (replace(VISITS, methods=tuple(methods)), ask_several("smp", "hr", methods=methods)):
        values = VALUES if query.domain else several_values(900, seeded("held"))
        total = hold(query, values, seeded("held", 1))
        records = emit_all(query, total)[1].window.records
        for kind in (np.int16, np.int32, np.int64):
            counts = total.counts.astype(kind)
            # Tallies from messages are views of bytes, which nothing may change in place.
            counts.flags.writeable = False
            assert emit_all(query, total._replace(counts=counts))[1].window.records == records


def test_numbers_are_the_shortest_that_read_back():
    _, result = emit(replace(VISITS, methods=tuple(ALL)), hold(VISITS, VALUES, seeded("shortest")))
    ((_, value),) = result.window.records
    texts = []
    # The parser sees each number as it is written, and not as it reads back.
    json.loads(value, parse_float=texts.append)
    assert len(texts) > 100
    for text in texts:
        digits = text.lower().partition("e")[0].replace(".", "").strip("-0")
        assert len(digits) <= len(repr(float(text)).partition("e")[0].replace(".", "").strip("-0"))
    assert b"NaN" not in value


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_query_and_tally_gives_a_valid_record(data):
    """The examples have few reports, few values, any method and threshold, repeats, and shares far out of range."""
    draw = data.draw
    common = {
        "epsilon": draw(st.sampled_from([0.1, 1.0, 8.0])),
        "budget": 1e9,
        "methods": draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=4, unique=True)),
        "fallback": draw(st.sampled_from(["norm_sub", "base_cut", "post_pos"])),
        "threshold": draw(st.sampled_from(["significance", 0.1, {"count": 3}])),
        "publish": draw(st.sampled_from([1, 5, "all"])),
        "windows": draw(st.sampled_from([["10s"], ["1m/10s"], ["all"]])),
        "period": draw(st.sampled_from(["10s", "30s"])),
    }
    if draw(st.booleans()):
        sizes = (draw(st.integers(2, 12)),)
        query = ask(domain=sizes[0], oracle=draw(st.sampled_from(list(ORACLES))), sets={"s": [0, 1]}, **common)
    else:
        sizes = (5, 3)
        solution = draw(st.sampled_from(["spl", "smp", "rsfd"]))
        query = ask(attributes={"a": 5, "b": 3}, solution=solution, sets={"b": {"s": [2]}}, **common)
    n = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = np.column_stack([rng.integers(0, size, n) for size in sizes])
    total = hold(query, values[:, 0] if len(sizes) == 1 else values, rng)
    end = START + (query.windows[0].size or 10 * draw(st.integers(1, 20)))
    records, _ = emit_all(query, total, final=draw(st.booleans()), end=end)
    for record in records:
        vectors = [record["values"], record["stderr"], record["low"], record["high"], *record["shares"].values()]
        assert len({len(vector) for vector in vectors}) == 1
        assert set(record["shares"]) == set(record["hitters"]) == {"unbiased", *query.methods}


WITHHELD_KEYS = ("central", "numbers", "weighted", "discover")


def test_the_page_explains_every_key_flag_and_kind():
    page = (ROOT / "docs" / "records.md").read_text()
    members = schemas.RECORD.schema["properties"]
    quality = members["quality"]["properties"]
    hitter = members["hitters"]["additionalProperties"]["items"]["properties"]
    names = {*KEYS, "through", *WITHHELD_KEYS, *quality, *hitter}
    names |= {*quality["flags"]["items"]["enum"], *schemas.ALERT.schema["properties"]}
    names |= set(schemas.ALERT.schema["properties"]["kind"]["enum"])
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)] == []


@pytest.mark.parametrize("oracle_name", ["grr", "oue", "olh", "hr"])
@pytest.mark.parametrize(("size", "epsilon"), [(2, 16.0), (2, 0.1), (40, 16.0), (40, 0.1)])
@pytest.mark.parametrize("n", [1, 3, 99, 100])
@pytest.mark.parametrize("holders", ["same", "spread"])
def test_every_promised_number_is_there(oracle_name, size, epsilon, n, holders):
    """The examples have few reports, shares of less than one of them, two values, or an epsilon that hides nothing."""
    table = make_table(domain=size, oracle=oracle_name, epsilon=epsilon, budget=1e9, crowd=1)
    table |= {"methods": ["norm_sub", "calibrate", "norm_hyb"], "sets": {"some": ["0"]}, "publish": "all"}
    query = make_query(table, name="edge")
    values = np.zeros(n, np.int64) if holders == "same" else np.arange(n) % size
    state = query.oracle.zeros()
    left_out = query.oracle.add(state, query.oracle.perturb(values, seeded("edge", oracle_name, size, epsilon, n)))
    # A single report of a tiny epsilon can be implausible, and then nothing is promised.
    if left_out == n:
        return
    result = build(query, Span(query.windows[0], 0, 10), Snapshot(n - left_out, left_out, 0, 0, state))
    record = schemas.record(result.records[0][1])
    for key in ("sigma", "shift_per_fake"):
        assert record[key] is not None
    columns = [record["stderr"], record["low"], record["high"], *record["shares"].values()]
    for column in columns:
        assert len(column) == size
        assert None not in column
    assert None not in record["sets"]["some"].values()
    assert None not in [record["quality"]["sum"], *record["quality"]["risk"].values()]
    assert all(low <= high for low, high in zip(record["low"], record["high"], strict=True))
    if record["significance"] is None:
        assert record["detectable"] is None
        assert not any(record["hitters"].values())
