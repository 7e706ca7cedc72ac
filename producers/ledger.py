"""What a device remembers: its perturbed answers, what they spent, and when it answered last.

One SQLite file, or memory. Every page is one transaction that no other thread or process sees half
of; a file is opened for a page only, so processes may fork as they like.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

from producers.errors import StoreError

MEMORY = ":memory:"
PATIENCE = 30.0
"""Seconds to wait while other processes write."""
_VERSION = 1
_TABLES = (
    "CREATE TABLE memo (digest BLOB, answer TEXT, report BLOB NOT NULL, PRIMARY KEY (digest, answer))",
    "CREATE TABLE spent (name TEXT, epsilon REAL, times INTEGER NOT NULL, PRIMARY KEY (name, epsilon))",
    "CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL)",
    f"PRAGMA user_version = {_VERSION}",
)


class Page:
    """What is read and written in one transaction."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def report(self, digest: bytes, answer: Sequence[int]) -> bytes | None:
        """The report remembered for an answer, given as positions in the domains."""
        row: tuple[bytes] | None = self._row(
            "SELECT report FROM memo WHERE digest = ? AND answer = ?", digest, _key(answer)
        )
        return None if row is None else row[0]

    def remember(self, digest: bytes, answer: Sequence[int], report: bytes) -> None:
        self._database.execute("INSERT INTO memo VALUES (?, ?, ?)", (digest, _key(answer), report))

    def spent(self, name: str | None = None) -> Fraction:
        """What all answers to the queries of a name revealed together, exactly; without a name, to all queries."""
        rows = self._database.execute("SELECT epsilon, times FROM spent WHERE ? IN (name, '')", (name or "",))
        return sum((Fraction(epsilon) * times for epsilon, times in rows), Fraction())

    def charge(self, name: str, epsilon: float) -> None:
        once = "INSERT INTO spent VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1"
        self._database.execute(once, (name, epsilon))

    def last(self, name: str) -> float | None:
        """When a query of this name was last answered."""
        row: tuple[float] | None = self._row("SELECT at FROM last WHERE name = ?", name)
        return None if row is None else row[0]

    def answered(self, name: str, at: float) -> None:
        self._database.execute("INSERT OR REPLACE INTO last VALUES (?, ?)", (name, at))

    def _row(self, query: str, *parameters: object) -> Any:
        return self._database.execute(query, parameters).fetchone()


class Ledger:
    """The pages of one store: a path, or ":memory:" for as long as this object lives."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        self.store = os.fspath(store)
        self._lock: AbstractContextManager[object] = nullcontext()
        self._shared: sqlite3.Connection | None = None
        if self.store == MEMORY:
            self._lock = threading.Lock()
            self._shared = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._shared.close)
        else:
            self._keep_private()
        with self._begun() as database:
            self._create(database)

    @contextmanager
    def page(self) -> Iterator[Page]:
        """One page: all that is written on it is safely stored when the block ends, or nothing is where it raises."""
        with self._begun() as database:
            yield Page(database)

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
        except sqlite3.Error as error:
            raise StoreError(f"{self.store} cannot be used as a store of answers: {error}") from error

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        if self._shared is not None:
            return nullcontext(self._shared)
        # A file that is gone is an error, not a new budget.
        there = Path(self.store).absolute().as_uri() + "?mode=rw"
        database = sqlite3.connect(there, uri=True, timeout=PATIENCE, isolation_level=None)
        # With less, an answer that was handed out could be forgotten with the power, and perturbed once more.
        database.execute("PRAGMA synchronous = EXTRA")
        return closing(database)

    def _keep_private(self) -> None:
        """Make the file if there is none, and let nobody else read it."""
        try:
            os.close(os.open(self.store, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            self._withdraw()
        except OSError as error:
            raise StoreError(f"{self.store} cannot be made as a store of answers: {error.strerror}") from error

    def _withdraw(self) -> None:
        # By its name: opening and closing it here would drop the locks of others in this process.
        try:
            file = Path(self.store)
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)
        except OSError as error:
            raise StoreError(f"{self.store} can be read by others: {error.strerror}") from error

    def _create(self, database: sqlite3.Connection) -> None:
        [version] = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise StoreError(f"{self.store} is a store of version {version}, this program knows {_VERSION}")
        if not version:
            for table in _TABLES:
                database.execute(table)


def _key(answer: Sequence[int]) -> str:
    return ",".join(map(str, answer))
