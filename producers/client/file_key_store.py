"""A key store in a folder that no backup takes, for systems that have no key store of their own."""

import os
from pathlib import Path

from producers.client.key_item import MOST
from producers.errors import StoreError
from producers.files import check_folder, read_file, replace_file


class FileKeyStore:
    """A file with the item of a device: its key, and a floor of what it has charged.

    Put it in a folder that no backup takes. If key and store come from one backup, nothing can notice it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> bytes | None:
        """Return the item, or None if there is none."""
        check_folder(self.path.parent)
        try:
            return read_file(self.path, MOST + 1)
        except FileNotFoundError:
            return None
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error

    def write(self, item: bytes) -> None:
        """Replace the item. It is on disk when this returns. An empty item deletes the file."""
        check_folder(self.path.parent)
        try:
            replace_file(self.path, item)
            if not item:
                self.path.unlink()
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path} cannot be written: {error.strerror}") from error
