"""The panes of long windows, in a temporary file that goes with the process, however that ends.

Nothing rests on it but memory: a worker that starts reads them in the topic of snapshots, and where
the disk is full they stay in memory.
"""

import logging
import os
import tempfile
from array import array
from typing import IO

from aggregator.merging.line import Place

log = logging.getLogger(__name__)

CHUNK = 64 << 10
"""Bytes that are written at once: a system call takes as long as copying so many."""
_SIZE = 32
"""Bits of a place that say how long the piece is; those above them say where."""


class Spill:
    """A store whose pieces stand in a file; the room of one that is dropped goes to the next of its length."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._written = 0
        """Bytes of the file."""
        self._tail = bytearray()
        """What comes behind them, and is written with more, or once there is room."""
        self._enough = CHUNK
        self._free: dict[int, array[int]] = {}
        """By length, where there is room."""
        self._told = False

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def size(self) -> int:
        """Bytes of the file, and of what is to be written to it."""
        return self._written + len(self._tail)

    def put(self, data: bytes) -> Place:
        free = self._free.get(len(data))
        offset = free.pop() if free else self.size
        at = offset - self._written
        if at >= 0:
            self._tail[at : at + len(data)] = data
            if len(self._tail) >= self._enough:
                self._flush()
        elif not self._write(data, offset):
            return data
        return offset << _SIZE | len(data)

    def _flush(self) -> None:
        """Write the tail as a whole, or try again once there is twice as much of it."""
        if self._write(self._tail, self._written):
            self._written, self._tail, self._enough = self.size, bytearray(), CHUNK
        else:
            self._enough = 2 * len(self._tail)

    def _write(self, data: bytes | bytearray, offset: int) -> bool:
        """Whether there was room for it."""
        try:
            if os.pwrite(self._open().fileno(), data, offset) == len(data):
                return True
            self._is_full("no space left")
        except OSError as error:
            self._is_full(error)
        return False

    def get(self, place: Place) -> bytes:
        if isinstance(place, bytes):
            return place
        size, offset = place & ((1 << _SIZE) - 1), place >> _SIZE
        at = offset - self._written
        return bytes(self._tail[at : at + size]) if at >= 0 else os.pread(self._open().fileno(), size, offset)

    def drop(self, place: Place) -> None:
        if not isinstance(place, bytes):
            self._free.setdefault(place & ((1 << _SIZE) - 1), array("q")).append(place >> _SIZE)

    def fresh(self) -> "Spill":
        return Spill()

    def _is_full(self, fault: object) -> None:
        if not self._told:
            folder = tempfile.gettempdir()
            log.warning(
                "%s: no more panes of long windows can stand there, and the rest stays in memory: %s; give "
                "TMPDIR a folder with more room (hubbub check says how much)",
                folder,
                fault,
            )
        self._told = True

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="hubbub-panes-")  # noqa: SIM115 - it goes with the process
        return self._file
