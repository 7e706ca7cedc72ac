"""The gate that keeps workers apart if their releases write different forms.

A worker passes it at the start and at each rebalance. It waits for the formats version of its release, and until no
worker is left that does not know formats versions. Nothing is lost meanwhile: the reports wait in the log.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError

from hubbub import outside
from hubbub.definitions.follower import Follower
from hubbub.definitions.formats import FormatsError, lower_text, older_workers_text, refuse_higher
from hubbub.kafka.clients import admin, started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.group import member_names
from hubbub.kafka.rights import access_refusal
from hubbub.kafka.settings import Kafka

log = logging.getLogger(__name__)

PATIENCE = 60.0
"""Seconds that a worker waits for the formats version, and for the end of older workers."""
PAUSE = 1.0
"""Seconds between two looks."""


class _Wait:
    """A wait that logs its reason once, and ends with a FormatsError if it takes too long."""

    def __init__(self, patience: float) -> None:
        self._end = outside.monotonic() + patience
        self._is_silent = True

    def go_on(self, text: str) -> None:
        if outside.monotonic() > self._end:
            raise FormatsError(text)
        if self._is_silent:
            log.warning("waiting: %s", text)
            self._is_silent = False


class UpgradeGate:
    """The checks of one worker, and the number of looks, which shows the watchdog that they go on."""

    def __init__(self, kafka: Kafka, follower: Follower, patience: float, on_look: Callable[[int], None]) -> None:
        self.looks = 0
        self._kafka = kafka
        self._follower = follower
        self._patience = patience
        self._on_look = on_look
        self._changed = asyncio.Event()
        follower.on_change.append(lambda _: self._changed.set())

    async def wait(self) -> None:
        """Wait until this worker may count. If it may not, raise a FormatsError."""
        await self._wait_for_formats()
        await self.wait_for_older_workers()

    async def watch(self) -> None:
        """Check the formats version whenever it changes, until cancelled."""
        while True:
            await self._wait_for_formats()
            await self._changed.wait()
            self._changed.clear()

    async def _wait_for_formats(self) -> None:
        """Wait for the formats version of this release. If it is higher, or stays lower, raise a FormatsError."""
        wait = _Wait(self._patience)
        while self._follower.definitions.formats.is_lower:
            wait.go_on(lower_text(self._follower.definitions.formats))
            await self._pause()
            await self._follower.within(PAUSE)
        refuse_higher(self._follower.definitions.formats)

    async def wait_for_older_workers(self, is_current: Callable[[], bool] = lambda: True) -> None:
        """Wait until every member of the group knows formats versions. If some stay, raise a FormatsError.

        Return early if `is_current` becomes false, because the next rebalance checks again.
        """
        if not self._kafka.dialect.names_members:
            return
        wait = _Wait(self._patience)
        while is_current():
            older = await self._older_workers()
            # None is no empty list: without an answer nobody knows whether older workers run.
            if older == []:
                return
            if older:
                wait.go_on(older_workers_text(older))
            await self._pause()

    async def _older_workers(self) -> list[str] | None:
        """Return the members that do not know formats versions, or None if no broker answers."""
        client: Any = admin(self._kafka)
        try:
            async with started(client, self._kafka):
                return await member_names(client, self._kafka, lambda member: not member.knows_formats)
        except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
            if access_refusal("worker", error):
                raise
            log.warning("members of the group not checked, trying again: %r", error)
            return None

    async def _pause(self) -> None:
        self.looks += 1
        self._on_look(self.looks)
        await asyncio.sleep(PAUSE)
