"""The notes of an operator: moments with a text, which the page draws into its histories.

A line of the file has an ISO time, a space and a text, for example `2026-11-01T12:30:00Z version 3.2 is out`. Empty
lines and lines that begin with `#` say nothing.
"""

import logging
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from hubbub.moments import unix_seconds
from oracles.errors import ParameterError

log = logging.getLogger(__name__)

LONGEST = 200
"""Characters of a text."""
MOST = 10_000
"""Notes of a file. The page draws the newest ones only."""
MOST_BYTES = 8 << 20
"""Bytes of a file: as many notes as it may have, with texts of 4 bytes a character."""


class Note(NamedTuple):
    time: int
    """Unix seconds."""
    text: str


def read(path: str | PathLike[str]) -> tuple[Note, ...]:
    """Read a file of notes, in order of time. Warn of each line that cannot be read, and skip it."""
    # The rest of a file that is too large is never read, so a wrong path cannot fill the memory.
    with Path(path).open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ParameterError(f"{path} must have at most {MOST_BYTES:,} bytes")

    notes: list[Note] = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            notes.append(parse(line))
        except ParameterError as error:
            log.warning("%s, line %d is skipped: %s", path, number, error)
    if len(notes) > MOST:
        log.warning("%s has %d notes; the newest %d count", path, len(notes), MOST)
    return tuple(sorted(notes)[-MOST:])


def parse(line: str) -> Note:
    """Return the note of a line. Raise a ParameterError if it has no time, no text or too long a text."""
    moment, _, text = line.strip().partition(" ")
    try:
        seconds = unix_seconds(moment)
    except ParameterError as error:
        raise ParameterError(f"the time {error}") from error
    text = text.strip()
    if not 0 < len(text) <= LONGEST:
        raise ParameterError(f"the text must have 1 to {LONGEST} characters, got {len(text)}")
    if not text.isprintable():
        raise ParameterError("the text must have no control characters")
    return Note(seconds, text)
