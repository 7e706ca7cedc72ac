"""Many small queries on one worker: each due final is published once, in order."""

import time
from collections import defaultdict
from itertools import count

import pytest

from tests.integration.workers import Place
from tests.queries import LIVE, make_text

QUERIES, PARTITIONS, PANES = 50, 16, 6
KINDS = ["hopping", "tumbling"]
"""The kinds of windows in the order of their finals at one end."""
TABLE = LIVE | {
    "domain": 4,
    "oracle": "grr",
    "pane": "2s",
    "lateness": "2s",
    "windows": ["2s", "6s/2s"],
    "emit_every": "2s",
}


@pytest.mark.waits
def test_each_due_final_of_many_queries_is_published_once_and_in_order(kafka, tmp_path):
    text = "".join(make_text(f"q{number}", TABLE) for number in range(QUERIES))
    with Place(kafka, tmp_path, text, PARTITIONS) as place:
        worker = place.start().ready()
        turns = count()

        def send():
            turn = next(turns)
            frames = [place.frame(name, [number % 4, 0]) for number, name in enumerate(place.queries)]
            place.send(*[((turn + number) % PARTITIONS, frame) for number, frame in enumerate(frames)])

        # A busy machine sends less often, so the load ends with a number of finals, not at a time.
        while len(place.finals()) < QUERIES * len(KINDS) * PANES:
            assert worker.running
            for _ in range(5):
                send()
                time.sleep(0.3)
        verdict = place.verdict()
        assert verdict.exact
        assert verdict.finals >= QUERIES * len(KINDS) * PANES
        assert all(sum(versions.values()) == 1 for versions in place.finals().values())
        order = defaultdict(list)
        for record in place.read("estimates"):
            if record.value is not None and not record.key.endswith(b"|p"):
                name, _, kind, _, _, end = record.key.decode().split("|")
                order[name].append((int(end), KINDS.index(kind)))
        assert len(order) == QUERIES
        assert all(finals == sorted(finals) for finals in order.values())
        assert worker.running
