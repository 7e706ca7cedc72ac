"""Logs with structure: a line of JSON an event, or a line to read."""

import argparse
import logging
import math
import os
import sys
from collections.abc import Hashable
from datetime import UTC, datetime

import orjson

from hubbub.options import one_of

OURS = ("aggregator", "hubbub", "oracles", "producers")
_KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "data"}


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _KNOWN}


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(said, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class Console(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        extra = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        line = f"{at} {record.levelname.lower():8} {record.getMessage()}" + (f"  {extra}" if extra else "")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Repeats(logging.Filter):
    """Of a warning that comes again and again one line a minute, with how many were held back meanwhile.

    aiokafka says forty times a second that Kafka is away. Its words count as the same whatever node they name;
    of our own lines only those that say the very same.
    """

    SECONDS = 60.0
    MOST = 1_000
    """Messages that are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Hashable, tuple[float, int]] = {}
        """Of each message when it was let through, and how many were not since."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        message = _message(record)
        since, held = self._seen.get(message, (-math.inf, 0))
        if record.created < since + self.SECONDS:
            self._seen[message] = since, held + 1
            return False
        if held:
            record.held_back = held
        if len(self._seen) >= self.MOST:
            self._forget(record.created)
        self._seen[message] = record.created, 0
        return True

    def _forget(self, now: float) -> None:
        """What is due anyway; all, where that makes no room."""
        fresh = {message: seen for message, seen in self._seen.items() if now < seen[0] + self.SECONDS}
        self._seen = fresh if len(fresh) < self.MOST else {}


def _message(record: logging.LogRecord) -> Hashable:
    """What makes it the same as another."""
    kind = record.exc_info[0] if record.exc_info else None
    if record.name.partition(".")[0] not in OURS:
        return record.name, record.levelno, str(record.msg), kind
    return record.name, record.levelno, record.getMessage(), kind, str(_extra(record))


def configure(form: str, level: str) -> None:
    """To the standard error; of libraries only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Console())
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for ours in OURS:
        logging.getLogger(ours).setLevel(level.upper())
    logging.getLogger("mode.timers").setLevel(logging.ERROR)  # a commit that takes longer than its interval is no news


def terse() -> None:
    """For a command of which people read the output: what goes wrong, in lines between it."""
    if logging.lastResort is not None and not logging.lastResort.filters:
        logging.lastResort.setFormatter(Console())
        logging.lastResort.addFilter(Repeats())


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that say what `configure` is given."""
    form = os.environ.get("HUBBUB_LOG") or ("console" if sys.stderr.isatty() else "json")
    parser.add_argument("--log", type=one_of("json", "console"), default=form, help="json or console (HUBBUB_LOG)")
    level = os.environ.get("HUBBUB_LOG_LEVEL") or "info"
    levels = one_of("debug", "info", "warning", "error")
    parser.add_argument("--log-level", type=levels, default=level, help="its level (HUBBUB_LOG_LEVEL; info)")
