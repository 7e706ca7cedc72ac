"""A record of the topic `queries` that holds one version of a definition, or the reason why it cannot be read."""

import json
from typing import Any, NamedTuple

from hubbub.definitions.table import query_of
from oracles.errors import HubbubError
from oracles.mechanisms import EDITION
from oracles.query import Query

FAULTS = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    HubbubError,
    OSError,  # for a time outside of the system's calendar
)
"""The errors of a record that holds no definition."""


class TopicRecord(NamedTuple):
    """One record of the topic `queries`."""

    key: bytes
    value: bytes | None
    timestamp: int
    """The log time in milliseconds."""


class UnreadableRecord(NamedTuple):
    """A record that is skipped because it cannot be read, and the reason."""

    key: bytes
    fault: str


class Content(NamedTuple):
    query: Query
    retired: bool
    revision: int
    token: str
    """The token of the batch."""
    topic_was_empty: bool
    """Whether the writer saw an empty topic."""
    timestamp: int
    edition: int
    """The edition of the writer's file."""


def read(record: TopicRecord) -> Content | UnreadableRecord:
    """Return the content of a record, or why it cannot be read."""
    try:
        return _read_content(record)
    except FAULTS as error:
        return unreadable(record, error)


def unreadable(record: TopicRecord, error: Exception) -> UnreadableRecord:
    # The error can quote a record of any size, and each worker logs it.
    return UnreadableRecord(record.key, f"{type(error).__name__}: {error}"[:300])


def _read_content(record: TopicRecord) -> Content:
    """Return the content of a record. If the record cannot be read, raise any error."""
    digest_text, _, token = record.key.decode("ascii").partition("|")
    digest = bytes.fromhex(digest_text)

    content = json.loads(record.value or b"")
    query = _query(content["query"], content["definition"], digest)
    retired = content["retired"]
    if not isinstance(retired, bool):
        raise TypeError("retired must be true or false")
    if not token.startswith("v"):
        raise ValueError("the key does not name a version of a definition")

    # Records of older releases lack these members.
    revision = content.get("revision", 0)
    topic_was_empty = content.get("founds", False)
    edition = content.get("edition", EDITION)
    if type(revision) is not int or type(edition) is not int or type(topic_was_empty) is not bool:
        raise TypeError("revision and edition must be whole numbers, and founds true or false")
    return Content(query, retired, revision, token, topic_was_empty, record.timestamp, edition)


def _query(name: str, definition: dict[str, Any], digest: bytes) -> Query:
    query = query_of(name, definition)
    # Otherwise a record under another key would change how reports of that digest are counted.
    if query.digest != digest:
        raise ValueError(f"the definition of {name} has the digest {query.digest.hex()}, its key {digest.hex()}")
    return query
