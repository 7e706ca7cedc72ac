"""The records that a version of hubbub leaves in its topics. A real worker writes them, and later versions read them.

    $ python tests/vectors/state.py tests/vectors/state-0.1

Each version writes its folder once, with a file for each topic. A line has the partition, offset, timestamp, key and
value of a record (base64, or null if it has none). The worker is killed while panes are open. state-0.1 also has a
correction of the log's time, which has no effect on the counts.
"""

import base64
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.brokers import Cluster
from tests.integration.workers import Place, until

PARTITIONS = 2
TOPICS = ("reports", "worker-tallies-changelog", "snapshots", "queries", "estimates", "alerts")
QUERIES = """\
[queries.short]
domain = 6
oracle = "grr"
epsilon = 4.0
answers = "once"
crowd = 1
pane = "1s"
lateness = "1s"
skew = "5s"
windows = ["1s", "4s/2s", "all"]
methods = ["norm_sub", "calibrate"]
emit_every = "1s"

[queries.long]
domain = ["a", "b", "c"]
oracle = "oue"
epsilon = 1.0
answers = "once"
crowd = 1
pane = "1m"
lateness = "1m"
windows = ["1m", "3m/1m", "all"]
require_id = true

[queries.several]
attributes = { age = 30, sex = ["f", "m"] }
solution = "smp"
epsilon = 1.0
answers = "once"
crowd = 1
pane = "2s"
lateness = "1s"
skew = "5s"
windows = ["2s", "all"]
"""
RETIRED_QUERY = """
[queries.gone]
domain = 40
oracle = "olh"
epsilon = 1.0
answers = "once"
crowd = 1
pane = "2s"
windows = ["2s"]
"""


def main(folder: Path) -> None:
    folder.mkdir()
    with (
        Cluster() as cluster,
        tempfile.TemporaryDirectory() as scratch,
        Place(cluster, Path(scratch), QUERIES + RETIRED_QUERY, partitions=PARTITIONS) as place,
    ):
        place.start().ready()
        for second in range(4):
            report(place, second)
        place.workers[0].stop()
        place.define(QUERIES.replace('"4s/2s"', '"6s/2s"'))  # a version of one query, the end of another
        place.start("--retire", "gone").ready()
        for second in range(4, 9):
            report(place, second)
        until(lambda: place.workers[1].total("hubbub_records_total", query="short", final="true") > 3)
        place.workers[1].kill()
        for name in TOPICS:
            count = 1 if name == "queries" else PARTITIONS
            lines = [json.dumps(line(record)) for record in place.read(name, count)]
            (folder / f"{name}.jsonl").write_text("".join(f"{line_text}\n" for line_text in lines))


def report(place: Place, second: int) -> None:
    """Send a frame of each query to each partition, one of them twice, and one that a worker refuses."""
    for partition in range(PARTITIONS):
        place.send(
            (partition, place.frame("short", [second % 6] * 9)),
            (partition, place.frame("long", [0, 1, 2], number=PARTITIONS * (second + 1) + partition)),
            (partition, place.frame("long", [0, 1, 2], number=PARTITIONS * max(1, second) + partition)),
            (partition, place.frame("several", [[second, 0], [29, 1]])),
            (partition, b"rubbish"),
        )
        if "gone" in place.queries:
            place.send((partition, place.frame("gone", [3])))
    time.sleep(1.0)


def line(record) -> list:
    key, value = (None if part is None else base64.b64encode(part).decode() for part in (record.key, record.value))
    return [record.partition, record.offset, record.timestamp, key, value]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
