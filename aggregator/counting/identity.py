"""The identity of the topics by the brokers' word: tallies hold for these alone, not for others of the same names."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError

from aggregator.counting.clock import Basis
from aggregator.counting.topicids import topic_ids
from aggregator.errors import Guarantee
from aggregator.topics.command import verify
from aggregator.topics.offsets import Asking
from aggregator.topics.settings import ANEW
from aggregator.topics.sizes import Sizes
from hubbub.errors import KafkaUnreachable
from hubbub.kafka import Kafka
from hubbub.names import REPORTS, SNAPSHOTS

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds between two looks."""
PATIENCE, AGAIN = 10.0, 0.2


class Identity(NamedTuple):
    """Ids without zeros at their ends; empty on the embedded broker, which gives none."""

    reports: bytes = b""
    snapshots: bytes = b""

    def check(self, basis: Basis, kafka: Kafka) -> None:
        """A Guarantee where what was counted is of other topics."""
        for name, now, counted in zip((REPORTS, SNAPSHOTS), self, (basis.reports, basis.snapshots), strict=True):
            if now and counted and now != counted:
                said = f"{kafka.topic(name)} is not the topic that was counted so far, but was deleted and made again"
                raise Guarantee(f"{said}; {ANEW}")


async def identify(kafka: Kafka, asking: Asking, partitions: int) -> Identity:
    """The ids of the topics; a Guarantee where the reports have another number of partitions."""
    if kafka.embedded:
        return Identity()
    names = [kafka.topic(REPORTS), kafka.topic(SNAPSHOTS)]
    found: dict[str, tuple[bytes, int]] = {}
    async with asyncio.timeout(PATIENCE):
        while not found:
            try:
                found = await topic_ids(asking.client, names)
            except KafkaError:  # a broker is silent for a moment
                await asyncio.sleep(AGAIN)
    if missing := [name for name in names if name not in found]:
        raise TimeoutError(f"{', '.join(missing)}: no broker says anything of it")
    (reports, count), (snapshots, _) = (found[name] for name in names)
    if count != partitions:
        raise Guarantee(
            f"{names[0]} has {count} partitions now, not {partitions}: ids of frames are bound to their number. Start "
            f"anew with another --prefix, with as many partitions as you will ever need"
        )
    return Identity(reports.rstrip(b"\0"), snapshots.rstrip(b"\0"))


async def watch_identity(kafka: Kafka, asking: Asking, partitions: int) -> None:
    """Until a topic is another one, which raises a Guarantee."""
    first: Identity | None = None
    while True:
        try:
            now = await identify(kafka, asking, partitions)
        except (KafkaError, TimeoutError, OSError) as error:
            log.warning("the topics' ids cannot be asked for: %r", error)
        else:
            first = first or now
            now.check(Basis(*first), kafka)
        await asyncio.sleep(PAUSE)


async def check_settings(kafka: Kafka, max_frame: int, sizes: Sizes) -> None:
    """Somebody may have changed a topic since the start; TopicsError."""
    try:
        await verify(kafka, max_frame, sizes)
    except (KafkaError, KafkaUnreachable, TimeoutError, OSError) as error:
        log.warning("the topics' settings cannot be asked for: %r", error)


async def check_ends(asking: Asking, topic: str, counted: Callable[[], Mapping[Any, int]]) -> None:
    """A log that ends before what was counted of it is another log, whose reports would pass uncounted."""
    for _ in range(10):
        offsets = {tp.partition: offset for tp, offset in counted().items()}
        ends = await asking.ends(max(offsets, default=-1) + 1)
        short = [partition for partition, offset in offsets.items() if offset > ends[partition]]
        if not short:
            return
        await asyncio.sleep(1.0)  # a new leader may not know yet how far the log is
    raise Guarantee(
        f"{topic} ends before what was counted of it (partitions {short}): it was deleted and made again. "
        f"Stop the workers, delete every other topic of the prefix too, run `hubbub topics`, and start them again"
    )
