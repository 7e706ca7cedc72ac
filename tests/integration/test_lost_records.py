"""Records that were deleted before a worker read them. It reports their number, flags their windows, and goes on."""

import math
import signal
import time
from itertools import chain

import orjson
import pytest

from aggregator.counting.changelog import sort_records
from aggregator.reading.audit import command as audit
from hubbub.kafka.settings import CHANGELOG
from tests.integration.admin import delete_before
from tests.integration.queries import PAGE, PATIENT
from tests.integration.workers import Place, until
from tests.slowness import patience

LONG_SESSION = """\
import dataclasses
from hubbub.kafka import settings
settings.APACHE = dataclasses.replace(settings.APACHE, session_seconds=600.0)
"""
"""A session that is longer than a test may stop its worker."""


def patient(seconds):
    """Return a query whose reports are in time after a restart that takes these seconds on an idle machine."""
    return PATIENT.replace("10s", f"{math.ceil(patience(seconds))}s")


def next_offset(place, partition):
    """Return the offset up to which workers have counted a partition."""
    records = {record.key: record.value for record in place.read(CHANGELOG) if record.value is not None}
    by_key = sort_records(records.items(), {})[partition].progress
    return max(progress.next_offset for progress in by_key.values())


@pytest.fixture
def on_kafka(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


def flags(place):
    """Return the flags of the tumbling windows, by their end."""
    records = [orjson.loads(value) for value in chain.from_iterable(place.finals().values())]
    short_records = [record for record in records if record["window"]["kind"] == "tumbling"]
    return {record["window"]["end"]: record["quality"]["flags"] for record in short_records}


@pytest.mark.waits
def test_reports_deleted_while_no_worker_ran_are_logged_and_counting_goes_on(on_kafka):
    place = on_kafka
    place.define(patient(8))
    worker = place.start().ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: worker.total("hubbub_reports_total"))
    assert worker.stop() == 0
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 5)
    delete_before(place.kafka, 0, offsets[3])
    # Three of the reports, and the ticks that a busy worker wrote and did not count before its end.
    lost = offsets[3] - next_offset(place, 0)
    assert lost >= 3
    two = place.start().ready()
    until(lambda: two.total("hubbub_reports_total") == 2)
    assert two.total("hubbub_lost_records_total") == lost
    [event] = two.events("lost: the log was deleted before it was read")
    assert event["partition"] == 0
    assert event["lost"] == lost
    later = int(time.time()) + 5  # a pane after the deleted reports
    until(lambda: time.time() > later)
    place.send((0, place.frame("page", [2], later)))
    until(lambda: later + 1 in flags(place))
    by_end = flags(place)
    assert by_end == {pane + 1: ["incomplete"], later + 1: []}


def test_reports_deleted_ahead_of_a_slow_worker_are_logged(on_kafka):
    place = on_kafka
    place.define(patient(10))
    worker = place.start(patch=LONG_SESSION).ready()
    pane = int(time.time())
    place.send((0, place.frame("page", [0], pane)))
    until(lambda: worker.total("hubbub_reports_total"))
    worker.signal(signal.SIGSTOP)
    place.send((0, place.frame("page", [1], pane)))  # the fetch that is under way may bring it
    offsets = place.send(*[(0, place.frame("page", [1], pane))] * 9)
    delete_before(place.kafka, 0, offsets[-1])
    worker.signal(signal.SIGCONT)
    until(lambda: worker.total("hubbub_lost_records_total") >= 8)
    assert len(worker.events("recovered")) == 1, "it was frozen for too long to show anything"
    until(lambda: worker.total("hubbub_reports_total") >= 2)


def test_reports_deleted_before_the_first_worker_are_not_lost(on_kafka):
    place = on_kafka
    place.define(PATIENT)
    for partition in range(place.partitions):
        offsets = place.send(*[(partition, place.frame("page", [0]))] * 5)
        delete_before(place.kafka, partition, offsets[3])
    several = [place.start() for _ in range(2)]
    for worker in several:
        worker.ready()
    until(lambda: sum(worker.total("hubbub_reports_total") for worker in several) >= 4)
    assert not sum(worker.total("hubbub_lost_records_total") for worker in several)


@pytest.mark.waits
def test_the_audit_starts_its_marks_again_behind_lost_reports(on_kafka, capsys):
    """The log has lost reports that a worker counted, and reports that nobody counted."""
    place = on_kafka
    arguments = ["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix]
    place.define(patient(8).replace("crowd = 1", "crowd = 4").replace('"1s", ', '"1s", "2s", '))
    worker = place.start().ready()
    first_second = int(time.time())
    place.send((0, place.frame("page", [0] * 5, first_second)))
    until(lambda: worker.total("hubbub_reports_total"))
    assert worker.stop() == 0
    offsets = place.send(*[(0, place.frame("page", [1], first_second))] * 5)
    delete_before(place.kafka, 0, offsets[3])
    two = place.start().ready()
    last_second = int(time.time()) + 12
    for pane, n in enumerate([5, 2, 3, 1, 6, 5, 0, 4, 7, 2], last_second - 10):
        until(lambda pane=pane: time.time() > pane)
        place.send((pane % 2, place.frame("page", [2] * n, pane)))
    until(lambda: two.running and max(flags(place), default=0) >= last_second)
    assert flags(place)[first_second + 1] == ["incomplete"]

    def compared(*options):
        capsys.readouterr()
        assert audit.main([*arguments, *options]) == 0, capsys.readouterr().err
        right, text = capsys.readouterr().out.split(" ", 1)
        assert "windows of page from an incomplete one to the end of the next one with values" in text
        return int(right)

    assert compared() > 5
    assert compared("--from", str(last_second - 8)) > 5
    key = max(key for key in place.finals() if b"|hopping|" in key)
    place.send(*[(partition, b"{}", key) for partition in range(2)], topic="estimates")
    for options in ([], ["--from", str(last_second - 8)]):
        assert audit.main([*arguments, *options]) == 4
        assert f"{key.decode()}: differs from the log" in capsys.readouterr().err
