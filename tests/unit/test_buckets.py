"""FULL and SHORT: their hash families, their covariances and their numbers of buckets, by enumeration."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import ParameterError
from oracles.kernels.galois import POLYNOMIALS
from oracles.kernels.parity import dependent


def times(a, b, bits):
    product = 0
    for i in range(bits):
        if b >> i & 1:
            product ^= a << i
    return remainder(product, POLYNOMIALS[bits])


def remainder(a, b):
    while a.bit_length() >= b.bit_length():
        a ^= b << (a.bit_length() - b.bit_length())
    return a


def divisor(a, b):
    while b:
        a, b = b, remainder(a, b)
    return a


def frobenius(bits, steps):
    """Return x^(2^steps) in the field."""
    power = 2
    for _ in range(steps):
        power = times(power, power, bits)
    return power


@pytest.mark.parametrize("bits", range(3, 31))
def test_every_polynomial_is_irreducible(bits):
    """Rabin's test: x^(2^k) = x, and no smaller field of a prime index has a common root."""
    polynomial = POLYNOMIALS[bits]
    assert polynomial.bit_length() == bits + 1
    assert frobenius(bits, bits) == 2
    primes = [p for p in range(2, bits + 1) if bits % p == 0 and all(p % r for r in range(2, p))]
    assert all(divisor(polynomial, frobenius(bits, bits // p) ^ 2) == 1 for p in primes)


@pytest.mark.parametrize("bits", range(3, 11))
def test_every_polynomial_is_the_least_of_its_degree(bits):
    smaller = range(1 << bits, POLYNOMIALS[bits])
    assert all(any(remainder(word, factor) == 0 for factor in range(2, 1 << bits // 2 + 1)) for word in smaller)


def every_pair(o):
    """Return all a and b of a client of SHORT."""
    return np.array(list(itertools.product(range(o.cells), repeat=2)))


@pytest.mark.parametrize(("size", "buckets"), [(8, 8), (16, 8), (16, 16)])
def test_hashes_of_two_differences_are_uniform_under_all_seeds_of_short(size, buckets):
    o = oracle("short", epsilon=2.0, size=size, buckets=buckets)
    seeds = every_pair(o)
    hashes = [o.classify(np.full(len(seeds), value), seeds) for value in range(size)]
    for u, v in itertools.combinations(range(1, size), 2):
        pairs = Counter(zip(hashes[u].tolist(), hashes[v].tolist(), strict=True))
        assert set(pairs.values()) == {len(seeds) // buckets**2}
        assert len(pairs) == buckets**2


def test_a_hash_of_short_is_a_polynomial_of_the_value():
    o = oracle("short", epsilon=4.0, size=1000)
    rng = np.random.default_rng(3)
    seeds = o.rows(200, rng)
    values = rng.integers(0, 1000, 200)
    for (a, b), value, bucket in zip(seeds.tolist(), values.tolist(), o.classify(values, seeds).tolist(), strict=True):
        square = times(value, value, o.bits)
        assert bucket == (times(a, value, o.bits) ^ times(b, square, o.bits)) % o.buckets


@pytest.mark.parametrize(("size", "buckets"), [(8, 4), (8, 8), (16, 4), (16, 8)])
def test_buckets_of_full_hold_equally_many_codes(size, buckets):
    o = oracle("full", epsilon=2.0, size=size, buckets=buckets)
    rows = o.rows(300, np.random.default_rng(4))
    for row in rows:
        content = o.classify(np.arange(size), np.repeat(row[None], size, axis=0))
        assert np.bincount(content, minlength=buckets).tolist() == [size // buckets] * buckets


@pytest.mark.parametrize(("size", "buckets"), [(8, 4), (8, 8), (16, 4), (16, 8), (13, 4)])
def test_the_variance_of_sets_under_full_is_that_of_all_rows(size, buckets):
    """Every outcome of a client of FULL, for one value inside and one outside of the set."""
    o = oracle("full", epsilon=2.0, size=size, buckets=buckets)
    rows = np.array(list(itertools.product(range(o.cells), repeat=o.hashes)))
    rows = rows[~dependent(rows.T)]
    p, q = o.exact
    hashes = np.stack([o.classify(np.full(len(rows), value), rows) for value in range(size)])
    for values in (2, 3, size):
        variance = {}
        for own in (0, size - 1):
            if own >= values and values == size:
                continue
            counts = [Counter(), Counter()]  # values of the set in the own bucket, in one other bucket
            for bucket in range(o.buckets):
                inside_count = (hashes[:values] == bucket).sum(axis=0)
                for true, some in ((0, inside_count[hashes[own] == bucket]), (1, inside_count[hashes[own] != bucket])):
                    counts[true].update(some.tolist())
            law = Counter()
            for counter, chance in zip(counts, (p, (1 - p) / (o.buckets - 1)), strict=True):
                for number, times_seen in counter.items():
                    law[number] += Fraction(times_seen, len(rows)) * chance
            mean = sum(number * chance for number, chance in law.items())
            assert mean == values * q + (own < values) * (p - q)
            variance[own < values] = sum(number**2 * chance for number, chance in law.items()) - mean**2
        for inside_count, expectation in variance.items():
            statement = o.set_variance(1, values, float(inside_count)) * o.gap**2
            assert statement == pytest.approx(float(expectation), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "epsilon", "size", "buckets", "width"),
    [("short", 4.0, 1024, 64, 4), ("short", 6.0, 1_000_000, 256, 8), ("full", 2.0, 64, 8, 4)],
)
def test_a_report_is_short(name, epsilon, size, buckets, width):
    o = oracle(name, epsilon=epsilon, size=size)
    assert o.buckets == buckets
    assert o.width == width


@pytest.mark.parametrize("size", [8, 32, 128])
def test_full_has_the_smallest_error_of_all_oracles_if_every_code_is_a_value(size):
    """The strict optimum is that of subsets with as many values as a bucket has codes."""
    o = oracle("full", epsilon=2.0, size=size)
    best = oracle("ss", epsilon=2.0, size=size)
    total, optimum = (size * law.variance(1) + law.variance(1, 1.0) - law.variance(1) for law in (o, best))
    assert total <= optimum * 1.002


def test_a_report_with_dependent_rows_is_malformed():
    o = oracle("full", epsilon=2.0, size=64)
    reports = o.pack(np.zeros(3, np.int64), np.array([[1, 2, 4], [1, 2, 3], [5, 0, 1]]))
    assert o.malformed(reports).tolist() == [False, True, True]


@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 512])
def test_other_numbers_of_buckets_are_refused(buckets):
    with pytest.raises(ParameterError, match="buckets must be a power of two from 8 to 64"):
        oracle("short", epsilon=2.0, size=64, buckets=buckets)


def test_a_domain_that_needs_longer_reports_is_refused():
    assert oracle("short", epsilon=1.0, size=1 << 30).width == 8
    with pytest.raises(ParameterError, match="choose olh or hr"):
        oracle("short", epsilon=1.0, size=(1 << 30) + 1)


def kurtosis(o, positions):
    """Return the excess kurtosis of a report's sum over a set, over all seeds, less that of independent values."""
    seeds = every_pair(o)
    hashes = np.stack([o.classify(np.full(len(seeds), value), seeds) for value in positions])
    counts = np.stack([(hashes == bucket).sum(axis=0) for bucket in range(o.buckets)]) - len(positions) / o.buckets
    spread = o.q * (1.0 - o.q)
    independent = (1.0 - 6.0 * spread) / (len(positions) * spread)
    return float((counts**4.0).mean() / (counts**2.0).mean() ** 2) - 3.0 - independent


@pytest.mark.parametrize(("size", "buckets"), [(64, 8), (64, 64), (128, 16)])
@pytest.mark.parametrize("values", [16, 60])
def test_a_set_under_short_is_clumped_until_its_sum_is_nearly_normal(size, buckets, values):
    o = oracle("short", epsilon=2.0, size=size, buckets=buckets)
    positions = np.arange(values)
    enough = int(100 * kurtosis(o, positions))
    assert o.clumped(positions, int(0.9 * enough))
    assert not o.clumped(positions, 4 * enough)
