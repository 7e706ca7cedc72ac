"""The Faust table of tallies, whose changelog outlives this worker."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from aggregator.counting.changelog import Write
from aggregator.counting.configuration import App
from aggregator.counting.recovery import Found
from aggregator.topics import keys
from aggregator.topics.budget import Budget
from aggregator.topics.sizes import LARGEST
from hubbub.kafka import Kafka
from hubbub.names import CHANGELOG, TALLIES


class Table:
    """It holds what the changelog says of the partitions owned, and nothing else."""

    def __init__(self, app: App, kafka: Kafka, partitions: int, recovered: Callable[[], Any]) -> None:
        self._table: Any = app.Table(TALLIES, partitions=partitions, key_type=bytes, value_type=bytes)
        if self._table._changelog_topic_name() != kafka.topic(CHANGELOG):  # noqa: SLF001 - the name others rely on
            raise RuntimeError("Faust calls its changelog by another name")
        self._table.on_recover(recovered)
        self._budget = Budget()

    def keep(self, kept: Collection[int], found: Found) -> None:
        """Of these partitions what it has, and what a recovery has found of others."""
        for key in [key for key in self._table.data if keys.partition(key) not in kept]:
            del self._table.data[key]
        self._table.data.update(found)

    async def write(self, partition: int, writes: Sequence[Write], wanted: Callable[[], bool]) -> list[Any]:
        """Append these in order; what is returned is to be awaited for the brokers' acknowledgement.

        Large ones wait for room; where they are no longer `wanted` then, the rest is left out.
        """
        sent = []
        for key, value in writes:
            if value is not None and len(value) > LARGEST:  # its future would never end
                raise ValueError(f"{len(value)} bytes are more than a record of the changelog may have")
            taken = await self._budget.take(len(value or b""))
            if taken and not wanted():
                self._budget.give_back(taken)
                break
            sent.append(self._send(partition, key, value))
            self._budget.hold(taken, sent[-1])
        return sent

    def delete(self, partition: int, writes: Sequence[Write]) -> None:
        for key, _ in writes:
            self._send(partition, key, None)

    def _send(self, partition: int, key: bytes, value: bytes | None) -> Any:
        if value is None:
            self._table.data.pop(key, None)
        else:
            self._table.data[key] = value
        return self._table.send_changelog(partition, key, value, key_serializer="raw", value_serializer="raw")
