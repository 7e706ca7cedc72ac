"""The identity of the topics: tallies hold for topics with the same ids, not for new ones of the same names."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiokafka.errors import KafkaError

from aggregator.errors import Guarantee
from aggregator.tallies.progress import TopicIds
from aggregator.topics.layout import ANEW
from hubbub.kafka.offsets import OffsetLookup
from hubbub.kafka.patches.metadata_request import topic_ids
from hubbub.kafka.settings import REPORTS, SNAPSHOTS, Kafka

log = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds between two checks."""
PATIENCE = 10.0
"""Seconds until a question fails."""
RETRY_PAUSE = 0.2
"""Seconds between two attempts."""


def check_ids(present: TopicIds, reference: TopicIds, kafka: Kafka) -> None:
    """Raise a Guarantee if the counts belong to other topics than those that Kafka has now."""
    pairs = {REPORTS: (present.reports, reference.reports), SNAPSHOTS: (present.snapshots, reference.snapshots)}
    for name, (present_id, counted_id) in pairs.items():
        # A broker without ids, or an older record of progress, leaves one of them empty.
        if present_id and counted_id and present_id != counted_id:
            raise Guarantee(f"{kafka.topic(name)} was deleted and created again since it was counted; {ANEW}")


async def identify(kafka: Kafka, broker: OffsetLookup, partitions: int) -> TopicIds:
    """Return the ids of the topics. Raise a Guarantee if the reports have another number of partitions."""
    if not kafka.dialect.has_topic_ids:
        return TopicIds()
    names = [kafka.topic(REPORTS), kafka.topic(SNAPSHOTS)]

    answer: dict[str, tuple[bytes, int]] = {}
    async with asyncio.timeout(PATIENCE):
        while not answer:
            try:
                answer = await topic_ids(broker.client, names)
            except KafkaError:  # a broker does not answer for a moment
                await asyncio.sleep(RETRY_PAUSE)

    missing = [name for name in names if name not in answer]
    if missing:
        raise TimeoutError(f"{', '.join(missing)}: no broker describes this topic")

    (reports, count), (snapshots, _) = (answer[name] for name in names)
    # Ids of frames name their partition by this number, so other partitions would refuse the frames.
    if count != partitions:
        raise Guarantee(
            f"{names[0]} has {count} partitions now, not {partitions}, and ids of frames depend on the number. Start "
            f"again with another --prefix, and with as many partitions as you will ever need"
        )
    return TopicIds(reports.rstrip(b"\0"), snapshots.rstrip(b"\0"))


async def watch_identity(kafka: Kafka, broker: OffsetLookup, partitions: int) -> None:
    """Check the ids again and again, and raise a Guarantee if a topic was deleted and created again."""
    first_ids: TopicIds | None = None
    while True:
        try:
            present_ids = await identify(kafka, broker, partitions)
        except (KafkaError, TimeoutError, OSError) as error:
            log.warning("ids of the topics not checked, trying again: %r", error)
        else:
            first_ids = first_ids or present_ids
            check_ids(present_ids, first_ids, kafka)
        await asyncio.sleep(PAUSE)


async def check_ends(broker: OffsetLookup, topic: str, resume_offsets: Callable[[], Mapping[int, int]]) -> None:
    """Raise a Guarantee if a log ends before its counted records: a new log, whose reports workers would skip."""
    for _ in range(10):
        offsets = resume_offsets()
        ends = await broker.ends(max(offsets, default=-1) + 1)
        shorter = [partition for partition, offset in offsets.items() if offset > ends[partition]]
        if not shorter:
            return
        await asyncio.sleep(1.0)  # a new leader may not know the end of the log yet
    raise Guarantee(
        f"{topic} ends before its counted records (partitions {shorter}), so it was deleted and created again. "
        f"Stop the workers, delete every other topic of the prefix too, run `hubbub topics`, and start them again"
    )
