"""Vaults: the device key of a store, in a file beside it or kept by the application."""

import os
from pathlib import Path

from oracles.errors import ParameterError
from producers.entropy import KEY_BYTES
from producers.errors import StoreError


class Vault:
    """One key: made once, never in silence a second time."""

    def __init__(self, store: str, key: bytes | None) -> None:
        self.beside = Path(f"{store}.key")
        self._key = key
        if key is not None and len(key) != KEY_BYTES:
            raise ParameterError(f"a device key has {KEY_BYTES} bytes, this one has {len(key)}")

    def there(self) -> bool:
        return self._key is not None or self.beside.exists()

    def given(self) -> bytes:
        """The key that the application keeps."""
        assert self._key is not None  # noqa: S101 - asked only where it is
        return self._key

    def read(self) -> bytes:
        if self._key is not None:
            return self._key
        private(self.beside)
        try:
            key = self.beside.read_bytes()
        except OSError as error:
            raise StoreError(f"{self.beside} cannot be read: {error.strerror}") from error
        if len(key) != KEY_BYTES:
            raise StoreError(f"{self.beside} has {len(key)} bytes where a device key has {KEY_BYTES}; restore it")
        return key

    def make(self) -> bytes:
        """A new key, written whole before it has its name."""
        key = os.urandom(KEY_BYTES)
        making = Path(f"{self.beside}.{os.getpid()}.new")
        try:
            with os.fdopen(os.open(making, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
            making.replace(self.beside)
            folder = os.open(self.beside.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreError(f"{self.beside} cannot be written: {error.strerror}") from error
        return key

    def destroy(self) -> None:
        """Overwrite the key, then delete it."""
        if self.beside.exists():
            with self.beside.open("r+b") as file:
                file.write(bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            self.beside.unlink()


def private(path: str | Path) -> None:
    """Let nobody else read a file."""
    # By its name: opening and closing a store here would drop the locks of others in this process.
    try:
        file = Path(path)
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
    except OSError as error:
        raise StoreError(f"{path} can be read by others: {error.strerror}") from error
