"""The core lives as Python's client does: random listings, clocks that jump, limits, values and lost stores."""

import sys

import pytest

from tests.core import random_oracles
from tests.core.compiler import ROOT
from tests.core.lives import differences
from tests.vectors.life_cases import of

sys.path.insert(0, str(ROOT / "tests" / "vectors"))
import random_lives


@pytest.mark.filterwarnings("ignore::producers.RenewalWarning")
def test_lives_with_every_oracle_are_those_of_python():
    lives = [of(life) for life in random_oracles.random_lives(250)]
    for life in lives:
        assert list(differences(life)) == [], life["name"]
    assert len(lives) > 240

    # The lives have all results, or equality would show little.
    results = [step.get("error", "frame") for life in lives for step in life["steps"]]
    for result in ("frame", "NotYet", "BudgetSpent", "ReportError"):
        assert results.count(result) > 100, result
    kinds = {str(definition["oracle"]) for life in lives for definition in life["definitions"]}
    assert {"grr", "sue", "oue", "ss", "blh", "olh", "full", "short", "hr", "haar", "sub"} <= kinds


@pytest.mark.filterwarnings("ignore::producers.RenewalWarning")
def test_long_lives_are_those_of_python():
    for life in random_lives.random_lives(40):
        assert list(differences(of(life))) == [], life.name


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 10_000, 1000))
@pytest.mark.filterwarnings("ignore::producers.RenewalWarning")
def test_ten_thousand_lives_are_those_of_python(first):
    for life in random_oracles.random_lives(1000, first):
        assert list(differences(of(life))) == [], life.name
