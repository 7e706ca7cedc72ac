"""The rights that each command needs in Kafka's access lists, and the messages about missing rights.

The right to read or write a topic includes the right to describe it. Without that right a topic seems not to exist.
"""

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from hubbub.kafka.errors import AccessRefused
from hubbub.kafka.settings import (
    ALERTS,
    CHANGELOG,
    CLOCKS,
    ESTIMATES,
    MAPS,
    QUERIES,
    REJECTS,
    REPORTS,
    SNAPSHOTS,
    STATUS,
    TRUTH,
    WORKER,
)

ALL = "*"
"""Every topic of the prefix."""


class Right(NamedTuple):
    """One line of an access list. `of` is the name without the prefix."""

    operation: str
    kind: str
    of: str


def _topics(operation: str, *names: str) -> tuple[Right, ...]:
    return tuple(Right(operation, "topic", name) for name in names)


RIGHTS = {
    "topics": (
        Right("Describe", "group", WORKER),
        *_topics("Create", ALL),
        *_topics("Describe", ALL),
        *_topics("AlterConfigs", ALL),
        *_topics("Read", QUERIES, SNAPSHOTS, CLOCKS, CHANGELOG),
        *_topics("Write", QUERIES, SNAPSHOTS, CLOCKS, CHANGELOG),
        *_topics("Alter", QUERIES),
    ),
    "doctor": (
        Right("Describe", "group", WORKER),
        *_topics("Describe", ALL),
        *_topics("DescribeConfigs", ALL),
        *_topics("Read", QUERIES, SNAPSHOTS),
    ),
    "stop": (*_topics("Read", QUERIES), *_topics("Write", QUERIES)),
    "resume": (*_topics("Read", QUERIES), *_topics("Write", QUERIES)),
    "worker": (
        Right("Read", "group", WORKER),
        *_topics("DescribeConfigs", ALL),
        *_topics("Read", REPORTS, SNAPSHOTS, CLOCKS, QUERIES, ESTIMATES, TRUTH, CHANGELOG),
        *_topics("Write", REPORTS, REJECTS, SNAPSHOTS, CLOCKS, QUERIES, ESTIMATES, MAPS, ALERTS, STATUS, CHANGELOG),
    ),
    "audit": _topics("Read", REPORTS, QUERIES, ESTIMATES, MAPS, ALERTS),
    "gateway": (*_topics("Write", REPORTS), *_topics("Read", QUERIES)),
    "board": _topics("Read", ESTIMATES, MAPS, ALERTS, QUERIES, TRUTH, STATUS),
    "tail": _topics("Read", ESTIMATES, ALERTS, QUERIES, STATUS),
    "export": _topics("Read", ESTIMATES, MAPS, QUERIES),
    "sink": _topics("Read", ESTIMATES, STATUS, QUERIES),
    "rejects": _topics("Read", REJECTS, QUERIES),
    "simulate": (*_topics("Write", REPORTS, TRUTH), *_topics("Read", QUERIES)),
    "replay": (*_topics("Write", REPORTS), *_topics("Read", QUERIES)),
}
"""AlterConfigs includes DescribeConfigs."""


def access_refusal(command: str, error: BaseException) -> AccessRefused | None:
    """Return the error to raise for a missing right, or None if `error` has another reason."""
    # A command that has not imported aiokafka got no answer of Kafka, and needs no import for it.
    errors = sys.modules.get("aiokafka.errors")
    if errors is None or command not in RIGHTS:
        return None

    match error:
        case errors.GroupAuthorizationFailedError():
            return _refusal(command, [right for right in RIGHTS[command] if right.kind == "group"])
        case errors.TopicAuthorizationFailedError() | errors.ClusterAuthorizationFailedError():
            return _refusal(command, _rights_named(command, str(error)))
    return None


def hint(command: str, error: BaseException) -> str:
    """Return a line to add if a topic seems not to exist, because the user may only lack a right to it."""
    unseen = "there is no such topic" in str(error) and command in RIGHTS
    return f"or a right is missing: {_needs(command, _rights_named(command, str(error)))}" if unseen else ""


def _rights_named(command: str, text: str) -> list[Right]:
    """Return the rights on the topics in the text, or all rights of the command if the text names no topic."""
    words = [word.strip(".") for word in re.findall(r"[A-Za-z0-9._-]+", text)]
    # The text has full names, and the prefix of the topics is not known here.
    rights = [right for right in RIGHTS[command] if right.of == ALL or any(word.endswith(right.of) for word in words)]
    is_named = any(right.of != ALL for right in rights) or any("." in word for word in words)
    return rights if rights and is_named else list(RIGHTS[command])


def _refusal(command: str, rights: Sequence[Right]) -> AccessRefused:
    return AccessRefused(f"Kafka's access lists refuse the operation: {_needs(command, rights)}")


def _needs(command: str, rights: Sequence[Right]) -> str:
    texts = ", ".join(
        f"{right.operation} on {'all topics' if right.of == ALL else f'{right.kind} {right.of}'}" for right in rights
    )
    return f"`hubbub {command}` needs these rights (names without the prefix): {texts}; see docs/operating.md"
