"""SUB: random subsets of buckets. Its laws by enumeration, its reports, its choices and its forgeries."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from oracles import oracle
from oracles.conformance import check
from oracles.errors import ParameterError
from oracles.kernels.combinations import combinations
from oracles.kernels.galois import POLYNOMIALS, logarithms
from oracles.kernels.parity import dependent
from oracles.mechanisms import automatic
from oracles.mechanisms.choice import nearest, optimum, total
from oracles.mechanisms.families import FAMILIES
from oracles.mechanisms.record_oracle import RecordOracle
from oracles.mechanisms.sub import Sub

ODDS = Fraction(3)
"""exp(epsilon) of the enumerations."""


def every_word(family, rows, bits):
    """Return the words of all maps of a family."""
    words = np.array(list(itertools.product(range(1 << bits), repeat=family.words(rows))))
    if family.name == "full":
        return words[~dependent(list(words.T))]
    return words[words[:, 0] > 0] if family.name == "line" else words


def every_bucket(family, rows, bits):
    """Return the bucket of each code, in a row for each map."""
    words = every_word(family, rows, bits)
    codes = np.arange(1 << bits)
    buckets = np.zeros((len(words), len(codes)), np.int64)
    for j, row in enumerate(family.rows_of(list(words.T), rows, bits)):
        buckets |= (np.bitwise_count(row[:, None] & codes).astype(np.int64) & 1) << j
    return buckets


@pytest.mark.parametrize(
    ("name", "rows", "bits", "members"),
    [
        *[("full", rows, 3, m) for rows in (1, 2, 3) for m in (1, 2, 3) if m < 1 << rows],
        *[("line", bits - 1, bits, m) for bits in (3, 4, 5) for m in (1, 2, 3)],
        *[("short", 3, bits, m) for bits in (3, 4) for m in (1, 2, 3)],
    ],
)
def test_q_and_both_pair_laws_are_those_of_all_maps_and_subsets(name, rows, bits, members):
    family = FAMILIES[name]
    buckets = every_bucket(family, rows, bits)
    g = 1 << rows
    p = members * ODDS / (members * ODDS + g - members)
    law = next(choice for choice in Sub.all_subsets(1 << bits) if choice[:4] == (family, rows, bits, members))
    with_own, without_own = law.pairs(p)

    def chance(values):
        """Return the probability that the subset has the buckets of all these values. The own value is code 0."""
        hits = Fraction(0)
        for own, *places in buckets[:, [0, *values]].tolist():
            others = len({*places} - {own})
            hits += subset_chance(p, g, members, has_own=own in places, others=others)
        return hits / len(buckets)

    size = 1 << bits
    assert {chance([v]) for v in range(1, size)} == {law.rate(p)}
    assert {chance([0, v]) for v in range(1, size)} == {with_own}
    assert {chance(pair) for pair in itertools.combinations(range(1, size), 2)} == {without_own}


def subset_chance(p, g, members, *, has_own, others):
    """Return the probability that a subset has the own bucket, if asked for, and so many given others."""
    inside = Fraction(comb(g - 1 - others, members - 1 - others) if members > others else 0, comb(g - 1, members - 1))
    outside = Fraction(comb(g - 1 - others, members - others) if members >= others else 0, comb(g - 1, members))
    return p * inside + (0 if has_own else (1 - p) * outside)


def test_a_line_with_four_codes_in_a_bucket_has_two_pair_laws():
    """The reason why line has two codes in a bucket."""
    buckets = every_bucket(FAMILIES["line"], 2, 4)
    together = {
        int(((buckets[:, 0] == buckets[:, u]) & (buckets[:, 0] == buckets[:, v])).sum())
        for u, v in itertools.combinations(range(1, 16), 2)
    }
    assert len(together) > 1


@pytest.mark.parametrize(("items", "members"), [(2, 1), (8, 3), (16, 7), (5, 5), (7, 0)])
def test_ranks_number_all_subsets(items, members):
    subsets = combinations(items, members)
    ranks = np.arange(subsets.count)
    rows = subsets.members(ranks)
    assert {tuple(row) for row in rows.tolist()} == set(itertools.combinations(range(items), members))
    assert subsets.ranks(rows).tolist() == ranks.tolist()
    assert [sum(comb(s, i) for i, s in enumerate(row, 1)) for row in rows.tolist()] == ranks.tolist()


@pytest.mark.parametrize("bits", [3, 8, 10])
def test_logarithms_are_those_of_a_generator(bits):
    powers, logs = logarithms(bits)
    assert sorted(powers.tolist()) == list(range(1, 1 << bits))
    assert logs[powers].tolist() == list(range(len(powers)))
    for one, other in zip(powers[:50].tolist(), powers[::-1][:50].tolist(), strict=True):
        product, factor = 0, one
        for i in range(bits):
            product ^= factor if other >> i & 1 else 0
            factor = factor << 1 ^ (factor >> bits - 1) * POLYNOMIALS[bits]
        assert logs[product] == (logs[one] + logs[other]) % len(powers)


@pytest.mark.parametrize("rows", FAMILIES)
def test_a_report_is_the_rank_and_then_the_words(rows):
    o = oracle("sub", epsilon=2.0, size=30, rows=rows, subset=3, buckets=16)
    client = o.rows(1, np.random.default_rng(1))
    report = int.from_bytes(o.pack(np.array([5]), client).tobytes(), "little")
    assert o.head == (comb(16, 3) - 1).bit_length()
    assert report & (1 << o.head) - 1 == 5
    words = [report >> o.head + j * o.bits & (1 << o.bits) - 1 for j in range(o.words)]
    assert words == client[0].tolist()
    assert o.width == -(-(o.head + o.words * o.bits) // 8)


@pytest.mark.parametrize("rows", FAMILIES)
def test_malformed_reports_are_found(rows):
    o = oracle("sub", epsilon=2.0, size=30, rows=rows, subset=3, buckets=16)
    client = o.rows(1, np.random.default_rng(1))
    faulty = [o.pack(np.array([o.combinations.count]), client)]
    if 8 * o.width > o.used:
        padded = o.pack(np.array([0]), client).copy()
        padded[0, -1] |= 0x80
        faulty.append(padded)
    if rows != "short":
        faulty.append(o.pack(np.array([0]), np.zeros_like(client)))
    for report in faulty:
        assert o.check(report) == 0
    assert o.check(o.pack(np.array([o.combinations.count - 1]), client)) is None


CELLS = list(
    itertools.product(
        [2, 3, 4, 8, 16, 32, 48, 64, 100, 128, 200, 256, 1000, 1024, 4096, 65536, 10**6],
        [0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0],
    )
)


@pytest.mark.long
def test_auto_of_edition_3_is_within_two_percent_of_the_optimum_in_165_of_170_cells():
    distances = [total(automatic(e, size, edition=3)) / optimum(e, size) for size, e in CELLS]
    assert sum(distance <= 1.02 for distance in distances) == 165
    assert max(distances) < 1.081


def test_auto_of_edition_3_takes_a_line_where_edition_2_is_far_from_the_optimum():
    old = automatic(6.0, 1000, edition=2)
    new = automatic(6.0, 1000, edition=3)
    assert old.name == "short"
    assert repr(new) == "oracle('sub', epsilon=6.0, size=1000, buckets=512, subset=1, rows='line')"
    assert (old.width, new.width) == (4, 3)
    assert total(new) / optimum(6.0, 1000) < 1.012
    assert total(old) / optimum(6.0, 1000) > 1.2


def test_auto_never_takes_it_where_tables_are_the_default():
    for noise, is_taken in ((None, False), ("each", True)):
        names_of_auto = {automatic(e, 64, edition=3, budget=1e6, noise=noise).name for e in (0.5, 1.5, 3.0)}
        assert ("sub" in names_of_auto) is is_taken


def test_without_settings_it_takes_those_with_the_smallest_error():
    o = oracle("sub", epsilon=3.0, size=200)
    candidates = list(Sub.versions(3.0, 200, forms_without_tables()))
    assert total(o) == pytest.approx(min(map(total, candidates)))
    assert nearest(candidates, 3.0, 200).distance < 1.02


def forms_without_tables():
    from oracles.mechanisms.table import Forms

    return Forms(lambda _: None, fewer=False)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rows": "wide"}, "rows must be one of full, short, line, got 'wide'"),
        ({"buckets": 3}, "buckets=3"),
        ({"rows": "line", "buckets": 4}, "leave one of them out"),
        ({"subset": 8}, "subset=8"),
    ],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(ParameterError, match=words.replace("(", r"\(")):
        oracle("sub", epsilon=1.0, size=100, **settings)


def test_only_sub_takes_a_subset():
    for settings in ({"subset": 2}, {"rows": "full"}):
        with pytest.raises(ParameterError, match="sub do"):
            oracle("olh", epsilon=1.0, size=100, **settings)


@pytest.mark.parametrize("rows", FAMILIES)
def test_a_reader_of_a_record_finds_the_covariances(rows):
    """A record names p and q alone."""
    o = oracle("sub", epsilon=2.0, size=60, rows=rows)
    p, q = (Fraction(float(part)) for part in o.exact)
    for values in (2, 7, 60):
        read = RecordOracle("sub", 60, p, q).set_variance(1000, values, 0.3)
        assert read == pytest.approx(o.set_variance(1000, values, 0.3), rel=1e-9)


@pytest.mark.parametrize("rows", FAMILIES)
def test_errors_of_sets_are_as_stated(rows):
    """400 tallies: their variance is off by 0.49 of the statement with probability 1e-6 in all six cases together."""
    o = oracle("sub", epsilon=2.0, size=24, rows=rows, subset=3)
    rng = np.random.default_rng(5)
    values = np.repeat([0, 20], 150)
    for members in (3, 12):
        sums = []
        for _ in range(400):
            state = o.zeros()
            o.add(state, o.perturb(values, rng))
            sums.append(o.estimate(state, 300).shares[:members].sum())
        assert np.var(sums) == pytest.approx(o.set_variance(300, members, 0.5), rel=0.49)


@pytest.mark.parametrize("rows", FAMILIES)
def test_forgeries_support_as_many_targets_as_a_subset_can(rows):
    o = oracle("sub", epsilon=2.0, size=30, rows=rows, subset=3)
    targets = np.array([1, 9, 17])
    state = o.zeros()
    o.add(state, o.forge(targets, 500, np.random.default_rng(2)))
    assert (o.support(state, 500)[targets] == 500).all()


def test_values_exclude_each_other_only_if_no_two_codes_share_a_bucket():
    """Under `short` two of eight values share one of eight buckets in an eighth of all maps."""
    full, short = (oracle("sub", epsilon=2.0, size=8, buckets=8, subset=1, rows=rows) for rows in ("full", "short"))
    assert full.supports_one
    assert full.set_law(3) == (1, full.p + 2 * full.q, 3 * full.q)
    assert not short.supports_one
    assert short.row_draws
    assert short.set_law(3) is None
    check(short)


def test_forged_reports_are_seen_in_the_marks():
    from oracles.multi.forgery import p_value

    o = oracle("sub", epsilon=6.0, size=1000)
    state = o.zeros()
    o.add(state, o.perturb(np.zeros(20_000, np.int64), np.random.default_rng(3)))
    assert p_value(o, state[-64:], 20_000, 20_000) > 1e-6
    o.add(state, o.forge(np.array([5, 700]), 1_000, np.random.default_rng(4)))
    assert p_value(o, state[-64:], 21_000, 21_000) < 1e-6
