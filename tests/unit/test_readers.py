"""What `hubbub check` and the API say of readers of records: of one window, of all windows, and of few reports."""

from datetime import date

import pytest

from aggregator.plan import readers, visibility
from aggregator.records.round_privacy import readable_record, readable_window, together
from oracles.central import crowd_epsilon, honest
from tests.queries import make_query
from tests.string_crowds import CRASHES

PANEL = "Whoever sees two windows learns the report of a person who changed, came or went."
DAY = {"windows": ["1d"], "pane": "1h", "period": "1d"}


def ask(**keys):
    return make_query(keys, edition=2)


@pytest.mark.parametrize(
    ("keys", "windows"),
    [
        ({"answers": "life"}, "many"),
        ({"answers": "once"}, "many"),
        ({"answers": "life", "renew": "1d"}, "one"),
        ({"answers": "life", "renew": "1d", "windows": ["1d", "1h"], "period": "1h"}, "many"),
        ({"answers": "life", "renew": "1d", "windows": ["1d/1h"]}, "many"),
        ({"answers": "life", "renew": "2d"}, "many"),
        ({"answers": "fresh"}, "many"),
        ({"answers": "fresh", "budget": 1.0}, "one"),
        ({"answers": "life", "from": date(2026, 11, 1), "until": date(2026, 11, 2)}, "one"),
        ({"answers": "life", "from": date(2026, 11, 1), "until": date(2026, 11, 3)}, "many"),
    ],
)
def test_a_second_window_of_the_same_people_is_noticed(keys, windows):
    query = ask(domain=64, **{**DAY, **keys})
    assert together(query).windows == windows
    is_panel = windows == "many" and query.answers != "fresh"
    assert (PANEL in list(readers.of_all(query))) == is_panel


def test_the_bound_of_a_round_comes_first():
    query = ask(domain=64, epsilon=2.0, answers="life", **DAY)
    assert together(query).epsilon == query.record_charge
    assert next(readers.of_all(query)) == "All windows of a round together: epsilon 6.6853, odds of at most 801."


def test_odds_beyond_all_numbers_are_up_to_more():
    query = make_query(domain=4, epsilon=15.0, budget=60.0)
    assert "odds of perhaps more than 10^12." in next(readers.of_all(query))
    fresh = ask(domain=64, answers="fresh", **DAY)
    assert together(fresh).epsilon == 4.0


def test_a_fresh_answer_hides_in_the_smallest_stretch():
    query = ask(domain=64, answers="fresh", **DAY)
    epsilon, _ = crowd_epsilon(1.0, honest(50), query.only_oracle.overlap)
    assert f"One fresh answer in all windows: epsilon {epsilon:g} " in " ".join(readers.of_all(query))
    assert "of crowd = 50 reports" in " ".join(readers.of_all(query))
    unlimited = ask(domain=64, answers="fresh", crowd=1, **DAY)
    assert "No stretch between marks hides a fresh answer" in " ".join(readers.of_all(unlimited))


def test_the_windows_with_readable_reports_are_named():
    query = ask(domain=63, oracle="hr", answers="once", windows=["1m", "1h"], period="1m")
    text = " ".join(readers.of_few(query, 150))
    assert text.startswith("Up to about 200 reports in a window, a reader of the record can read single reports.")
    assert "Windows below this number: 60s (150 reports)." in text
    assert list(readers.of_few(query, None)) == [text.partition(" Windows")[0]]
    assert len(list(readers.of_few(query, 200))) == 1


def test_shares_that_lead_back_to_no_report_have_another_sentence():
    query = ask(domain=4, oracle="grr", answers="once", **DAY)
    assert readable_window(query) is None
    assert list(readers.of_few(query, 10)) == [
        "The shares of a record do not lead back to single reports. A value with one report shows it."
    ]


def test_the_record_of_an_attribute_counts_the_reports_to_it():
    query = ask(attributes={"a": 63, "b": 127}, solution="smp", oracle="hr", answers="once", **DAY)
    assert [readable_record(query, name) for name in ("a", "b")] == [200, 390]
    assert readable_window(query) > 2 * 200
    assert readable_record(CRASHES, None) == readable_window(CRASHES)


@pytest.mark.parametrize(("clients", "low", "high"), [(400, 0.0, 0.1), (545, 0.8, 0.95), (700, 0.99, 1.0)])
def test_the_windows_of_numbers_that_are_shown_have_the_crowd_in_each_level(clients, low, high):
    """With 8 levels and a crowd of 50, 545 reports are a crowd in 95% of windows. A held neighbour costs some more."""
    query = ask(domain={"low": 0, "high": 9}, windows=["10s"], period="10s")
    [share] = visibility.shown_shares(query, clients).values()
    assert low <= share <= high
