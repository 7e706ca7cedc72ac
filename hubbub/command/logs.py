"""Structured logs: each event is a line of JSON, or a line for people."""

import argparse
import logging
import math
import sys
from collections.abc import Hashable
from datetime import UTC, datetime

import orjson

from hubbub.command.options import add_option, one_of

OURS = ("aggregator", "hubbub", "oracles", "producers")
_KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "data"}


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


class Json(logging.Formatter):
    """A formatter that writes one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # Anything may be logged. A value that JSON lacks must not cost the whole line.
        return orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


_handlers: list[logging.Handler] = []
"""The handler of `configure`."""


class Console(logging.Formatter):
    """A formatter that writes lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        extra = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        line = f"{time} {record.levelname.lower():8} {record.getMessage()}" + (f"  {extra}" if extra else "")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Repeats(logging.Filter):
    """A filter that passes a repeated warning once a minute, with the number of dropped repetitions.

    aiokafka warns forty times a second that Kafka is absent. Messages of a library are repetitions if their templates
    are equal, even for different nodes. Messages of hubbub must have the same text.
    """

    SECONDS = 60.0
    MOST = 1_000
    """The maximum number of remembered messages."""

    def __init__(self) -> None:
        super().__init__()
        self._messages: dict[Hashable, tuple[float, int]] = {}
        """For each message the time when it last passed, and the number of dropped repetitions since then."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True

        message = _message(record)
        last_pass, count = self._messages.get(message, (-math.inf, 0))
        if record.created < last_pass + self.SECONDS:
            self._messages[message] = last_pass, count + 1
            return False

        if count:
            record.held_back = count
        # Messages can hold text of strangers, so a flood of different ones must not fill the memory.
        if len(self._messages) >= self.MOST:
            self._forget(record.created)
        self._messages[message] = record.created, 0
        return True

    def _forget(self, time: float) -> None:
        """Forget messages older than a minute, or all messages if none are."""
        recent = {message: entry for message, entry in self._messages.items() if time < entry[0] + self.SECONDS}
        self._messages = recent if len(recent) < self.MOST else {}


def _message(record: logging.LogRecord) -> Hashable:
    """Return the key by which repetitions are equal."""
    kind = record.exc_info[0] if record.exc_info else None
    if record.name.partition(".")[0] not in OURS:
        return record.name, record.levelno, str(record.msg), kind
    return record.name, record.levelno, record.getMessage(), kind, str(_extra(record))


def configure(form: str | None, level: str) -> None:
    """Write logs to the standard error, and only the warnings of libraries. Without a form a terminal decides it."""
    handler = logging.StreamHandler(sys.stderr)
    is_console = form == "console" or (form is None and sys.stderr.isatty())
    handler.setFormatter(Console() if is_console else Json())
    handler.addFilter(Repeats())
    _handlers[:] = [handler]
    root = logging.getLogger()
    # Handlers that a library has added would write each line a second time.
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for ours in OURS:
        logging.getLogger(ours).setLevel(level.upper())
    logging.getLogger("mode.timers").setLevel(logging.ERROR)  # a commit may take longer than its interval


def mute_libraries() -> None:
    """Write no more lines of libraries, because the process ends and the reason is written.

    Their tasks then fail one after another. Tracebacks after the reason would hide it.
    """
    for handler in _handlers:
        handler.addFilter(_is_ours)


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] in OURS


def terse() -> None:
    """Write warnings as lines for people, for a command without `configure`."""
    if logging.lastResort is not None and not logging.lastResort.filters:
        logging.lastResort.setFormatter(Console())
        logging.lastResort.addFilter(Repeats())


def ours_only() -> None:
    """Write warnings of hubbub as lines for people, and none of libraries.

    It suits a command whose errors say all. aiokafka warns of each state that a broker passes through at its start.
    """
    terse()
    if logging.lastResort is not None:
        logging.lastResort.addFilter(_is_ours)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for `configure`."""
    add_option(parser, "HUBBUB_LOG", "--log", "format of the log: json or console", type=one_of("json", "console"))
    levels = one_of("debug", "info", "warning", "error")
    level = "least level of the log: debug, info, warning or error"
    add_option(parser, "HUBBUB_LOG_LEVEL", "--log-level", level, default="info", type=levels)
