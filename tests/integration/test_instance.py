"""Workers with a name in their group (HUBBUB_INSTANCE) on a real Kafka: who comes back, leaves, and must end."""

import asyncio
import signal

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.group import members
from tests.integration.queries import PAGE, PATIENT
from tests.integration.workers import Place, until

SLOW = """\
import dataclasses
from hubbub.kafka import settings
settings.APACHE = dataclasses.replace(settings.APACHE, session_seconds=600.0)
"""
"""A session that is longer than any start of a worker on a slow machine."""


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        place.define(PATIENT)
        yield place


def start(place, name="one", patch=None, **env):
    return place.start(patch=patch, HUBBUB_INSTANCE=name, **env)


def generations(worker):
    return [event["generation"] for event in worker.events("recovered")]


def group(place):
    async def run():
        async with started(AIOKafkaAdminClient(**client_arguments(place.kafka)), place.kafka) as admin:
            return await members(admin, place.kafka)

    return asyncio.run(run())


def send(place, times=1):
    """Send frames of the present pane."""
    place.send(*[(p, place.frame("page", [0, 1, 2])) for p in range(2)] * times)


def check(place, reports):
    """Check that each report counts once."""
    verdict = place.verdict()
    assert verdict.exact, verdict
    assert verdict.reports == reports


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_comes_back_under_its_name_changes_nothing_in_the_group(place, end):
    worker = start(place, patch=SLOW).ready()
    second_worker = start(place, "two", SLOW).ready()
    until(lambda: len(group(place)) == 2)
    until(lambda: generations(worker) and generations(worker)[-1] == generations(second_worker)[-1])
    earlier_generation = generations(worker)[-1]
    send(place, 20)
    worker.signal(end)
    assert worker.wait() == (0 if end == signal.SIGTERM else -signal.SIGKILL)
    send(place)
    returned = start(place, patch=SLOW).ready()
    assert generations(returned) == [earlier_generation]
    assert generations(second_worker)[-1] == earlier_generation, "nobody else took its partitions"
    check(place, 126)


@pytest.mark.parametrize("freeze", [False, True])
def test_the_older_of_two_processes_with_one_name_ends_and_counts_nothing_more(place, freeze):
    older = start(place).ready()
    send(place, 10)
    until(lambda: older.total("hubbub_reports_total") == 60)
    if freeze:
        older.signal(signal.SIGSTOP)
    newer = start(place).ready()
    send(place, 10)
    older.signal(signal.SIGCONT)
    assert older.wait() == 4
    [event] = [event for event in older.events() if event["level"] == "critical"]
    assert "another process has started with the name 'one' (HUBBUB_INSTANCE)" in event["message"]
    assert newer.ready().running
    check(place, 120)


def test_a_process_whose_session_ended_joins_again_if_its_name_is_free(place):
    worker = start(place).ready()
    worker.signal(signal.SIGSTOP)
    until(lambda: not group(place))
    send(place)
    worker.signal(signal.SIGCONT)
    until(lambda: worker.running and len(generations(worker)) > 1)
    worker.ready()
    check(place, 6)


def test_a_worker_gives_its_name_up_at_sigterm_only_if_it_is_told_to(place):
    assert start(place, "stays", SLOW).ready().stop() == 0
    assert start(place, "leaves", SLOW, HUBBUB_LEAVE="1").ready().stop() == 0
    assert len(group(place)) == 1
    assert place.start("--instance", "stays", "--leave", patch=SLOW).ready().stop() == 0
    assert not group(place)
