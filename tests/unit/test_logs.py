"""The log shows changes. A warning of a library that repeats is one line a minute."""

import io
import logging
import subprocess
import sys

import orjson
import pytest

from hubbub.command import logs
from hubbub.command.logs import Console, Json, Repeats


@pytest.fixture
def log_at():
    """Return a function that logs at a second and returns the lines."""
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


def test_a_repeated_line_of_a_library_is_logged_once_a_minute_with_its_count(log_at):
    for tenth in range(601):
        lines = log_at(tenth / 10, "Unable connect to node with id %s: %s", tenth, "refused")
    assert [line["message"] for line in lines] == [
        "Unable connect to node with id 0: refused",
        "Unable connect to node with id 600: refused",
    ]
    assert [line.get("held_back") for line in lines] == [None, 599]


def test_every_message_and_every_kind_of_error_is_logged(log_at):
    log_at(0, "a")
    log_at(1, "b")
    log_at(2, "a", name="aiokafka.consumer")
    log_at(3, "a", level=logging.WARNING)
    log_at(4, "a", error=ValueError("x"))
    assert len(log_at(5, "a", error=OSError("x"))) == 6
    assert len(log_at(6, "a", error=OSError("y"))) == 6


def test_of_our_own_lines_only_identical_ones_are_repetitions(log_at):
    ours = "aggregator.board.server.follower"
    log_at(0, "%s cannot be read", "offset 1", name=ours)
    log_at(1, "%s cannot be read", "offset 2", name=ours)
    log_at(2, "%s cannot be read", "offset 2", name=ours, partition=3)
    assert len(log_at(3, "%s cannot be read", "offset 2", name=ours)) == 3
    log_at(4, "checkpoint", name=ours, level=logging.INFO)
    assert len(log_at(5, "checkpoint", name=ours, level=logging.INFO)) == 5, "what is no warning is news each time"


def test_the_memory_of_lines_is_bounded():
    repeats = Repeats()
    for number in range(10 * Repeats.MOST):
        repeats.filter(logging.LogRecord("hubbub.x", logging.ERROR, "", 1, f"strange {number}", (), None))
    assert len(repeats._messages) <= Repeats.MOST


def test_the_text_form_is_for_people():
    record = logging.LogRecord("aiokafka", logging.ERROR, "", 1, "away", (), None)
    record.held_back = 385
    assert Console().format(record).endswith("away  held_back=385")


def test_a_reader_of_an_absent_broker_logs_it_once():
    process = subprocess.run(
        [sys.executable, "-m", "hubbub", "tail", "--kafka", "127.0.0.1:9"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert process.returncode == 3
    assert len(process.stderr.splitlines()) <= 2, process.stderr
    assert "cannot be reached" in process.stderr


def test_after_the_reason_of_an_end_no_library_writes_a_line(monkeypatch):
    root = logging.getLogger()
    # Both change again what `configure` sets.
    monkeypatch.setattr(root, "handlers", root.handlers)
    monkeypatch.setattr(logs, "_handlers", [])
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    level = root.level
    try:
        logs.configure("json", "info")
        logging.getLogger("faust.transport").error("crashed")
        logs.mute_libraries()
        logging.getLogger("faust.transport").error("crashed again", exc_info=ValueError("x"))
        logging.getLogger("asyncio").error("Task exception was never retrieved")
        logging.getLogger("aggregator.worker").warning("did not stop in order")
    finally:
        root.setLevel(level)
    lines = [orjson.loads(line)["message"] for line in sys.stderr.getvalue().splitlines()]
    assert lines == ["crashed", "did not stop in order"]


def test_a_command_whose_errors_say_all_writes_no_line_of_a_library():
    code = (
        "import logging; from hubbub.command import logs; logs.ours_only(); "
        "logging.getLogger('aiokafka.cluster').warning('Topic x is not available'); "
        "logging.getLogger('asyncio').error('Unclosed'); logging.getLogger('aggregator.topics').warning('left x')"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    [line] = process.stderr.splitlines()
    assert line.endswith("warning  left x")
