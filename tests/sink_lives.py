"""Lives of a sink's writer that end by SIGKILL at a chosen step. A mother process forks each life, so a life is cheap.

python -m tests.sink_lives folder|store PLACE TOPIC

A line on standard input asks for a life: the step of its end, and how many finals the topic has by then. The answer is
`killed`, or `lived` if the life never came to that step.
"""

import os
import random
import signal
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import orjson

from aggregator.records.decoder import decode
from aggregator.records.flat_rows import rows
from aggregator.sink import lease, row_file
from aggregator.sink.due_files import ReadProgress, SinkPlan
from aggregator.sink.file_names import FileName
from aggregator.sink.folder import Folder
from aggregator.sink.object_store import ObjectStore
from aggregator.sink.sink_state import PATH, SinkState
from aggregator.sink.waiting_rows import WaitingRows
from aggregator.sink.writer import Writer

STEPS = ("temporary", "file", "late", "open", "state", "delete")
"""Write a temporary file, create a file or late file, replace an open file or the state, delete an open file."""
HOUR = 3_600
NEW = 5
"""The records that come in an hour."""


class Nothing:
    def inc(self, _=1):
        pass

    set = inc


def topic(seed, start, hours):
    """Return the ends of the finals of a topic: in each hour three new ones, a late one, and a repeated one."""
    rng = random.Random(seed)
    ends = []
    for hour in range(hours):
        new = [start + hour * HOUR - 10 * number for number in rng.sample(range(100), 3)]
        late = start + rng.randrange(max(1, hour - 1)) * HOUR - 10 * rng.randrange(100, 200)
        ends += [*new, late, rng.choice(ends or new)]
    return ends


def mortal(kind, step, moment):
    """Return a kind of target that kills its process before or after a step."""

    def wrapped(name_of, work):
        def run(*arguments):
            is_end = name_of(*arguments) == step
            if is_end and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = work(*arguments)
            if is_end:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return run

    class Mortal(kind):
        def __init__(self, place):
            super().__init__(place)
            names = {
                "_temporary": lambda content: "temporary",
                "create": lambda path, content: "late" if ".late-" in path else "file",
                "replace": lambda path, content: "state" if path == PATH else "open",
                "delete": lambda path: "delete",
            }
            for name, name_of in names.items():
                if hasattr(self, name):
                    setattr(self, name, wrapped(name_of, getattr(self, name)))

    return Mortal


def live(target, finals, count):
    """Take a target, read the finals from its state on, and write until all of `count` are in files."""
    counts = SimpleNamespace(files=Nothing(), bytes=Nothing(), conflicts=Nothing(), last_write=Nothing())
    with closing(target), closing(WaitingRows()) as waiting:
        target.take()
        writer = Writer(target, waiting, SinkPlan(interval=60, settle=0), counts)
        writer.start()
        content = target.read(PATH)
        start = 0 if content is None else SinkState.decode(content).offsets[0]
        for offset in range(start, count):
            name, cells = finals[offset]
            waiting.add(name, cells, (0, offset), float(offset))
        newest = max(name.end for name, _ in finals[:count])
        # The newest hour stays open. Open files of older hours are deleted two hours after their file came to `finals`.
        for now in (time.time(), time.time() + 3 * HOUR):
            progress = ReadProgress(time=now, read_through=float("inf"), closed_through={"homepage": newest - 1})
            writer.write(progress, SinkState("hubbub.", "hour", offsets={0: count}))


def main(kind, place, file):
    lease.RENEWAL, lease.TAKEOVER = 0.02, 0.05
    finals = []
    for text in Path(file).read_bytes().splitlines():
        window = decode(text)
        cells = [{"position": position, **row} for position, row in enumerate(rows(window))]
        finals.append((FileName.of(window, "hour"), cells))
    assert row_file.SCHEMA

    kinds = {"folder": (Folder, Path(place)), "store": (ObjectStore, place)}
    target, address = kinds[kind]
    for line in sys.stdin.buffer:
        step, moment, count = orjson.loads(line)
        # Nothing has used polars or a store here yet, so the fork has no half of their threads.
        child = os.fork()
        if not child:
            live(mortal(target, step, moment)(address), finals, count)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        is_killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        sys.stdout.write("killed\n" if is_killed else f"lived {status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
