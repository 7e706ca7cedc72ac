"""The ledger of a device, with charges, rounds and the time of each last answer, but never a value.

A ledger is one SQLite file, or memory, with the device key beside it. Each `Transaction` is atomic for all threads and
processes. A file is open only during a transaction, so a process may fork at any other time. A ledger in memory refuses
to work in a process that was forked from its own.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from oracles.errors import ParameterError
from oracles.mechanisms.protocol import Charge
from producers.client import clones
from producers.client.device_key import DeviceKey, make_private
from producers.entropy import KEY_BYTES, Mode
from producers.errors import StoreError

MEMORY = ":memory:"
PATIENCE = 30.0
"""Seconds to wait while other processes write."""
_VERSION = 3
_NO_DIGEST = b""
"""The digest of charges from version 1, which stored no digests."""
_COLUMNS = "name TEXT, digest BLOB, round INTEGER, mode INTEGER, epsilon REAL, times INTEGER NOT NULL"
_TABLES = (
    f"CREATE TABLE charge ({_COLUMNS}, PRIMARY KEY (digest, name, round, mode, epsilon))",
    "CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL)",
    "CREATE TABLE round (digest BLOB PRIMARY KEY, began INTEGER NOT NULL)",
    "CREATE TABLE given (digest BLOB PRIMARY KEY, answers INTEGER NOT NULL)",
    "CREATE TABLE once (digest BLOB, round INTEGER, report BLOB NOT NULL, PRIMARY KEY (digest, round))",
    clones.TABLE,
    f"PRAGMA user_version = {_VERSION}",
)


class Transaction:
    """A transaction on a ledger. A round is named by its start, in Unix seconds."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def round_charge(self, name: str, digest: bytes, epsilon: float, start: int) -> Fraction:
        """Return the charge of a definition in a round, over all modes. Charges from version 1 count in every round."""
        rows = self._database.execute(
            "SELECT epsilon, times FROM charge WHERE (digest = ? AND round = ?) OR (digest = ? AND name = ?"
            " AND epsilon = ?)",
            (digest, start, _NO_DIGEST, name, epsilon),
        )
        return _sum(rows)

    def device_charge(self, digest: bytes, start: int) -> Fraction:
        """Return the sum that max_epsilon limits.

        It adds the charges of every definition in its latest round. For the definition `digest` this is the round
        `start`. Definitions without renew add all their charges.
        """
        rows = self._database.execute(
            "SELECT epsilon, times FROM charge AS c WHERE round = 0 OR (digest = ? AND round = ?) OR (digest <> ? AND"
            " round = (SELECT MAX(round) FROM charge WHERE digest = c.digest))",
            (digest, start, digest),
        )
        return _sum(rows)

    def total_charge(self) -> Fraction:
        """Return the sum of all charges of all rounds."""
        return _sum(self._database.execute("SELECT epsilon, times FROM charge"))

    def stable_charge(self, digest: bytes, start: int) -> Fraction:
        """Return the charge of answers for life and of answers once in a round, which have the same noise."""
        sql = "SELECT epsilon, times FROM charge WHERE digest = ? AND round = ? AND mode = ?"
        return _sum(self._database.execute(sql, (digest, start, Mode.STABLE)))

    def count_charges(self, digest: bytes, mode: Mode) -> int:
        """Return the number of charges in a mode, over all rounds."""
        row: tuple[int | None] = self._row("SELECT SUM(times) FROM charge WHERE digest = ? AND mode = ?", digest, mode)
        return row[0] or 0

    def add_charge(self, name: str, digest: bytes, start: int, mode: Mode, charge: Charge) -> None:
        sql = "INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times"
        self._database.execute(sql, (name, digest, start, mode, charge.epsilon, charge.times))

    def last_round(self, digest: bytes) -> int:
        """Return the start of the last round of a definition, or 0 if it has no round."""
        row: tuple[int] | None = self._row("SELECT began FROM round WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def enter_round(self, digest: bytes, start: int) -> None:
        """Store the present round. An earlier round than the last one changes nothing."""
        sql = "INSERT INTO round VALUES (?, ?) ON CONFLICT DO UPDATE SET began = MAX(began, excluded.began)"
        self._database.execute(sql, (digest, start))

    def count_answers(self, digest: bytes) -> int:
        """Return the number of fresh answers."""
        row: tuple[int] | None = self._row("SELECT answers FROM given WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def add_answer(self, digest: bytes) -> None:
        sql = "INSERT INTO given VALUES (?, 1) ON CONFLICT DO UPDATE SET answers = answers + 1"
        self._database.execute(sql, (digest,))

    def once_report(self, digest: bytes, start: int) -> bytes | None:
        """Return the stored report of a query with answers = "once", or None if the round has none yet."""
        row: tuple[bytes] | None = self._row("SELECT report FROM once WHERE digest = ? AND round = ?", digest, start)
        return None if row is None else row[0]

    def store_once_report(self, digest: bytes, start: int, report: bytes) -> None:
        """Store the report of a round, and delete those of earlier rounds."""
        self._database.execute("DELETE FROM once WHERE digest = ?", (digest,))
        self._database.execute("INSERT INTO once VALUES (?, ?, ?)", (digest, start, report))

    def answer_time(self, name: str) -> float | None:
        """Return the time of the last answer to a query of this name, in Unix seconds."""
        row: tuple[float] | None = self._row("SELECT at FROM last WHERE name = ?", name)
        return None if row is None else row[0]

    def set_answer_time(self, name: str, time_s: float) -> None:
        self._database.execute("INSERT OR REPLACE INTO last VALUES (?, ?)", (name, time_s))

    def names(self) -> list[str]:
        """Return the names of all queries that have charges."""
        return [name for (name,) in self._database.execute("SELECT DISTINCT name FROM charge ORDER BY name")]

    def _row(self, query: str, *parameters: object) -> Any:
        return self._database.execute(query, parameters).fetchone()


class Ledger:
    """A store of charges: a path, or ":memory:", which lives as long as this object and belongs to its process.

    If the application keeps the device key, for example in the system's key store, pass it as `key`. By default the
    key is a file beside the store. `installation` is bytes that differ from device to device. They become part of the
    noise of a new store. `moved` accepts a store that was last opened on another machine.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        installation: bytes | None = None,
        moved: bool = False,
    ) -> None:
        if installation is not None and not (isinstance(installation, bytes) and installation):
            raise ParameterError(f"installation must be bytes, at least one, got {installation!r}")

        self.store = os.fspath(store)
        self._lock: AbstractContextManager[object] = nullcontext()
        self._shared: sqlite3.Connection | None = None
        self._process = os.getpid()

        device_key = DeviceKey(self.store, key)
        if self.store == MEMORY:
            self._lock = threading.Lock()
            self._shared = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._shared.close)
            with self._database() as database:
                _create(database)
            self.key = clones.derive(os.urandom(KEY_BYTES) if key is None else key, installation)
            return
        if not Path(self.store).exists():
            self._make_store(device_key)
        make_private(self.store)
        with self._database() as database:
            self._upgrade(database, device_key)
            self.key = clones.bind(database, self.store, device_key, installation, moved=moved)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction. Its writes are on disk when the block ends, or undone if the block raises."""
        with self._database() as database:
            yield Transaction(database)

    def forget(self) -> None:
        """Delete the key, then the store."""
        # A store in memory stays usable after it forgets, with a new key, since nobody can open it again.
        if self._shared is not None:
            with self._database() as database:
                for table in ("charge", "last", "round", "given", "once"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 - the names are constants
            self.key = os.urandom(KEY_BYTES)
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

    def _make_store(self, device_key: DeviceKey) -> None:
        """Make the first store. The file gets its name only when it is complete. An empty one counts as damaged."""
        if device_key.path.exists():
            raise StoreError(
                f"{self.store} is missing, but its key {device_key.path} exists: the record of charges is lost; "
                "restore the store, or delete the key too and start with a new one"
            )

        draft = f"{self.store}.{os.getpid()}.{threading.get_ident()}.new"
        try:
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                with closing(_connect(draft)) as database:
                    database.execute("BEGIN IMMEDIATE")
                    _create(database)
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
        if version > _VERSION:
            raise StoreError(f"{self.store} has version {version}, this program reads up to {_VERSION}; upgrade hubbub")
        if version == 0:
            _create(database)
        elif version == 1:
            _upgrade_version_1(database)
            if not device_key.exists():
                device_key.make()
        elif version == 2:
            _upgrade_version_2(database)


def _connect(path: str) -> sqlite3.Connection:
    # mode=rw: a missing file is an error, not a new budget.
    uri = Path(path).absolute().as_uri() + "?mode=rw"
    database = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)
    # With less than EXTRA, a power failure could undo a charge.
    database.execute("PRAGMA synchronous = EXTRA")
    # Overwrite deleted rows: a store of version 1 contains answers.
    database.execute("PRAGMA secure_delete = ON")
    return database


def _create(database: sqlite3.Connection) -> None:
    for table in _TABLES:
        database.execute(table)


def _upgrade_version_1(database: sqlite3.Connection) -> None:
    """Upgrade from version 1, which stored charges by name and each answer with its report."""
    database.execute("DROP TABLE memo")
    database.execute("ALTER TABLE last RENAME TO before")
    _create(database)
    database.execute("INSERT INTO last SELECT name, at FROM before")
    database.execute("INSERT INTO charge SELECT name, ?, 0, ?, epsilon, times FROM spent", (_NO_DIGEST, Mode.STABLE))
    database.execute("INSERT INTO mark DEFAULT VALUES")
    database.execute("DROP TABLE before")
    database.execute("DROP TABLE spent")


def _upgrade_version_2(database: sqlite3.Connection) -> None:
    """Upgrade from version 2, which had no installation and no machine, and at first no mark of the key."""
    database.execute("CREATE TABLE IF NOT EXISTS mark (of_key BLOB NOT NULL)")
    row = database.execute("SELECT of_key FROM mark").fetchone()
    database.execute("DROP TABLE mark")
    database.execute(clones.TABLE)
    database.execute("INSERT INTO mark (of_key) VALUES (?)", row or (None,))
    database.execute(f"PRAGMA user_version = {_VERSION}")


def _sum(rows: Iterator[tuple[float, int]] | sqlite3.Cursor) -> Fraction:
    try:
        return sum((Fraction(epsilon) * times for epsilon, times in rows), Fraction())
    except (ArithmeticError, TypeError, ValueError) as error:
        raise sqlite3.DataError(f"a charge is not a number: {error}") from error
