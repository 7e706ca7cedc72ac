"""The watchdog of a real worker. It ends a worker that hangs, and leaves a worker alone that only waits."""

import pytest

from tests.brokers import Tansu
from tests.integration.workers import EITHER, Place, until
from tests.queries import LIVE, make_text
from tests.slowness import slowness

pytestmark = pytest.mark.waits
QUERIES = make_text("page", LIVE, domain=64, oracle="grr", epsilon=2.0, lateness="30s") + make_text(
    "quick", crowd=1, domain=4, oracle="grr", epsilon=2.0, pane="1s", lateness="0s"
)
HASTE = """
import asyncio, functools, time
from aggregator.counting import app
from aggregator.merging import snapshot_reader
from aggregator.process import liveness, watchdog
from aggregator.publishing.finals import estimator_pool
from aggregator.worker import start, worker
from hubbub.kafka import offsets
offsets.PATIENCE, watchdog.LOOK_AGAIN = 2.0, 1.0
start.Watchdog = functools.partial(watchdog.Watchdog, haste={haste})
"""
DROPS = "app.CountingApp._take = lambda *_: None"
BLOCKS = "app.CountingApp._take = lambda *_: time.sleep(600)"
NEVER_STARTS = """
async def never(*_): await asyncio.Event().wait()
start.verify = never
"""
NEVER_RECOVERS = """
async def never(*_): await asyncio.Event().wait()
app.CountingApp.recover = never
"""
NEVER_BUILDS = "estimator_pool.Estimator._send = lambda *_: time.sleep(600)"
NEVER_READS = """
async def never(*_): await asyncio.Event().wait()
snapshot_reader.SnapshotReader.take = never
"""
FOR_EVER = """
async def never(*_): await asyncio.Event().wait()
worker.Checkpoints.run = never
"""
SOON = """
watchdog.PROBE = 1.0  # that the broker is silent is known before anything seems to hang
watchdog.GONE = 100.0  # long after the end of readiness, as 300 s are
"""
NO_TICKS = "worker.Worker._tick = lambda _: asyncio.Event().wait()"
SILENT = """
from aggregator.counting import recovery
def silent(question):
    times = iter(range(2))
    async def ask(*given):
        if next(times, None) is not None:
            raise TimeoutError
        return await question(*given)
    return ask
app.identify = silent(app.identify)
offsets.OffsetLookup.ends = silent(offsets.OffsetLookup.ends)
recovery.Recovery._read = silent(recovery.Recovery._read)
"""
LOOKS = """
import logging
find = liveness.Liveness.find_hung
def told(self, beat, time):
    logging.getLogger("aggregator").info("looking")
    return find(self, beat, time)
liveness.Liveness.find_hung = told
"""
TELLS = """
import logging
ask = watchdog.Watchdog._ask
async def told(self, found, part):
    if found and part == "reports":
        logging.getLogger("aggregator").info("asking")
    await ask(self, found, part)
watchdog.Watchdog._ask = told
"""


def hasten(haste):
    """Return code that shortens the limits of the watchdog by a factor, less so on a slow machine."""
    return HASTE.format(haste=haste * slowness())


@pytest.fixture
def place(broker, tmp_path):
    with Place(broker, tmp_path, QUERIES) as place:
        yield place


def check_hang(place, hang, text):
    # A start that hangs has the longest limit, and no part of it can hang too early.
    worker = place.start(patch=hasten(0.03 if hang == NEVER_STARTS else 0.12) + hang)
    if hang == NEVER_BUILDS:
        until(lambda: "recovered" in worker.log_text)
        place.send((0, place.frame("quick", [0])))
    assert worker.wait() == 1
    [event] = [event for event in worker.events() if event["level"] == "critical"]
    assert event["message"].startswith("hung: ")
    assert text in event["message"]


@pytest.mark.parametrize(
    ("hang", "text"), [(DROPS, "of reports at offset 0"), (NEVER_READS, "the merger")], ids=["drops", "never reads"]
)
def test_a_worker_that_stops_reading_is_ended_and_logs_why(place, hang, text):
    check_hang(place, hang, text)


@EITHER
@pytest.mark.parametrize(
    ("hang", "text"),
    [
        pytest.param(BLOCKS, "for ", id="blocks"),  # of the event loop, or of unread records: which comes first
        pytest.param(NEVER_STARTS, "the start", id="never starts"),
        pytest.param(NEVER_RECOVERS, "the assignment of partitions", id="never recovers"),
        pytest.param(NEVER_BUILDS, "the merger", id="never builds"),
    ],
)
def test_a_worker_that_hangs_is_ended_and_logs_why(place, hang, text):
    """The watchdog notices these without a request to the broker."""
    check_hang(place, hang, text)


def test_a_worker_without_anything_to_read_is_left_alone(place):
    worker = place.start(patch=hasten(0.1) + NO_TICKS + TELLS).ready()
    until(lambda: worker.events("asking"))
    place.send((0, place.frame("page", [0])))  # at this moment the watchdog looks for it too
    until(lambda: worker.total("hubbub_reports_total"))
    requests = len(worker.events("asking"))
    until(lambda: worker.running and len(worker.events("asking")) > requests)


def test_a_worker_without_its_broker_is_left_alone(tmp_path):
    with Tansu() as broker, Place(broker, tmp_path, QUERIES) as place:
        worker = place.start(patch=hasten(0.1)).ready()
        place.send((0, place.frame("page", [0])))
        until(lambda: worker.total("hubbub_reports_total"))
        broker.stop()
        until(lambda: "watchdog: no broker answers" in worker.log_text)
        assert "hung" not in worker.log_text


def test_a_worker_with_rare_checkpoints_is_left_alone(tansu, tmp_path):
    """With a small write budget, the reports wait long for an acknowledgement."""
    with Place(tansu, tmp_path, QUERIES) as place:
        limit = 25 * 0.25 * slowness()
        worker = place.start("--checkpoint-bytes-per-s", "20", patch=hasten(0.25) + LOOKS).ready()
        place.send((0, place.frame("page", [0])), (1, place.frame("page", [0])))
        until(lambda: worker.total("hubbub_reports_total") == 2)
        looks = len(worker.events("looking"))
        # With a usual budget, a standstill of this length is a hang. The watchdog looks once a second of its clock.
        until(lambda: worker.running and len(worker.events("looking")) > looks + limit + 4)


def test_a_worker_that_starts_without_an_answer_of_the_broker_waits(kafka, tmp_path):
    """The first look of the watchdog once took Faust's tables for those of another loop."""
    with Place(kafka, tmp_path, QUERIES) as place:
        worker = place.start(patch=hasten(1.0))
        until(lambda: "http://" in worker._output.read_text())
        kafka.freeze(0)
        try:
            until(lambda: "watchdog: no broker answers" in worker.log_text)
        finally:
            kafka.resume(0)
        worker.ready()
        assert worker.stop() == 0
        assert "critical" not in worker.log_text


def test_a_recovery_without_an_answer_asks_again(kafka, tmp_path):
    """A frozen broker once ended six workers of a campaign with code 1."""
    with Place(kafka, tmp_path, QUERIES) as place:
        worker = place.start(patch=hasten(1.0) + SILENT).ready()
        assert "trying again" in worker.log_text
        assert worker.stop() == 0
        assert "critical" not in worker.log_text


def test_without_a_broker_a_worker_is_not_ready_and_exits_in_the_end(kafka, tmp_path):
    with Place(kafka, tmp_path, QUERIES) as place:
        one = place.start(patch=hasten(0.1) + FOR_EVER + SOON).ready()
        kafka.freeze(0)
        try:
            until(lambda: one.get("/readyz") == (503, one.get("/readyz")[1]) and "no broker" in one.get("/readyz")[1])
            assert one.wait() == 3, one.log_text
        finally:
            kafka.resume(0)
        assert "no broker at" in one.events()[-1]["message"]


@EITHER
def test_a_worker_that_merges_nothing_for_long_logs_it(place):
    worker = place.start(patch=hasten(20.0) + NEVER_BUILDS).ready()
    place.send((0, place.frame("quick", [0])))
    until(lambda: worker.total("hubbub_publish_lag_seconds") > 3)
    until(lambda: worker.total("hubbub_lag_seconds") < 3)  # it goes on reading, which may be late for a moment
