"""The lease of an object store: one sink owns it as long as it renews an object there by conditional writes."""

import logging
import os
import secrets
import socket
import threading
import time
from typing import Any

import orjson

from aggregator.errors import TargetRefused
from aggregator.sink.objects import Conflict, Objects, Version

log = logging.getLogger(__name__)

PATH = "_sink/owner.json"
RENEWAL = 10.0
"""Seconds between two renewals."""
TAKEOVER = 60.0
"""Seconds without a renewal after which another sink takes the store over."""


class Lease:
    """The lease of one sink, which a thread renews. A sink that was paused notices that another one has the store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._id = secrets.token_hex(8)
        self._version: Version = {}
        self._renewals = 0
        self._renewal_time = 0.0
        self._turn = threading.Lock()
        """Held during a renewal: the thread and the writer renew."""
        self._loss: str | None = None
        self._closing = threading.Event()

    def take(self) -> None:
        """Take the store. Raise TargetRefused if another sink renews its lease."""
        stale: Version | None = None
        deadline = 0.0
        while not self._closing.is_set():
            present = self._objects.get(PATH)
            content, version = present if present is not None else (b"", None)
            owner = _document(content)
            # The answer to this sink's own first write may have been lost.
            is_free = version is None or owner.get("released") is True or owner.get("id") == self._id
            if not is_free and version != stale:
                # The clocks of two machines differ, so only the time that this one watches counts.
                if stale is not None:
                    raise TargetRefused(f"{self._objects} has a sink already: {_name(owner)}; stop it first")
                stale = version
                deadline = time.monotonic() + TAKEOVER
                log.info(
                    "%s has an owner, %s; it is taken over after %g s of silence", self._objects, _name(owner), TAKEOVER
                )

            if is_free or time.monotonic() >= deadline:
                try:
                    self._write(version)
                except Conflict:
                    continue
                threading.Thread(target=self._renew_always, name="lease", daemon=True).start()
                return
            self._closing.wait(RENEWAL / 4)

    def check(self) -> None:
        """Raise TargetRefused if another sink has the store, and OSError if that cannot be known."""
        if self._loss is not None:
            raise TargetRefused(self._loss)
        # After a pause of the process its lease may be another's, before the thread has noticed it.
        if time.monotonic() - self._renewal_time > TAKEOVER / 2:
            self.renew()

    def renew(self) -> None:
        """Renew the lease now. Raise TargetRefused if another sink has it."""
        with self._turn:
            if self._closing.is_set():
                return
            try:
                self._write(self._version)
            except Conflict:
                self._read_again()

    def close(self) -> None:
        """Release the lease, so that the next sink needs not wait."""
        self._closing.set()
        with self._turn:
            if not self._version or self._loss is not None:
                return
            try:
                self._objects.put(PATH, self._content(is_released=True), self._version)
            except (Conflict, OSError) as error:
                log.warning("the lease cannot be released: %s", error or "another sink has it")

    def _renew_always(self) -> None:
        while not self._closing.wait(RENEWAL):
            try:
                self.renew()
            except TargetRefused:
                return
            except OSError as error:
                log.warning("the lease cannot be renewed: %s", error)

    def _write(self, version: Version | None) -> None:
        # The lease counts from before the request, however long the answer takes.
        start = time.monotonic()
        self._renewals += 1
        self._version = self._objects.put(PATH, self._content(), "create" if version is None else version)
        self._renewal_time = start

    def _read_again(self) -> None:
        """Look who has the lease after a refused renewal."""
        start = time.monotonic()
        present = self._objects.get(PATH)
        owner = _document(present[0]) if present is not None else {}
        if present is None or owner.get("id") != self._id:
            name = _name(owner) if present is not None else "nobody, because its owner.json was deleted"
            self._loss = f"{self._objects} has another sink now: {name}; this one was silent for too long"
            raise TargetRefused(self._loss)

        # The answer to an earlier renewal was lost, but the store has it.
        self._version = present[1]
        self._renewal_time = start

    def _content(self, *, is_released: bool = False) -> bytes:
        # Each renewal has other bytes, because some stores compute the ETag from them.
        document = {
            "version": 1,
            "owner": f"process {os.getpid()} on {socket.gethostname()}",
            "id": self._id,
            "renewals": self._renewals,
            "released": is_released,
        }
        return orjson.dumps(document)


def _document(content: bytes) -> dict[str, Any]:
    """Return the lease in these bytes, or nothing if they hold none."""
    try:
        document = orjson.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _name(owner: dict[str, Any]) -> str:
    return str(owner.get("owner", "an unknown process"))[:200]
