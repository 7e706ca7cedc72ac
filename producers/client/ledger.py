"""The ledger of a device, with charges, rounds and the time of each last answer, but never a value.

A ledger is one SQLite file, or memory, with the device key beside it. Each `Transaction` is atomic for all threads and
processes. A file is open only during a transaction, so a process may fork at any other time. A ledger in memory refuses
to work in a process that was forked from its own.
"""

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

from oracles.errors import ParameterError
from producers.client import clones
from producers.client.device_key import DeviceKey
from producers.client.floor import item_of, restore
from producers.client.key_item import KeyItem, KeyStore
from producers.client.note_store import MemoryNotes, Notes
from producers.client.store_schema import VERSION, create, upgrade
from producers.client.transaction import NEVER, Transaction
from producers.entropy import KEY_BYTES
from producers.errors import StoreError
from producers.files import check_file, check_folder, make_file

MEMORY = ":memory:"
PATIENCE = 30.0
"""Seconds to wait while other processes write."""


class Ledger:
    """A store of charges: a path, or ":memory:", which lives as long as this object and belongs to its process.

    If the application has a `key_store`, hubbub keeps the device key there, and a floor of what the device has charged.
    If the application keeps the key alone, pass it as `key`, and `first=True` at the first start. By default the key is
    a file beside the store. `installation` is bytes that differ from device to device. They become part of the noise of
    a new store. `moved` accepts a store that was last opened on another machine.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        key_store: KeyStore | None = None,
        first: bool = False,
        installation: bytes | None = None,
        moved: bool = False,
    ) -> None:
        if installation is not None and not (isinstance(installation, bytes) and installation):
            raise ParameterError(f"installation must be bytes, at least one, got {installation!r}")

        self.store = os.fspath(store)
        self.notes = MemoryNotes() if self.store == MEMORY else Notes(f"{self.store}.notes")
        """The notes of recorders, which are not in the store, since that never holds a value."""
        self._key_store = key_store
        self._secret = b""
        """The key in the item, from which `key` follows."""
        self._written = b""
        self._floor = NEVER
        self._lock: AbstractContextManager[object] = nullcontext()
        self._shared: sqlite3.Connection | None = None
        self._process = os.getpid()

        device_key = DeviceKey(self.store, key, in_file=key_store is None)
        if self.store == MEMORY:
            self._lock = threading.Lock()
            self._shared = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._shared.close)
        else:
            self._open_file(device_key, key, first=first)
        with self._database() as database:
            self.key = self._open(database, device_key, key, installation, moved=moved)
        if key_store is not None and self.store != MEMORY:
            # Only after the item is safe.
            device_key.destroy()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction. Its writes are on disk when the block ends, or undone if the block raises."""
        with self._database() as database:
            yield Transaction(database, self._floor)

    def check_item(self, transaction: Transaction) -> None:
        """Refuse a charge with which the item of the key store would be too large."""
        if self._key_store is not None:
            item_of(transaction, self._secret).encode()

    def save_item(self) -> None:
        """Write the item of the key store from the store as it is now. Call it before a report leaves."""
        if self._key_store is not None:
            with self.transaction() as transaction:
                self._write_item(self._key_store, item_of(transaction, self._secret))

    def forget(self) -> None:
        """Delete the notes, the key, then the store."""
        self.notes.forget()
        if self._key_store is not None:
            self._key_store.write(b"")
            self._written = b""
        # A store in memory stays usable after it forgets, with a new key, since nobody can open it again.
        if self._shared is not None:
            with self._database() as database:
                for table in ("charge", "last", "round", "given", "once", "lost", "expiry"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - the names are constants
            self._secret = os.urandom(KEY_BYTES)
            self.key = self._secret
            return
        try:
            DeviceKey(self.store, None).destroy()
            for path in (self.store, f"{self.store}-journal"):
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self.store} cannot be deleted: {error.strerror}") from error

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        self._check_process()
        try:
            with self._lock, self._connection() as database:
                # The lock comes first: two processes that both read before they write would spend the same budget.
                database.execute("BEGIN IMMEDIATE")
                try:
                    yield database
                except BaseException:
                    database.execute("ROLLBACK")
                    raise
                database.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes damaged text in its messages
            raise StoreError(f"{self.store} cannot be used as a store of charges: {error}") from error

    def _connection(self) -> AbstractContextManager[sqlite3.Connection]:
        return closing(_connect(self.store)) if self._shared is None else nullcontext(self._shared)

    def _check_process(self) -> None:
        """Refuse a store in memory after a fork, because every process would have the whole budget."""
        if self._shared is not None and os.getpid() != self._process:
            raise StoreError(
                f"this {MEMORY} store belongs to the process that made it; after a fork each process would spend the "
                "whole budget again; use a file as the store, or make the store after the fork"
            )

    def _open_file(self, device_key: DeviceKey, key: bytes | None, *, first: bool) -> None:
        """Make the store if this is a first start, and refuse files that others can change."""
        check_folder(Path(self.store).absolute().parent)
        for path in (self.store, device_key.path, f"{self.store}-journal"):
            check_file(path)
        if Path(self.store).exists():
            return

        has_item = self._read_item() is not None
        if key is not None and not has_item and not first:
            raise StoreError(
                f"{self.store} is missing, and its record of charges too; restore the store, or pass first=True if "
                "this device starts for the first time"
            )
        self._make_store(device_key, has_item=has_item)

    def _open(
        self,
        database: sqlite3.Connection,
        device_key: DeviceKey,
        key: bytes | None,
        installation: bytes | None,
        *,
        moved: bool,
    ) -> bytes:
        """Bring a store up to date with its version, its key and its item. Return the key of the noise."""
        item = self._read_item()
        if item is not None:
            device_key = self._key_of_item(item, device_key, key)
        if self._shared is not None:
            create(database)
            own_key = key if item is None else item.key
            self._secret = os.urandom(KEY_BYTES) if own_key is None else own_key
            noise_key = clones.derive(self._secret, installation)
        else:
            self._upgrade(database, device_key)
            self._secret, noise_key = clones.bind(database, self.store, device_key, installation, moved=moved)

        if item is not None:
            self._floor = float(item.newest)
            restore(Transaction(database), item)
        if self._key_store is not None:
            self._write_item(self._key_store, item_of(Transaction(database, self._floor), self._secret))
        return noise_key

    def _key_of_item(self, item: KeyItem, device_key: DeviceKey, key: bytes | None) -> DeviceKey:
        """Return the key of the item, or refuse another one."""
        file_key = device_key.read() if key is None and device_key.has_file() else None
        for other_key, place in ((key, "The key that the application passes"), (file_key, str(device_key.path))):
            if other_key not in (None, item.key):
                raise StoreError(f"{place} is not the key in the key store; remove the one that is not this device's")
        return DeviceKey(self.store, item.key, in_file=False)

    def _read_item(self) -> KeyItem | None:
        if self._key_store is None:
            return None
        try:
            data = self._key_store.read()
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"the key store cannot be read: {error!r}") from error
        return KeyItem.decode(data) if data else None

    def _write_item(self, key_store: KeyStore, item: KeyItem) -> None:
        data = item.encode()
        if data == self._written:
            return
        try:
            key_store.write(data)
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"the key store cannot be written, and no answer is given: {error!r}") from error
        self._written = data

    def _make_store(self, device_key: DeviceKey, *, has_item: bool) -> None:
        """Make the first store. The file gets its name only when it is complete. An empty one counts as damaged."""
        # A key is made after its store. If another process made both meanwhile, the store is there by now.
        if device_key.has_file() and not has_item and not Path(self.store).exists():
            raise StoreError(
                f"{self.store} is missing, but its key {device_key.path} exists: the record of charges is lost; "
                "restore the store, or delete the key too and start with a new one"
            )

        draft = f"{self.store}.{secrets.token_hex(8)}.new"
        try:
            make_file(draft, b"")
            try:
                with closing(_connect(draft)) as database:
                    database.execute("BEGIN IMMEDIATE")
                    create(database)
                    database.execute("COMMIT")
                # A link fails if the name exists. A rename would replace the store of another process, and its charges.
                os.link(draft, self.store)
            finally:
                Path(draft).unlink()
        except FileExistsError:
            return  # another process was faster
        except OSError as error:
            raise StoreError(f"{self.store} cannot be made as a store of charges: {error.strerror}") from error

    def _upgrade(self, database: sqlite3.Connection, device_key: DeviceKey) -> None:
        """Upgrade a store to the present version, or refuse it."""
        [version] = database.execute("PRAGMA user_version").fetchone()
        [fault] = database.execute("PRAGMA quick_check(1)").fetchone()
        if fault != "ok":
            raise StoreError(f"{self.store} is damaged: {fault}; restore the store")
        if version == 0 and device_key.exists():
            raise StoreError(f"{self.store} is empty, but has a key: the record of charges is lost; restore the store")
        if version > VERSION:
            raise StoreError(f"{self.store} has version {version}, this program reads up to {VERSION}; upgrade hubbub")
        if version == 0:
            create(database)
        elif version < VERSION:
            upgrade(database, version)
        # Stores of version 1 had no key.
        if version == 1 and not device_key.exists():
            device_key.make()


def _connect(path: str) -> sqlite3.Connection:
    # mode=rw: a missing file is an error, not a new budget.
    uri = Path(path).absolute().as_uri() + "?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    # With less than EXTRA, a power failure could undo a charge.
    database.execute("PRAGMA synchronous = EXTRA")
    # Overwrite deleted rows: a store of version 1 contains answers.
    database.execute("PRAGMA secure_delete = ON")
    return database
