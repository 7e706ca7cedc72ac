"""A hubbub command in a process of its own, which ends when this process does, however that dies."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.demo.keeper import Keeper
from aggregator.errors import ChildEnded
from hubbub.kafka import CA_FILE, MECHANISM, PASSWORD, SECURITY, USERNAME

LOGIN = (SECURITY, MECHANISM, USERNAME, PASSWORD, CA_FILE)
TRIES = 5
"""Ends in a row, each soon after its start, until it is given up."""
SOON = 20.0
PAUSE, LOOK = 0.5, 0.1
GRACE = 10.0
"""Seconds to end in order."""


class Child:
    """One command: started, watched, and started again where that helps."""

    def __init__(self, name: str, environment: Mapping[str, str], *, login: bool) -> None:
        self.name = name
        self._keeper = Keeper(f"demo-{name.replace(' ', '-')}")
        self._log = self._keeper.folder / "log"
        # Of our own HUBBUB_ variables it hears only how to log in, and its temporary files go the way of its folder.
        foreign = [key for key in os.environ if key.startswith("HUBBUB_") and not (login and key in LOGIN)]
        own = {**environment, "TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        unset = [part for key in foreign for part in ("-u", key)]
        self._prefix = (
            "env",
            *unset,
            *(f"{key}={value}" for key, value in own.items()),
            sys.executable,
            "-m",
            "hubbub",
        )
        self._arguments: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        return self._keeper.folder

    def start(self, *arguments: str) -> None:
        self._arguments = arguments
        self._keeper.stop()
        self._keeper.run((*self._prefix, *arguments), self._log)

    async def supervise(self) -> None:
        """Start it again whenever it dies or ends with 1; raises what it ended with where that does not help."""
        clock = asyncio.get_running_loop().time
        tries = 0
        while True:
            begun = clock()
            code = await self.ended()
            tries = tries + 1 if clock() - begun < SOON else 1
            if (code != 1 and code >= 0) or tries == TRIES:
                raise ChildEnded(self.name, code, self.last_words())
            sys.stdout.write(f"the {self.name} ended with {code}; it is started again\n")
            sys.stdout.flush()
            await asyncio.sleep(PAUSE)
            self.start(*self._arguments)

    async def ended(self) -> int:
        """The exit code, once there is one; minus the signal that killed it."""
        while True:
            code = self._keeper.process.poll() if self._keeper.process else 0
            if code is not None:
                return code
            await asyncio.sleep(LOOK)

    async def says(self, pattern: str) -> re.Match[str]:
        """The first match of `pattern` in what it prints, once there is one."""
        while True:
            if match := re.search(pattern, self._log.read_text(errors="replace")):
                return match
            if not self._keeper.running:
                raise ChildEnded(self.name, await self.ended(), self.last_words())
            await asyncio.sleep(LOOK)

    def last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it said nothing"

    async def stop(self) -> None:
        """In order if it can in time, else by force; its folder goes too."""
        await asyncio.to_thread(self._keeper.stop, signal.SIGTERM, GRACE)
        await asyncio.to_thread(self._keeper.close)
