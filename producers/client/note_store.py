"""The store of the notes of a device: one state for each recorder, in a file of its own.

It is not the store of charges, which never holds a value. A note that returned survives the end of the process. A power
failure may lose the newest notes, and counts none twice.
"""

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from producers.client.note_rules import NoteState
from producers.errors import StoreError
from producers.files import check_file, make_file

PATIENCE = 30.0
"""Seconds to wait while other processes write."""
_VERSION = 1
_CREATE = (
    "CREATE TABLE recorder (digest BLOB PRIMARY KEY, first_period INTEGER NOT NULL, period INTEGER NOT NULL, "
    "total INTEGER, past_answer INTEGER, newest_note INTEGER) WITHOUT ROWID"
)
_READ = "SELECT first_period, period, total, past_answer, newest_note FROM recorder WHERE digest = ?"
_FILES = ("-wal", "-shm", "")
"""Ends of the names of a database in WAL mode. A log that outlives its database would bring notes back."""

Change = Callable[[NoteState | None], NoteState | None]


class DamagedError(Exception):
    """A file that is no store of notes."""


class Notes:
    """The recorders of a device in a file. All threads and processes that use one path share them.

    A connection stays open, because the last one that closes waits for the disk. No connection lives on in a process
    that is forked from this one.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        """Device and number of the open file."""
        _STORES.add(self)

    def update(self, digest: bytes, change: Change) -> NoteState | None:
        """Replace the state of a recorder by what `change` makes of it, at once for all. Return the new state."""
        with self._lock, _faults_of(self.path):
            try:
                return self._update(digest, change)
            except (DamagedError, sqlite3.DatabaseError) as error:
                # Its subclasses are other faults, such as a full disk.
                if type(error) not in (DamagedError, sqlite3.DatabaseError):
                    raise
                self._delete()
            return self._update(digest, change)

    def empty_log(self) -> None:
        """Delete earlier states from the log of the file, if nobody uses it now. It waits for the disk."""
        with self._lock, _faults_of(self.path):
            database = self._current()
            database.execute("PRAGMA busy_timeout = 0")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            database.execute(f"PRAGMA busy_timeout = {int(1000 * PATIENCE)}")

    def forget(self) -> None:
        """Delete all notes."""
        with self._lock:
            if not Path(self.path).exists():
                return
            # First by a transaction, so that an interrupted deletion leaves none.
            with suppress(DamagedError, sqlite3.Error):
                self._current().execute("DELETE FROM recorder")
            self._delete()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def _update(self, digest: bytes, change: Change) -> NoteState | None:
        database = self._current()
        database.execute("BEGIN IMMEDIATE")
        try:
            state = _state_of(database.execute(_READ, (digest,)).fetchone())
            changed_state = change(state)
            if changed_state is None:
                database.execute("DELETE FROM recorder WHERE digest = ?", (digest,))
            elif changed_state != state:
                database.execute("REPLACE INTO recorder VALUES (?, ?, ?, ?, ?, ?)", (digest, *changed_state))
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")
        return changed_state

    def _current(self) -> sqlite3.Connection:
        """Return a connection to the file that the path names now. Another process may have deleted the open one."""
        if self._connection is None or _file_of(self.path) != self._file:
            self.close()
            self._connection = _connect(self.path)
            self._file = _file_of(self.path)
        return self._connection

    def _delete(self) -> None:
        self.close()
        try:
            for suffix in _FILES:
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be deleted: {error.strerror}") from error


class MemoryNotes:
    """The recorders of a device in memory, which end with their process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._states: dict[bytes, NoteState] = {}

    def update(self, digest: bytes, change: Change) -> NoteState | None:
        """Replace the state of a recorder by what `change` makes of it. Return the new state."""
        if os.getpid() != self._process:
            raise StoreError("notes in memory belong to the process that made them; use a file as the store")
        with self._lock:
            state = change(self._states.get(digest))
            self._states.pop(digest, None)
            if state is not None:
                self._states[digest] = state
            return state

    def empty_log(self) -> None:
        """Do nothing: memory has no log."""

    def forget(self) -> None:
        """Delete all notes."""
        with self._lock:
            self._states.clear()


_STORES: "weakref.WeakSet[Notes]" = weakref.WeakSet()
_forking_stores: list[Notes] = []
"""The stores whose locks the forking thread holds."""


def _before_fork() -> None:
    """Close all connections: a child that closes an inherited one would release the locks of this process."""
    _forking_stores[:] = _STORES
    for store in _forking_stores:
        store._lock.acquire()  # noqa: SLF001 - the locks of this module
        store.close()


def _after_fork() -> None:
    for store in _forking_stores:
        store._lock.release()  # noqa: SLF001
    _forking_stores.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@contextmanager
def _faults_of(path: str) -> Iterator[None]:
    try:
        yield
    except (DamagedError, sqlite3.Error) as error:
        raise StoreError(f"{path} cannot be used as a store of notes: {error}") from error


def _state_of(values: tuple[int, ...] | None) -> NoteState | None:
    """Return the state of a row, or None if there is none, or none that a recorder writes."""
    if values is None or not all(value is None or type(value) is int for value in values):
        return None
    return NoteState(*values)


def _file_of(path: str) -> tuple[int, int] | None:
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return None
    return state.st_dev, state.st_ino


def _connect(path: str) -> sqlite3.Connection:
    """Return a connection to a store of this version. Make the store if there is none."""
    for suffix in _FILES:
        check_file(f"{path}{suffix}")
    if not Path(path).exists():
        _make(path)

    database = _open(path)
    try:
        _check(database)
        # Without a wait for the disk in a note. What a power failure can lose is the newest notes.
        database.execute("PRAGMA synchronous = NORMAL")
        # Overwrite deleted rows, which are notes.
        database.execute("PRAGMA secure_delete = ON")
    except BaseException:
        database.close()
        raise
    return database


def _check(database: sqlite3.Connection) -> None:
    """Refuse a file that is no store of notes of this version."""
    [version] = database.execute("PRAGMA user_version").fetchone()
    [mode] = database.execute("PRAGMA journal_mode").fetchone()
    [fault] = database.execute("PRAGMA quick_check(1)").fetchone()
    if (version, mode, fault) != (_VERSION, "wal", "ok"):
        raise DamagedError(f"version {version}, mode {mode}, {fault}")


def _open(path: str) -> sqlite3.Connection:
    # mode=rw: a file that another process deletes meanwhile must not come back with the rights of the umask.
    uri = Path(path).absolute().as_uri() + "?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _make(path: str) -> None:
    """Make a store. The file gets its name only when it is complete."""
    draft = f"{path}.{secrets.token_hex(8)}.new"
    try:
        make_file(draft, b"")
        try:
            with closing(_open(draft)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute(_CREATE)
                database.execute(f"PRAGMA user_version = {_VERSION}")
            os.link(draft, path)
        finally:
            Path(draft).unlink()
    except FileExistsError:
        return  # another process was faster
    except OSError as error:
        raise StoreError(f"{path} cannot be made as a store of notes: {error.strerror}") from error
