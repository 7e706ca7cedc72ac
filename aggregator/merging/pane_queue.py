"""A queue of panes in the order of time, and the stores for their tallies: memory or a temporary file.

Only a few numbers of each pane stay in the queue. The merged tally is in a store, in its encoded form.
"""

import logging
import os
import tempfile
from array import array
from collections import deque
from collections.abc import Iterator
from typing import IO, Any, Protocol

from aggregator.tallies.snapshot import Snapshot, encode_snapshot, view_snapshot

log = logging.getLogger(__name__)

CHUNK = 64 << 10
"""Bytes in one write. The system call takes as long as copying this many bytes."""
_SIZE = 32
"""Low bits of a file store's key, which hold the length. The bits above hold the offset."""

StoreKey = Any
"""The key of a piece in a store: a number, or the piece itself."""


class PaneStore(Protocol):
    """A store for pieces of bytes. It keeps each piece until it is dropped."""

    def put(self, data: bytes) -> StoreKey: ...
    def get(self, place: StoreKey) -> bytes: ...
    def drop(self, place: StoreKey) -> None: ...
    def new(self) -> "PaneStore":
        """Return another store of the same kind, for pieces that are needed only for a while."""


class MemoryStore:
    """A store in memory. The key of a piece is the piece."""

    def put(self, data: bytes) -> StoreKey:
        return data

    def get(self, place: StoreKey) -> bytes:
        return bytes(place)

    def drop(self, place: StoreKey) -> None:
        """Do nothing: the memory is free once nobody refers to the piece."""

    def new(self) -> "MemoryStore":
        return self


class PaneQueue:
    """A queue of panes. Starts and numbers of reports are in memory, tallies are in a store."""

    def __init__(self, store: PaneStore | None = None) -> None:
        self._store = store or MemoryStore()
        self._places: deque[StoreKey] = deque()
        self._heads = array("q")
        """The start and n of each pane."""

    def __del__(self) -> None:
        self.clear()  # the store lives longer than this queue, and its file would keep the pieces

    def __len__(self) -> int:
        return len(self._places)

    def append(self, start: int, snapshot: Snapshot) -> None:
        self._heads.extend((start, snapshot.n))
        self._places.append(self._store.put(encode_snapshot(snapshot)))

    def start(self, index: int = 0) -> int:
        return self._heads[2 * index]

    def n(self, index: int = 0) -> int:
        return self._heads[2 * index + 1]

    def first_with_reports(self) -> int | None:
        """Return the start of the first pane with reports."""
        return next(self.lazy_starts(), None)

    def lazy_starts(self) -> Iterator[int]:
        """Yield the starts of the panes with reports."""
        return (self.start(index) for index in range(len(self)) if self.n(index))

    def starts_with_reports(self) -> list[int]:
        """Return the starts of all panes with reports."""
        starts = self._heads[::2]
        counts = self._heads[1::2]
        return [start for start, n in zip(starts, counts, strict=True) if n]

    def __getitem__(self, index: int) -> Snapshot:
        return view_snapshot(self._store.get(self._places[index]))

    def popleft(self) -> Snapshot:
        snapshot = self[0]
        self._store.drop(self._places.popleft())
        del self._heads[:2]
        return snapshot

    def clear(self) -> None:
        while self._places:
            self._store.drop(self._places.popleft())
        del self._heads[:]


class FileStore:
    """A store in a temporary file. The room of a dropped piece is used again for a piece of the same length."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._file_size = 0
        """Bytes in the file."""
        self._tail = bytearray()
        """Bytes for the end of the file, which are not written yet."""
        self._flush_size = CHUNK
        """Bytes of the tail at which it is written."""
        self._free: dict[int, array[int]] = {}
        """Offsets of free room by length."""
        self._full = False
        """Whether the log says already that the file has no room."""

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def size(self) -> int:
        """Bytes in the file and in the tail."""
        return self._file_size + len(self._tail)

    def put(self, data: bytes) -> StoreKey:
        free = self._free.get(len(data))
        offset = free.pop() if free else self.size
        tail_offset = offset - self._file_size
        if tail_offset >= 0:
            self._tail[tail_offset : tail_offset + len(data)] = data
            if len(self._tail) >= self._flush_size:
                self._flush()
        elif not self._write(data, offset):
            # Without room in the file, the piece is its own key and stays in memory.
            return data
        return offset << _SIZE | len(data)

    def _flush(self) -> None:
        """Write the tail. If the file is full, try again when the tail is twice as long."""
        if not self._write(self._tail, self._file_size):
            self._flush_size = 2 * len(self._tail)
            return

        self._file_size = self.size
        self._tail = bytearray()
        self._flush_size = CHUNK

    def _write(self, data: bytes | bytearray, offset: int) -> bool:
        """Write bytes to the file, and return whether there was room."""
        try:
            # A full disk shows as a short write, not only as an error.
            if os.pwrite(self._open().fileno(), data, offset) == len(data):
                return True
            self._log_full("no space left")
        except OSError as error:
            self._log_full(error)
        return False

    def get(self, place: StoreKey) -> bytes:
        if isinstance(place, bytes):
            return place

        size = place & ((1 << _SIZE) - 1)
        offset = place >> _SIZE
        tail_offset = offset - self._file_size
        if tail_offset >= 0:
            return bytes(self._tail[tail_offset : tail_offset + size])
        return os.pread(self._open().fileno(), size, offset)

    def drop(self, place: StoreKey) -> None:
        if not isinstance(place, bytes):
            self._free.setdefault(place & ((1 << _SIZE) - 1), array("q")).append(place >> _SIZE)

    def new(self) -> "FileStore":
        return FileStore()

    def _log_full(self, fault: object) -> None:
        if not self._full:
            log.warning(
                "folder %s is full, so more panes of long windows stay in memory: %s. Point TMPDIR to a folder "
                "with more room. `hubbub check` prints the size",
                tempfile.gettempdir(),
                fault,
            )
        self._full = True

    def _open(self) -> IO[bytes]:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="hubbub-panes-")  # noqa: SIM115 - it ends with the process
        return self._file
