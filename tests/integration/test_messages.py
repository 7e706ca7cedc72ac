"""Messages that name the cause: for each one what happens to a worker, its exit code and its words."""

import pytest

from tests.integration.queries import PAGE
from tests.integration.workers import Place, until

CLOCK = "import time\nfrom hubbub import outside\nwall = time.time\noutside.wall = time.time = lambda: wall() + {seconds}"
"""A patch for a machine whose clock is wrong."""


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE) as place:
        yield place


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3600, "the clock of this machine is 3,600 s behind the brokers'"),
        (3600, "the clock of this machine is 3,600 s ahead of the brokers'"),
    ],
)
def test_a_wrong_clock_of_the_own_machine_is_one_warning(place, seconds, words):
    worker = place.start(patch=CLOCK.format(seconds=seconds)).ready()
    until(lambda: worker.running and words in worker.log_text)
    # A tick can take a while on a busy machine, and only what is certain counts.
    [(_, offset)] = worker.metrics()["hubbub_clock_offset_seconds"]
    assert offset == pytest.approx(seconds, abs=30)
    assert all(ahead < 2 for _, ahead in worker.metrics()["hubbub_clock_ahead_seconds"])
    assert worker.stop() == 0
    assert not worker.events_of("critical")
    assert len([event for event in worker.events_of("warning") if words in event["message"]]) == 1
