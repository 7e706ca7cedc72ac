"""Finals for sinks, the process of a sink, and a reader of its files."""

import copy
import functools
import io
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from itertools import cycle, product
from pathlib import Path

import orjson
import polars as pl

from aggregator.records.decoder import decode
from aggregator.records.flat_rows import rows
from aggregator.sink import row_file
from aggregator.sink.file_names import FINALS, OPEN, FileName, parse
from aggregator.sink.waiting_rows import WaitingRows
from tests import forks
from tests.boards import HOMEPAGE, Crowd
from tests.sink_lives import HOUR, NEW, STEPS, topic
from tests.slowness import patience

COMMAND = "import sys; from hubbub.__main__ import main; sys.exit(main(['sink', *sys.argv[1:]]))"
KEY = ["query", "digest", "attribute", "group", "kind", "size", "step", "end", "value"]


@functools.cache
def _template():
    message = next(message for message in Crowd(HOMEPAGE, clients=500).next() if message[0] == "estimates")
    return orjson.loads(message[2])


def final(end, *, query="homepage", size=10, n=None, **fields):
    """Return the message of a final whose window ends at a time. Its shares are those of one real record."""
    record = copy.deepcopy(_template())
    record |= {"query": query, **fields}
    record["window"] |= {"kind": "tumbling", "start": end - size, "end": end, "size": size, "step": size}
    if n is not None:
        record |= {"n": n, "n_independent": min(n, record["n_independent"])}
    key = f"{query}|{record['digest']}|tumbling|{size}|{size}|{end}"
    return "estimates", key.encode(), orjson.dumps(record), end * 1000


def status_message(query, closed_through):
    body = {"query": query, "digest": HOMEPAGE.digest.hex(), "closed_through": closed_through, "newest_report": None}
    return "status", f"{query}|{body['digest']}".encode(), orjson.dumps(body)


class Sink:
    """A `hubbub sink` process."""

    def __init__(self, kafka, place, *options, lease=None):
        """`lease` has the seconds of its renewal and of its takeover, if they are not the usual ones."""
        address = ["--kafka", kafka.servers, "--prefix", kafka.prefix, "--to", str(place)]
        if kafka.embedded:
            address.append("--embedded")
        code = COMMAND
        if lease is not None:
            code = f"from aggregator.sink import lease; lease.RENEWAL, lease.TAKEOVER = {lease}; {code}"
        command = [sys.executable, "-c", code, *address, *options]
        self.process = forks.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)

    def wait(self):
        """Wait for the end of the process. Return its exit code and its standard error."""
        _, stderr = self.process.communicate(timeout=patience(60))
        return self.process.returncode, stderr

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait()


def contents(folder: Path, part=FINALS):
    """Return the bytes of each file in `finals` or `open`, by its path."""
    files = {}
    for path in sorted(folder.glob(f"{part}/**/*.parquet")):
        try:
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
        except FileNotFoundError:
            # An open file may end between the listing and the reading.
            assert part == OPEN, path
    return files


def rows_of(files):
    """Return the rows of files."""
    tables = [pl.read_parquet(io.BytesIO(content), hive_partitioning=False) for content in files.values()]
    return pl.concat(tables) if tables else pl.DataFrame()


def view(folder: Path):
    """Return the rows of `finals`, and those of `open` whose name has no file there, as a reader finds them."""
    finals = contents(folder)
    names = {parse(path)[0] for path in finals}
    files = {path: content for path, content in contents(folder, OPEN).items() if parse(path)[0] not in names}
    return rows_of(finals), rows_of(files)


def keys(rows):
    """Return the keys of rows. Fail if one is there twice."""
    if rows.is_empty():
        return set()
    keys = set(rows.select(KEY).iter_rows())
    assert len(keys) == rows.height, "a row is there twice"
    return keys


def waiting_rows(ends, start=0, **fields):
    """Yield the name, rows, place and time of finals, as a sink reads them."""
    for offset, end in enumerate(ends, start):
        window = decode(final(end, **fields)[2])
        cells = [{"position": position, **row} for position, row in enumerate(rows(window))]
        yield FileName.of(window, "day"), cells, (0, offset), float(offset)


def files_of(ends, **fields):
    """Return the name of finals of one file, and their rows."""
    with closing(WaitingRows()) as waiting:
        for final_rows in waiting_rows(ends, **fields):
            waiting.add(*final_rows)
        (name,) = waiting.names
        return name, waiting.rows(name).select(row_file.SCHEMA.keys())


@contextmanager
def mother(kind, place, finals, folder):
    """Yield a function that lets a writer live up to a step, and returns whether it was killed there."""
    file = folder / "finals"
    file.write_bytes(b"\n".join(finals))
    command = [sys.executable, "-m", "tests.sink_lives", kind, str(place), str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def live(step, moment, count):
            process.stdin.write(orjson.dumps([step, moment, count]) + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer in (b"killed\n", b"lived 0\n"), answer
            return answer == b"killed\n"

        try:
            yield live
        finally:
            process.stdin.close()


def kills_of(steps, times):
    """Return kills before and after each step, so many times, or without a number before or after each step once."""
    if times is None:
        return [*zip(steps, cycle(("before", "after")), strict=False)]
    kills = [*product(steps, ("before", "after"))] * times
    random.Random(2).shuffle(kills)
    return kills


def kill_at_each_step(kind, place, folder, times, look):
    """Kill a writer before and after each step so many times. Call `look` after each life. Return the finals' ends."""
    kills = kills_of(STEPS if kind == "folder" else STEPS[1:], times)
    # A file is written two days after its end at the latest, so the windows are of the present and later.
    ends = topic(1, int(time.time()) // HOUR * HOUR, 2 * len(kills))
    count = 0
    with mother(kind, place, [final(end)[2] for end in ends], folder) as live:
        for step, moment in kills:
            is_killed = False
            while not is_killed:
                count += NEW
                assert count <= len(ends), (step, moment)
                is_killed = live(step, moment, count)
                look()
        live("never", "", count)
        look()
    return {*ends[:count]}
