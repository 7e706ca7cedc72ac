"""A Faust app that counts with hubbub.faust, and writes what it has counted to a file again and again.

python faust_program.py SERVER NAME PARTITIONS QUERIES OUTPUT FOLDER START ...

NAME is the name of the app and of the topic of its frames.
"""

import json
import os
import sys
from pathlib import Path

import faust
from faust.worker import Worker

from hubbub.faust import tallies
from oracles.query import load

SERVER, NAME, PARTITIONS, QUERIES, OUTPUT, FOLDER, *STARTS = sys.argv[1:]
app = faust.App(
    NAME,
    broker=f"kafka://{SERVER}",
    store="memory://",
    datadir=FOLDER,
    topic_partitions=int(PARTITIONS),
    web_enabled=False,
    autodiscover=False,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
)
estimated = set()
counts = tallies(app, load(QUERIES)["q"], NAME, window=10, on_estimate=lambda start, _: estimated.add(start))


@app.timer(0.2)
async def write() -> None:
    windows = {}
    for start in map(int, STARTS):
        estimate = counts.estimate(start)
        if estimate is not None:
            windows[start] = {"n": estimate.n, "shares": estimate.shares.tolist()}
    result = {
        "partitions": sorted(counts.partitions),
        "windows": windows,
        "refused": counts.refused,
        "estimated": sorted(estimated),
    }
    save(json.dumps(result))


def save(text: str) -> None:
    draft = Path(f"{OUTPUT}.{os.getpid()}")
    draft.write_text(text)
    draft.rename(OUTPUT)


Worker(app, loglevel="error").execute_from_commandline()
