"""A record of the topic `queries` that stops a query by its name, or lets it go on.

A stop beats the query file: it holds for each definition of that name until a later record ends it.
"""

import json
from typing import NamedTuple

from hubbub.definitions.definition_record import FAULTS, TopicRecord, UnreadableRecord, unreadable
from oracles.query.settings import NAME

FIRST_FORMATS = 3
"""The formats version whose workers know stops. Older workers would go on counting."""
START = b"stop|"
"""The start of the keys. It is no digest, so it never meets the key of a definition."""
LONGEST_REASON = 500
"""The most characters of a reason, because each page and log shows it."""


class StopRecord(NamedTuple):
    """The content of a record."""

    name: str
    is_stopped: bool
    reason: str
    timestamp: int
    """The log time in milliseconds."""


class Stop(NamedTuple):
    """The stop of a query that has not ended."""

    since: int
    """The log time of the record, in Unix seconds."""
    reason: str
    """The operator's words, or an empty text."""


def read(record: TopicRecord) -> StopRecord | UnreadableRecord:
    """Return the content of a record, or why it cannot be read."""
    try:
        return _read_content(record)
    except FAULTS as error:
        return unreadable(record, error)


def _read_content(record: TopicRecord) -> StopRecord:
    name, _, token = record.key[len(START) :].decode("ascii").partition("|")
    if not NAME.fullmatch(name) or not token:
        raise ValueError("the key must name a query and a token")

    content = json.loads(record.value or b"")
    is_stopped, reason = content["stopped"], content.get("reason", "")
    if not isinstance(is_stopped, bool) or not isinstance(reason, str):
        raise TypeError("stopped must be true or false, and reason a text")
    return StopRecord(name, is_stopped, reason[:LONGEST_REASON], record.timestamp)


def write(name: str, token: str, *, is_stopped: bool, reason: str = "") -> tuple[bytes, bytes]:
    """Return the key and the value of a record. No other record has this `token`, as each key is written once."""
    content = {"stopped": is_stopped, "reason": reason}
    value = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return START + f"{name}|{token}".encode("ascii"), value.encode()
