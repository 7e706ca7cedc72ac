"""The registrar of a query file: sees to it that the topic of definitions says what the file says.

At the start a file that cannot be used ends the worker. Later it ends nothing: what stands in the
topic stays in force, and the log and a metric tell.
"""

import asyncio
import logging
import secrets
from collections.abc import Collection
from contextlib import suppress
from os import PathLike
from pathlib import Path

from aiokafka.errors import KafkaError, KafkaTimeoutError

from hubbub.definitions import DefinitionsError, changes
from hubbub.definitions.follower import Follower
from hubbub.watched import stamp
from oracles.errors import HubbubError
from oracles.query import File, load_file

log = logging.getLogger(__name__)

PAUSE = 2.0
"""Seconds between two looks at the file."""


class Registrar:
    """One worker's file, and what became of it."""

    def __init__(self, path: str | PathLike[str], follower: Follower) -> None:
        self.behind = False
        """Whether the topic has a later revision of the file."""
        self.refused = False
        """Whether the file as it is now cannot be used."""
        self._path = Path(path)
        self._follower = follower
        self._changed = asyncio.Event()
        self._paths: tuple[Path, ...] = (self._path,)
        self._seen: object = None

    def look(self) -> None:
        """Read the file again, whether it seems to have changed or not."""
        self._changed.set()

    async def register(self, file: File, retire: Collection[str] = ()) -> None:
        """Append what the file changes; a DefinitionsError, and nothing done, where it lacks what is counted."""
        self._paths, self._seen = file.paths, _state(file.paths)
        said = changes(file, self._follower.known, retire, secrets.token_hex(8))
        self.behind = said.behind
        for name in said.ignored:
            log.warning("%s is not retired: it is not counted, or stands in %s", name, self._path)
        if said.behind:
            revisions = {"revision": file.revision, "newer": self._follower.known.revision}
            log.warning("%s is older than the definitions, which stay in force", self._path, extra=revisions)
        if said.lacking:
            names = ", ".join(said.lacking)
            raise DefinitionsError(
                f"{self._path}: it lacks queries that are counted here: {names}. To retire them, say "
                f"{' '.join(f'--retire {name}' for name in said.lacking)}; else add them, or name the right --prefix"
            )
        if said.writes:
            await self._follower.append(said.writes)
            log.info("definitions appended", extra={"queries": len(said.writes), "revision": file.revision})

    async def run(self) -> None:
        """Register the file whenever it changes, or `look` asks for it. Until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), PAUSE)
            if not self._changed.is_set() and _state(self._paths) == self._seen:
                continue
            self._changed.clear()
            try:
                file = await asyncio.to_thread(load_file, self._path)
                await self.register(file)
                self.refused = False
            except (HubbubError, KafkaError, OSError) as error:
                if _passes(error):
                    log.warning("the definitions of %s cannot be appended yet: %r", self._path, error)
                    await asyncio.sleep(PAUSE)
                    self._changed.set()
                    continue
                self.refused, self._seen = True, _state(self._paths)
                log.error("the definitions stay as they are: %s", error)  # noqa: TRY400 - what is wrong is a file


def _passes(error: Exception) -> bool:
    """Whether it is a broker that is away or slow, and no fault of the file or of its rights."""
    return isinstance(error, (OSError, KafkaTimeoutError)) or getattr(error, "retriable", False)


def _state(paths: Collection[Path]) -> object:
    """The signature of the files: it changes when one of them does."""
    return [stamp(path) for path in paths]
