"""A folder as the target of a sink. A file appears whole under its name, or not at all."""

import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from aggregator.errors import TargetRefused
from hubbub.disk import sync_folder

SINK_FOLDER = "_sink"
"""The folder of everything that no reader needs."""
_TEMPORARY = "temporary-"


class Folder:
    """The files below one path, and the lock that keeps a second sink away. The lock dies with the process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock: int | None = None
        self._count = 0

    def __str__(self) -> str:
        return str(self._root)

    def take(self) -> None:
        """Take the lock, and remove the files that a killed sink left. Raise TargetRefused if another sink has it."""
        sink_folder = self._root / SINK_FOLDER
        sink_folder.mkdir(parents=True, exist_ok=True)
        # The file stays for ever: a lock on a deleted file would keep nobody away.
        lock = os.open(sink_folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(lock, 200).decode(errors="replace").strip() or "another process"
            os.close(lock)
            raise TargetRefused(f"{self._root} has a sink already: {owner}; stop it first") from None

        # The next try takes the lock anew, so a failed one must not hold it.
        self._lock = lock
        try:
            os.truncate(lock, 0)
            os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            # Nobody else writes here now, so these are of a process that was killed.
            for path in sink_folder.glob(f"{_TEMPORARY}*"):
                path.unlink()
        except OSError:
            self.close()
            raise

    def check(self) -> None:
        """Raise TargetRefused if the locked file is no longer that of the folder, and OSError if it cannot be seen."""
        assert self._lock is not None  # noqa: S101 - `take` comes first
        if not os.path.samestat(os.fstat(self._lock), (self._root / SINK_FOLDER / "lock").stat()):
            raise TargetRefused(f"{self._root} was replaced by another folder; start the sink again")

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def create(self, path: str, content: bytes) -> bool:
        """Create a file. Return False if there is one already, which stays as it is."""
        target = self._root / path
        temporary = self._temporary(content)
        try:
            self._make_folders(target.parent)
            # Unlike a rename, a link fails if another file has the name.
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink(missing_ok=True)
        # Until then a crash of the machine could take the name away again.
        sync_folder(target.parent)
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write a file in place of the present one, if there is one."""
        target = self._root / path
        temporary = self._temporary(content)
        self._make_folders(target.parent)
        temporary.replace(target)
        sync_folder(target.parent)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None if there is none."""
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        """Delete a file, and the folders that are empty without it."""
        target = self._root / path
        target.unlink(missing_ok=True)
        for parent in list(target.parents)[:2]:
            try:
                parent.rmdir()
            except OSError:
                return

    def modified(self, folder: str) -> dict[str, float]:
        """Return the time of the last change of each file below a folder, by its path."""
        return dict(self._files(self._root / folder))

    def _files(self, folder: Path) -> Iterator[tuple[str, float]]:
        for path in folder.rglob("*.parquet"):
            try:
                yield path.relative_to(self._root).as_posix(), path.stat().st_mtime
            except FileNotFoundError:
                continue

    def _temporary(self, content: bytes) -> Path:
        """Write a file under a name of its own, down to the disk."""
        self.check()
        self._count += 1
        path = self._root / SINK_FOLDER / f"{_TEMPORARY}{os.getpid()}-{self._count}"
        try:
            with path.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return path

    def _make_folders(self, folder: Path) -> None:
        """Make a folder, and sync each parent of a new one, or a crash of the machine could lose it."""
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in missing:
            sync_folder(path.parent)
