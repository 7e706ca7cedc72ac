"""Writes that Kafka does not acknowledge end the readiness of a worker, and never the worker itself.

The death of one of three brokers does not even end its readiness.
"""

import time

import pytest

from aggregator.worker.worker import WRITE_PATIENCE
from tests.integration.admin import change_settings
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

HASTE = "from aggregator.worker import worker\nworker.WRITE_PATIENCE = 3.0"
ATTENTION = f"""
{HASTE}
from aiokafka.client import AIOKafkaClient
from hubbub.kafka import outbox
outbox.REQUEST_TIMEOUT_MS = 1000

def create(self, *, create=AIOKafkaClient.__init__, **settings):
    create(self, **(settings | {{"metadata_max_age_ms": 50}}))

AIOKafkaClient.__init__ = create
"""
"""It lets clients see what a broker says just before it stops, and lets batches expire soon."""
CHANGELOG, INSYNC = "worker-tallies-changelog", "min.insync.replicas"
ATTEMPTS = 3
"""Number of deaths. The shortest wait counts, because a busy machine delays the election of leaders."""
LOOKS, PAUSE = 100, 0.25


def longest_wait(cluster, worker):
    """Return the longest time that a write of the worker waits when a broker dies."""
    cluster.kill(0)
    ages = []
    for _ in range(LOOKS):
        ages.append(worker.total("hubbub_unacknowledged_seconds"))
        time.sleep(PAUSE)
    cluster.heal()
    return max(ages)


@pytest.mark.long
def test_the_death_of_one_of_three_brokers_leaves_a_worker_ready(cluster, tmp_path):
    with Place(cluster, tmp_path, PAGE, partitions=6) as place:
        worker = place.start().ready()
        waits = []
        while not waits or (waits[-1] > WRITE_PATIENCE and len(waits) < ATTEMPTS):
            waits.append(longest_wait(cluster, worker))
        assert 0 < waits[-1] < WRITE_PATIENCE, waits


@pytest.mark.long
def test_a_worker_is_not_ready_while_too_few_replicas_are_in_sync(cluster, tmp_path):
    with Place(cluster, tmp_path, PAGE) as place:
        worker = place.start(patch=HASTE).ready()
        change_settings(place.kafka, CHANGELOG, {INSYNC: "3"})
        cluster.kill(0)
        place.send(*[(partition, place.frame("page", [0, 1])) for partition in range(2)])
        until(lambda: "Kafka has not acknowledged a write for" in worker.get("/readyz")[1])
        assert worker.total("hubbub_unacknowledged_seconds") > 3
        cluster.heal()
        worker.ready()
        assert place.verdict().exact


@pytest.mark.parametrize(
    ("patch", "seconds"),
    [pytest.param(ATTENTION, 8, id="soon"), pytest.param(None, 45, id="late", marks=pytest.mark.long)],
)
def test_a_worker_waits_after_the_only_broker_has_stopped_in_order(lone_kafka, tmp_path, patch, seconds):
    """Before it stops, such a broker says that no partition has a leader. aiokafka lets batches without one expire."""
    with Place(lone_kafka, tmp_path, PAGE) as place:
        worker = place.start(patch=patch).ready()
        place.send(*[(partition, place.frame("page", [0, 1])) for partition in range(2)])
        lone_kafka.nodes[0].keeper.stop()
        time.sleep(seconds)
        assert worker.running
        until(lambda: worker.get("/readyz")[0] == 503)
        lone_kafka.heal()
        worker.ready()
        place.send(*[(partition, place.frame("page", [1, 2])) for partition in range(2)])
        assert place.verdict().exact


def test_a_worker_stops_in_time_after_the_only_broker_has_stopped_in_order(lone_kafka, tmp_path):
    with Place(lone_kafka, tmp_path, PAGE) as place:
        worker = place.start(patch=ATTENTION).ready()
        lone_kafka.nodes[0].keeper.stop()
        until(lambda: worker.get("/readyz")[0] == 503)
        assert worker.stop() == 0
