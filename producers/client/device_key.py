"""The key of a device: a file beside the store, or a value that the application passes."""

import os
from pathlib import Path

from oracles.errors import ParameterError
from producers.entropy import KEY_BYTES
from producers.errors import StoreError


class DeviceKey:
    """The key of one store. It is made once, and never silently made again."""

    def __init__(self, store: str, key: bytes | None) -> None:
        self.path = Path(f"{store}.key")
        self._key = key
        if key is not None and len(key) != KEY_BYTES:
            raise ParameterError(f"a device key has {KEY_BYTES} bytes, this one has {len(key)}")

    def exists(self) -> bool:
        return self._key is not None or self.path.exists()

    def read(self) -> bytes:
        """Return the application's key, or the key in the file."""
        if self._key is not None:
            return self._key
        make_private(self.path)
        try:
            key = self.path.read_bytes()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(key) != KEY_BYTES:
            raise StoreError(f"{self.path} has {len(key)} bytes, a device key has {KEY_BYTES}; restore the key")
        return key

    def renew(self) -> bytes:
        """Return the application's key, or make another file."""
        return self.make() if self._key is None else self._key

    def make(self) -> bytes:
        """Make a new key. The file gets its name only after all bytes are on disk."""
        key = os.urandom(KEY_BYTES)
        draft = Path(f"{self.path}.{os.getpid()}.new")

        try:
            with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)

            # The name is on disk only after its folder is. A power failure could lose the key of paid charges.
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
        return key

    def destroy(self) -> None:
        """Overwrite the key, then delete it."""
        if self.path.exists():
            with self.path.open("r+b") as file:
                # The blocks of a deleted file stay readable on the disk.
                file.write(bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            self.path.unlink()


def make_private(path: str | Path) -> None:
    """Remove the rights of other users to a file."""
    # By name: opening and closing a store here would drop the SQLite locks of this process.
    try:
        file = Path(path)
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{path} is open to other users, and this cannot be changed: {error.strerror}") from error
