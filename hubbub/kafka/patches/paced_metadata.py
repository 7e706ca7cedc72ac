"""A client that pauses between two looks for the leaders of partitions.

aiokafka looks again at once while no broker answers or a partition has no leader. That takes a whole core.
"""

import asyncio
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata

PAUSE = 0.1
"""Seconds between two looks while a leader is missing."""

_update = AIOKafkaClient._metadata_update  # noqa: SLF001 - aiokafka has no other way


def install() -> None:
    """Let all clients of this process pause."""
    AIOKafkaClient._metadata_update = _paced_update  # noqa: SLF001


async def _paced_update(self: Any, cluster: ClusterMetadata, topics: Any) -> bool:
    is_updated: bool = await _update(self, cluster, topics)
    if not is_updated or _lacks_leader(cluster):
        await asyncio.sleep(PAUSE)
    return is_updated


def _lacks_leader(cluster: ClusterMetadata) -> bool:
    """Whether a known partition has no leader."""
    names = cluster.topics()
    return any(cluster.available_partitions_for_topic(name) != cluster.partitions_for_topic(name) for name in names)
