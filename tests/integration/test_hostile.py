"""Strange batches in every topic. Workers go on, and the finals are right."""

import asyncio
import re
from pathlib import Path

import pytest

from hubbub.kafka.settings import ALERTS, CHANGELOG, CLOCKS, ESTIMATES, QUERIES, SNAPSHOTS, TRUTH
from tests.integration.workers import Place, until
from tests.queries import make_text
from tests.strangers import append, batch, bomb, record

# Each report must count, and a busy machine may take seconds to send one.
PAGE_TIMES = {"budget": 1e9, "pane": "1s", "lateness": "4s", "skew": "3s", "windows": ["1s", "all"]}
PAGE = make_text("page", PAGE_TIMES, domain=["a", "b", "c"], oracle="grr", epsilon=2.0)
MIB = 1 << 20
MEMORY = 700
"""MiB of a worker at most. It may hold a few inflated batches in addition to its usual memory."""


def memory(worker):
    """Return the most memory that this worker has had, in MiB."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10


@pytest.mark.parametrize("size", [200 * MIB, pytest.param(700 * MIB, marks=pytest.mark.long)])
def test_bombs_in_every_topic_stop_no_worker_and_change_no_final(kafka, tmp_path, size):
    data = bomb("zstd", 2, size)
    cut_batch = batch("", record(0, b"x", b"\xff") + record(1, b"y"), 2)
    assert len(data) < 100_000
    with Place(kafka, tmp_path, PAGE, partitions=1) as place:
        worker = place.start().ready()
        place.send((0, place.frame("page", [0] * 9)))
        where = asyncio.run(append(place.kafka, "reports", 0, data, 2))
        place.send((0, place.frame("page", [1] * 8)))
        asyncio.run(append(place.kafka, "reports", 0, cut_batch, 2))
        for topic in (QUERIES, SNAPSHOTS, CLOCKS, CHANGELOG, ESTIMATES, ALERTS, TRUTH):
            asyncio.run(append(place.kafka, topic, 0, data, 2))
        place.send((0, place.frame("page", [2] * 7)))
        assert place.verdict().exact
        until(lambda: worker.total("hubbub_reports_total") == 24)
        assert worker.total("hubbub_rejected_total", query="", reason="too_large") == 2
        assert worker.total("hubbub_rejected_total", query="", reason="malformed") == 2
        assert worker.total("hubbub_batches_passed_over_total") >= 4
        rejects = {reject.key: reject for reject in place.read("rejects")}
        reject = rejects[f"{place.kafka.topic('reports')}|0|{where}".encode()]
        assert reject.value == b""
        assert dict(reject.headers)["reason"] == b"too_large"
        assert memory(worker) < MEMORY
        worker.stop()
        two = place.start().ready()  # which reads all of them again that a start reads
        place.send((0, place.frame("page", [2] * 5)))
        assert place.verdict().exact
        assert memory(two) < MEMORY


def test_strange_records_in_snapshots_stop_no_worker_and_in_the_changelog_are_exit_code_4(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE, partitions=1) as place:
        worker = place.start().ready()
        place.send((0, place.frame("page", [0] * 9)))
        assert place.verdict().exact
        names = [record.key for record in place.read("snapshots")]
        assert {name.partition(b"|")[0] for name in names} >= {b"closed", b"state"}
        junk = [*names, b"closed|" + bytes(16).hex().encode() + b"|0|0", b"x", b"\xff" * 300]
        place.send(*[(0, b"junk", name) for name in junk], topic=SNAPSHOTS)
        place.send((0, place.frame("page", [1] * 7)))
        assert place.verdict().exact
        until(lambda: worker.total("hubbub_unread_records_total", topic="snapshots") >= len(junk) - 1)
        worker.stop()
        two = place.start().ready()
        place.send((0, place.frame("page", [2] * 5)))
        assert place.verdict().exact
        two.stop()
        [offset] = place.send((0, b"junk", b"progress|0|w"), topic=CHANGELOG)
        three = place.start()
        assert three.wait() == 4
        assert f"partition 0, offset {offset}: the record of progress|0|w cannot be read" in three.log_text
