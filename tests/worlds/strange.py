"""Records that hubbub never writes. Readers of every topic skip them, and no result changes."""

from aggregator.tallies.keys import PaneKey, StateKey
from hubbub.kafka.settings import ALERTS, CLOCKS, ESTIMATES, MAPS, QUERIES, REJECTS, SNAPSHOTS, STATUS, TRUTH
from tests.worlds.queries import query_file

WRITER = "stranger"
TOPICS = (SNAPSHOTS, SNAPSHOTS, CLOCKS, QUERIES, ESTIMATES, ALERTS, MAPS, REJECTS, STATUS, TRUTH)
"""All topics but the changelog, in which an unreadable record ends a worker, and `reports`, which has its own."""
VALUES = (b"", b"junk", b"{}", b"[" * 500, b"\x02" + b"\xff" * 55, b"\x03" * 57, b'{"query":"share","window":{}}')
FAR = 1 << 40
"""The start of a pane that no world reaches."""


def record(world, topic, partition, key, value):
    """Return a record for a topic, given the numbers of its key and its value."""
    keys = [b"strange|%d" % key, b"anybody"]
    if topic == SNAPSHOTS:
        names = world.plan.queries
        query = query_file().queries[names[key % len(names)]]
        pane = int(world.wall()) // query.pane * query.pane
        keys += [
            PaneKey("open", query.digest, pane, partition).encode(),
            PaneKey("closed", query.digest, FAR // query.pane * query.pane, 0).encode(),
            PaneKey("closed", b"nobody!!", pane, 0).encode(),
            PaneKey("closed", query.digest, pane + 1, 0).encode(),
            PaneKey("closed", query.digest, pane, 99).encode(),
            StateKey(query.digest, query.windows[0], FAR).encode(),
            f"watermark|{partition}|stranger".encode(),
        ]
    if topic == CLOCKS:
        keys.append(b"clock|0123456789abcdef.0")
    return keys[key % len(keys)], VALUES[value % len(VALUES)], None, ()
