"""The load of a world: its query file, and the reports that arrive while it runs."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from aiokafka import TopicPartition

from hubbub.kafka.settings import REPORTS
from oracles.frame import TICK, encode, encode_json
from oracles.query import load_file
from tests.queries import make_text

TIMES = {"pane": "5s", "lateness": "2s", "skew": "5s", "budget": 1e9}
TABLES = {
    "share": dict(TIMES, domain=5, oracle="grr", windows=["5s", "20s/5s", "all"], crowd=3, max_ids=4),
    "bits": dict(TIMES, domain=40, oracle="oue", windows=["5s", "15s"], crowd=2),
    "hash": dict(TIMES, domain=12, oracle="olh", windows=["10s"], crowd=1, require_id=True),
    "pair": dict(TIMES, attributes={"a": 3, "b": 4}, epsilon=2.0, windows=["10s", "20s/10s"], crowd=3),
}
POOL = 60
"""Reports of each query that are made once."""


@cache
def queries():
    """Return the path of the query file, its content, and reports of each query."""
    path = Path(mkdtemp(prefix="hubbub-world-")) / "hubbub.toml"
    path.write_text("edition = 2\n" + "\n".join(make_text(name, table) for name, table in TABLES.items()))
    file = load_file(path)
    pools = {}
    for name, query in file.queries.items():
        rng = np.random.default_rng(11)
        sizes = [domain.size for domain in query.domains]
        values = np.column_stack([rng.integers(0, max(1, size // 2), POOL) for size in sizes])
        pools[name] = query.oracle.perturb(values if len(sizes) > 1 else values[:, 0], rng)
    return path, file, pools


class Load:
    """The senders of reports."""

    def __init__(self, world):
        self._world = world
        self.path, self.file, self._pools = queries()
        self._queries = list(self.file.queries.values())
        self._ids = {}

    def begin(self):
        self._world.later(3.0, self._send)

    def _send(self):
        world = self._world
        if world.calm:
            return
        random = world.random
        partition = random.randrange(world.mix.partitions)
        frames = [self._frame(partition) for _ in range(random.choice((1, 1, 1, 2, 4)))]
        if random.random() < 0.1:
            frames.append(random.choice(frames))  # a retry through another sender
        batch = [(None, frame, None, ()) for frame in frames]
        part = world.log.at(TopicPartition(world.kafka.topic(REPORTS), partition))
        if part.blocked_until <= world.now:
            world.log.append(TopicPartition(part.topic, partition), batch, writer="sender")
        world.later(random.choice((0.02, 0.05, 0.1, 0.3)), self._send)

    def _frame(self, partition):
        world = self._world
        random = world.random
        query = random.choice(self._queries)
        late = random.choice((0, 0, 0, 0, 0, 0, -5, -5, -10, 5, 15))
        pane = (int(world.wall()) + late) // query.pane * query.pane
        rows = [random.randrange(POOL) for _ in range(random.choice((1, 1, 2, 5)))]
        reports = self._pools[query.name][rows]
        number = random.randrange(1, 9) * world.mix.partitions + partition
        if random.random() < 0.03:
            number += 1  # an id of another partition
        name = number.to_bytes(8, "little") if query.require_id or random.random() < 0.6 else None
        if random.random() < 0.05:
            return self._hostile(query, pane, reports)
        if random.random() < 0.2:
            return encode_json(query.digest, pane, reports, name)
        return encode(query.digest, pane, reports, name)

    def _hostile(self, query, pane, reports):
        random = self._world.random
        data = encode(query.digest, pane, reports)
        return random.choice(
            [
                b"",
                b"{",
                data[:-1],
                data + b"\0",
                encode(b"nobody!!", pane, reports),
                encode(query.digest, pane + 1, reports),
                TICK,
            ]
        )
