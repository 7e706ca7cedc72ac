"""Changes that an operator makes to topics while a test runs. Each returns once the brokers know of it."""

import asyncio

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from aggregator.topics.broker_topics import alter, describe
from aggregator.topics.layout import layout
from hubbub.kafka.clients import client_arguments, started
from oracles.frame import MAX_FRAME

ATTEMPTS, PAUSE = 300, 0.1
"""The number of looks at the brokers, and the seconds between two of them."""


def administer(kafka, work):
    """Return the result of a coroutine function that takes an admin client."""

    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
            return await work(admin)

    return asyncio.run(run())


async def wait_until(condition):
    for _ in range(ATTEMPTS):
        if await condition():
            return
        await asyncio.sleep(PAUSE)
    raise AssertionError("the brokers do not know of the change")


def delete(kafka, names):
    """Delete topics."""

    async def work(admin):
        async def are_gone():
            return not names & {*await admin.list_topics()}

        await admin.delete_topics([*names])
        await wait_until(are_gone)

    administer(kafka, work)


def recreate(kafka, name, partitions):
    """Delete a topic and create it again with its settings and another number of partitions."""
    topic = kafka.topic(name)
    settings = next(each.settings for each in layout(kafka.prefix, 2, 1, MAX_FRAME) if each.name == topic)
    delete(kafka, {topic})

    async def work(admin):
        async def is_there():
            return topic in await describe(admin, [topic])

        await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
        await wait_until(is_there)

    administer(kafka, work)


def change_settings(kafka, name, settings):
    topic = kafka.topic(name)

    async def work(admin):
        async def are_set():
            return settings.items() <= (await describe(admin, [topic]))[topic].settings.items()

        await alter(admin, await describe(admin, [topic]), {topic: settings})
        await wait_until(are_set)

    administer(kafka, work)


def delete_before(kafka, partition, offset):
    """Delete the oldest reports of a partition, as retention does."""

    async def work(admin):
        await admin.delete_records({TopicPartition(kafka.topic("reports"), partition): RecordsToDelete(offset)})

    administer(kafka, work)
