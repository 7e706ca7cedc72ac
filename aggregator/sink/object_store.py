"""An object store as the target of a sink. An object appears whole, and only conditional writes change one."""

import secrets
from typing import Literal, NoReturn

from aggregator.errors import TargetRefused
from aggregator.sink.lease import Lease
from aggregator.sink.objects import Conflict, Objects, Version

PROBE = "_sink/probe"
"""The object with which a sink tries whether the store refuses a second create."""


class ObjectStore:
    """The objects below one address, and the lease that keeps a second sink away.

    With `is_alone` the store may lack conditional writes. Then nothing keeps a second sink away.
    """

    def __init__(self, address: str, *, is_alone: bool = False) -> None:
        self._objects = Objects(address)
        self._lease = None if is_alone else Lease(self._objects)
        self._versions: dict[str, Version] = {}
        """The version of each object that this sink has read or written."""

    def __str__(self) -> str:
        return str(self._objects)

    def take(self) -> None:
        """Try the store, then take its lease. Raise TargetRefused if another sink has it."""
        if self._lease is not None:
            self._probe()
            self._lease.take()

    def check(self) -> None:
        """Raise TargetRefused if another sink has the store, and OSError if that cannot be known."""
        if self._lease is not None:
            self._lease.check()

    def close(self) -> None:
        if self._lease is not None:
            self._lease.close()

    def create(self, path: str, content: bytes) -> bool:
        """Create an object. Return False if there is one already, which stays as it is."""
        self.check()
        if self._lease is None and self._objects.get(path) is not None:
            return False
        try:
            self._objects.put(path, content, "overwrite" if self._lease is None else "create")
        except Conflict:
            return False
        return True

    def replace(self, path: str, content: bytes) -> None:
        """Write an object in place of the version that this sink knows."""
        self.check()
        if self._lease is None:
            self._objects.put(path, content, "overwrite")
            return
        try:
            self._versions[path] = self._objects.put(path, content, self._versions.get(path, "create"))
        except Conflict:
            # Another sink wrote it, or the answer to a write of this one was lost. Only the owner may go on.
            self._lease.renew()
            self._versions.pop(path, None)
            self.read(path)
            raise OSError(f"{self}: {path} has another version than this sink has read") from None

    def read(self, path: str) -> bytes | None:
        """Return the content of an object, or None if there is none."""
        present = self._objects.get(path)
        if present is None:
            return None
        content, self._versions[path] = present
        return content

    def delete(self, path: str) -> None:
        self.check()
        self._objects.delete(path)
        self._versions.pop(path, None)

    def modified(self, folder: str) -> dict[str, float]:
        """Return the time of the last change of each object below a folder, by its path."""
        return self._objects.times(folder)

    def _probe(self) -> None:
        """Raise TargetRefused if the store accepts a second create, or an update of an old version."""
        if self._is_accepted("create") and self._is_accepted("create"):
            self._refuse()
        present = self._objects.get(PROBE)
        # An update makes the version old that was read before. If another sink was faster, it is old already.
        if present is not None:
            self._is_accepted(present[1])
            if self._is_accepted(present[1]):
                self._refuse()

    def _refuse(self) -> NoReturn:
        raise TargetRefused(
            f"{self} has no conditional writes, so two sinks could overwrite each other's files; use another store, "
            "or run one sink only and say so by --alone"
        )

    def _is_accepted(self, condition: Version | Literal["create"]) -> bool:
        try:
            self._objects.put(PROBE, secrets.token_bytes(8), condition)
        except Conflict:
            return False
        return True
