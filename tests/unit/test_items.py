"""The item of a set that a client answers: golden vectors, even draws, and arguments that are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from oracles.errors import ParameterError
from producers import one_of

CASES = json.loads((Path(__file__).parents[1] / "vectors" / "items.json").read_text())["cases"]
KEY = bytes(range(32))


def test_each_vector_holds():
    assert len(CASES) >= 200
    for case in CASES:
        key = bytes.fromhex(case["key"])
        assert one_of(case["items"], case["most"], key, int(case["period"])) == case["item"], case
        assert one_of(reversed(case["items"]), case["most"], key, int(case["period"])) == case["item"]


def test_items_and_blanks_are_as_likely():
    """Three items of four are drawn in 40,000 periods. Each bound fails by chance in 1 of 10^7."""
    draws = [one_of(["a", "b", "c"], 4, KEY, period) for period in range(40_000)]
    counts = np.array([draws.count(item) for item in ("a", "b", "c", None)])
    low, high = binom.ppf([1e-7, 1 - 1e-7], 40_000, 0.25)
    assert ((low <= counts) & (counts <= high)).all()


def test_a_set_above_most_is_drawn_whole():
    draws = {one_of([str(number) for number in range(10)], 2, KEY, period) for period in range(500)}
    assert draws == {str(number) for number in range(10)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tea", 2, KEY, 0), "got one text"),
        (([1], 2, KEY, 0), "must be texts"),
        ((["\ud800"], 2, KEY, 0), "half of a character"),
        ((["a"], 0, KEY, 0), "most"),
        ((["a"], True, KEY, 0), "most"),
        ((["a"], 65_537, KEY, 0), "most"),
        ((["a"], 2, b"short", 0), "32 bytes"),
        ((["a"], 2, KEY, 1 << 63), "period"),
        ((["a"], 2, KEY, 1.0), "period"),
    ],
)
def test_other_arguments_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        one_of(*arguments)
