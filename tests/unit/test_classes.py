"""The classes of values. `perturb` draws rows, finds the class of each value with them, and answers for the class."""

import numpy as np
import pytest

from oracles import ORACLES, oracle
from oracles.errors import ParameterError, ReportError
from oracles.mechanisms import automatic
from oracles.mechanisms.grr import Grr
from oracles.multi import multi

SIZES = (2, 3, 37, 1024)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("size", SIZES)
def test_perturbing_is_rows_class_and_answer_from_one_stream(name, size):
    o = oracle(name, epsilon=1.5, size=size)
    values = np.random.default_rng(1).integers(0, size, 500)
    whole_reports = o.perturb(values, np.random.default_rng(2))
    rng = np.random.default_rng(2)
    rows = o.rows(500, rng)
    classes = o.classify(values, rows)
    earlier_classes = classes.copy()
    assert np.array_equal(o.answer(classes, rows, rng), whole_reports)
    assert np.array_equal(classes, earlier_classes), "what is given stays as it is"


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("size", SIZES)
def test_a_client_that_keeps_its_rows_has_at_most_the_stated_classes(name, size):
    o = oracle(name, epsilon=1.5, size=size)
    assert o.classes == min(getattr(o, "buckets", size), size)
    for seed in range(20):
        rows = o.rows(1, np.random.default_rng(seed))
        own_rows = None if rows is None else np.repeat(rows, size, axis=0)
        assert len(np.unique(o.classify(np.arange(size), own_rows))) <= o.classes


def test_oracles_without_rows_have_the_value_for_a_class():
    for name in ("grr", "sue", "oue", "ss"):
        o = oracle(name, epsilon=1.0, size=5)
        assert o.rows(4, np.random.default_rng(1)) is None
        assert o.classify(np.array([3, 1]), None).tolist() == [3, 1]


def test_rows_of_selected_clients_give_their_answers():
    o = oracle("olh", epsilon=2.0, size=1000)
    rows = o.rows(50, np.random.default_rng(1))
    values = np.arange(50)
    assert np.array_equal(o.classify(values, rows)[10:20], o.classify(values[10:20], rows[10:20]))


def test_local_hashing_without_rows_is_refused():
    with pytest.raises(ReportError, match="rows"):
        oracle("hr", epsilon=1.0, size=5).classify(np.array([3]), None)


def test_fewer_buckets_are_another_oracle_and_the_best_number_is_the_same():
    best = oracle("olh", epsilon=2.0, size=1024)
    fewer = oracle("olh", epsilon=2.0, size=1024, buckets=2)
    assert best.buckets == 8
    assert fewer.buckets == 2
    assert fewer.classes == 2
    assert fewer.variance(1) == oracle("blh", epsilon=2.0, size=1024).variance(1)
    same_oracle = oracle("olh", epsilon=2.0, size=1024, buckets=8)
    assert repr(same_oracle) == repr(best)
    assert repr(fewer) == "oracle('olh', epsilon=2.0, size=1024, buckets=2)"


@pytest.mark.parametrize("buckets", [0, 1, 3, 16, 2.5, -2])
def test_buckets_are_a_power_of_two_up_to_the_best(buckets):
    with pytest.raises(ParameterError, match="power of two from 2 to 8"):
        oracle("olh", epsilon=2.0, size=1024, buckets=buckets)


def test_only_local_hashing_takes_buckets():
    with pytest.raises(ParameterError, match="full, olh, short, sub do"):
        oracle("grr", epsilon=2.0, size=1024, buckets=2)
    with pytest.raises(ParameterError, match="full, olh, short, sub do"):
        multi("smp", sizes=[3, 4], epsilon=2.0, oracle="oue", buckets=2)
    assert [e.buckets for e in multi("smp", sizes=[3, 400], epsilon=2.0, oracle="olh", buckets=2).encoders] == [2, 2]


def test_fewer_buckets_estimate_without_bias():
    # 400,000 reports: a share is off by 5.2 of its standard errors with probability 2e-7, two shares are looked at.
    o = oracle("olh", epsilon=2.0, size=100, buckets=4)
    state = o.zeros()
    o.add(state, o.perturb(np.repeat([7, 30], 200_000), np.random.default_rng(3)))
    estimate = o.estimate(state, 400_000)
    assert np.abs((estimate.shares - 0.5) / estimate.stderr)[[7, 30]].max() < 5.2


@pytest.mark.parametrize(
    ("epsilon", "size", "classes", "name"),
    [
        (2.0, 1024, None, "oracle('olh', epsilon=2.0, size=1024)"),
        (2.0, 1024, 8, "oracle('olh', epsilon=2.0, size=1024)"),
        (2.0, 1024, 7, "oracle('olh', epsilon=2.0, size=1024, buckets=4)"),
        (2.0, 1024, 3, "oracle('blh', epsilon=2.0, size=1024)"),
        (4.0, 100, None, "oracle('grr', epsilon=4.0, size=100)"),
        (4.0, 100, 99, "oracle('olh', epsilon=4.0, size=100)"),
        (1.0, 4, 4, "oracle('grr', epsilon=1.0, size=4)"),
    ],
)
def test_auto_chooses_the_best_oracle_that_fits(epsilon, size, classes, name):
    assert repr(automatic(epsilon, size, classes)) == name


class Later(Grr):
    """An oracle that "auto" may choose from edition 2 on. It beats all others here, because it perturbs nothing."""

    auto_edition = 2

    def variance(self, n, share=0.0):
        return 0.0


def test_a_later_edition_does_not_change_an_earlier_choice(monkeypatch):
    monkeypatch.setitem(ORACLES, "later", Later)
    assert repr(automatic(2.0, 1024)) == "oracle('olh', epsilon=2.0, size=1024)"
    assert isinstance(automatic(2.0, 1024, edition=2), Later)


def test_the_order_of_the_table_does_not_change_a_choice(monkeypatch):
    cells = [
        (epsilon, size, classes) for epsilon in (0.5, 2.0, 4.0) for size in (2, 4, 30, 1024) for classes in (None, 2)
    ]
    choices = [repr(automatic(*cell)) for cell in cells]
    monkeypatch.setattr("oracles.mechanisms.ORACLES", dict(reversed(ORACLES.items())))
    assert [repr(automatic(*cell)) for cell in cells] == choices


def test_each_oracle_names_the_edition_from_which_auto_may_choose_it():
    editions = {edition: {name for name, kind in ORACLES.items() if kind.auto_edition == edition} for edition in (1, 2)}
    assert editions == {1: {"grr", "olh", "blh", "oue"}, 2: {"hr", "ss", "full", "short"}}


def test_a_fake_without_a_row_is_refused_with_the_remedy():
    with pytest.raises(ParameterError, match="a new one needs a row in FAKES"):
        multi("rsfd", sizes=[3, 4], epsilon=1.0, oracle="ss")


def test_nothing_has_a_single_class():
    with pytest.raises(ParameterError, match="at most 1 classes"):
        automatic(1.0, 3, 1)


def test_a_life_costs_an_epsilon_for_each_class():
    assert oracle("hr", epsilon=2.0, size=1024).life.amount == 4
    assert multi("smp", sizes=[3, 40], epsilon=1.0, oracle="grr").life.amount == 40
    spl = multi("spl", sizes=[3, 40], epsilon=1.0, oracle="hr")
    assert spl.life == (0.5, 4)
    assert multi("rsfd", sizes=[3, 40], epsilon=1.0).life is None
