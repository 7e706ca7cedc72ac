"""Files that are read again after each change. The last valid content stays in use."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from oracles.errors import HubbubError

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Seconds between two checks of the files."""

_Value = TypeVar("_Value")
_Stamp = tuple[tuple[int, int, int] | None, ...]


class FileWatch(Generic[_Value]):
    """The value that `read` returns for some files. Links are followed, because mounted secrets use them."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], read: Callable[[], _Value]) -> None:
        self._paths = [Path(path) for path in paths]
        self._read = read
        # Looked at before the read, so that a change meanwhile is seen at the next refresh.
        self._stamp = self._look()
        self.value = read()
        """The last valid content."""

    def refresh(self) -> None:
        """Read the files if they have changed. Log a failure once, and keep the old value."""
        stamp = self._look()
        if stamp == self._stamp:
            return

        # Noted before the read, or an invalid file would be logged every second.
        self._stamp = stamp
        names = ", ".join(map(str, self._paths))
        try:
            self.value = self._read()
        except (HubbubError, OSError) as error:
            log.error("%s changed but is invalid, keeping the previous content: %s", names, error)  # noqa: TRY400 - the message is enough
        else:
            log.info("%s changed and was read again", names)

    def _look(self) -> _Stamp:
        return tuple(stamp(path) for path in self._paths)


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a signature that changes with the file, or None if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    # A file that replaces another can have its time and size, but not its inode.
    return status.st_mtime_ns, status.st_size, status.st_ino


async def watch(files: Sequence[FileWatch[Any]], seconds: float = SECONDS) -> None:
    """Refresh these files at intervals, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        for file in files:
            file.refresh()
