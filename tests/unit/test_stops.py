"""Stops in the topic of definitions: they beat the query file, and hold until a later record ends them."""

import pytest

from aggregator.counting.admission.gate import AcceptedFrame, Gate, Reason
from aggregator.plan.check import compare
from aggregator.reading.tail.overview import Overview
from aggregator.topics import resume
from aggregator.topics import stop as stop_command
from aggregator.topics.formats_return import _stops as return_obstacles
from aggregator.topics.stop import chosen
from hubbub.definitions import formats, stop_record
from hubbub.definitions.catalog import DefinitionLog, DefinitionsError, TopicRecord, changes, read
from hubbub.definitions.formats import FormatsError
from oracles.frame import encode
from oracles.query import File
from tests.queries import make_queries, make_table

NOW = 1_000_000
PAGE = make_table(domain=["a", "b"], oracle="grr", lateness="5s", skew="30s", pane="10s")
FIRST_PANE = NOW + 40
"""The first pane after the log time, the skew of 30 s and the margin of 2 s."""


def file(**tables):
    return File(make_queries(tables) if tables else {})


def append(records, new_file, second, retire=()):
    """Return the topic after a worker with this file has read it."""
    update = changes(new_file, read(records), retire, f"{len(records):016x}")
    assert not update.missing
    return [*records, *(TopicRecord(*write, 1000 * second) for write in update.writes)]


def stop(records, second, name="page", *, is_stopped=True, reason=""):
    write = stop_record.write(name, f"{len(records):016x}", is_stopped=is_stopped, reason=reason)
    return [*records, TopicRecord(*write, 1000 * second)]


def panes(records, name="page"):
    """Return the first pane of each version of a query, and whether it is stopped."""
    versions = read(records).versions.values()
    return [(v.first, v.is_stopped) for one in versions if one.query.name == name for v in one.versions]


FIRST = append([], file(page=PAGE), NOW - 1000)
LOG_WITH_STOP = stop(FIRST, NOW, reason="a bug in 3.2")


def test_a_stop_applies_from_the_first_pane_after_its_time_the_skew_and_the_margin():
    assert panes(LOG_WITH_STOP) == [(0, False), (FIRST_PANE, True)]
    assert read(LOG_WITH_STOP).stops == {"page": (NOW, "a bug in 3.2")}


def test_a_file_that_still_has_the_query_changes_nothing():
    assert append(LOG_WITH_STOP, file(page=PAGE), NOW + 100) == LOG_WITH_STOP
    assert read(LOG_WITH_STOP).active == read(FIRST).active


def test_a_worker_that_appends_the_first_file_late_does_not_undo_the_stop():
    late_copy = replace_token(FIRST[0])
    assert panes([*LOG_WITH_STOP, late_copy]) == panes(LOG_WITH_STOP)


def replace_token(record):
    """Return the record of another worker that started at the same time."""
    return record._replace(key=record.key + b"0")


def test_a_version_and_a_new_digest_of_a_stopped_name_are_stopped_too():
    later_records = append(LOG_WITH_STOP, file(page=PAGE | {"lateness": "7s"}), NOW + 100)
    assert [is_stopped for _, is_stopped in panes(later_records)] == [False, True, True]

    newer_records = append(LOG_WITH_STOP, file(page=PAGE | {"epsilon": 2.0}), NOW + 100)
    assert read(newer_records).versions[read(newer_records).active["page"].digest].newest.is_stopped


def test_a_resumed_query_goes_on_with_the_same_digest():
    records_after_resume = stop(LOG_WITH_STOP, NOW + 100, is_stopped=False)
    assert panes(records_after_resume) == [(0, False), (FIRST_PANE, True), (FIRST_PANE + 100, False)]
    assert not read(records_after_resume).stops
    # What was noted once stays so: only the first of equal records counts.
    assert read(stop(records_after_resume, NOW + 200, is_stopped=False)).versions == read(records_after_resume).versions
    assert read(stop(LOG_WITH_STOP, NOW + 50, reason="again")).stops == read(LOG_WITH_STOP).stops


def test_a_stop_of_a_name_without_a_definition_waits_for_it():
    stop_of_other = stop(FIRST, NOW, "other")
    later_records = append(stop_of_other, file(page=PAGE, other=PAGE), NOW + 10)
    assert [is_stopped for _, is_stopped in panes(later_records, "other")] == [True]


def test_a_stopped_query_can_be_retired_and_stays_stopped_when_it_returns():
    records_after_end = append(LOG_WITH_STOP, file(), NOW + 100, retire=["page"])
    assert not read(records_after_end).active
    second_start = append(records_after_end, file(page=PAGE), NOW + 200)
    assert panes(second_start)[-1] == (NOW + 240, True)


def test_a_stop_outlives_a_forgotten_definition_and_goes_with_its_record():
    log = DefinitionLog()
    for record in LOG_WITH_STOP:
        log.take(record)
    log.forget({b"12345678": "gone"})
    assert log.definitions.stops == read(LOG_WITH_STOP).stops
    assert log.definitions.versions == read(LOG_WITH_STOP).versions

    # A removed record makes the log put all versions together again.
    removal = TopicRecord(LOG_WITH_STOP[-1].key, None, 1000 * NOW)
    assert read([*LOG_WITH_STOP, removal]).versions == read(FIRST).versions


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"stop|page", b'{"stopped": true}'),
        (b"stop|a page|1", b'{"stopped": true}'),
        (b"stop|page|1", b'{"stopped": 1}'),
        (b"stop|page|1", b'{"stopped": true, "reason": 1}'),
        (b"stop|page|1", b"[]"),
        (b"stop|page|1", b""),
    ],
)
def test_an_unreadable_stop_is_skipped_and_reported(key, value):
    definitions = read([*FIRST, TopicRecord(key, value, 1000 * NOW)])
    assert [record.key for record in definitions.unreadable] == [key]
    assert definitions.versions == read(FIRST).versions


def test_workers_refuse_reports_of_stopped_panes_only():
    definitions = read(LOG_WITH_STOP).versions
    query = next(iter(definitions.values())).query
    gate = Gate(partition=0, partitions=1, definitions=definitions)

    def judge(pane):
        frame = encode(query.digest, pane, query.oracle.perturb([0, 1]))
        return gate.judge(frame, 1000 * (pane + 1), 1000 * (pane + 1))[0]

    assert isinstance(judge(FIRST_PANE - 10), AcceptedFrame)
    refusal = judge(FIRST_PANE)
    assert (refusal.reason, refusal.query, refusal.reports) == (Reason.STOPPED, "page", 2)


def test_windows_that_touch_the_stop_are_partial_and_no_window_ends():
    versions = next(iter(read(LOG_WITH_STOP).versions.values()))
    assert versions.is_partial(FIRST_PANE - 10, FIRST_PANE + 10)
    assert versions.intervals == next(iter(read(FIRST).versions.values())).intervals
    assert versions.retired is None
    assert versions.last_window_end is None


def test_a_long_reason_is_cut():
    records = stop(FIRST, NOW, reason="x" * 10_000)
    assert len(read(records).stops["page"].reason) == stop_record.LONGEST_REASON


RAISED = TopicRecord(formats.KEY, formats.newest_value(), 1000 * NOW)


def test_names_are_those_of_active_queries_and_all_means_those_that_can_change():
    two_queries = [RAISED, *append([], file(page=PAGE, other=PAGE), NOW - 1000)]
    assert chosen(read(two_queries), [], is_stopped=True) == ["other", "page"]
    assert chosen(read(two_queries), ["page", "page"], is_stopped=True) == ["page"]
    assert chosen(read(stop(two_queries, NOW)), [], is_stopped=False) == ["page"]
    assert chosen(read(two_queries), ["page"], is_stopped=False) == ["page"], "no error if it was not stopped"
    with pytest.raises(DefinitionsError, match="no query pgae; queries: other, page"):
        chosen(read(two_queries), ["pgae"], is_stopped=True)


def test_a_stop_needs_workers_that_know_it():
    with pytest.raises(FormatsError, match="Stop all workers and run"):
        chosen(read(FIRST), ["page"], is_stopped=True)


def test_older_releases_may_not_return_while_a_query_is_stopped():
    [obstacle] = return_obstacles(read(LOG_WITH_STOP))
    assert "hubbub resume page" in obstacle
    assert not [*return_obstacles(read(append(LOG_WITH_STOP, file(), NOW + 100, retire=["page"])))]


@pytest.mark.parametrize("main", [stop_command.main, resume.main])
@pytest.mark.parametrize("arguments", [[], ["page", "--all"]])
def test_a_command_needs_names_or_all(main, arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "give names of queries, or --all" in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["x" * 501, "two\nlines"])
def test_a_reason_is_one_line(reason, capsys):
    with pytest.raises(SystemExit) as end:
        stop_command.main(["page", "--reason", reason])
    assert end.value.code == 2
    assert "one line of at most 500 characters" in capsys.readouterr().err


def test_a_check_of_the_topic_and_the_terminal_say_since_when_a_query_is_stopped():
    lines = [*compare(file(page=PAGE), read(LOG_WITH_STOP), 10.0)]
    text = "stopped since 1970-01-12 13:46:40 UTC"
    assert lines[0] == f"page: is {text} (a bug in 3.2). `hubbub resume page` lets it go on."
    assert not any("stopped" in line for line in compare(file(page=PAGE), read(FIRST), 10.0))

    overview = Overview()
    for record in LOG_WITH_STOP:
        overview.define(*record)
    assert overview.pulse("page", NOW + 10).text.endswith("a bug in 3.2")
