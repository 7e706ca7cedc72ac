"""The least rights of each command where Kafka has access lists, and which of them an error is about.

Whoever may read or write a topic may describe it too; a topic that one may not describe looks as if it were not there.
"""

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from hubbub.errors import AccessRefused
from hubbub.names import ALERTS, CHANGELOG, ESTIMATES, QUERIES, REJECTS, REPORTS, SNAPSHOTS, TRUTH, WORKER

ALL = "*"
"""Every topic of the prefix."""


class Right(NamedTuple):
    """One line of an access list; `of` stands behind the prefix."""

    operation: str
    kind: str
    of: str


def _topics(operation: str, *names: str) -> tuple[Right, ...]:
    return tuple(Right(operation, "topic", name) for name in names)


RIGHTS = {
    "topics": (*_topics("Create", ALL), *_topics("Describe", ALL), *_topics("AlterConfigs", ALL)),
    "worker": (
        Right("Read", "group", WORKER),
        *_topics("DescribeConfigs", ALL),
        *_topics("Read", REPORTS, SNAPSHOTS, QUERIES, TRUTH, CHANGELOG),
        *_topics("Write", REPORTS, REJECTS, SNAPSHOTS, QUERIES, ESTIMATES, ALERTS, CHANGELOG),
    ),
    "audit": _topics("Read", REPORTS, QUERIES, ESTIMATES, ALERTS),
    "gateway": (*_topics("Write", REPORTS), *_topics("Read", QUERIES)),
    "board": _topics("Read", ESTIMATES, ALERTS, QUERIES, TRUTH),
    "tail": _topics("Read", ESTIMATES, ALERTS),
    "export": _topics("Read", ESTIMATES),
    "simulate": _topics("Write", REPORTS, TRUTH),
    "replay": _topics("Write", REPORTS),
}
"""AlterConfigs includes DescribeConfigs."""


def explained(command: str, error: BaseException) -> AccessRefused | None:
    """The sentence of an error that is about a missing right; None where it is about something else."""
    errors = sys.modules.get("aiokafka.errors")
    if errors is None or command not in RIGHTS:
        return None
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return _refusal(command, [right for right in RIGHTS[command] if right.kind == "group"])
    if isinstance(error, (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError)):
        return _refusal(command, _rights_named(command, str(error)))
    return None


def hint(command: str, error: BaseException) -> str:
    """The words to add where a topic is not seen by who is logged in: it may be there."""
    unseen = "there is no such topic" in str(error) and command in RIGHTS
    return f"or it may not be seen: {_needs(command, _rights_named(command, str(error)))}" if unseen else ""


def _rights_named(command: str, text: str) -> list[Right]:
    """The rights on the topics that a text names; all of the command's where it names none."""
    words = [word.strip(".") for word in re.findall(r"[A-Za-z0-9._-]+", text)]
    found = [right for right in RIGHTS[command] if right.of == ALL or any(word.endswith(right.of) for word in words)]
    return found or list(RIGHTS[command])


def _refusal(command: str, rights: Sequence[Right]) -> AccessRefused:
    return AccessRefused(f"Kafka's access lists refuse it: {_needs(command, rights)}")


def _needs(command: str, rights: Sequence[Right]) -> str:
    each = [
        f"{right.operation} on {'all topics' if right.of == ALL else f'{right.kind} {right.of}'}" for right in rights
    ]
    return f"`hubbub {command}` needs, behind the prefix, {', '.join(each)}; see docs/operating.md"
