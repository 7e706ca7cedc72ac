"""A folder of frames on disk, from before they are sent until they are acknowledged.

After a crash the next publisher sends them. Each frame is one file, named by the frame's id. A frame is sent only after
its file is complete, so a file that is cut off belongs to a frame that was never sent.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from oracles.errors import FrameError
from oracles.frame import decode
from producers.errors import StoreError
from producers.files import check_folder, make_file, read_file
from producers.publishers.frames import OutgoingFrame

log = logging.getLogger(__name__)

STATE = "state.json"
"""The file of the gateway's newest state, beside the frames."""
_SUFFIX = ".frame"
_MOST = 64 << 20
"""Upper limit of a frame on disk, in bytes."""


class Spool:
    """A folder that only this user can read."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        with _store_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_folder(self.folder)

    def write(self, frame: OutgoingFrame) -> None:
        """Write a frame to disk, unless its file exists."""
        path = self._path(frame.id)
        # An existing file has the same frame, because its id is in its name.
        with _store_errors(path), suppress(FileExistsError):
            make_file(path, frame.data)

    def remove(self, frame: OutgoingFrame) -> None:
        path = self._path(frame.id)
        with _store_errors(path):
            path.unlink(missing_ok=True)

    def frames(self) -> Iterator[OutgoingFrame]:
        """Read the frames one by one, and remove files that are cut off."""
        with _store_errors(self.folder):
            paths = sorted(self.folder.glob(f"*{_SUFFIX}"))
        for path in paths:
            with _store_errors(path):
                data = read_file(path, _MOST)
            frame = self._read(path, data)
            if frame is None:
                log.warning("%s was cut off before its frame was sent: file removed", path)
                path.unlink(missing_ok=True)
            else:
                yield frame

    def clear(self) -> int:
        """Delete all frames and the gateway's state, and return the number of frames."""
        with _store_errors(self.folder):
            paths = list(self.folder.glob(f"*{_SUFFIX}"))
            for path in [*paths, self.folder / STATE]:
                path.unlink(missing_ok=True)
        return len(paths)

    def _read(self, path: Path, data: bytes) -> OutgoingFrame | None:
        try:
            frame = decode(data, len(data))
        except FrameError:
            return None
        if frame.id is None or frame.n is None or path != self._path(frame.id):
            return None
        return OutgoingFrame(frame.id, frame.pane, frame.n, data)

    def _path(self, name: bytes) -> Path:
        return self.folder / (name.hex() + _SUFFIX)


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be used to store frames: {error.strerror or error}") from error
