"""Writes that Kafka does not acknowledge end the readiness of a worker. The death of one of three brokers does not."""

import time

import pytest

from aggregator.worker.worker import WRITE_PATIENCE
from tests.integration.admin import change_settings
from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

HASTE = "from aggregator.worker import worker\nworker.WRITE_PATIENCE = 3.0"
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
        one, waits = place.start().ready(), []
        while not waits or (waits[-1] > WRITE_PATIENCE and len(waits) < ATTEMPTS):
            waits.append(longest_wait(cluster, one))
        assert 0 < waits[-1] < WRITE_PATIENCE, waits


@pytest.mark.long
def test_a_worker_is_not_ready_while_too_few_replicas_are_in_sync(cluster, tmp_path):
    with Place(cluster, tmp_path, PAGE) as place:
        one = place.start(patch=HASTE).ready()
        change_settings(place.kafka, CHANGELOG, {INSYNC: "3"})
        cluster.kill(0)
        place.send(*[(partition, place.frame("page", [0, 1])) for partition in range(2)])
        until(lambda: "Kafka has not acknowledged a write for" in one.get("/readyz")[1])
        assert one.total("hubbub_unacknowledged_seconds") > 3
        cluster.heal()
        one.ready()
        assert place.verdict().exact
