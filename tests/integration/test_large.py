"""Large tallies, snapshots and states. Brokers accept many at a time. If one is too large, its query is affected."""

import asyncio
import time
from itertools import product

import numpy as np
import orjson
import pytest

from aggregator.topics.sizes import sizes
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.settings import SNAPSHOTS
from oracles.frame import encode
from oracles.query import load
from tests.brokers import create_topics
from tests.integration.workers import PATIENCE, Place, until
from tests.queries import LIVE, make_text
from tests.slowness import patience

MIB = 1 << 20
PAGE = make_text("page", LIVE, domain=3, oracle="grr", emit_every="never")
HEAVY = """
from aggregator.counting import partition
encode = partition.encode_tally
partition.encode_tally = lambda tally: encode(tally) + bytes(16 << 20)
"""


@pytest.mark.parametrize(("count", "size"), [(8, 16 * MIB), (60, 2 * MIB)])
def test_writes_larger_than_one_request_are_acknowledged(kafka, count, size):
    """Each record has another partition. One request for all would exceed socket.request.max.bytes."""

    async def run():
        async with Outbox(target) as outbox, asyncio.timeout(patience(60)):
            acks = [await outbox.send(SNAPSHOTS, b"k", bytes(size), partition=p) for p in range(count)]
            return await asyncio.gather(*acks)

    target = create_topics(kafka, count)
    assert len(asyncio.run(run())) == count


def test_a_checkpoint_larger_than_one_request_is_acknowledged(kafka, tmp_path):
    with Place(kafka, tmp_path, PAGE + 'lateness = "10s"\n', partitions=8) as place:
        worker = place.start(patch=HEAVY).ready()
        place.send(*[(partition, place.frame("page", [0, 1, 2])) for partition in range(8)])
        until(lambda: worker.total("hubbub_checkpoint_bytes_total") > 8 * 16 * MIB)
        verdict = place.verdict()
        assert verdict.exact, verdict
        assert verdict.reports == 24
        assert worker.stop() == 0


SMALL_PARTS = """
from aggregator.merging import snapshot_records
snapshot_records.PART = 100
"""


@pytest.mark.waits
def test_a_split_state_is_read_by_the_next_worker(kafka, tmp_path):
    """A small limit splits every state. After a kill no final is published again, and no alert is lost."""
    text = PAGE + PAGE.replace("page", "site") + 'windows = ["1s", "3s/1s", "all"]'
    with Place(kafka, tmp_path, text, sizes=sizes(load_text(tmp_path, text))) as place:
        worker = place.start(patch=SMALL_PARTS).ready()
        for _ in range(3):
            place.send(*[(p, place.frame(name, [0, 1])) for p, name in product(range(2), ("page", "site"))])
            time.sleep(1)
        assert place.verdict().exact
        until(lambda: {b"page", b"site"} <= split_states(place))
        worker.kill()
        place.start(patch=SMALL_PARTS).ready()
        place.send(*[(p, place.frame(name, [2])) for p, name in product(range(2), ("page", "site"))])
        verdict = place.verdict()
        assert verdict.exact, verdict
        assert {len(versions) for versions in place.finals().values()} == {1}


def load_text(folder, text):
    (folder / "sizes.toml").write_text(text)
    return load(folder / "sizes.toml").values()


def split_states(place):
    """Return the names of the queries with a state that has parts in the topic."""
    names = {query.digest.hex().encode(): name.encode() for name, query in place.queries.items()}
    keys = [record.key.split(b"|") for record in place.read("snapshots") if record.value is not None]
    return {names[key[1]] for key in keys if key[0] == b"state" and len(key) == 7}


GREAT = """
from aggregator.merging import query_state, snapshot_records
snapshot_records.PART = 1 << 30
encode = query_state.encode_state
def encoded(position, *rest):
    return encode(position, *rest) + bytes(3 << 20 if position.total is None else 0)
query_state.encode_state = encoded
"""


def test_a_state_that_its_topic_refuses_only_repeats_finals_after_a_restart(kafka, tmp_path):
    """The topic takes 1 MiB. The state of the query with the window "all" is stored, and the other state is not."""
    text = PAGE + PAGE.replace("page", "site") + 'windows = ["all"]'
    with Place(kafka, tmp_path, text, sizes=sizes(load_text(tmp_path, text))) as place:
        worker = place.start(patch=GREAT).ready()
        place.send(*[(p, place.frame(name, [0, 1])) for p, name in product(range(2), ("page", "site"))])
        assert place.verdict().exact
        until(lambda: worker.total("hubbub_states_too_large_total", query="page"))
        assert not worker.total("hubbub_states_too_large_total", query="site")
        assert "State of query page is too large to store" in worker.log_text
        records = worker.total("hubbub_records_total", query="page", final="true")
        worker.kill()
        successor = place.start().ready()
        place.send(*[(p, place.frame(name, [2])) for p, name in product(range(2), ("page", "site"))])
        verdict = place.verdict()
        assert verdict.exact, verdict
        assert verdict.reports == 6
        until(lambda: successor.total("hubbub_records_total", query="page", final="true") > records)
        states = {record.key.split(b"|")[1] for record in place.read("snapshots") if record.key.startswith(b"state")}
        assert place.queries["page"].digest.hex().encode() in states, "this one is of a size that fits"


EVERY = LIVE | {"oracle": "grr", "epsilon": 16, "pane": "5s", "emit_every": "never"}


@pytest.mark.waits
@pytest.mark.parametrize(
    ("size", "count", "lateness"), [(65_536, 30, 5), pytest.param(1_000_000, 40, 40, marks=pytest.mark.long)]
)
def test_a_query_with_every_value_proved_has_finals_and_a_state(kafka, tmp_path, size, count, lateness):
    """Its record would be larger than the topic accepts, and is cut. A worker that takes over has the state."""
    text = make_text("page", EVERY, domain=size, lateness=f"{lateness}s")
    (tmp_path / "sizes.toml").write_text(text)
    with Place(kafka, tmp_path, text, sizes=sizes(load(tmp_path / "sizes.toml").values())) as place:
        query = place.queries["page"]
        worker = place.start().ready()
        reports = query.oracle.perturb(np.repeat(np.arange(size), count), np.random.default_rng(1))
        pane = int(time.time()) // 5 * 5
        frames = [
            encode(query.digest, pane, part, None) for part in np.array_split(reports, reports.nbytes // (MIB // 2) + 1)
        ]
        place.send(*[(number % 2, frame) for number, frame in enumerate(frames)])
        finals = until(lambda: worker.running and place.finals(), seconds=2 * PATIENCE)
        [value] = finals[min(finals)]
        record = orjson.loads(value)
        assert 7 * MIB < len(value) <= 8 * MIB
        assert record["n"] == len(reports)
        assert record["quality"]["flags"] == ["cut"]
        until(lambda: any(record.key.startswith(b"state") for record in place.read("snapshots")))
        assert not worker.total("hubbub_states_too_large_total")
        worker.kill()
        successor = place.start().ready()
        place.send((0, place.frame("page", [0])))
        until(lambda: successor.running and len(place.finals()) > len(finals))
        assert {len(versions) for versions in place.finals().values()} == {1}
