"""The protection against clones: a store belongs to one key, one installation and one machine."""

import hmac
import sqlite3

from producers.client.device_key import DeviceKey
from producers.client.machine import machine_id
from producers.errors import StoreError

TABLE = "CREATE TABLE mark (of_key BLOB, of_installation BLOB, of_machine BLOB)"
"""One row, from the first opening on. NULL: the store is not bound to anything of this kind."""
_MARK_BYTES = 8
"""Length of a mark. It is enough to tell keys apart, and too short to reveal a key."""


def derive(secret: bytes, installation: bytes | None) -> bytes:
    """Return the key that noise is drawn from."""
    return secret if installation is None else hmac.digest(secret, b"hubbub installation" + installation, "sha256")


def bind(
    database: sqlite3.Connection, store: str, device_key: DeviceKey, installation: bytes | None, *, moved: bool
) -> tuple[bytes, bytes]:
    """Return the device key and the key that noise is drawn from, or refuse to open the store.

    Another key or machine is refused if the store has charges. Without charges, the store gets a new key on another
    machine, because other copies of the same image may have the old one.
    """
    history = _has_history(database)
    secret = _device_secret(store, device_key, history=history)
    row: tuple[bytes | None, bytes | None, bytes | None] | None = database.execute("SELECT * FROM mark").fetchone()
    of_key, of_installation, of_machine = row or (None, None, None)

    same_key = of_key in (None, _key_mark(secret))
    if history and not same_key:
        raise StoreError(f"the key is not the first key of {store} and would draw new noise; use the first key")

    if row and of_installation is None:
        installation = None  # the store was made without one
    if of_installation and (
        installation is None or (same_key and of_installation != _installation_mark(secret, installation))
    ):
        manner = "without one" if installation is None else "with another one"
        raise StoreError(
            f"{store} was made with an installation and is opened {manner}; pass the first one, or delete the store "
            "and its key if this device has them from another"
        )

    machine = machine_id()
    if machine and same_key and of_machine not in (None, _machine_mark(secret, machine)):
        if history and not moved:
            raise StoreError(
                f"{store} was last opened on another machine; if this is a copy, delete the store and its key; if the "
                "store has moved and the other machine does not use it any more, open it once with moved=True"
            )
        if not history:
            # Devices of one image with one key have the same noise, and errors grew to 16 times the stated ones.
            secret = device_key.renew()

    marks = (
        _key_mark(secret),
        None if installation is None else _installation_mark(secret, installation),
        # Without a machine id the last mark stays, or a copy would pass on such a machine and then on the next.
        of_machine if machine is None else _machine_mark(secret, machine),
    )
    if marks != row:
        database.execute("DELETE FROM mark")
        database.execute("INSERT INTO mark VALUES (?, ?, ?)", marks)
    return secret, derive(secret, installation)


def _device_secret(store: str, device_key: DeviceKey, *, history: bool) -> bytes:
    if device_key.exists():
        return device_key.read()
    if history:
        raise StoreError(
            f"the key of {store} is missing ({device_key.path}), and another key would draw new noise; "
            "restore the key, or delete the store too and start with a new one"
        )
    return device_key.make()


def _has_history(database: sqlite3.Connection) -> bool:
    """Whether the store has a charge or an answer."""
    [count] = database.execute("SELECT (SELECT COUNT(*) FROM charge) + (SELECT COUNT(*) FROM last)").fetchone()
    return bool(count)


def _key_mark(secret: bytes) -> bytes:
    return _mark(secret, b"hubbub: the key of this store")


def _installation_mark(secret: bytes, installation: bytes) -> bytes:
    return _mark(secret, b"hubbub: the installation of this store" + installation)


def _machine_mark(secret: bytes, machine: bytes) -> bytes:
    return _mark(secret, b"hubbub: the machine of this store" + machine)


def _mark(secret: bytes, text: bytes) -> bytes:
    return hmac.digest(secret, text, "sha256")[:_MARK_BYTES]
