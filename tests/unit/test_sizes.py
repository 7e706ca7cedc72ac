"""The sizes of records. No record of a query is larger than its topics accept."""

import asyncio
from unittest.mock import AsyncMock

import numpy as np
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from aggregator.merging import block_records
from aggregator.merging.blocks import Block, Part
from aggregator.merging.kinds import has_blocks
from aggregator.merging.snapshot_records import split_state
from aggregator.records.size import ENVELOPE
from aggregator.tallies.keys import StateKey
from aggregator.tallies.tally import Tally, encode_tally
from aggregator.topics import broker_topics
from aggregator.topics.layout import GUARANTEES, layout
from aggregator.topics.sizes import LEAST, Sizes, sizes
from hubbub.definitions.catalog import Definitions, changes
from hubbub.kafka.settings import LARGEST
from oracles.query import File
from tests.queries import make_query, make_table

TABLES = {
    "small": {"domain": ["a", "b"], "oracle": "grr"},
    "named": {"domain": [f"{i:05d}" + "ä" * 40 for i in range(20_000)], "oracle": "olh"},
    "all": {"domain": 60_000, "oracle": "grr", "publish": "all", "windows": ["10s", "1m/10s", "all"]},
    "wide": {"domain": 3_000_000, "oracle": "olh"},
    "many": {"attributes": dict.fromkeys("abcdefgh", 30_000), "solution": "spl", "oracle": "grr"},
    "several": {"attributes": {"a": 500, "b": ["x", "y"]}, "solution": "spl", "oracle": "grr"},
}
COMMON = make_table(answers="once")


def query(name):
    return make_query(TABLES[name] | COMMON, name=name)


@pytest.mark.parametrize("name", TABLES)
def test_no_record_of_a_query_is_larger(name):
    results = query(name)
    need = sizes([query(name)])
    tally = Tally(np.full(results.oracle.state_size, 1 << 60), 1, 0, 0, 0, 5, 5, closed=False)
    assert len(encode_tally(tally)) <= need.tallies
    for window in results.windows:
        for _, value in split_state(StateKey(results.digest, window, 0), bytes(50 << 20)):
            assert len(value) + ENVELOPE <= LEAST
    counts = np.full(1 << 16, (1 << 62) - 1)
    parts = [Part(1 << 62, 1, counts[: domain.size], is_visible=True, is_complete=True) for domain in results.domains]
    large = [part if has else None for part, has in zip(parts, has_blocks(results), strict=True)]
    assert len(block_records.encode(Block(0, tuple(large)))) + ENVELOPE // 2 <= need.tallies
    writes = changes(File({name: results}), Definitions(), (), "0" * 16).writes
    assert sum(len(key) + len(value) for key, value in writes) <= need.definitions
    for size in (need.tallies, need.definitions, need.estimates, need.maps, need.truth):
        assert LEAST <= size <= LARGEST


def test_small_queries_fit_every_service_and_large_ones_need_more():
    assert sizes([query("small")]) == Sizes(LEAST, LEAST, LEAST, LEAST, LEAST)
    assert sizes([]).tallies == LEAST
    assert sizes([query("wide"), query("small")]).tallies == sizes([query("wide")]).tallies > 24_000_000
    settings = {topic.name: topic.settings for topic in layout("", 1, 1, LEAST, sizes([query("small")]))}
    assert int(settings["snapshots"]["max.message.bytes"]) < 8 << 20


def test_every_required_setting_has_a_sentence_with_its_consequence():
    for topic in layout("", 3, 3, LEAST):
        assert {*topic.exact, *topic.least} <= GUARANTEES.keys()


class Service(AIOKafkaAdminClient):
    """A broker whose operator allows no settings when a topic is made, and no message above 8 MiB."""

    def __init__(self):
        self.created, self.settings = [], {}

    async def create_topics(self, new):
        codes = {topic.name: 44 if topic.topic_configs else 0 for topic in new}
        self.created += [name for name, code in codes.items() if not code]
        return AsyncMock(topic_errors=[(name, code, "the policy" if code else "") for name, code in codes.items()])

    async def describe_topics(self):
        return [{"topic": name, "partitions": [{"replicas": [1]}]} for name in self.created]

    async def describe_configs(self, resources):
        entries = [
            (0, "", 2, r.name, [(k, v, 0, 1) for k, v in self.settings.get(r.name, {}).items()]) for r in resources
        ]
        return [AsyncMock(resources=entries)]

    async def alter_configs(self, resources):
        [resource] = resources
        large = int(resource.configs.get("max.message.bytes", 0)) > 8 << 20
        if not large:
            self.settings[resource.name] = dict(resource.configs)
        return [AsyncMock(resources=[(44 if large else 0, "at most 8388608" if large else "", 2, resource.name)])]


async def made(topics):
    service = Service()
    return service, await broker_topics.create(service, topics)


def test_a_service_that_allows_no_settings_at_first_gets_them_one_by_one():
    topics = layout("", 1, 1, LEAST)
    service, refusals = asyncio.run(made(topics))
    assert {one.topic for one in refusals} == {
        "snapshots",
        "queries",
        "estimates",
        "maps",
        "truth",
        "worker-tallies-changelog",
    }
    assert {(refusal.name, refusal.reason) for refusal in refusals} == {("max.message.bytes", "at most 8388608")}
    for topic in topics:
        lacking = {"max.message.bytes"} if topic.name in {refusal.topic for refusal in refusals} else set()
        assert service.settings[topic.name].keys() == topic.settings.keys() - lacking
    service, refusals = asyncio.run(made(layout("", 1, 1, LEAST, sizes([query("small")]))))
    assert refusals == []
