"""A worker that is killed or stopped. The next one counts each frame once and reads nothing twice."""

import time

import pytest

from oracles.frame import TICK
from tests.integration.queries import PAGE, PATIENT
from tests.integration.workers import EITHER, Place, until


@pytest.fixture
def place(broker, tmp_path):
    with Place(broker, tmp_path, PAGE) as place:
        yield place


@pytest.mark.long
@EITHER
def test_a_frame_with_an_id_counts_once_despite_crashes(place):
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    frame = place.frame("page", [0] * 5, pane, number=2)
    place.send((0, frame), (0, frame))
    until(lambda: one.total("hubbub_reports_total"))
    one.kill()  # most likely before a checkpoint
    place.send((0, frame))
    two = place.start().ready()
    until(lambda: two.total("hubbub_rejected_total"))
    time.sleep(1)  # and now after one
    two.kill()
    place.send((0, frame))
    three = place.start().ready()
    until(lambda: three.total("hubbub_rejected_total"))
    verdict = place.verdict(pane)
    assert verdict.exact, verdict
    assert verdict.reports == 5


@EITHER
def test_after_a_graceful_stop_the_next_worker_reads_nothing_twice(place):
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    place.send(*[(p, place.frame("page", [0, 1, 2], pane)) for p in range(2)] * 20)
    until(lambda: one.total("hubbub_frames_total") == 40)
    assert one.stop() == 0
    [offset] = place.send((0, b"nobody has read this"))
    two = place.start().ready()
    recovery = two.events("recovered")[0]
    between = range(recovery["offsets"]["0"], offset)  # a tick may still have been on its way when the first one left
    assert all(r.value == TICK for r in place.read("reports") if r.partition == 0 and r.offset in between)
    until(lambda: two.total("hubbub_rejected_total"))
    assert not two.total("hubbub_reports_total")
    verdict = place.verdict(pane)
    assert verdict.exact, verdict
    assert verdict.reports == 120


def test_a_killed_worker_leaves_nothing_in_the_temporary_folder(place, tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    place.start(TMPDIR=str(folder)).ready().kill()
    assert not list(folder.iterdir())
