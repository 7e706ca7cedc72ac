"""Fail-stop for what hangs in silence: Faust and aiokafka can stop reading for ever while they still heartbeat.

Seen: records dropped at start where nothing is committed, stale metadata after a leader has moved, a
recovery that receives no events, revoked credentials that are retried without end. The watchdog is a
thread of its own, with a consumer of its own, so that a hung event loop is found too.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from aggregator.topics.offsets import Asking
from hubbub.kafka import Kafka

log = logging.getLogger(__name__)

PATIENCE = 25.0
LOOK_AGAIN = 5.0
"""Seconds to read what has only just come."""
EXIT = 1
Positions = dict[int, tuple[int, object]]
"""By owned partition: the acknowledged offset, and whatever else shows that something moves."""


@dataclass
class Watchdog:
    """Ends the process where an owned partition stands still although the broker has more of it."""

    kafka: Kafka
    topic: str
    positions: Callable[[], Positions]
    pause: Callable[[], float]
    """Seconds between two acknowledgements where all is well."""
    patience: float = PATIENCE

    def start(self) -> None:
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except Exception:
            log.exception("the watchdog cannot watch")
            os._exit(EXIT)

    async def _watch(self) -> None:
        seen: dict[int, tuple[object, float]] = {}
        while True:
            await asyncio.sleep(1.0)
            now, positions = time.monotonic(), self.positions()
            seen = {p: at for p, at in seen.items() if p in positions}
            for partition, position in positions.items():
                if partition not in seen or seen[partition][0] != position:
                    seen[partition] = position, now
            patience = self.patience + self.pause()
            still = [p for p, (_, since) in seen.items() if now - since > patience]
            if still:
                await self._judge(still, positions)
            for partition in still:
                del seen[partition]

    async def _judge(self, still: list[int], positions: Positions) -> None:
        """End the process if there are records beyond one of these."""
        try:
            async with Asking(self.kafka, self.topic) as asking:
                for partition in still:
                    offset = positions[partition][0]
                    try:
                        there = await asking.first(partition, offset)
                    except TimeoutError:
                        continue  # nothing to read
                    await asyncio.sleep(LOOK_AGAIN + self.pause())
                    if self.positions().get(partition) != positions[partition]:
                        continue
                    log.critical(
                        "hung: partition %s stands at offset %s for %s s, and offset %s is there to be read",
                        *(partition, offset, self.patience, there),
                    )
                    logging.shutdown()
                    os._exit(EXIT)
        except Exception as error:  # noqa: BLE001 - the broker is away: nothing of ours hangs
            log.warning("the watchdog gets no answer: %r", error)
