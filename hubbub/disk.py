"""Names of files that a power failure cannot take away."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder to disk. A power failure could lose a new name before."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
