"""The registrar of a query file: it appends the file's changes to the topic `queries`.

If the file cannot be used, a starting worker exits. A running worker keeps the definitions of the topic, and reports
the file in its log and in a metric.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path

from aiokafka.errors import KafkaError, KafkaTimeoutError

from hubbub import outside
from hubbub.definitions.catalog import DefinitionsError, changes
from hubbub.definitions.editions import edition_text
from hubbub.definitions.follower import Follower
from hubbub.definitions.key_formats import refuse_early_keys
from hubbub.file_watch import stamp
from hubbub.texts import MOST, few
from oracles.errors import HubbubError
from oracles.query import File, Query, load_file

log = logging.getLogger(__name__)

PAUSE = 2.0
"""Seconds between two checks of the file."""


class Registrar:
    """The query file of one worker, and whether the topic has taken it."""

    def __init__(
        self,
        path: str | PathLike[str],
        follower: Follower,
        require: Callable[[Collection[Query]], None] = lambda _queries: None,
    ) -> None:
        """Append only definitions for which `require` raises no DefinitionsError."""
        self.behind = False
        """Whether the topic has a later revision of the file."""
        self.refused = False
        """Whether the present file cannot be used."""
        self._path = Path(path)
        self._follower = follower
        self._require = require
        self._changed = asyncio.Event()
        self._paths: tuple[Path, ...] = (self._path,)
        self._state: object = None

    def reload(self) -> None:
        """Read the file again, even if it seems unchanged."""
        self._changed.set()

    async def register(self, file: File, retire: Collection[str] = ()) -> None:
        """Append the changes of the file. If it would end a query, raise DefinitionsError and append nothing.

        If a key of the file needs a higher formats version, raise a FormatsError.
        """
        self._paths = file.paths
        self._state = _state(file.paths)
        self._require(file.queries.values())
        refuse_early_keys(file.queries.values(), self._follower.definitions.formats)

        result = changes(file, self._follower.definitions, retire, outside.random_hex(8))
        self.behind = result.behind
        for name in result.ignored:
            log.warning("cannot retire %s: it is not active, or file %s still has it", name, self._path)
        if result.behind:
            revisions = {"revision": file.revision, "newer": self._follower.definitions.revision}
            log.warning("%s has an older revision than the topic, so it is ignored", self._path, extra=revisions)

        if result.missing:
            raise DefinitionsError(_missing_text(self._path, result.missing))
        if result.edition_lines:
            raise DefinitionsError(edition_text(self._path, file.edition, result.edition_lines))
        if result.group_faults:
            raise DefinitionsError(_groups_text(self._path, result.group_faults))

        if result.writes:
            await self._follower.append(result.writes)
            log.info("definitions appended", extra={"queries": len(result.writes), "revision": file.revision})

    async def run(self) -> None:
        """Register the file when it changes or after `reload`, until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE):
                    await self._changed.wait()
            if not self._changed.is_set() and _state(self._paths) == self._state:
                continue

            # Cleared before the file is read, so a `reload` meanwhile is not lost.
            self._changed.clear()
            try:
                # Large domain files take seconds, and the event loop must answer brokers meanwhile.
                file = await asyncio.to_thread(load_file, self._path)
                await self.register(file)
                self.refused = False
            except (HubbubError, KafkaError, OSError) as error:
                if _is_temporary(error):
                    log.warning("%s cannot be registered yet, trying again: %r", self._path, error)
                    await asyncio.sleep(PAUSE)
                    self._changed.set()
                    continue

                self.refused = True
                # The state is noted, or the same fault would be logged every two seconds.
                self._state = _state(self._paths)
                log.error("query file rejected, keeping the previous definitions: %s", error)  # noqa: TRY400 - the fault is in a file


def _missing_text(path: Path, names: Sequence[str]) -> str:
    """Return the message about active queries that a file lacks."""
    more = " and so on" if len(names) > MOST else ""
    options = " ".join(f"--retire {name}" for name in names[:MOST])
    return (
        f"{path}: active queries are missing ({len(names):,}): {few(names)}. "
        f"To retire them, use {options}{more}. Otherwise add them, or correct --prefix"
    )


def _groups_text(path: Path, faults: Mapping[str, str]) -> str:
    """Return the message about queries whose groups cannot change as the file asks."""
    text = "; ".join(f"queries.{name}: {fault}" for name, fault in list(faults.items())[:MOST])
    more = " and so on" if len(faults) > MOST else ""
    return (
        f"{path}: {text}{more}. Reports name their group by its position in the list. "
        "To use other groups, give the query another name"
    )


def _is_temporary(error: Exception) -> bool:
    """Whether the broker is absent or slow, and the file and its rights are correct."""
    return isinstance(error, (OSError, KafkaTimeoutError)) or getattr(error, "retriable", False)


def _state(paths: Collection[Path]) -> object:
    """Return a signature of the files that changes when one of them does."""
    return [stamp(path) for path in paths]
