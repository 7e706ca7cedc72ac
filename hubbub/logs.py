"""Logs with structure: a line of JSON an event, or a line to read."""

import argparse
import logging
import os
import sys
from datetime import UTC, datetime

import orjson

from hubbub.options import one_of

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


def configure(form: str, level: str) -> None:
    """To the standard error; of libraries only warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Console())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("aggregator", "hubbub", "producers"):
        logging.getLogger(ours).setLevel(level.upper())
    logging.getLogger("mode.timers").setLevel(logging.ERROR)  # a commit that takes longer than its interval is no news


def add_options(parser: argparse.ArgumentParser) -> None:
    """Those that say what `configure` is given."""
    form = os.environ.get("HUBBUB_LOG") or ("console" if sys.stderr.isatty() else "json")
    parser.add_argument("--log", type=one_of("json", "console"), default=form, help="json or console (HUBBUB_LOG)")
    level = os.environ.get("HUBBUB_LOG_LEVEL") or "info"
    levels = one_of("debug", "info", "warning", "error")
    parser.add_argument("--log-level", type=levels, default=level, help="its level (HUBBUB_LOG_LEVEL; info)")
