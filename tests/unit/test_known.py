"""The set of ids. The compiled set and the Python set give the same answers."""

import numpy as np
import pytest

from aggregator.tallies import id_set
from aggregator.tallies.id_set import CompiledIdSet, PythonIdSet
from oracles.kernels import c_library

ID_SET = type(id_set.id_set())
pytestmark = pytest.mark.skipif(ID_SET is PythonIdSet, reason="without compiled kernels all is one set")


def name(number):
    return int(number).to_bytes(8, "little")


def numbers(*those):
    return np.array(those, np.uint64)


def same(table, plain):
    assert len(table) == len(plain)
    assert table == plain
    assert list(table) == sorted(plain, key=lambda number: int.from_bytes(number, "little"))


@pytest.mark.parametrize("maximum", [40, 1000, 1 << 64])
def test_it_answers_like_a_set(maximum):
    rng = np.random.default_rng(20260101)
    table, plain = CompiledIdSet(), PythonIdSet()
    for _ in range(3000):
        ids = rng.integers(0 if rng.random() < 0.1 else 1, maximum, int(rng.integers(0, 9)), np.uint64)
        if rng.random() < 0.3:
            number = name(rng.integers(1, maximum, dtype=np.uint64))
            assert (number in table) == (number in plain)
            table.add(number)
            plain.add(number)
        assert table.add_all(ids) == plain.add_all(ids)
        assert len(table) == len(plain)
    same(table, plain)
    assert all(number in table for number in plain)
    same(CompiledIdSet(plain), plain)


def test_ids_that_are_not_all_new_change_nothing():
    table = CompiledIdSet()
    assert table.add_all(np.arange(1, 1001, dtype=np.uint64))
    earlier_table = set(table)
    for wrong_value in (500, 2000, 0):  # known, twice, none
        assert not table.add_all(np.array([*range(2000, 2900), wrong_value], np.uint64))
        assert not table.add_all(np.array([*range(2000, 2900), wrong_value, *range(3000, 3900)], np.uint64))
        assert len(table) == 1000
        assert set(table) == earlier_table
        assert name(2000) not in table
    assert table.add_all(np.arange(2000, 2900, dtype=np.uint64))


def test_ids_at_the_same_position_remain_distinct(monkeypatch):
    """With a key of zeros the position follows from the id. After the last position comes the first."""
    monkeypatch.setattr(id_set, "_KEY", np.zeros(3, np.uint64))
    last_ids = [number for number in range((1 << 64) - 4000, 1 << 64) if number >> 58 == 63][:20]
    table, plain = CompiledIdSet(), PythonIdSet()
    for ids in (last_ids[:7], last_ids[7:12], [*last_ids[12:], last_ids[3]], last_ids[12:]):
        assert table.add_all(numbers(*ids)) == plain.add_all(numbers(*ids))
        same(table, plain)


def test_none_is_never_in_it():
    table = CompiledIdSet([name(5), bytes(8), name(5)])
    assert set(table) == {name(5)}
    assert bytes(8) not in table
    assert bytes(8) not in CompiledIdSet()
    assert not table.add_all(numbers(0))


def test_it_needs_at_most_32_bytes_for_each_id():
    table = CompiledIdSet()
    for start in range(1, 200_001, 1000):
        table.add_all(np.arange(start, start + 1000, dtype=np.uint64))
        assert len(table) < 1000 or 16 <= table._places.nbytes / len(table) <= 32 + 1


def test_without_kernels_it_is_a_set():
    with c_library.numpy_alone():
        assert type(id_set.id_set([name(1)])) is PythonIdSet
