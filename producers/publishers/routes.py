"""The partition of each frame. It follows from the spread in the version of the query that applies to the frame's pane.

With old definitions a sender could choose a partition that takes no more frames, so it reads them again.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from hubbub.definitions.versions import Versions
from hubbub.kafka.settings import QUERIES, Kafka
from oracles.errors import extra
from oracles.frame import partition_of
from oracles.query import Query
from producers.errors import DeliveryError
from producers.publishers.frames import OutgoingFrame

with extra("kafka"):
    from aiokafka.errors import TopicAuthorizationFailedError

    from hubbub.definitions.follower import Follower

FRESH = 30.0
"""Seconds after which a sender reads the definitions again. A change of a spread allows for a minute."""


def route(frame: OutgoingFrame, partitions: int, definitions: Mapping[bytes, Versions], default: int | None) -> int:
    """Return the partition of a frame. `default` is the spread of a query that the topic of definitions lacks."""
    digest = frame.digest
    versions = definitions.get(digest)
    spread = default if versions is None else versions.spread_at(frame.pane)
    return partition_of(frame.id, partitions, digest, spread)


class Routes:
    """The partitions of a publisher's frames, by the topic of definitions if the publisher may read it."""

    def __init__(self, kafka: Kafka, partitions: int, follower: Follower | None) -> None:
        self._partitions = partitions
        self._topic = kafka.topic(QUERIES)
        self._follower = follower
        self._spreads: dict[bytes, int | None] = {}
        """The spread of each query as the application has it."""

    def note(self, query: Query) -> None:
        """Note a query of the application. Raise a DeliveryError if nobody knows its present spread."""
        is_spread = query.spread is not None and query.spread < self._partitions
        if is_spread and self._follower is None:
            raise DeliveryError(
                f"{query.name} has a spread, so a publisher needs the right to read the topic {self._topic}: "
                "it tells the partitions of the reports"
            )
        self._spreads[query.digest] = query.spread

    async def partition(self, frame: OutgoingFrame) -> int:
        """Return the partition of a frame, by definitions that are fresh enough. Wait for them if Kafka is silent."""
        definitions: Mapping[bytes, Versions] = {}
        if self._follower is not None:
            if self._follower.age > FRESH:
                await self._follower.within(FRESH)
            definitions = self._follower.definitions.versions
        return route(frame, self._partitions, definitions, self._spreads.get(frame.digest))


@asynccontextmanager
async def open_routes(kafka: Kafka, partitions: int, *, sees_definitions: bool) -> AsyncIterator[Routes]:
    """Read the definitions, if there are any that this publisher may read, and follow them during the block."""
    follower = Follower(kafka)
    if sees_definitions:
        try:
            await follower.__aenter__()
        except TopicAuthorizationFailedError:
            sees_definitions = False
    try:
        yield Routes(kafka, partitions, follower if sees_definitions else None)
    finally:
        if sees_definitions:
            await follower.__aexit__(None, None, None)
