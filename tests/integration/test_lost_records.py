"""Records that were deleted before a worker read them: it reports how many, flags their windows, and goes on."""

import signal
import time

import orjson
import pytest

from tests.integration.admin import delete_before
from tests.integration.queries import PAGE, PATIENT
from tests.integration.workers import Place, until


@pytest.fixture
def on_kafka(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def flags(place):
    """By the end of the shortest windows, what their records are flagged with."""
    records = [orjson.loads(value) for versions in place.finals().values() for value in versions]
    short = [record for record in records if record["window"]["kind"] == "tumbling"]
    return {record["window"]["end"]: record["quality"]["flags"] for record in short}


def test_reports_that_were_deleted_while_nobody_read_are_told_and_counting_goes_on(on_kafka):
    place = on_kafka
    place.define(PATIENT.replace("10s", "20s"))
    one = place.start().ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: one.total("hubbub_reports_total"))
    assert one.stop() == 0
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 5)
    delete_before(place.kafka, 0, offsets[3])
    two = place.start().ready()
    until(lambda: two.total("hubbub_reports_total") == 2)
    assert two.total("hubbub_lost_records_total") == 3
    [lost] = two.events("lost: the log was deleted before it was read")
    assert (lost["partition"], lost["lost"]) == (0, 3)
    later = int(time.time()) + 5  # it might not have held what was lost
    until(lambda: time.time() > later)
    place.send((0, place.frame("page", [2], later)))
    said = until(lambda: (said := flags(place)) and later + 1 in said and said)
    assert said == {pane + 1: ["incomplete"], later + 1: []}


def test_so_are_those_that_a_slow_worker_has_not_come_to(on_kafka):
    place = on_kafka
    place.define(PATIENT)
    one = place.start().ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: one.total("hubbub_reports_total"))
    one.signal(signal.SIGSTOP)  # for less than the session
    place.send((0, place.frame("page", [1], pane)))  # the fetch that is under way may bring it
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 9)
    delete_before(place.kafka, 0, offsets[-1])
    one.signal(signal.SIGCONT)
    until(lambda: one.total("hubbub_lost_records_total") >= 8)
    assert len(one.events("recovered")) == 1, "it was frozen for too long to show anything"
    until(lambda: one.total("hubbub_reports_total") >= 2)


def test_what_was_deleted_before_anybody_read_is_not_lost(on_kafka):
    place = on_kafka
    place.define(PATIENT)
    for partition in range(place.partitions):
        offsets = place.send(*[(partition, place.frame("page", [0]))] * 5)
        delete_before(place.kafka, partition, offsets[3])
    several = [place.start() for _ in range(2)]
    for one in several:
        one.ready()
    until(lambda: sum(one.total("hubbub_reports_total") for one in several) >= 4)
    assert not sum(one.total("hubbub_lost_records_total") for one in several)
