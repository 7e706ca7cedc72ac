"""The Faust table of tallies, whose changelog outlives this worker."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from faust.types import TP

from aggregator.counting.configuration import App
from aggregator.counting.recovery import Found
from aggregator.topics import keys
from aggregator.topics.keys import Write
from aggregator.topics.outbox import Ack, Outbox
from hubbub.kafka import Kafka
from hubbub.names import CHANGELOG, TALLIES


class Table:
    """It holds what the changelog says of the partitions owned, and nothing else.

    Faust's own sender costs 110 microseconds a record and more. All goes through the outbox instead, deletions
    too: with two producers a deletion could overtake a write, or the other way round.
    """

    def __init__(self, app: App, kafka: Kafka, partitions: int, outbox: Outbox, recovered: Callable[[], Any]) -> None:
        self._table: Any = app.Table(TALLIES, partitions=partitions, key_type=bytes, value_type=bytes)
        if self._table._changelog_topic_name() != kafka.topic(CHANGELOG):  # noqa: SLF001 - the name others rely on
            raise RuntimeError("Faust calls its changelog by another name")
        self._table.on_recover(recovered)
        self._changelog, self._outbox = kafka.topic(CHANGELOG), outbox

    def keep(self, kept: Collection[int], found: Found) -> None:
        """Of these partitions what it has, and what a recovery has found of others."""
        for key in [key for key in self._table.data if keys.partition(key) not in kept]:
            del self._table.data[key]
        self._table.data.update(found)

    async def write(self, partition: int, writes: Sequence[Write], wanted: Callable[[], bool]) -> list[Ack]:
        """Append these in order; what is returned is to be awaited for the brokers' acknowledgement.

        Where they have to wait and are no longer `wanted` then, the rest is left out.
        """
        data = self._table.data
        for key, value in writes:
            if value is None:
                data.pop(key, None)
            else:
                data[key] = value
        written = partial(data.set_persisted_offset, TP(self._changelog, partition))
        return await self._outbox.write(CHANGELOG, partition, writes, wanted=wanted, written=written)
