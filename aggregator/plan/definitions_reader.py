"""The active definitions of a broker, for `hubbub check --topic`."""

from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.kafka.settings import Kafka


async def read(kafka: Kafka) -> Definitions:
    """Read the topic of definitions to its end."""
    async with Follower(kafka) as follower:
        return follower.definitions
