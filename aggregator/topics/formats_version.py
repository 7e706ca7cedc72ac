"""The rise of the formats version by `hubbub topics`, which happens only while no worker runs."""

import argparse
import asyncio
import shlex
from typing import Any

from hubbub.definitions import formats_record
from hubbub.definitions.formats import NEWEST, Formats, FormatsError, raise_refusal, refuse_higher, release
from hubbub.kafka.group import member_names
from hubbub.kafka.settings import QUERIES, Kafka

STOPPING = 180.0
"""Seconds that the group may take to become empty after the command that stops the workers."""
PAUSE = 0.5
"""Seconds between two looks at the group."""


class FormatsRise:
    """The formats version before and after a run of `hubbub topics`."""

    def __init__(self, kafka: Kafka, *, may_rise: bool = False, stop: list[str] | None = None, hint: str = "") -> None:
        self.lines: list[str] = []
        """The lines that describe the change."""
        self._kafka = kafka
        self._may_rise = may_rise
        """Whether the operator wants a higher version."""
        self._stop = stop
        self._hint = hint
        self.is_due = False
        """Whether `finish` appends a version."""

    async def prepare(self, admin: Any, *, is_new: bool, dry: bool) -> None:
        """Raise a FormatsError if the version must rise and may not. New topics get the newest version."""
        if is_new:
            self.is_due = True
            return

        formats = await formats_record.look_up_patiently(self._kafka)
        refuse_higher(formats)
        if not formats.is_lower:
            return

        names = await member_names(admin, self._kafka)
        if names and self._may_rise and self._stop and not dry:
            names = await self._stop_workers(admin, self._stop)
        refusal = raise_refusal(formats, names, may_rise=self._may_rise)
        if refusal:
            raise FormatsError("\n".join(filter(None, (refusal, self._hint))))

        self.is_due = True
        self.lines = [_line(formats, self._kafka, dry=dry)]

    async def finish(self) -> None:
        """Append the new version if it is due."""
        if self.is_due:
            await formats_record.append(self._kafka)

    async def _stop_workers(self, admin: Any, command: list[str]) -> list[str]:
        """Run the command, wait until the group is empty, and return the members that are left."""
        process = await asyncio.create_subprocess_exec(*command)
        code = await process.wait()
        if code:
            raise FormatsError(f"{shlex.join(command)} exited with code {code}, so the workers may still run")

        looks = int(STOPPING / PAUSE)
        for _ in range(looks):
            if not await member_names(admin, self._kafka):
                return []
            await asyncio.sleep(PAUSE)
        return await member_names(admin, self._kafka)


def _line(formats: Formats, kafka: Kafka, *, dry: bool) -> str:
    verb = "would raise" if dry else "raised"
    return f"{verb} {kafka.topic(QUERIES)}: formats from version {formats.version} to {NEWEST} (release {release()})"


def stop_workers(text: str) -> list[str]:
    """Parse the command that stops all workers."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be a command, got {text!r}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("must be a command")
    return words
