"""Frames on disk from before they are sent until Kafka has them, for who comes after a crash.

A file a frame, named by its id. One that is cut off was never sent: it is written whole first.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oracles.errors import FrameError
from oracles.frame import decode
from producers.batch import Sealed
from producers.errors import StoreError

log = logging.getLogger(__name__)

_SUFFIX = ".frame"


class Spool:
    """A folder that nobody else can read."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        with _refusals(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, frame: Sealed) -> None:
        """Keep a frame; one that is kept already stays as it is."""
        path = self._path(frame.id)
        with _refusals(path):
            try:
                file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
            except FileExistsError:
                return
            with file:
                file.write(frame.data)
                file.flush()
                os.fsync(file.fileno())

    def remove(self, frame: Sealed) -> None:
        path = self._path(frame.id)
        with _refusals(path):
            path.unlink(missing_ok=True)

    def frames(self) -> Iterator[Sealed]:
        """The frames that are kept, read one by one."""
        with _refusals(self.folder):
            paths = sorted(self.folder.glob(f"*{_SUFFIX}"))
        for path in paths:
            with _refusals(path):
                data = path.read_bytes()
            frame = self._read(path, data)
            if frame is None:
                log.warning("%s was cut off before it was sent: removed", path)
                path.unlink(missing_ok=True)
            else:
                yield frame

    def clear(self) -> int:
        """Delete all frames that are kept; says how many."""
        with _refusals(self.folder):
            paths = list(self.folder.glob(f"*{_SUFFIX}"))
            for path in paths:
                path.unlink(missing_ok=True)
        return len(paths)

    def _read(self, path: Path, data: bytes) -> Sealed | None:
        try:
            frame = decode(data, len(data))
        except FrameError:
            return None
        if frame.id is None or frame.n is None or path != self._path(frame.id):
            return None
        return Sealed(frame.id, frame.pane, frame.n, data)

    def _path(self, name: bytes) -> Path:
        return self.folder / (name.hex() + _SUFFIX)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be used to keep frames: {error.strerror or error}") from error
