"""The identity of the machine that a client runs on."""

import os
from pathlib import Path

ROOT = Path("/")
_FILES = ("etc/machine-id", "var/lib/dbus/machine-id")
_CONTAINER_FILES = (".dockerenv", "run/.containerenv", "run/systemd/container")
_CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
_CHARACTERS = 32


def machine_id() -> bytes | None:
    """Return the machine's id, or None if the system has none that stays.

    A container has no id, because its id comes from the image or changes with each container. An id that is mounted
    comes from systemd, which makes it anew at each start if it cannot write /etc.
    """
    if _in_container():
        return None
    for path in (ROOT / name for name in _FILES):
        try:
            text = path.read_bytes().strip()
        except OSError:
            continue
        if len(text) == _CHARACTERS and not path.is_mount():
            return text
    return None


def _in_container() -> bool:
    if any((ROOT / name).exists() for name in _CONTAINER_FILES) or any(
        name in os.environ for name in _CONTAINER_VARIABLES
    ):
        return True
    try:
        mounts = (ROOT / "proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return False
    # containerd leaves no file. Its root is an overlay of the image's layers.
    return any(mount.split()[1:3] == ["/", "overlay"] for mount in mounts)
