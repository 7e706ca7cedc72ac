"""The formats version: which forms of records and states the releases of one installation may write.

One record of the topic `queries` holds it. Releases with the same formats version run side by side, and replace each
other in any order. `hubbub topics --raise-formats` raises it while no worker runs. A missing record means version 1.
"""

import json
import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import NamedTuple

from oracles.errors import HubbubError

KEY = b"formats"
"""The key of the record. It is no digest, so it never meets the key of a definition."""
NEWEST = 3
"""The formats version that this release writes. It reads all earlier versions too."""
FIRST_RELEASE = 0, 3
"""The first release that writes this version."""
RAISE = "hubbub topics --raise-formats"
_MOST = 1 << 31
# Messages quote the release, which anybody with a right to the topic can write.
_RELEASE = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


class FormatsError(HubbubError):
    """The topics have another formats version than this release needs. The message names both versions."""

    exit_code = 4


class Formats(NamedTuple):
    """The formats version of an installation."""

    version: int = 1
    release: str | None = None
    """The release that raised the version, or None for the first version."""

    def __str__(self) -> str:
        return f"version {self.version}{f', raised by release {self.release}' if self.release else ''}"

    @property
    def is_lower(self) -> bool:
        return self.version < NEWEST

    @property
    def is_higher(self) -> bool:
        return self.version > NEWEST

    @property
    def excess(self) -> str | None:
        """Why this release cannot read everything in the topics, or None if it can."""
        if not self.is_higher:
            return None
        return (
            f"the topics have formats {self}, and this is release {release()}, which reads formats up to version "
            f"{NEWEST}; install release {self.release or 'with that version'} or a later one here too"
        )


def release() -> str:
    """Return the version of this installation of hubbub."""
    return version("hubbub")


def read(value: bytes) -> Formats:
    """Return the content of the record. If it cannot be read, raise a ValueError."""
    try:
        content = json.loads(value)
        number, name = content["version"], content["release"]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"version or release is missing: {error!r}") from None
    if type(number) is not int or not 0 < number < _MOST:
        raise ValueError("version must be a whole number of at least 1")
    if not isinstance(name, str) or not _RELEASE.fullmatch(name):
        raise ValueError("release must be the version of a release")
    return Formats(number, name)


def newest_value() -> bytes:
    """Return the record of the version that this release writes."""
    return json.dumps({"version": NEWEST, "release": release()}, separators=(",", ":")).encode()


def refuse_higher(formats: Formats) -> None:
    """Raise a FormatsError if this release cannot read everything in the topics."""
    if formats.excess:
        raise FormatsError(formats.excess)


def lower_text(formats: Formats) -> str:
    """Return why a worker of this release must not write yet, and what to do."""
    return (
        f"the topics have formats {formats}, and this is release {release()}, which writes version {NEWEST}. "
        f"Stop all workers, run `{RAISE}`, and start them again. The reports wait in the log"
    )


def raise_refusal(formats: Formats, members: Sequence[str], *, may_rise: bool) -> str | None:
    """Return why `hubbub topics` does not raise the version, or None if it may. `members` are those of the group."""
    if may_rise and not members:
        return None
    versions = f"the topics have formats {formats}, and release {release()} writes version {NEWEST}"
    if members:
        running = f"{len(members)} in the group: {', '.join(members)}"
        return f"{versions}. Stop all workers first ({running}), then run `{RAISE}`. Nothing was changed"
    return f"{versions}. Stop all workers first, then run `{RAISE}`. Nothing was changed"


def older_workers_text(members: Sequence[str]) -> str:
    """Return which workers must stop before a worker of this release may count."""
    return (
        f"workers of an older release are in the group ({len(members)}): {', '.join(members)}. They do not know "
        f"formats versions, and release {release()} must not count beside them. Stop them first"
    )
