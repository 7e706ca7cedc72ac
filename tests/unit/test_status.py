"""The state of a query follows from its definition, its newest final, its status and the time."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from aggregator.merging.merger import Merger
from aggregator.merging.query_state import QueryState
from aggregator.merging.windows import Position
from aggregator.publishing.status_log import StatusLog, status_of
from aggregator.records.span import PUBLISH_SECONDS, shortest_expected_age
from aggregator.records.status import EVERY, QueryStatus, decode, encode, key, state_of
from aggregator.tallies.snapshot import Snapshot
from hubbub.definitions.versions import Versions
from oracles.errors import ReportError
from oracles.query.settings import Window
from tests.queries import make_query, make_table

PANE, LATENESS = 10, 7
TABLE = make_table(domain=3, oracle="grr", budget=1e9, lateness="7s", crowd=1)
QUERY = make_query(TABLE, name="a")
MINUTE = make_query(TABLE, name="a", windows=["1m"])
EXPECTED = shortest_expected_age(QUERY)
NOW = 1_700_000_000
CLOSED = NOW // PANE * PANE - 2 * PANE


def status(newest, newest_end=CLOSED, since=None, query=QUERY):
    return QueryStatus(
        query="a", digest=query.digest.hex(), closed_through=newest_end, newest_report=newest, reports_since=since
    )


def state(latest, status, now=NOW, query=QUERY, *, retired=False, withheld=False):
    return state_of(query, status, latest, now, retired=retired, withheld=withheld)


def test_the_first_state_that_fits_holds():
    fresh, old = CLOSED, CLOSED - 2 * PANE
    assert state(fresh, status(CLOSED), retired=True) == "retired"
    assert state(None, status(CLOSED), retired=True) == "retired"
    assert state(None, status(CLOSED)) == "waiting"
    assert state(fresh, status(CLOSED), query=replace(QUERY, starts=NOW + 1)) == "waiting"
    assert state(old, status(CLOSED), withheld=True) == "late"
    assert state(old, status(old), withheld=True) == "quiet"
    assert state(fresh, status(CLOSED), withheld=True) == "withheld"
    assert state(fresh, status(CLOSED)) == "live"


@pytest.mark.parametrize("age", [EXPECTED, EXPECTED + 1])
def test_a_final_is_late_above_the_expected_age(age):
    assert state(NOW - age, status(CLOSED)) == ("late" if age > EXPECTED else "live")
    assert state(NOW - age, None) == ("late" if age > EXPECTED else "live"), "without a status it may be late"


@pytest.mark.parametrize("panes", [0, 1, 2, 50])
def test_a_query_is_quiet_after_two_closed_panes_without_reports(panes):
    newest = CLOSED - panes * PANE
    assert state(newest, status(newest)) == ("quiet" if panes >= 2 else "live")


def test_a_first_final_is_live_before_the_next_status_tells_of_its_reports():
    assert state(CLOSED, status(None, CLOSED - PANE)) == "live"
    assert state(CLOSED, status(None)) == "quiet"


def test_a_dead_worker_is_not_taken_for_a_quiet_query():
    """The status of a dead worker stands still, whether clients still reported or not."""
    limit = PANE + LATENESS + PUBLISH_SECONDS + EVERY
    for newest in (0, -100 * PANE):
        newest_end = NOW - limit - 1
        assert state(newest_end + newest, status(newest_end + newest, newest_end)) == "late"
    assert state(CLOSED - 1_000, status(CLOSED - 1_000, NOW - limit)) == "quiet"


def test_a_crowd_that_stops_is_never_late():
    """Whatever the pane and the window: all reports are in finals, and the worker goes on closing panes."""
    for query in (
        QUERY,
        MINUTE,
        make_query(TABLE, name="a", pane="5m", windows=["5m"]),
    ):
        pane, stop = query.pane, NOW // 300 * 300
        states = []
        for number in range(stop, stop + 1_200):
            newest_end = (number - query.lateness - EVERY) // pane * pane  # as old as a status may be
            states.append(state(stop, status(min(stop, newest_end), newest_end, query=query), number, query))
        assert "late" not in states
        assert states[-1] == "quiet"


def test_a_crowd_that_returns_is_not_late_before_its_first_final_is_due():
    stop = NOW // 60 * 60 - 3_600
    back = NOW // 60 * 60 + PANE
    due = back - PANE + shortest_expected_age(MINUTE)
    for number in range(back + LATENESS, due + 30):
        newest_end = (number - LATENESS) // PANE * PANE
        result = state(stop, status(newest_end, newest_end, back, MINUTE), number, MINUTE)
        assert result == ("late" if number > due else "live")


def test_a_query_that_is_over_is_quiet():
    over = replace(QUERY, until=NOW - 1_000)
    assert state(NOW - 1_000, None, query=over) == "quiet"
    assert state(NOW - 1_000, status(NOW - 1_000, NOW - 1_000), query=over) != "late"


def test_a_record_is_read_as_it_was_written():
    record = status(CLOSED, since=CLOSED - PANE)
    assert decode(encode(record)) == record
    short = {"query": "a", "digest": QUERY.digest.hex(), "closed_through": CLOSED, "newest_report": None}
    assert decode(orjson.dumps(short)) == status(None)
    assert orjson.loads(encode(status(None))).keys() >= short.keys()
    assert key(QUERY) == f"a|{QUERY.digest.hex()}".encode()


@pytest.mark.parametrize(
    "wrong_record", [{"closed_through": -1}, {"newest_report": "x"}, {"digest": "0"}, {"query": "a" * 2_000}]
)
def test_a_wrong_record_is_refused(wrong_record):
    with pytest.raises(ReportError):
        decode(orjson.dumps({**orjson.loads(encode(status(CLOSED))), **wrong_record}))


def test_a_merger_knows_its_newest_reports_and_its_pauses():
    merger = Merger(Versions.of(QUERY), 1)
    state = QueryState(merger)
    assert status_of(state) is None
    by_number = {}
    for number, n in enumerate([5, 5, 0, 5, 0, 0, 5, 5]):
        if n:
            merger.take(NOW + number * PANE, 0, Snapshot(n, 0, 0, 0, np.full(QUERY.oracle.state_size, n, np.int64)))
        merger.mark(0, NOW + (number + 1) * PANE)
        list(state.finals())
        by_number[number] = status_of(state)
    ends = [(status_record.newest_report - NOW) // PANE for status_record in by_number.values()]
    assert ends == [1, 2, 2, 4, 4, 4, 7, 8]
    assert [(each.reports_since - NOW) // PANE for each in by_number.values()] == [1, 1, 1, 1, 1, 1, 7, 7]
    assert [(status_record.closed_through - NOW) // PANE for status_record in by_number.values()] == list(range(1, 9))


def test_after_a_restart_the_newest_final_is_the_newest_report():
    window = Window("tumbling", PANE, PANE)
    merger = Merger(Versions.of(QUERY), 1, [(window, Position(NOW, None))])
    assert merger.newest_report == NOW
    assert merger.reports_since is None


def test_a_status_is_written_when_it_changed():
    merger = Merger(Versions.of(QUERY), 1)
    log = StatusLog()
    state = QueryState(merger)
    assert log.changes([state]) == []
    merger.mark(0, CLOSED)
    list(state.finals())
    assert log.changes([state]) == [(QUERY, status(None))]
    assert log.changes([state]) == []
    log.clear()
    assert log.changes([state]) == [(QUERY, status(None))]


def test_the_status_of_a_retired_query_is_deleted_after_its_last_final():
    end = CLOSED + 2 * PANE
    merger = Merger(Versions.of(QUERY, retired=CLOSED), 1)
    log = StatusLog()
    state = QueryState(merger)
    merger.mark(0, end)
    list(state.finals())
    assert log.changes([state]) == [], "its last window is not published"
    state.note_published()
    assert log.changes([state]) == [(QUERY, None)]
    assert log.changes([state]) == []
