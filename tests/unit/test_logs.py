"""A log says what changes: a library's warning that comes again and again is one line a minute."""

import io
import logging
import subprocess
import sys

import orjson
import pytest

from hubbub.command.logs import Console, Json, Repeats


@pytest.fixture
def said():
    """Tell what a logger writes at a second: a list of lines."""
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(Json())
    handler.addFilter(Repeats())

    def say(second, message, *arguments, name="aiokafka", level=logging.ERROR, error=None, **extra):
        exc_info = (type(error), error, None) if error else None
        record = logging.LogRecord(name, level, __file__, 1, message, arguments, exc_info)
        record.created = 1_700_000_000.0 + second
        vars(record).update(extra)
        handler.handle(record)
        return [orjson.loads(line) for line in handler.stream.getvalue().splitlines()]

    return say


def test_what_a_library_repeats_is_said_once_a_minute_with_how_often(said):
    for tenth in range(601):
        lines = said(tenth / 10, "Unable connect to node with id %s: %s", tenth, "refused")
    assert [line["message"] for line in lines] == [
        "Unable connect to node with id 0: refused",
        "Unable connect to node with id 600: refused",
    ]
    assert [line.get("held_back") for line in lines] == [None, 599]


def test_every_message_and_every_kind_of_error_is_said(said):
    said(0, "a")
    said(1, "b")
    said(2, "a", name="aiokafka.consumer")
    said(3, "a", level=logging.WARNING)
    said(4, "a", error=ValueError("x"))
    assert len(said(5, "a", error=OSError("x"))) == 6
    assert len(said(6, "a", error=OSError("y"))) == 6


def test_of_our_own_only_the_very_same_line_is_a_repetition(said):
    ours = "aggregator.board.follower"
    said(0, "%s cannot be read", "offset 1", name=ours)
    said(1, "%s cannot be read", "offset 2", name=ours)
    said(2, "%s cannot be read", "offset 2", name=ours, partition=3)
    assert len(said(3, "%s cannot be read", "offset 2", name=ours)) == 3
    said(4, "checkpoint", name=ours, level=logging.INFO)
    assert len(said(5, "checkpoint", name=ours, level=logging.INFO)) == 5, "what is no warning is news each time"


def test_what_is_remembered_is_bounded():
    repeats = Repeats()
    for number in range(10 * Repeats.MOST):
        repeats.filter(logging.LogRecord("hubbub.x", logging.ERROR, "", 1, f"strange {number}", (), None))
    assert len(repeats._messages) <= Repeats.MOST


def test_people_read_it_too():
    record = logging.LogRecord("aiokafka", logging.ERROR, "", 1, "away", (), None)
    record.held_back = 385
    assert Console().format(record).endswith("away  held_back=385")


def test_a_reader_of_a_broker_that_is_not_there_is_told_once():
    done = subprocess.run(
        [sys.executable, "-m", "hubbub", "tail", "--kafka", "127.0.0.1:9"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    assert "cannot be reached" in done.stderr
