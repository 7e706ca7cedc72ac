"""The tallies of oracles, with marks, implausible reports, and the memory of an addition."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from oracles import ORACLES, oracle
from oracles.kernels.popcount import column_counts, row_counts
from oracles.kernels.walsh import walsh
from oracles.mechanisms.hashing import Hashing
from oracles.mechanisms.unary import Unary
from oracles.multi import multi
from oracles.multi.rsfd import FAKES
from oracles.types import MARKS


@pytest.mark.parametrize("name", ORACLES)
def test_adding_a_frame_needs_a_few_times_its_memory_and_frees_it(name):
    o = oracle(name, epsilon=1.0, size=1024)
    n = (1 << 20) // o.width
    rng = np.random.default_rng(1)
    reports = o.perturb(rng.integers(0, 1024, n), rng)
    state = o.zeros()
    o.add(state, reports[:10])  # this makes tables that stay
    tracemalloc.start()
    try:
        o.add(state, reports)
        remaining_memory, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * reports.nbytes
    assert remaining_memory < 10_000


@pytest.mark.parametrize("name", ["sue", "oue"])
@pytest.mark.parametrize("size", [2, 37, 1024])
def test_plausible_are_the_central_numbers_of_ones_of_the_honest_law(name, size):
    o = oracle(name, epsilon=1.0, size=size)
    law = np.convolve(stats.binom.pmf(np.arange(size), size - 1, o.q), [1 - o.p, o.p])
    assert np.allclose(o.law(), law, rtol=1e-9, atol=1e-300)
    low, high = o.plausible
    assert law[:low].sum() <= 0.5e-9 < law[: low + 1].sum()
    assert law[high + 1 :].sum() <= 0.5e-9 < law[high:].sum()


def test_implausible_reports_are_left_out_one_by_one_and_counted():
    o = oracle("oue", epsilon=1.0, size=1024)
    rng = np.random.default_rng(1)
    reports = o.perturb(rng.integers(0, 1024, 50), rng)
    honest = o.zeros()
    assert o.add(honest, np.delete(reports, [3, 9, 40], axis=0)) == 0
    reports[3], reports[9], reports[40] = 0xFF, 0x00, 0xFF
    state = o.zeros()
    assert o.check(reports) is None, "they are well-formed"
    assert o.add(state, reports) == 3
    assert np.array_equal(state, honest)
    assert o.add(state, reports[[3]]) == 1
    assert np.array_equal(state, honest)


@pytest.mark.parametrize("solution", ["spl", "smp", "rsfd"])
def test_a_record_with_one_implausible_attribute_is_left_out_whole(solution):
    m = multi(solution, sizes=[3, 1024], epsilon=1.0, oracle="oue_z" if solution == "rsfd" else "oue")
    rng = np.random.default_rng(1)
    reports = m.perturb(np.zeros((40, 2), int), rng)
    honest, state = m.zeros(), m.zeros()
    m.add(honest, reports)
    implausible = m.perturb(np.zeros((1, 2), int), rng)
    implausible[0, :2] = (1, 0) if solution == "smp" else implausible[0, :2]
    implausible[0, -128:] = 0xFF
    assert m.add(state, np.vstack([reports, implausible])) == 1
    assert np.array_equal(state, honest)


@pytest.mark.parametrize(
    ("name", "size"), [("blh", 5), ("olh", 5), ("olh", 1024), ("olh", 100_000), ("hr", 37), ("hr", 1024)]
)
@pytest.mark.parametrize("n", [40, 5_000])
def test_hashing_marks_count_the_rows_seen(name, size, n):
    o = oracle(name, epsilon=1.0, size=size)
    assert isinstance(o, Hashing)
    rng = np.random.default_rng(1)
    reports = o.perturb(rng.integers(0, size, n), rng)
    state = o.zeros()
    o.add(state, reports)
    expected = np.zeros(MARKS, np.int64)
    for report in reports:
        bits = int.from_bytes(report.tobytes(), "little") >> o.hashes
        for j in range(o.hashes):
            expected[(bits >> j * o.bits) % o.cells % MARKS] += 1
    assert np.array_equal(state[-MARKS:], expected)


@pytest.mark.parametrize("subject", ["oue", "sue", *(f"rsfd:{name}" for name in FAKES if name != "grr")])
def test_unary_marks_follow_the_honest_law(subject):
    rng = np.random.default_rng(2)
    n = 40_000
    if subject in ORACLES:
        encoder = oracle(subject, epsilon=1.0, size=300)
        state = encoder.zeros()
        encoder.add(state, encoder.perturb(rng.integers(0, 300, n), rng))
    else:
        m = multi("rsfd", sizes=[300, 4, 4], epsilon=1.0, oracle=subject.removeprefix("rsfd:"))
        tally = m.zeros()
        assert m.add(tally, m.perturb(np.column_stack([rng.integers(0, k, n) for k in m.sizes]), rng)) == 0
        encoder = m.encoders[0]
        state = tally[: m.encoders[0].state_size]
    assert isinstance(encoder, Unary)
    law = np.bincount(encoder._bins, weights=encoder.law(), minlength=MARKS)
    marks = state[-MARKS:]
    assert marks.sum() == n
    enough = law * n >= 5
    assert stats.chisquare(marks[enough], law[enough] / law[enough].sum() * marks[enough].sum()).pvalue > 1e-9


@pytest.mark.parametrize("width", [1, 3, 8, 129, 2048])
def test_bits_are_counted_by_column_and_by_row(width):
    rng = np.random.default_rng(width)
    for n in (0, 1, 2, 64, 65, 1_000, 9_973):
        rows = rng.integers(0, 256, (n, width), dtype=np.uint8)
        earlier_rows = rows.copy()
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        assert np.array_equal(column_counts(rows), bits.sum(axis=0, dtype=np.int64))
        assert np.array_equal(row_counts(rows), bits.sum(axis=1))
        assert np.array_equal(rows, earlier_rows), "what is counted is not changed"


@pytest.mark.parametrize("scale", [1, 1000, 2**40])
def test_the_transform_is_exact_at_every_size_and_scale(scale):
    rng = np.random.default_rng(1)
    for bits in range(11):
        vector = rng.integers(-scale, scale + 1, 1 << bits)
        index = np.arange(1 << bits)
        signs = 1 - 2 * (np.bitwise_count(index[:, None] & index).astype(np.int64) & 1)
        assert np.array_equal(walsh(vector), signs @ vector)
        assert np.array_equal(walsh(walsh(vector)), vector << bits), "it is its own inverse, but for a factor"
    with pytest.raises(ValueError, match="power of two"):
        walsh(np.zeros(6, np.int64))
