"""A real worker says in the topic `status` how far it counts, and a real board tells quiet from late by it."""

from itertools import pairwise

import orjson
import pytest

from aggregator.records.status import EVERY
from tests.boards import Board
from tests.integration.workers import Place, until
from tests.queries import LIVE, make_text

QUERIES = make_text("steps", LIVE, domain=4, epsilon=2.0, lateness="1s", windows=["1s"])


@pytest.mark.waits
def test_a_crowd_that_stops_is_quiet_and_a_dead_worker_is_late(tansu, tmp_path):
    with Place(tansu, tmp_path, QUERIES) as place:
        worker = place.start().ready()
        with Board(place.kafka) as board:
            board.ready()

            def state():
                (row,) = board.json("api/v1/overview")["queries"]
                return row["state"]

            def is_live():
                place.send((0, place.frame("steps", [1, 2, 3])))
                return state() == "live"

            assert state() == "waiting"
            until(is_live)
            last = int(place.sent_at) + 1
            until(lambda: state() == "quiet")
            (row,) = board.json("api/v1/overview")["queries"]
            assert last - 5 <= row["newest_report"] <= last
            worker.kill()
            until(lambda: state() == "late")
        records = [record for record in place.read("status") if record.key.startswith(b"steps|")]
        statuses = [orjson.loads(record.value) for record in records]
        assert {record.key.decode() for record in records} == {f"steps|{place.queries['steps'].digest.hex()}"}
        assert statuses[-1]["newest_report"] == row["newest_report"]
        ends = [status["closed_through"] for status in statuses]
        assert ends == sorted(set(ends)), "a record is written only if something changed"
        # The times of writing: how far a busy worker counts may be some seconds behind, now more and now less.
        times = [record.timestamp / 1000 for record in records]
        assert all(after - before >= EVERY - 2 for before, after in pairwise(times))
