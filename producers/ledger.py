"""Ledgers: what a device was charged, in which rounds, and when it answered last; never a value.

One SQLite file, or memory, and the device key beside it. Every page is one transaction that no other
thread or process sees half of; a file is opened for a page only, so processes may fork as they like.
"""

import hmac
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from oracles.mechanisms.protocol import Charge
from producers.entropy import KEY_BYTES, Mode
from producers.errors import StoreError
from producers.vault import Vault, private

MEMORY = ":memory:"
PATIENCE = 30.0
"""Seconds to wait while other processes write."""
_VERSION = 2
_MARK = b"hubbub: the key of this store"
_MARK_BYTES = 8
"""Enough to tell keys apart, and says nothing of a key."""
_UNNAMED = b""
"""The digest of what was charged before digests were written."""
_COLUMNS = "name TEXT, digest BLOB, round INTEGER, mode INTEGER, epsilon REAL, times INTEGER NOT NULL"
_TABLES = (
    f"CREATE TABLE charge ({_COLUMNS}, PRIMARY KEY (digest, name, round, mode, epsilon))",
    "CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL)",
    "CREATE TABLE round (digest BLOB PRIMARY KEY, began INTEGER NOT NULL)",
    "CREATE TABLE given (digest BLOB PRIMARY KEY, answers INTEGER NOT NULL)",
    "CREATE TABLE once (digest BLOB, round INTEGER, report BLOB NOT NULL, PRIMARY KEY (digest, round))",
    f"PRAGMA user_version = {_VERSION}",
)


class Page:
    """One transaction, and what is read and written in it."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def spent(self, name: str, digest: bytes, epsilon: float, begun: int) -> Fraction:
        """The charge of a definition in a round, whatever its mode was; what an old store says of it, always."""
        rows = self._database.execute(
            "SELECT epsilon, times FROM charge WHERE (digest = ? AND round = ?) OR (digest = ? AND name = ?"
            " AND epsilon = ?)",
            (digest, begun, _UNNAMED, name, epsilon),
        )
        return _sum(rows)

    def total(self, digest: bytes, begun: int) -> Fraction:
        """The charges of all definitions in their latest rounds, this one in `begun`, and all without renew."""
        rows = self._database.execute(
            "SELECT epsilon, times FROM charge AS c WHERE round = 0 OR (digest = ? AND round = ?) OR (digest <> ? AND"
            " round = (SELECT MAX(round) FROM charge WHERE digest = c.digest))",
            (digest, begun, digest),
        )
        return _sum(rows)

    def everything(self) -> Fraction:
        """All that was ever charged."""
        return _sum(self._database.execute("SELECT epsilon, times FROM charge"))

    def charged(self, digest: bytes, begun: int, mode: Mode, epsilon: float) -> int:
        """How many times a definition was charged an epsilon in a round."""
        row: tuple[int] | None = self._row(
            "SELECT times FROM charge WHERE digest = ? AND round = ? AND mode = ? AND epsilon = ?",
            *(digest, begun, mode, epsilon),
        )
        return 0 if row is None else row[0]

    def charges(self, digest: bytes, mode: Mode) -> int:
        """How many times a definition was charged in a mode, in all its rounds."""
        row: tuple[int | None] = self._row("SELECT SUM(times) FROM charge WHERE digest = ? AND mode = ?", digest, mode)
        return row[0] or 0

    def charge(self, name: str, digest: bytes, begun: int, mode: Mode, charge: Charge) -> None:
        more = "INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times"
        self._database.execute(more, (name, digest, begun, mode, charge.epsilon, charge.times))

    def round(self, digest: bytes) -> int:
        """The last round of a definition, 0 where there is none."""
        row: tuple[int] | None = self._row("SELECT began FROM round WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def enter(self, digest: bytes, begun: int) -> None:
        """Write which round it is; never an earlier one again."""
        later = "INSERT INTO round VALUES (?, ?) ON CONFLICT DO UPDATE SET began = MAX(began, excluded.began)"
        self._database.execute(later, (digest, begun))

    def given(self, digest: bytes) -> int:
        """How many fresh answers were handed out."""
        row: tuple[int] | None = self._row("SELECT answers FROM given WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def give(self, digest: bytes) -> None:
        more = "INSERT INTO given VALUES (?, 1) ON CONFLICT DO UPDATE SET answers = answers + 1"
        self._database.execute(more, (digest,))

    def report(self, digest: bytes, begun: int) -> bytes | None:
        """The report that is sent again and again in a round, where the answer is given once."""
        row: tuple[bytes] | None = self._row("SELECT report FROM once WHERE digest = ? AND round = ?", digest, begun)
        return None if row is None else row[0]

    def keep(self, digest: bytes, begun: int, report: bytes) -> None:
        self._database.execute("DELETE FROM once WHERE digest = ?", (digest,))
        self._database.execute("INSERT INTO once VALUES (?, ?, ?)", (digest, begun, report))

    def last(self, name: str) -> float | None:
        """When a query of this name was last answered."""
        row: tuple[float] | None = self._row("SELECT at FROM last WHERE name = ?", name)
        return None if row is None else row[0]

    def answered(self, name: str, at: float) -> None:
        self._database.execute("INSERT OR REPLACE INTO last VALUES (?, ?)", (name, at))

    def names(self) -> list[str]:
        """The queries that were ever charged."""
        return [name for (name,) in self._database.execute("SELECT DISTINCT name FROM charge ORDER BY name")]

    def _row(self, query: str, *parameters: object) -> Any:
        return self._database.execute(query, parameters).fetchone()


class Ledger:
    """The pages of one store: a path, or ":memory:" for as long as this object lives.

    `key` is the device key where the application keeps it, in the system's key store; else it is a
    file beside the store.
    """

    def __init__(self, store: str | os.PathLike[str], key: bytes | None = None) -> None:
        self.store = os.fspath(store)
        self._lock: AbstractContextManager[object] = nullcontext()
        self._shared: sqlite3.Connection | None = None
        vault = Vault(self.store, key)
        if self.store == MEMORY:
            self._lock = threading.Lock()
            self._shared = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._shared.close)
            with self._begun() as database:
                _create(database)
            self.key = os.urandom(KEY_BYTES) if key is None else vault.given()
            return
        if not Path(self.store).exists():
            self._begin(vault)
        private(self.store)
        with self._begun() as database:
            self._take_over(database, vault)
            self.key = vault.read() if vault.there() else self._first_key(database, vault)
            self._hold_to(database, self.key)

    @contextmanager
    def page(self) -> Iterator[Page]:
        """One page: all that is written on it is safely stored when the block ends, or nothing is where it raises."""
        with self._begun() as database:
            yield Page(database)

    def forget(self) -> None:
        """Delete store and key: both for good, the key first."""
        if self._shared is not None:
            with self._begun() as database:
                for table in ("charge", "last", "round", "given", "once"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - the names stand above
            self.key = os.urandom(KEY_BYTES)
            return
        try:
            Vault(self.store, None).destroy()
            for path in (self.store, f"{self.store}-journal"):
                Path(path).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{self.store} cannot be deleted: {error.strerror}") from error

    @contextmanager
    def _begun(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock, self._opened() as database:
                database.execute("BEGIN IMMEDIATE")
                try:
                    yield database
                except BaseException:
                    database.execute("ROLLBACK")
                    raise
                database.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite quotes what it cannot read
            raise StoreError(f"{self.store} cannot be used as a store of charges: {error}") from error

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return closing(_connected(self.store)) if self._shared is None else nullcontext(self._shared)

    def _begin(self, vault: Vault) -> None:
        """A first store, whole before it has its name; an empty one would be taken for one that was emptied."""
        if vault.beside.exists():
            raise StoreError(
                f"{self.store} is gone, but its key {vault.beside} is there: what was charged is lost; restore the "
                "store, or delete the key too to begin anew"
            )
        making = f"{self.store}.{os.getpid()}.{threading.get_ident()}.new"
        try:
            os.close(os.open(making, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                with closing(_connected(making)) as database:
                    database.execute("BEGIN IMMEDIATE")
                    _create(database)
                    database.execute("COMMIT")
                os.link(making, self.store)
            finally:
                Path(making).unlink()
        except FileExistsError:
            return  # another process was quicker
        except OSError as error:
            raise StoreError(f"{self.store} cannot be made as a store of charges: {error.strerror}") from error

    def _take_over(self, database: sqlite3.Connection, vault: Vault) -> None:
        """Bring a store to this version, or refuse it."""
        [version] = database.execute("PRAGMA user_version").fetchone()
        [fault] = database.execute("PRAGMA quick_check(1)").fetchone()
        if fault != "ok":
            raise StoreError(f"{self.store} is damaged: {fault}; restore it")
        if version == 0 and vault.there():
            raise StoreError(f"{self.store} is empty where a key is: what was charged is lost; restore the store")
        if version > _VERSION:
            raise StoreError(f"{self.store} is a store of version {version}, this program knows {_VERSION}")
        if version == 0:
            _create(database)
        elif version < _VERSION:
            _upgrade(database)
            if not vault.there():
                vault.make()

    def _hold_to(self, database: sqlite3.Connection, key: bytes) -> None:
        """Refuse another key than the one that the store began with: its noise would be drawn anew."""
        mark = hmac.new(key, _MARK, "sha256").digest()[:_MARK_BYTES]
        database.execute("CREATE TABLE IF NOT EXISTS mark (of_key BLOB NOT NULL)")
        known = database.execute("SELECT of_key FROM mark").fetchone()
        if known == (mark,):
            return
        if known is None or not _used(database):
            database.execute("DELETE FROM mark")
            database.execute("INSERT INTO mark VALUES (?)", (mark,))
        else:
            raise StoreError(
                f"the key is not the one that {self.store} began with: noise would be drawn anew; give the right one"
            )

    def _first_key(self, database: sqlite3.Connection, vault: Vault) -> bytes:
        if _used(database):
            raise StoreError(
                f"the key of {self.store} is gone ({vault.beside}): with another one its noise would be drawn anew; "
                "restore the key, or delete the store too to begin anew"
            )
        return vault.make()


def _used(database: sqlite3.Connection) -> bool:
    """Whether anything was ever charged or answered."""
    [used] = database.execute("SELECT (SELECT COUNT(*) FROM charge) + (SELECT COUNT(*) FROM last)").fetchone()
    return bool(used)


def _connected(path: str) -> sqlite3.Connection:
    # A file that is gone is an error, not a new budget.
    there = Path(path).absolute().as_uri() + "?mode=rw"
    database = sqlite3.connect(there, uri=True, timeout=PATIENCE, isolation_level=None)
    # With less, a charge could be forgotten with the power.
    database.execute("PRAGMA synchronous = EXTRA")
    # What is deleted is overwritten: an old store has answers in it.
    database.execute("PRAGMA secure_delete = ON")
    return database


def _create(database: sqlite3.Connection) -> None:
    for table in _TABLES:
        database.execute(table)


def _upgrade(database: sqlite3.Connection) -> None:
    """From version 1, which wrote charges by name and kept each answer with its report."""
    database.execute("DROP TABLE memo")
    database.execute("ALTER TABLE last RENAME TO before")
    _create(database)
    database.execute("INSERT INTO last SELECT name, at FROM before")
    database.execute("INSERT INTO charge SELECT name, ?, 0, ?, epsilon, times FROM spent", (_UNNAMED, Mode.KEPT))
    database.execute("DROP TABLE before")
    database.execute("DROP TABLE spent")


def _sum(rows: Iterator[tuple[float, int]] | sqlite3.Cursor) -> Fraction:
    try:
        return sum((Fraction(epsilon) * times for epsilon, times in rows), Fraction())
    except (ArithmeticError, TypeError, ValueError) as error:
        raise sqlite3.DataError(f"a charge is no number: {error}") from error
