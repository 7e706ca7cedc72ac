"""Files that are read again when they change, while what was read last stays in use until it can be replaced."""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from oracles.errors import HubbubError

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Between two looks."""

_Read = TypeVar("_Read")
_Stamp = tuple[tuple[int, int, int] | None, ...]


class Watched(Generic[_Read]):
    """The value that `read` makes of some files. Links are followed, as those of mounted secrets must be."""

    def __init__(self, paths: Sequence[str | os.PathLike[str]], read: Callable[[], _Read]) -> None:
        self._paths = [Path(path) for path in paths]
        self._read = read
        self._stamp = self._look()
        self.value = read()
        """The content when it could last be read."""

    def refresh(self) -> None:
        """Read again what has changed; what cannot be read is logged, once, and changes nothing."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        names = ", ".join(map(str, self._paths))
        try:
            self.value = self._read()
        except (HubbubError, OSError) as error:
            log.error("%s changed and cannot be used, so what stood there before stays in force: %s", names, error)  # noqa: TRY400 - the message says it all
        else:
            log.info("%s changed and is read again", names)

    def _look(self) -> _Stamp:
        return tuple(stamp(path) for path in self._paths)


def stamp(path: Path) -> tuple[int, int, int] | None:
    """The signature of a file, which changes when it does; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


async def watch(files: Sequence[Watched[Any]], seconds: float = SECONDS) -> None:
    """Look at them again and again."""
    while True:
        await asyncio.sleep(seconds)
        for file in files:
            file.refresh()
