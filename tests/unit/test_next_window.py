"""The next window of a query that closes, and the words for what is missing for its result."""

import re
from dataclasses import replace

import pytest

from aggregator.reading.export.finals import outlook
from aggregator.reading.tail.command import Lines
from aggregator.reading.tail.overview import Overview
from aggregator.records.status import EVERY, lack_of, lack_text
from hubbub.next_window import next_window
from producers.simulation import simulate
from tests import boards
from tests.queries import make_query
from tests.unit.test_status import NOW, PANE, QUERY, status
from tests.unit.test_tail import define, page_query

MINUTE = make_query({"budget": 1e9}, name="a", domain=3, windows=["1m", "10s"], lateness="7s", pane="10s")


@pytest.mark.parametrize("time", [17, 19.5, 20, 26.9, 27, 1e9])
def test_the_next_window_is_the_first_whose_result_is_due_later(time):
    arrival = next_window(MINUTE, time)
    assert arrival.window.size == 10
    assert arrival.end % 10 == 0
    assert arrival.due == arrival.end + 7
    assert arrival.due - 10 <= time < arrival.due


def test_a_query_that_begins_later_or_has_ended_has_no_earlier_window():
    assert next_window(replace(MINUTE, starts=NOW // 60 * 60), 0.0).end == NOW // 60 * 60 + 10
    old_query = replace(MINUTE, until=NOW)
    assert next_window(old_query, NOW - 1.0) is not None
    assert next_window(old_query, NOW + 20.0) is None


def test_the_state_and_the_status_tell_what_is_missing():
    stale = NOW - PANE - QUERY.lateness - EVERY - 20
    assert lack_of(QUERY, None, "waiting", NOW) == "worker"
    assert lack_of(QUERY, status(None, stale), "late", NOW) == "worker"
    assert lack_of(QUERY, status(None), "waiting", NOW) == "reports"
    assert lack_of(QUERY, status(NOW - 500), "quiet", NOW) == "reports"
    assert lack_of(QUERY, status(NOW - 20), "withheld", NOW) == "people"
    assert lack_of(QUERY, status(NOW - 20), "waiting", NOW) is None
    assert lack_of(QUERY, status(NOW - 20), "live", NOW) is None
    assert lack_of(replace(QUERY, starts=NOW + 5), None, "waiting", NOW) is None


def test_each_lack_has_words():
    assert lack_text(QUERY, None, "worker") == "no worker has closed a pane yet"
    assert lack_text(QUERY, status(None), "worker") == "no worker counts it now"
    assert lack_text(QUERY, status(None), "reports") == "no closed pane has reports yet"
    assert lack_text(QUERY, status(NOW - 500), "reports") == "no reports have come"
    few = lack_text(replace(QUERY, crowd=1_000), status(NOW), "people")
    assert few == "too few people: windows with fewer than 1,000 reports are withheld"
    assert lack_text(QUERY, None, None) == ""


def test_tail_says_for_a_query_without_a_result_what_it_waits_for_once(capsys):
    query = page_query()
    overview, lines = Overview(), Lines()
    define(overview, query)
    for _ in range(4):
        lines.show(overview, [], [])
    (text,) = capsys.readouterr().out.splitlines()
    # A window may have ended before its lateness is over.
    assert re.match("visits: no final yet; no worker has closed a pane yet; the next window of 10s end(s|ed) at ", text)
    assert "its result comes soon after" in text

    now = boards.START
    overview.add_status(boards.status_message(query, now, None)[2])
    pulse = overview.pulse("visits", now + 1)
    assert pulse.whole_text.startswith("no final yet; no closed pane has reports yet; the next window of 10s ended at ")


def test_an_export_without_finals_says_when_one_comes():
    assert outlook(replace(QUERY, crowd=20), 19.0).startswith("the next window of a ends at 1970-01-01 00:00:20 UTC, ")
    # Its lateness is not over, so it is the next one although it has ended.
    assert outlook(replace(QUERY, crowd=20), 20.0) == (
        "the next window of a ended at 1970-01-01 00:00:20 UTC, its final comes soon after 1970-01-01 00:00:27 UTC; "
        "it needs a worker that runs, and reports of at least 20 people"
    )
    assert outlook(replace(QUERY, until=10), 1e6) == "query a has ended, so no further final comes"


def test_a_simulation_says_when_its_first_result_comes_and_whether_its_clients_are_enough():
    lines = simulate.outlook(replace(QUERY, crowd=20), 20.0, 10).splitlines()
    assert lines == [
        "the next window of a ends at 1970-01-01 00:00:30 UTC, its result comes soon after 1970-01-01 00:00:37 UTC",
        "too few people: windows with fewer than 20 reports are withheld",
    ]
    assert len(simulate.outlook(QUERY, 20.0, 10).splitlines()) == 1
    assert simulate.outlook(replace(QUERY, until=10), 1e6, 10) == "a has ended (`until`), so no result will come\n"
