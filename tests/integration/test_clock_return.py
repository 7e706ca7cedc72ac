"""The rise to clock records and the return from them, on a real Kafka. Both may be killed at any step and run again."""

import asyncio

import pytest

from aggregator.tallies import clock_record, keys, progress
from aggregator.tallies.keys import PartitionKey
from aggregator.topics import command as topics
from aggregator.topics import formats_return
from hubbub.definitions import formats, formats_record
from hubbub.definitions.formats import Formats, release
from hubbub.kafka.outbox import Outbox
from tests.integration.admin import delete, recreate
from tests.integration.queries import PATIENT
from tests.integration.workers import Place, until


class Killed(Exception):
    """The end of a command between two of its writes."""


class MortalOutbox(Outbox):
    """An outbox whose process dies at one of its writes."""

    writes_to_come = 0

    async def write(self, *arguments, **more):
        self.count()
        return await super().write(*arguments, **more)

    async def send(self, *arguments, **more):
        self.count()
        return await super().send(*arguments, **more)

    @classmethod
    def count(cls):
        if cls.writes_to_come == 0:
            raise Killed
        cls.writes_to_come -= 1


@pytest.fixture
def place(kafka, tmp_path):
    with Place(kafka, tmp_path, PATIENT) as place:
        recreate(place.kafka, "queries", 1)
        place.send((0, formats.newest_value(), formats.KEY), topic="queries")
        yield place


def live(place, topic, partitions=None):
    newest = {(r.partition, r.key): r.value for r in place.read(topic, partitions)}
    return {name: value for name, value in newest.items() if value is not None}


def progress_by_partition(place):
    """Return the progress of each partition, and the version of each of its records."""
    records = {}
    versions = []
    for (_, name), value in live(place, "worker-tallies-changelog").items():
        key = keys.decode(name)
        if isinstance(key, PartitionKey):
            records.setdefault(key.partition, []).append(progress.decode(value))
            versions.append(value[0])
    return {partition: progress.combine(group) for partition, group in records.items()}, versions


def ends(place):
    """Return all that a restart reads from progress: the offset, its clock, and the closed panes of each query."""
    definitions = place.definitions().versions
    combined, _ = progress_by_partition(place)
    return {
        partition: (each.next_offset, each.clock, {d: each.closed_through(v) for d, v in definitions.items()})
        for partition, each in combined.items()
    }


def watermarks(place):
    return {name for _, name in live(place, "snapshots") if name.startswith(b"watermark")}


def run(place, *more):
    return topics.main(["--kafka", place.kafka.servers, "--prefix", place.kafka.prefix, *more])


@pytest.mark.waits
def test_a_return_that_is_killed_at_each_step_and_a_second_rise_lose_nothing(place, monkeypatch):
    worker = place.start().ready()
    place.send(*((p, place.frame("page", [0, 1, p], number=10 + p)) for p in range(2)))
    assert place.verdict().exact
    place.send(*((p, place.frame("page", [2], number=12 + p)) for p in range(2)))
    until(lambda: worker.total("hubbub_frames_total") == 4)
    assert worker.stop() == 0
    assert not watermarks(place)
    assert set(progress_by_partition(place)[1]) == {3}
    ends_before = ends(place)
    monkeypatch.setattr(formats_return, "Outbox", MortalOutbox)
    steps = 0
    while True:
        MortalOutbox.writes_to_come = steps
        steps += 1
        try:
            assert run(place, "--lower-formats") == 0
            break
        except Killed:
            assert ends(place) == ends_before
            assert set(progress_by_partition(place)[1]) <= {1, 2, 3}
    assert steps > 5
    MortalOutbox.writes_to_come = -1
    assert asyncio.run(formats_record.look_up(place.kafka)) == Formats(2, release())
    assert ends(place) == ends_before
    assert set(progress_by_partition(place)[1]) <= {1, 2}
    assert {keys.decode(name).partition for name in watermarks(place)} == {0, 1}
    assert not live(place, "clocks", 1)

    assert run(place, "--raise-formats") == 0
    [(_, name)] = live(place, "clocks", 1)
    assert name == clock_record.RAISE
    place.start().ready()
    place.send(*((p, place.frame("page", [1, 1], number=14 + p)) for p in range(2)))
    assert place.verdict().exact
    until(lambda: not watermarks(place))
    until(lambda: set(progress_by_partition(place)[1]) == {3})


def test_the_rise_names_the_end_of_each_partition_of_snapshots(place):
    place.send(*((1, b"junk", b"junk") for _ in range(5)), topic="snapshots")
    place.send((0, None, formats.KEY), topic="queries")
    assert run(place) == 4
    assert not live(place, "clocks", 1)
    assert run(place, "--raise-formats") == 0
    record = clock_record.decode(live(place, "clocks", 1)[0, clock_record.RAISE])
    assert (record.partitions, record.clocks.numbers.tolist()) == (2, [])
    assert dict(zip(record.offsets.numbers.tolist(), record.offsets.values.tolist(), strict=True)) == {0: 1, 1: 6}
    assert any(record.topic_ids.snapshots)


def test_a_return_without_clocks_names_the_command_that_makes_them(place, capsys):
    """Early builds of formats version 3 made a prefix without this topic, and their progress has ends by query."""
    clocks = place.kafka.topic("clocks")
    delete(place.kafka, {clocks})
    for more in ([], ["--dry-run"]):
        assert run(place, "--lower-formats", *more) == 4
        text = capsys.readouterr().err
        assert (
            f"{clocks} is missing: run `hubbub topics` to create it, then `hubbub topics --lower-formats` again" in text
        )
        assert "Nothing was changed" in text
    assert asyncio.run(formats_record.look_up(place.kafka)) == Formats(3, release())
    assert run(place) == 0
    assert run(place, "--lower-formats") == 0
    assert asyncio.run(formats_record.look_up(place.kafka)) == Formats(2, release())
