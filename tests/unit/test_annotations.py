"""Annotations: lines of a file of notes, and the moments from which other settings of a query apply."""

import logging
import os

import pytest

from aggregator.board.store import notes
from aggregator.board.store.notes import Note
from aggregator.board.store.store import Store
from aggregator.board.store.visible_store import VisibleStore
from hubbub.definitions import catalog
from hubbub.file_watch import FileWatch
from oracles.errors import ParameterError
from oracles.query import File
from tests.queries import make_queries, make_table
from tests.unit.test_board_store import ask, problem

DAY = 86_400
MORNING = 1_793_536_200
"""2026-11-01T12:30:00Z."""
TABLE = make_table(domain=["a", "b", "c"], pane="10s", windows=["10s"])


def board_of(*tables):
    """Return a board that has read these versions of a query, one a day. None retires it."""
    board = Store(DAY, 1 << 20)
    log = catalog.DefinitionLog()
    for number, table in enumerate(tables):
        queries = {} if table is None else make_queries({"homepage": table})
        retired = ("homepage",) if table is None else ()
        for key, value in catalog.changes(File(queries), log.definitions, retired, f"{number:016x}").writes:
            timestamp = 1000 * (MORNING + DAY * number)
            log.take(catalog.TopicRecord(key, value, timestamp))
            board.define(key, value, timestamp)
    return board


def texts(board, **parameters):
    return [(row["kind"], row["text"]) for row in ask(board, "annotations", "homepage", **parameters)["annotations"]]


def test_a_file_has_a_note_on_each_line(tmp_path):
    path = tmp_path / "notes"
    lines = ["# releases", "", "2026-11-01T14:30:00+02:00  3.3 is out ", "2026-11-01T12:30:00Z version 3.2 is out"]
    path.write_text("\n".join([*lines, "2026-11-02 the shop is closed"]))
    assert notes.read(path) == (
        Note(MORNING, "3.3 is out"),
        Note(MORNING, "version 3.2 is out"),
        Note(MORNING + DAY // 2 - 1800, "the shop is closed"),
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("yesterday a release", "the time must be a date"),
        ("1793536200000 a release", "milliseconds"),
        ("2026-11-01T12:30:00Z", "1 to 200 characters, got 0"),
        ("2026-11-01T12:30:00Z " + "x" * 201, "1 to 200 characters, got 201"),
        ("2026-11-01T12:30:00Z a\x07b", "control characters"),
    ],
)
def test_a_wrong_line_is_skipped_with_a_warning(tmp_path, caplog, line, fault):
    path = tmp_path / "notes"
    path.write_text(f"2026-11-01 first\n{line}\n2026-11-02 {'x' * 200}\n")
    with caplog.at_level(logging.WARNING):
        assert [note.text for note in notes.read(path)] == ["first", "x" * 200]
    [record] = caplog.records
    assert f"{path}, line 2 is skipped" in record.message
    assert fault in record.message


def test_a_file_has_bounds(tmp_path, monkeypatch, caplog):
    path = tmp_path / "notes"
    path.write_text("".join(f"2026-11-0{day} day {day}\n" for day in range(1, 6)))
    monkeypatch.setattr(notes, "MOST", 2)
    assert [note.text for note in notes.read(path)] == ["day 4", "day 5"]
    assert "has 5 notes; the newest 2 count" in caplog.text
    monkeypatch.setattr(notes, "MOST_BYTES", 20)
    with pytest.raises(ParameterError, match="at most 20 bytes"):
        notes.read(path)


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "notes"
    path.write_text("2026-11-01 first\n")
    board = board_of(TABLE)
    file = FileWatch([path], lambda: notes.read(path))
    board.notes = lambda: file.value
    assert texts(board) == [("note", "first")]
    path.write_text("2026-11-01 first\n2026-11-02 second\n")
    os.utime(path, (MORNING, MORNING))
    file.refresh()
    assert texts(board) == [("note", "first"), ("note", "second")]


def test_the_first_version_of_a_query_is_no_news():
    assert texts(board_of(TABLE)) == []


def test_a_version_says_which_settings_are_new():
    board = board_of(TABLE, TABLE | {"family_error": 0.01, "publish": 2}, TABLE | {"epsilon": 0.5})
    assert texts(board) == [
        ("version", "new settings: family_error, publish"),
        ("version", "new definition: devices are charged for it anew"),
    ]
    [first, second] = ask(board, "annotations", "homepage")["annotations"]
    assert MORNING + DAY < first["time"] < MORNING + DAY + 200
    assert MORNING + 2 * DAY < second["time"] < MORNING + 2 * DAY + 200


def test_a_retirement_and_a_return_are_named():
    assert texts(board_of(TABLE, None)) == [("version", "the query is retired")]
    assert texts(board_of(TABLE, None, TABLE)) == [("version", "the query is active again")]


def test_the_request_chooses_rows_by_time():
    board = board_of(TABLE)
    board.notes = lambda: [Note(MORNING + number, str(number)) for number in range(5)]
    limits = {"from": MORNING + 1, "to": MORNING + 4}
    assert [text for _, text in texts(board, **limits)] == ["1", "2", "3"]
    assert [text for _, text in texts(board, **limits, limit=2)] == ["2", "3"]


def test_a_viewer_of_named_queries_sees_no_notes():
    board = board_of(TABLE, TABLE | {"publish": 2})
    board.notes = lambda: [Note(MORNING, "the secret query began")]
    assert len(texts(board)) == 2
    assert texts(VisibleStore(board, "homepage".__eq__)) == [("version", "new settings: publish")]
    assert problem(VisibleStore(board, "other".__eq__), "annotations", "homepage") == 404
