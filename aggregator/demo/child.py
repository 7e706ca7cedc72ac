"""A hubbub command as a child process, which always ends together with this process."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from aggregator.demo.keeper import Keeper
from aggregator.errors import ChildEnded
from hubbub.kafka.settings import CA_FILE, MECHANISM, PASSWORD, SECURITY, USERNAME

LOGIN = (SECURITY, MECHANISM, USERNAME, PASSWORD, CA_FILE)
TRIES = 5
"""Number of quick ends in a row after which the command is not started again."""
SOON = 20.0
"""Seconds after the start within which an end counts as quick."""
PAUSE = 0.5
"""Seconds until a new start."""
LOOK = 0.1
"""Seconds between two looks at the process."""
GRACE = 10.0
"""Seconds for a clean end."""


class Child:
    """A hubbub command that runs, and starts again after a crash."""

    def __init__(self, name: str, environment: Mapping[str, str], *, login: bool) -> None:
        self.name = name
        self._keeper = Keeper(f"demo-{name.replace(' ', '-')}")
        self._log = self._keeper.folder / "log"
        # Of our HUBBUB_ variables the child gets only the login. Its temporary files go with its folder.
        foreign = [key for key in os.environ if key.startswith("HUBBUB_") and not (login and key in LOGIN)]

        # Unbuffered, because `find_output` reads the log while the command runs.
        variables = {**environment, "TMPDIR": str(self.folder), "PYTHONUNBUFFERED": "1"}
        prefix = ["env"]
        for key in foreign:
            prefix += ["-u", key]
        prefix += [f"{key}={value}" for key, value in variables.items()]
        self._prefix = (*prefix, sys.executable, "-m", "hubbub")
        self._arguments: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        return self._keeper.folder

    def start(self, *arguments: str) -> None:
        self._arguments = arguments
        self._keeper.stop()
        self._keeper.run((*self._prefix, *arguments), self._log)

    async def supervise(self) -> None:
        """Start the command again after a crash or exit code 1. Raise ChildEnded after other or repeated quick ends."""
        clock = asyncio.get_running_loop().time
        tries = 0

        while True:
            start = clock()
            code = await self.exit_code()
            tries = tries + 1 if clock() - start < SOON else 1
            # After any other code the command would end again: it was stopped, or options, topics or Kafka are wrong.
            if (code != 1 and code >= 0) or tries == TRIES:
                raise ChildEnded(self.name, code, self.last_output())

            sys.stdout.write(f"the {self.name} ended with exit code {code}; starting it again\n")
            sys.stdout.flush()
            await asyncio.sleep(PAUSE)
            self.start(*self._arguments)

    async def exit_code(self) -> int:
        """Wait for the end, and return the exit code, or minus the number of the signal that killed the process."""
        while True:
            code = self._keeper.process.poll() if self._keeper.process else 0
            if code is not None:
                return code
            await asyncio.sleep(LOOK)

    async def find_output(self, pattern: str) -> re.Match[str]:
        """Wait for `pattern` in the output of the command, and return the first match."""
        while True:
            match = re.search(pattern, self._log.read_text(errors="replace"))
            if match:
                return match
            if not self._keeper.running:
                raise ChildEnded(self.name, await self.exit_code(), self.last_output())
            await asyncio.sleep(LOOK)

    def last_output(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "no output"

    async def stop(self) -> None:
        """End the command, by force if it takes too long, and remove its folder."""
        await asyncio.to_thread(self._keeper.stop, signal.SIGTERM, GRACE)
        await asyncio.to_thread(self._keeper.close)
