"""The watchdog beside a real worker: what hangs in silence is ended, what only waits is left alone."""

import time

import pytest

from tests.brokers import Tansu
from tests.integration.workers import Place, until

QUERIES = """\
[queries.page]
domain = 64
oracle = "grr"
epsilon = 2.0
pane = "1s"
lateness = "30s"
"""
HASTE = """
import functools, time
from aggregator import asking, counting, watchdog, worker
asking.PATIENCE, watchdog.LOOK_AGAIN = 2.0, 1.0
worker.Watchdog = functools.partial(watchdog.Watchdog, patience={patience})
"""
DROPS = "counting.Counting._take = lambda *_: None"
BLOCKS = "counting.Counting._take = lambda *_: time.sleep(600)"
NO_TICKS = """
import asyncio
worker.Worker._tick = lambda _: asyncio.Event().wait()
"""
TELLS = """
import logging
judge = watchdog.Watchdog._judge
async def told(self, still, positions):
    logging.getLogger("aggregator").info("asking", extra={"still": still})
    await judge(self, still, positions)
watchdog.Watchdog._judge = told
"""


@pytest.fixture
def place(broker, tmp_path):
    with Place(broker, tmp_path, QUERIES) as place:
        yield place


@pytest.mark.parametrize("hang", [DROPS, BLOCKS], ids=["records are dropped", "the event loop stands still"])
def test_a_worker_that_hangs_is_ended_and_says_so(place, hang):
    one = place.start(patch=HASTE.format(patience=2.0) + hang)
    assert one.wait() == 1
    [hung] = [event for event in one.events() if event["level"] == "critical"]
    assert hung["message"].startswith("hung: partition ")
    assert "is there to be read" in hung["message"]


def test_a_worker_without_anything_to_read_is_left_alone(place):
    one = place.start(patch=HASTE.format(patience=1.0) + NO_TICKS + TELLS).ready()
    until(lambda: one.events("asking"))
    place.send((0, place.frame("page", [0])))  # at this moment the watchdog looks for it too
    until(lambda: one.total("hubbub_reports_total"))
    asked = len(one.events("asking"))
    until(lambda: one.running and len(one.events("asking")) > asked)


def test_a_worker_whose_broker_is_away_is_left_alone(tmp_path):
    with Tansu() as broker, Place(broker, tmp_path, QUERIES) as place:
        one = place.start(patch=HASTE.format(patience=1.0)).ready()
        place.send((0, place.frame("page", [0])))
        until(lambda: one.total("hubbub_reports_total"))
        broker.stop()
        until(lambda: "the watchdog gets no answer" in one.said)
        assert "hung" not in one.said


def test_a_worker_whose_checkpoints_are_far_apart_is_left_alone(tansu, tmp_path):
    """Where the budget is small, what is read is not acknowledged for long."""
    with Place(tansu, tmp_path, QUERIES) as place:
        one = place.start("--checkpoint-bytes-per-s", "20", patch=HASTE.format(patience=1.0)).ready()
        place.send((0, place.frame("page", [0])), (1, place.frame("page", [0])))
        time.sleep(12)
        assert one.running
        assert one.total("hubbub_reports_total") == 2
