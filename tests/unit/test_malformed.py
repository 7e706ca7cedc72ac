"""Malformed reports: the mask of many equals `check` of each alone, and `check` names the first one."""

from itertools import product

import numpy as np
import pytest

from oracles import oracle
from oracles.errors import ReportError
from oracles.multi import multi

SUBJECTS = {
    **{
        f"{name} {size}": oracle(name, epsilon=1.0, size=size)
        for name, size in product(("grr", "sue", "oue", "ss"), (3, 8, 300))
    },
    **{f"{name} {size}": oracle(name, epsilon=1.0, size=size) for name, size in product(("blh", "hr"), (3, 300))},
    **{f"olh {epsilon}": oracle("olh", epsilon=epsilon, size=300) for epsilon in (0.5, 3.0, 5.0)},
    **{s: multi(s, sizes=[3, 9, 70], epsilon=1.0) for s in ("spl", "smp", "rsfd")},
    "smp of olh": multi("smp", sizes=[5, 600], epsilon=1.0, oracle=["olh", "grr"]),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_mask_equals_single_checks(name):
    o = SUBJECTS[name]
    rng = np.random.default_rng(3)
    sizes = getattr(o, "sizes", None)
    draw = [rng.integers(0, size, 400) for size in sizes or (o.size,)]
    reports = o.perturb(np.column_stack(draw) if sizes else draw[0], rng)
    assert o.malformed(reports) is None
    assert o.malformed(reports[:0]) is None
    # A few bytes are changed.
    rows = rng.integers(0, 400, 200)
    columns = rng.integers(0, o.width, 200)
    reports[rows, columns] = rng.integers(0, 256, 200)
    reports[7], reports[9] = 0xFF, 0
    alone = [o.check(reports[i : i + 1]) is not None for i in range(len(reports))]
    mask = o.malformed(reports)
    assert (mask.tolist() if mask is not None else [False] * len(reports)) == alone
    assert o.check(reports) == (alone.index(True) if True in alone else None)


def test_wrong_arrays_are_refused():
    with pytest.raises(ReportError):
        SUBJECTS["grr 3"].malformed(np.zeros((3, 9), np.uint8))
