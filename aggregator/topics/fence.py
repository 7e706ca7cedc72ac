"""The fence: a second partition of `queries`, with which no worker of an older release counts any more.

Those workers know no formats version, but at each start and recovery they demand that `queries` has one partition.
Kafka cannot take a partition back, so behind the fence nobody returns to an older release.
"""

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.errors import KafkaError

from aggregator.topics.broker_topics import SETTLE, describe, repeat
from aggregator.topics.layout import FENCED
from hubbub.definitions import formats_record
from hubbub.definitions.formats import FIRST_RELEASE, RAISE, FormatsError
from hubbub.kafka.clients import admin as admin_client
from hubbub.kafka.clients import started
from hubbub.kafka.group import member_names
from hubbub.kafka.rights import access_refusal
from hubbub.kafka.settings import QUERIES, Kafka

NEEDED = 3
"""The formats version that the fence needs."""


async def build(kafka: Kafka, *, dry: bool) -> list[str]:
    """Add the partition, and return a line. Raise a FormatsError if an older worker runs, or the version is lower."""
    topic = kafka.topic(QUERIES)
    async with started(admin_client(kafka), kafka) as admin:
        if await has_fence(admin, topic):
            return [f"right {topic}: the fence is set"]
        if dry:
            return [f"would fence {topic}: {FENCED} partitions, which cannot be taken back"]
        await _check(admin, kafka)

        try:
            await admin.create_partitions({topic: NewPartitions(FENCED)})
            # A broker learns of the partition a moment later.
            await repeat(lambda: has_fence(admin, topic), bool, SETTLE)
        except KafkaError as error:
            if access_refusal("topics", error):
                raise
            raise FormatsError(f"Kafka refuses the fence, so nothing was changed: {error}") from error
    return [f"fenced {topic}: {FENCED} partitions, so workers of older releases exit at their start"]


async def has_fence(admin: AIOKafkaAdminClient, topic: str) -> bool:
    """Whether the topic of definitions has the second partition."""
    descriptions = await describe(admin, [topic])
    return topic in descriptions and descriptions[topic].partitions >= FENCED


async def _check(admin: AIOKafkaAdminClient, kafka: Kafka) -> None:
    """Raise a FormatsError if the fence would shut out workers that are in use."""
    formats = await formats_record.look_up_patiently(kafka)
    if formats.version < NEEDED:
        raise FormatsError(
            f"the fence needs formats version {NEEDED}, and the topics have formats {formats}. Stop all workers and "
            f"run `{RAISE}` first. Nothing was changed"
        )
    older = await member_names(admin, kafka, lambda member: member.release < FIRST_RELEASE)
    if older:
        raise FormatsError(
            f"workers of an older release are in the group ({len(older)}): {', '.join(older)}. Stop them, then set the "
            "fence. Nothing was changed"
        )
