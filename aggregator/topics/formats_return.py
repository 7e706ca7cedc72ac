"""The return to the formats version of release 0.2.0, which happens only while no worker runs.

That release knows no clocks, so progress and watermarks get their ends by query again (clock_return.py). It expects one
count for each mark of numbers. So the states of numbers lose their marks, which begin again as lost ones do. The record
of the version comes after all that: after a kill the command begins again.
"""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient

from aggregator.tallies.keys import StateKey, Write, decode
from aggregator.tallies.state_forms import unmarked_records
from aggregator.topics import clock_return
from aggregator.topics.broker_topics import describe
from aggregator.topics.clock_return import ClockReturn
from aggregator.topics.fence import has_fence
from hubbub.definitions import formats
from hubbub.definitions.catalog import Definitions
from hubbub.definitions.follower import Follower
from hubbub.definitions.formats import Formats, FormatsError, release
from hubbub.definitions.key_formats import early_keys
from hubbub.kafka.clients import admin as admin_client
from hubbub.kafka.clients import started
from hubbub.kafka.group import member_names
from hubbub.kafka.log_reader import open_log
from hubbub.kafka.outbox import Outbox, count_refused
from hubbub.kafka.settings import CLOCKS, LARGEST, QUERIES, SNAPSHOTS, Kafka

LOWER = "hubbub topics --lower-formats"
TARGET = 2
"""The formats version of release 0.2.0."""


async def lower(kafka: Kafka, *, dry: bool) -> list[str]:
    """Lower the formats version, and return the lines that describe it. If it is impossible, raise a FormatsError."""
    async with Follower(kafka) as follower:
        definitions = follower.definitions
    present = definitions.formats
    formats.refuse_higher(present)
    topic = kafka.topic(QUERIES)
    if present.version <= TARGET:
        if not dry:
            async with Outbox(kafka) as outbox:
                await clock_return.delete_clocks(kafka, outbox)
        return [f"right {topic}: formats {present}"]

    async with started(admin_client(kafka), kafka) as admin:
        descriptions = await describe(admin, [kafka.topic(SNAPSHOTS), kafka.topic(CLOCKS)])
        reasons = [*await _obstacles(admin, kafka), *_early_keys(definitions), *_stops(definitions)]
    # Early builds of formats version 3 had no clocks. A read of a missing topic would wait in vain for the broker.
    if kafka.topic(CLOCKS) not in descriptions:
        reasons.append(f"{kafka.topic(CLOCKS)} is missing: run `hubbub topics` to create it, then `{LOWER}` again")
    partitions = descriptions[kafka.topic(SNAPSHOTS)].partitions
    states = await _states(kafka, partitions, _numbers(definitions))
    writes = {partition: [*_changes(own_states)] for partition, own_states in states.items()}
    if reasons:
        raise FormatsError("\n".join([*reasons, "Nothing was changed"]))

    clocks = await clock_return.plan(kafka, partitions, definitions.versions)
    if not dry:
        await _write(kafka, {partition: [*chain(*own_writes)] for partition, own_writes in writes.items()}, clocks)
    verb = "would lower" if dry else "lowered"
    count = sum(map(len, writes.values()))
    text = f"{verb} {topic}: formats from version {present.version} to {TARGET}"
    return [f"{text}, {count} states of numbers lose their marks"]


async def _obstacles(admin: AIOKafkaAdminClient, kafka: Kafka) -> list[str]:
    """Return why no older release could work here, as far as the brokers know."""
    topic = kafka.topic(QUERIES)
    reasons = []
    # A member would go on writing the forms of this release after the version has fallen.
    names = await member_names(admin, kafka)
    if names:
        reasons.append(f"stop all workers first ({len(names)} in the group): {', '.join(names)}")
    if await has_fence(admin, topic):
        reasons.append(f"{topic} has a fence, which Kafka cannot take back, so no older release can work here")
    return reasons


def _early_keys(definitions: Definitions) -> Iterator[str]:
    """Yield the query keys that the older release cannot read, in retired definitions too."""
    queries = [version.query for versions in definitions.versions.values() for version in versions.versions]
    yield from early_keys(queries, Formats(TARGET))


def _stops(definitions: Definitions) -> Iterator[str]:
    """Yield why the older release, which knows no stops, would count a stopped query again."""
    names = sorted(definitions.stops.keys() & definitions.active.keys())
    if names:
        yield f"older releases would count stopped queries: run `hubbub resume {' '.join(names)}`, or retire them"


def _numbers(definitions: Definitions) -> set[bytes]:
    """Return the digests of the queries with numbers."""
    return {digest for digest, query in definitions.queries.items() if query.quantiles}


async def _states(kafka: Kafka, partitions: int, digests: set[bytes]) -> dict[int, dict[bytes, bytes]]:
    """Return the newest states of these queries and their parts, by partition and key."""
    states: dict[int, dict[bytes, bytes]] = {}
    if not digests:
        return states
    async with open_log(kafka, {SNAPSHOTS: range(partitions)}, max_partition_fetch_bytes=LARGEST) as reader:
        async for batches in reader.batches_to_end():
            for record in chain(*batches.values()):
                _take(states.setdefault(record.partition, {}), record, digests)
    return states


def _take(states: dict[bytes, bytes], record: Any, digests: set[bytes]) -> None:
    key = decode(record.key)
    if not isinstance(key, StateKey) or key.digest not in digests:
        return
    # A compacted topic still has deletions for a while, and a deleted state must not come back.
    states.pop(record.key, None)
    if record.value:
        states[record.key] = record.value


def _changes(states: dict[bytes, bytes]) -> Iterator[list[Write]]:
    """Yield the records with which each state loses its marks."""
    for name, value in states.items():
        key = decode(name)
        if isinstance(key, StateKey) and not key.part:
            writes = unmarked_records(key, value, states)
            if writes:
                yield writes


async def _write(kafka: Kafka, writes: dict[int, list[Write]], clocks: ClockReturn) -> None:
    """Write what older workers read in place of clocks, the states without marks, and then the version."""
    record = json.dumps({"version": TARGET, "release": release()}, separators=(",", ":")).encode()
    async with Outbox(kafka) as outbox:
        await clocks.write(outbox)
        for partition, own_writes in writes.items():
            await count_refused(await outbox.write(SNAPSHOTS, partition, own_writes))
        # The acknowledged states come before it: a kill between the two leaves what both releases read.
        await (await outbox.send(QUERIES, formats.KEY, record, partition=0))
        await clock_return.delete_clocks(kafka, outbox)
