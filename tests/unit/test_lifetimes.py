"""Lifetimes of simulated panels, which are never silent, are unbiased, and are charged once. The earlier client fails.

Each figure is a mean over 20 panels with independent noise. Its limit is 8 standard errors over the panels. Beyond them
Student's law with 19 degrees of freedom has 2e-7 on both sides. Five figures have 1e-6.
"""

import numpy as np
import pytest

from benchmarks import years

PANELS, PEOPLE, DAYS = 20, 1_000, 40


def off(panels):
    """Return how far the mean squared error over the panels is from the stated variance, in standard errors."""
    squares = [np.mean(panel.squares) for panel in panels]
    return (np.mean(squares) - 1.0) / (np.std(squares, ddof=1) / np.sqrt(len(squares)))


@pytest.mark.parametrize("name", [name for name in years.QUERIES if "default" not in name])
def test_a_panel_is_never_silent_and_has_the_stated_errors(name):
    panels = [years.present(years.QUERIES[name], PEOPLE, DAYS, seed) for seed in range(PANELS)]
    assert all(panel.answers == PEOPLE * DAYS for panel in panels)
    assert abs(off(panels)) < 8


def test_fresh_answers_within_the_default_budget_end_on_one_day_and_are_unbiased_until_then():
    name = "fresh: hr, epsilon 2, default budget"
    panels = [years.present(years.QUERIES[name], PEOPLE, DAYS, seed) for seed in range(PANELS)]
    assert {panel.silent_from for panel in panels} == {4}
    assert all(panel.answers == 4 * PEOPLE for panel in panels)
    assert abs(off(panels)) < 8


def test_the_client_of_old_fell_silent_by_its_values_and_was_biased():
    """Bias grows with the root of the number of people. Honest panels of this size have 1.0 +- 0.05 here."""
    panels = [years.old(6_000, 80, seed) for seed in range(3)]
    assert all(panel.answers < 6_000 * 70 for panel in panels)
    assert min(np.mean(panel.squares) for panel in panels) > 1.4
