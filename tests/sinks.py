"""Finals for sinks, the process of a sink, and a reader of its files."""

import copy
import functools
import io
import signal
import subprocess
import sys
from contextlib import closing
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
