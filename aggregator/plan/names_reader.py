"""The reader of the names that searches of a query have found, for `hubbub init --from`."""

import asyncio
from itertools import chain

from aggregator.plan import definitions_reader
from aggregator.plan.name_collection import NameCollection, add_all
from hubbub.kafka.clients import partitions
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.settings import ESTIMATES, LARGEST, Kafka
from oracles.errors import ParameterError
from oracles.query import Query


def collect(kafka: Kafka, name: str) -> tuple[Query, NameCollection]:
    """Return the active query of this name, and the names that its finals list. Raise ParameterError without any."""
    return asyncio.run(_collect(kafka, name))


async def _collect(kafka: Kafka, name: str) -> tuple[Query, NameCollection]:
    active = (await definitions_reader.read(kafka)).active
    query = active.get(name)
    if query is None:
        choices = ", ".join(sorted(each for each, query in active.items() if query.strings is not None))
        raise ParameterError(f"no active query is named {name!r}; queries of unknown strings: {choices or 'none'}")
    if query.strings is None:
        raise ParameterError(f"query {name} lists its values already, so there are no names to find")
    collection = NameCollection(query.digest.hex())
    count = (await partitions(kafka, ESTIMATES))[ESTIMATES]
    async with open_log(kafka, {ESTIMATES: range(count)}, max_partition_fetch_bytes=LARGEST) as reader:
        async for batches in reader.batches_to_end():
            add_all(collection, chain(*batches.values()))
    if not collection.names:
        raise ParameterError(f"no search of query {name} has found a name yet; the board says what it can show")
    return query, collection
