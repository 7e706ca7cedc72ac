"""A worker dies after any of its writes. The next one publishes the rest, and alerts of numbers stay the same."""

import asyncio

import numpy as np

from aggregator.merging.snapshot_partition import SnapshotPartition
from aggregator.publishing.finals.estimator_pool import EstimatorPool
from aggregator.publishing.finals.estimator_process import answers
from aggregator.tallies.keys import PaneKey, PartitionKey
from aggregator.tallies.progress import Progress, encode_ends
from aggregator.tallies.snapshot import Snapshot, encode_snapshot
from hubbub.definitions.versions import Versions
from tests import schemas
from tests.queries import make_query, make_table
from tests.unit.test_turns import Sent, service_of

NUMBERS = {"domain": {"low": 0, "high": 16, "bins": 16}, "ranges": {"high": [8, 16]}, "threshold": {"p50": 3}}
TIMES = {
    "answers": "fresh",
    "budget": 1e9,
    "pane": "1s",
    "windows": ["1s", "2s/1s"],
    "crowd": 20,
    "emit_every": "never",
}
TABLE = make_table(NUMBERS | TIMES, epsilon=4.0)
QUERY = make_query(TABLE, name="waits")
PANES, JUMP = 8, 4


def closed_panes():
    """Return the closed panes of numbers that jump, and the watermark after them."""
    rng, oracle, records = np.random.default_rng(1), QUERY.oracle, {}
    for pane in range(PANES):
        tally = oracle.zeros()
        numbers = rng.normal(6.0 if pane >= JUMP else 2.0, 1.0, 100)
        oracle.add(tally, oracle.perturb(QUERY.domain.scale.positions(numbers), rng))
        key = PaneKey("closed", QUERY.digest, pane, 0).encode()
        records[key] = encode_snapshot(Snapshot(len(numbers), 0, 0, 0, tally))
    progress = Progress(closed={QUERY.digest: PANES})
    return records | {PartitionKey("watermark", 0, QUERY.name).encode(): encode_ends(progress)}


class MortalOutbox(Sent):
    """An outbox whose worker dies: after so many writes none is stored or acknowledged."""

    def __init__(self, topic, life):
        super().__init__()
        self.topic, self.life, self.published = topic, life, []

    async def send(self, topic, key, value, **_):
        future = asyncio.get_running_loop().create_future()
        if self.life is None or len(self.records) < self.life:
            self.records.append((topic, key, value))
            future.set_result(None)
            if topic == "snapshots":
                self.topic.pop(key, None)
                if value is not None:
                    self.topic[key] = value
            elif topic != "status" and value is not None:
                self.published.append((topic, key, value))
        return future

    @property
    def is_dead(self):
        return self.life is not None and len(self.records) >= self.life


class Estimators(EstimatorPool):
    """Estimators without a process of their own, whose start would take longer than the whole life."""

    def start(self, queries):
        pass

    def ask(self, *tasks):
        for task in tasks:
            request = task.request(0)
            task.take([*answers(request.query, request.questions, request.states, request.blocks)])
            task.end()


async def live(topic, life=None):
    """Run a worker until it owes nothing, or until it has made so many writes. Return its outbox."""
    partition = SnapshotPartition(0, 1, {QUERY.digest: Versions.of(QUERY)})
    for key, value in topic.items():
        partition.put(key, value)
    partition.load()
    outbox = MortalOutbox(topic, life)
    service = service_of(partition, outbox)
    service.estimators = Estimators()
    running = asyncio.create_task(service.run())

    def is_over():
        due = any(state.has_due_finals for state in partition.queries.values())
        return outbox.is_dead if life is not None else not (due or service.owed_finals())

    while not is_over():  # noqa: ASYNC110 - a worker that owes nothing sets no event
        await asyncio.sleep(0)
    end = service.rounds + 5
    while life is None and service.rounds < end:  # noqa: ASYNC110 - the deletions follow
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return outbox


async def check_deaths(panes):
    """Let a worker die after each of its writes, and compare what two workers publish with what one does."""
    calm = await live(dict(panes))
    expected = {key: value for _, key, value in calm.published}
    for life in range(len(calm.records)):
        topic, published = dict(panes), {}
        first_live = await live(topic, life)
        second = await live(topic)
        assert len(first_live.records) == life
        for _, key, value in [*first_live.published, *second.published]:
            assert published.setdefault(key, value) == value, "a record that is written twice stays the same"
        assert published == expected
    return calm


def test_a_death_after_any_write_changes_no_record_and_no_alert_of_numbers():
    calm = asyncio.run(check_deaths(closed_panes()))
    alerts = [schemas.alert(value) for topic, _, value in calm.published if topic == "alerts"]
    assert {alert["kind"] for alert in alerts} >= {"enter", "surge"}
    assert {alert.get("scale") for alert in alerts} >= {1, 2}, "alerts of blocks too"
    assert any(key.startswith(b"block|") for topic, key, _ in calm.records if topic == "snapshots")
