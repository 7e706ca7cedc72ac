"""The topics at the brokers: their descriptions, and the requests that create and change them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAuthorizationFailedError, for_code

from aggregator.errors import TopicsError
from aggregator.topics.layout import SettingRefusal, Topic, TopicDescription

_Answer = TypeVar("_Answer")

SETTLE = 15.0
"""Seconds within which all brokers know of a new topic or setting."""
_TOPIC_OVERRIDE = 1
"""Kafka's number for a setting on the topic itself."""
_UNKNOWN = 3
_EXISTS = 36
"""Kafka's error codes for an unknown topic, and for one that exists already."""
_CONFIG_REFUSALS = (40, 44)
"""Kafka's error codes for an invalid setting, and for one that a policy forbids."""


async def describe(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, TopicDescription]:
    """Return the topics of these names that exist. It lists all topics, since a question by name may create one."""
    partitions = {topic["topic"]: topic["partitions"] for topic in await admin.describe_topics()}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names if partitions.get(name)]
    result: dict[str, TopicDescription] = {}
    if not resources:
        return result

    for response in await admin.describe_configs(resources):
        for code, message, _, name, entries in response.resources:
            if code == _UNKNOWN:
                continue  # the topic is new or just deleted, and this broker knows less than the one before
            if code:
                raise for_code(code)(f"settings of {name}: {message}")

            result[name] = TopicDescription(
                name,
                partitions=len(partitions[name]),
                # The partition with the fewest copies decides what the loss of a broker costs.
                replication=min(len(partition["replicas"]) for partition in partitions[name]),
                settings={key: value or "" for key, value, *_ in entries},
                own=frozenset(key for key, _, _, source, *_ in entries if source == _TOPIC_OVERRIDE),
            )
    return result


async def create(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> list[SettingRefusal]:
    """Create topics, and return the settings that the broker refused."""
    results = await _try_create(admin, {topic: topic.settings for topic in topics})
    # A broker that refuses one setting refuses the whole topic, so it is created without settings first.
    bare = [topic for topic in topics if results.get(topic.name, (0, ""))[0] in _CONFIG_REFUSALS]
    results |= await _try_create(admin, {topic: {} for topic in bare})
    # If another run was faster, the check at the end looks at its topics.
    refuse([f"{name}: {message}" for name, (code, message) in results.items() if code not in (0, _EXISTS)])

    descriptions: dict[str, TopicDescription] = {}
    async with asyncio.timeout(SETTLE):
        while len(descriptions) < len(bare):  # a broker knows a new topic a moment later
            descriptions = await describe(admin, [topic.name for topic in bare])
            await asyncio.sleep(0.1)

    return await alter(admin, descriptions, {topic.name: topic.settings for topic in bare})


async def _try_create(
    admin: AIOKafkaAdminClient, topics: Mapping[Topic, Mapping[str, str]]
) -> dict[str, tuple[int, str]]:
    """Create topics with these settings, and return Kafka's error code (0 if none) and message for each."""
    if not topics:
        return {}
    new_topics = [
        NewTopic(topic.name, topic.partitions, topic.replication, topic_configs=settings)
        for topic, settings in topics.items()
    ]

    response = await admin.create_topics(new_topics)
    forbidden = [name for name, code, _ in response.topic_errors if code == TopicAuthorizationFailedError.errno]
    if forbidden:
        raise TopicAuthorizationFailedError(", ".join(forbidden))
    return {name: (code, message or for_code(code).__name__) for name, code, message in response.topic_errors}


async def alter(
    admin: AIOKafkaAdminClient, descriptions: Mapping[str, TopicDescription], changes: Mapping[str, Mapping[str, str]]
) -> list[SettingRefusal]:
    """Change settings one by one if necessary, and return those that the broker refused."""
    refusals: list[SettingRefusal] = []
    for name, change in changes.items():
        # The request replaces all settings of a topic, so those that it has must be in it.
        settings = {key: descriptions[name].settings[key] for key in descriptions[name].own}
        code, _ = await _try_alter(admin, name, {**settings, **change})
        if not code:
            continue

        for key, value in change.items():
            code, message = await _try_alter(admin, name, {**settings, key: value})
            if code:
                refusals.append(SettingRefusal(name, key, value, message))
            else:
                settings[key] = value
    return refusals


async def _try_alter(admin: AIOKafkaAdminClient, name: str, settings: Mapping[str, str]) -> tuple[int, str]:
    """Replace all settings on a topic, and return Kafka's error code (0 if none) and message."""
    resource = ConfigResource(ConfigResourceType.TOPIC, name, dict(settings))
    for response in await admin.alter_configs([resource]):
        for code, message, *_ in response.resources:
            text = message or for_code(code).__name__
            if code and code not in _CONFIG_REFUSALS:
                refuse([f"{name}: {text}"])
            if code:
                return code, text
    return 0, ""


def refuse(faults: Sequence[str]) -> None:
    """Raise a TopicsError if there are faults."""
    if faults:
        raise TopicsError("\n".join(faults))


async def repeat(ask: Callable[[], Awaitable[_Answer]], enough: Callable[[_Answer], bool], seconds: float) -> _Answer:
    """Ask again until the answer is enough or the time is over, and return the last answer."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds
    answer = await ask()
    while not enough(answer) and clock() <= deadline:
        await asyncio.sleep(0.1)
        answer = await ask()
    return answer
