"""The pace of fetches: few while small answers come steadily, and none waits after a quiet time or a large answer."""

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher

from hubbub.kafka.patches import paced_fetches
from hubbub.kafka.patches.paced_fetches import LARGE, PAUSE, Pace, PacedFetcher

TOPIC = "pacing.reports"
START = 2500.01 * PAUSE
"""A time at the beginning of a pause."""


def test_a_fetch_after_a_quiet_time_is_sent_at_once():
    pace = Pace()
    assert pace.wait(START) == 0.0
    pace.note_sent(START)
    assert pace.wait(START + PAUSE) == 0.0


def test_a_second_small_fetch_waits_for_at_most_a_pause():
    pace = Pace()
    for moment in (START, START + 0.3 * PAUSE, START + 0.9 * PAUSE):
        pace.note_sent(moment)
        pace.note_answer(LARGE - 1)
        assert 0.0 < pace.wait(moment) <= PAUSE


def test_the_fetches_of_all_brokers_are_sent_together():
    first_pace, second_pace = Pace(), Pace()
    first_pace.note_sent(START + 0.2 * PAUSE)
    second_pace.note_sent(START + 0.7 * PAUSE)
    moment = START + 0.8 * PAUSE
    assert first_pace.wait(moment) == second_pace.wait(moment) > 0.0


def test_a_fetch_after_a_large_answer_is_sent_at_once():
    pace = Pace()
    pace.note_sent(START)
    pace.note_answer(LARGE)
    assert pace.wait(START) == 0.0


@pytest.fixture
def pacing(monkeypatch):
    """Return a fetcher of an imaginary broker, the sizes of the answers that it will get, and the waits so far.

    Its clock stands still, because a wait is shorter if the machine is slow.
    """
    sizes, waits = [], []

    async def answer(self, assignment, node, request):
        for topic, partitions in request.topics:
            for partition, *_ in partitions:
                batches = Mock(size_in_bytes=Mock(return_value=sizes.pop(0)))
                records = SimpleNamespace(_records=batches)
                self._records[TopicPartition(topic, partition)] = SimpleNamespace(_partition_records=records)
        return True

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(fetcher.Fetcher, "_proc_fetch_request", answer)
    monkeypatch.setattr(paced_fetches.asyncio, "sleep", sleep)
    monkeypatch.setattr(paced_fetches, "time", SimpleNamespace(monotonic=lambda: START))
    monkeypatch.setattr(paced_fetches, "_paced_topics", {TOPIC})
    client = PacedFetcher.__new__(PacedFetcher)
    client._paces, client._records = {}, {}
    return client, sizes, waits


def fetch(client, topic, partitions):
    request = SimpleNamespace(topics=[(topic, [(partition, 0, 1) for partition in partitions])])
    return asyncio.run(client._proc_fetch_request(None, 1, request))


def test_the_answer_of_all_partitions_together_decides(pacing):
    client, sizes, waits = pacing
    sizes += [10, 10, LARGE // 2, LARGE // 2, 10]
    for partitions in ([0, 1], [0, 1], [0]):
        assert fetch(client, TOPIC, partitions)
    assert waits[0] == waits[2] == 0.0
    assert 0.0 < waits[1] <= PAUSE


def test_other_topics_are_fetched_at_once(pacing):
    client, sizes, waits = pacing
    sizes += [1, 1]
    assert fetch(client, "other", [0])
    assert fetch(client, "other", [0])
    assert not waits


def test_a_wait_ends_without_records_when_the_assignment_changes(pacing, monkeypatch):
    client, _, _ = pacing

    async def cancel(seconds):
        raise asyncio.CancelledError

    monkeypatch.setattr(paced_fetches.asyncio, "sleep", cancel)
    assert fetch(client, TOPIC, [0]) is False
