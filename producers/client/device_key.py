"""The key of a device: a file beside the store, or a value that the application keeps."""

import os
from pathlib import Path

from oracles.errors import ParameterError
from producers.entropy import KEY_BYTES
from producers.errors import StoreError
from producers.files import read_file, replace_file


class DeviceKey:
    """The key of one store. It is made once, and never silently made again."""

    def __init__(self, store: str, key: bytes | None, *, in_file: bool = True) -> None:
        self.path = Path(f"{store}.key")
        self._key = key
        self._in_file = in_file
        """Whether the key is a file, unless the application passes it. If not, its key store has it."""
        if key is not None and len(key) != KEY_BYTES:
            raise ParameterError(f"a device key has {KEY_BYTES} bytes, this one has {len(key)}")

    def exists(self) -> bool:
        return self._key is not None or self.has_file()

    def has_file(self) -> bool:
        return self.path.is_symlink() or self.path.exists()

    def read(self) -> bytes:
        """Return the application's key, or the key in the file."""
        if self._key is not None:
            return self._key
        try:
            key = read_file(self.path, KEY_BYTES + 1)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(key) != KEY_BYTES:
            length = self.path.stat().st_size
            raise StoreError(f"{self.path} has {length} bytes, a device key has {KEY_BYTES}; restore the key")
        return key

    def renew(self) -> bytes:
        """Return the application's key, or make another file."""
        return self.make() if self._key is None else self._key

    def make(self) -> bytes:
        """Make a new key. The file gets its name only after all bytes are on disk."""
        key = os.urandom(KEY_BYTES)
        if not self._in_file:
            self._key = key
            return key
        try:
            # A power failure could lose the key of paid charges, if its name were not on disk too.
            replace_file(self.path, key)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
        return key

    def destroy(self) -> None:
        """Overwrite the key, then delete it."""
        if self.path.is_file() and not self.path.is_symlink():
            with self.path.open("r+b") as file:
                # The blocks of a deleted file stay readable on the disk.
                file.write(bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
        self.path.unlink(missing_ok=True)
