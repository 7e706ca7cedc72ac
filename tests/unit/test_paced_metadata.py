"""A client looks for missing leaders ten times a second, and not as fast as it can."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.client import AIOKafkaClient

from hubbub.kafka.patches import paced_metadata

LEADERS = {"a": {0: 1, 1: 1}, "b": {0: 1}}


class Cluster:
    """What a client knows of a cluster."""

    def __init__(self, leaders):
        self.leaders = leaders

    def topics(self):
        return set(self.leaders)

    def partitions_for_topic(self, topic):
        return set(self.leaders[topic])

    def available_partitions_for_topic(self, topic):
        return {partition for partition, leader in self.leaders[topic].items() if leader != -1}


@pytest.mark.parametrize(
    ("is_updated", "leaders", "pauses"),
    [(True, LEADERS, False), (False, LEADERS, True), (True, LEADERS | {"b": {0: -1}}, True), (True, {}, False)],
)
def test_a_client_pauses_if_no_broker_answers_or_a_leader_is_missing(monkeypatch, is_updated, leaders, pauses):
    async def update(*_):
        return is_updated

    naps = []

    async def sleep(seconds):
        naps.append(seconds)

    monkeypatch.setattr(paced_metadata, "_update", update)
    monkeypatch.setattr(paced_metadata.asyncio, "sleep", sleep)
    assert asyncio.run(paced_metadata._paced_update(SimpleNamespace(), Cluster(leaders), [])) is is_updated
    assert naps == [paced_metadata.PAUSE] * pauses


def test_the_client_of_aiokafka_calls_what_is_replaced():
    assert "_metadata_update" in AIOKafkaClient._md_synchronizer.__code__.co_names
