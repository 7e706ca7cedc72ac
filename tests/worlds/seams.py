"""The seams: the outside of product code, replaced by the parts of a world."""

import gc
import logging
import sys
from contextlib import contextmanager
from unittest.mock import patch

import aiokafka
import aiokafka.admin

from aggregator.counting import faust_group, faust_patches
from aggregator.publishing import service
from aggregator.publishing.finals import estimator_pool
from aggregator.topics import identity
from aggregator.worker import worker
from hubbub import outside
from hubbub.command import exit as command_exit
from hubbub.definitions import definition_record, follower, table
from hubbub.kafka import broker_probe, log_reader
from hubbub.kafka import clients as kafka_clients
from hubbub.kafka.broker_probe import Port
from hubbub.kafka.settings import REPORTS
from tests.worlds import admin, clients
from tests.worlds.estimator import EstimatorInPlace
from tests.worlds.group import SimulatedGroup

LOOKS = (
    (log_reader, "POLL_MS", 5000),
    (follower, "PAUSE", 1.0),
    (service, "POLL_MS", 400),
    (service, "SHORT_POLL_MS", 100),
    (worker, "LOOK", 0.25),
    (worker, "BEAT", 1.0),
)
"""Pauses between two looks at something that has not changed. Longer ones save a third of the time of a world."""
_queries = {}


def query_of(name, definition):
    """Return the query of a table. Each process of a world reads the same few definitions."""
    text = repr((name, definition))
    if text not in _queries:
        _queries[text] = table.query_of(name, definition)
    return _queries[text]


@contextmanager
def seams(world):
    """Replace the outside of product code."""
    clients.Client.world = world
    EstimatorInPlace.world = world

    def group(kafka, *_):
        return SimulatedGroup(world, kafka.topic(REPORTS))

    async def explained(error, _):
        return error

    async def ports(servers):
        port = Port.ABSENT if world.network_is_down(world.running) else Port.PLAIN
        return dict.fromkeys(servers.split(","), port)

    fail = command_exit.Ending.fail

    def note_failure(ending, error):
        world.running.failure = world.running.failure or error
        fail(ending, error)

    places = [
        (command_exit.Ending, "fail", note_failure),
        (outside, "monotonic", lambda: 1000.0 + world.now),
        (outside, "wall", world.wall),
        (outside, "random_hex", world.random_hex),
        (aiokafka, "AIOKafkaProducer", clients.Producer),
        (aiokafka, "AIOKafkaConsumer", clients.Consumer),
        (aiokafka.admin, "AIOKafkaAdminClient", admin.Admin),
        (kafka_clients, "_explained", explained),
        (broker_probe, "ask", ports),
        (identity, "topic_ids", admin.topic_ids),
        (faust_group, "build_group", group),
        (faust_patches, "tune", lambda: None),
        (estimator_pool, "Estimator", EstimatorInPlace),
        (command_exit, "_exit_after", lambda *_: None),
        (sys, "unraisablehook", lambda _: None),
        (definition_record, "query_of", query_of),
        *LOOKS,
    ]
    patches = [patch.object(*place) for place in places]
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        for each in patches:
            each.start()
        yield
    finally:
        for each in reversed(patches):
            each.stop()
        # Otherwise the classes would keep the world, and free it only when the interpreter ends.
        clients.Client.world = None
        EstimatorInPlace.world = None
        gc.enable()
        logging.disable(level)
