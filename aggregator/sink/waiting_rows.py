"""The waiting rows of a sink, on disk: a file of blocks for each name. Memory holds only the newest rows."""

import fcntl
import io
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING, Any

from aggregator.sink.file_names import FileName
from aggregator.sink.row_file import PLACE, SCHEMA
from oracles.errors import ParameterError

if TYPE_CHECKING:
    from polars import DataFrame

MOST_ROWS = 50_000
"""Most rows in memory. A row takes about 1 KB there."""
_PREFIX = "hubbub-sink-"
_YOUNG = 60.0
"""Seconds for which a folder without a lock may be that of a process that starts."""
_LENGTH = struct.Struct("<Q")
_COLUMNS: dict[str, type] = {**SCHEMA, PLACE: int}


@dataclass(slots=True)
class WaitingFinals:
    """The finals of a name that are in no file of `finals` yet."""

    number: int
    """The number of its file in the temporary folder."""
    oldest_time: float
    """The time at which the oldest one was read that is in no file of `open` either, or infinity."""
    size: int = 0
    """The bytes of its whole blocks on disk."""
    first_offsets: dict[int, int] = field(default_factory=dict)
    """The smallest offset in each partition."""
    columns: dict[str, list[Any]] = field(default_factory=dict)
    """The rows in memory."""


class WaitingRows:
    """The waiting rows of each name, in a temporary folder that ends with the process."""

    def __init__(self, folder: Path | None = None) -> None:
        parent = Path(gettempdir()) if folder is None else folder
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self._folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = os.open(self._folder, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            _remove_leftovers(parent, self._folder.stat().st_mtime - _YOUNG)
        except OSError as error:
            raise ParameterError(f"--spool: {parent} cannot hold the waiting rows: {error.strerror}") from error
        self.names: dict[FileName, WaitingFinals] = {}
        self._rows = 0
        self._finals = 0
        self._numbers = 0

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        os.close(self._lock)

    def add(self, name: FileName, rows: Iterable[Mapping[str, Any]], place: tuple[int, int], read_time: float) -> None:
        """Add the rows of a final that was read at this partition and offset."""
        partition, offset = place
        waiting = self._waiting(name)
        waiting.oldest_time = min(waiting.oldest_time, read_time)
        waiting.first_offsets.setdefault(partition, offset)
        self._finals += 1

        for row in rows:
            for column, cells in waiting.columns.items():
                cells.append(row.get(column))
            waiting.columns[PLACE][-1] = self._finals
            self._rows += 1

    @property
    def is_full(self) -> bool:
        """Whether memory holds so many rows that they must be written."""
        return self._rows > MOST_ROWS

    def add_open(self, name: FileName, rows: "DataFrame") -> None:
        """Add the rows of an open file, before all others."""
        import polars as pl

        waiting = self._waiting(name)
        self._append(waiting, rows.with_columns(pl.lit(0, pl.Int64).alias(PLACE)))

    def write(self) -> None:
        """Write the rows in memory to the disk."""
        import polars as pl

        for waiting in self.names.values():
            if waiting.columns[PLACE]:
                self._append(waiting, pl.DataFrame(waiting.columns, schema=_COLUMNS))
                waiting.columns = _no_rows()
        self._rows = 0

    def rows(self, name: FileName) -> "DataFrame":
        """Return all waiting rows of a name."""
        import polars as pl

        self.write()
        blocks = list(self._blocks(self.names[name]))
        return pl.concat(blocks) if blocks else pl.DataFrame(schema=_COLUMNS)

    def drop(self, name: FileName) -> None:
        """Forget the rows of a name, because they are in its files."""
        waiting = self.names.pop(name)
        self._rows -= len(waiting.columns[PLACE])
        self._path(waiting).unlink(missing_ok=True)

    def next_offset(self, partition: int, position: int) -> int:
        """Return the offset below which no final of a partition waits."""
        offsets = [waiting.first_offsets.get(partition, position) for waiting in self.names.values()]
        return min([position, *offsets])

    def _waiting(self, name: FileName) -> WaitingFinals:
        if name not in self.names:
            self._numbers += 1
            self.names[name] = WaitingFinals(self._numbers, float("inf"), columns=_no_rows())
        return self.names[name]

    def _path(self, waiting: WaitingFinals) -> Path:
        return self._folder / str(waiting.number)

    def _append(self, finals: WaitingFinals, rows: "DataFrame") -> None:
        buffer = io.BytesIO()
        rows.select(_COLUMNS.keys()).write_ipc(buffer, compression="zstd")
        with self._path(finals).open("r+b" if finals.size else "wb") as file:
            # A full disk may have left half a block after the last whole one.
            file.seek(finals.size)
            file.write(_LENGTH.pack(buffer.tell()))
            file.write(buffer.getbuffer())
        finals.size += _LENGTH.size + buffer.tell()

    def _blocks(self, finals: WaitingFinals) -> "Iterator[DataFrame]":
        import polars as pl

        if not finals.size:
            return
        with self._path(finals).open("rb") as file:
            while file.tell() < finals.size:
                (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
                yield pl.read_ipc(io.BytesIO(file.read(length)))


def _remove_leftovers(parent: Path, newest: float) -> None:
    """Remove the folders of killed sinks up to a time of change. Their locks ended with them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            # Anybody may make a link in a folder for temporary files.
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(number)
            if status.st_uid == os.geteuid() and status.st_mtime < newest:
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(number)


def _no_rows() -> dict[str, list[Any]]:
    return {name: [] for name in _COLUMNS}
