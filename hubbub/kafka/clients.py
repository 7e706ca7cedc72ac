"""Clients of Kafka: their common arguments, their start and stop, and the numbers of partitions.

Commands that need no Kafka import this module too, so aiokafka and asyncio are imported where they are used.
"""

import re
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from hubbub.kafka.errors import KafkaUnreachable, TopicMissing
from hubbub.kafka.settings import OAUTH, REPORTS, Kafka

if TYPE_CHECKING:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.client import AIOKafkaClient

PATIENCE = 30.0
"""Seconds for a client to start. It is enough to try the next broker if one hangs."""

_FAILURE = re.compile(r"Unable (?:connect to|to request metadata from) (.*?: (.*))", re.DOTALL)
_Client = TypeVar("_Client")


def client_arguments(kafka: Kafka) -> dict[str, Any]:
    """Return the keyword arguments that all clients of aiokafka share."""
    arguments: dict[str, Any] = {"bootstrap_servers": kafka.servers, "security_protocol": kafka.protocol}
    if kafka.tls:
        arguments["ssl_context"] = kafka.ssl_context()
    if kafka.sasl:
        arguments["sasl_mechanism"] = kafka.mechanism
    if kafka.mechanism == OAUTH:
        from hubbub.kafka.oauth import token_provider

        arguments["sasl_oauth_token_provider"] = token_provider(kafka)
    elif kafka.sasl:
        arguments["sasl_plain_username"] = kafka.username
        arguments["sasl_plain_password"] = kafka.password
    return arguments


@asynccontextmanager
async def started(client: _Client, kafka: Kafka, seconds: float = PATIENCE) -> AsyncIterator[_Client]:
    """Start an aiokafka client, and stop it at the end. If Kafka is lost, raise KafkaUnreachable."""
    import asyncio

    from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError

    losses = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
    # Clients of aiokafka share no class, but all have `start`.
    anything: Any = client
    try:
        with _logged_reasons() as reasons:
            try:
                async with asyncio.timeout(seconds):
                    await anything.start()
            except (*losses, TimeoutError, OSError) as error:
                raise await _explained(unreachable(kafka, error, reasons), kafka) from error
        try:
            yield client
        except losses as error:
            raise await _explained(unreachable(kafka, error), kafka) from error
    finally:
        await stop(client)


async def stop(client: Any) -> None:
    """Stop an aiokafka client. If the caller is cancelled, raise CancelledError at once, and stop it in the background.

    aiokafka itself loses a cancellation that comes while it waits for one of its tasks to end.
    """
    import asyncio

    await asyncio.shield(client.stop() if hasattr(client, "stop") else client.close())


def consumer(kafka: Kafka, **settings: Any) -> "AIOKafkaConsumer":
    """Return a consumer outside of any group."""
    from aiokafka import AIOKafkaConsumer

    from hubbub.kafka.patches import bounded_batches, paced_metadata

    # A few forged bytes in a topic would stop every reader at the same offset, or fill its memory.
    bounded_batches.install(kafka.topic(REPORTS))
    paced_metadata.install()

    # With the default of aiokafka, five minutes, a reader would go on asking a broker that no longer leads.
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 5_000}
    return AIOKafkaConsumer(group_id=None, enable_auto_commit=False, **client_arguments(kafka), **(defaults | settings))


def producer(kafka: Kafka, **settings: Any) -> "AIOKafkaProducer":
    """Return a producer."""
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(**client_arguments(kafka), **settings)


def admin(kafka: Kafka) -> "AIOKafkaAdminClient":
    """Return a client for requests about topics and groups."""
    from aiokafka.admin import AIOKafkaAdminClient

    return AIOKafkaAdminClient(**client_arguments(kafka))


def bare_client(kafka: Kafka, **settings: Any) -> "AIOKafkaClient":
    """Return a client for single requests to the brokers."""
    from aiokafka.client import AIOKafkaClient

    return AIOKafkaClient(**client_arguments(kafka), **settings)


async def partitions(kafka: Kafka, *names: str, optional: Collection[str] = ()) -> dict[str, int]:
    """Return the number of partitions of each topic, by its name without the prefix, or raise TopicMissing.

    Optional topics that do not exist are left out.

    The request lists all topics, because a request for one name may create that topic.
    """
    async with started(admin(kafka), kafka) as client:
        counts = {topic["topic"]: len(topic["partitions"]) for topic in await client.describe_topics()}

    missing = [kafka.topic(name) for name in names if not counts.get(kafka.topic(name))]
    if missing:
        raise TopicMissing(*missing)
    present = [name for name in optional if counts.get(kafka.topic(name))]
    return {name: counts[kafka.topic(name)] for name in (*names, *present)}


def unreachable(kafka: Kafka, error: BaseException, reasons: list[str] | None = None) -> KafkaUnreachable:
    """Return the error to raise, with the reasons that aiokafka has logged, else with the text of `error`."""
    silence = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    reason = "; ".join(dict.fromkeys(reasons or [])) or str(error) or silence
    return KafkaUnreachable(f"Kafka at {kafka.servers} cannot be reached: {reason}")


async def _explained(error: KafkaUnreachable, kafka: Kafka) -> KafkaUnreachable:
    """Return the error with its likely cause, if the ports of the brokers show one."""
    from hubbub.kafka.broker_probe import ask, likely_cause

    cause = likely_cause(kafka, await ask(kafka.servers), str(error))
    return KafkaUnreachable(f"{error}; {cause}") if cause else error


@contextmanager
def _logged_reasons() -> Iterator[list[str]]:
    """Collect the reasons that aiokafka only logs, while it raises no more than "Unable to bootstrap"."""
    import logging

    reasons: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            failure = _FAILURE.match(record.getMessage())
            if failure:
                reasons.append(failure[1] if failure[2] else f"{failure[1]}no answer")

    collector = Collector()
    log = logging.getLogger("aiokafka")
    log.addHandler(collector)
    try:
        yield reasons
    finally:
        log.removeHandler(collector)
