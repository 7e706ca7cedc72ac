"""The tables of a store of charges, and the upgrades of older stores to the present version."""

import sqlite3
import time

from producers.client import clones
from producers.client.transaction import NO_DIGEST
from producers.entropy import Mode

VERSION = 4
_COLUMNS = (
    "name TEXT, digest BLOB, round INTEGER, mode INTEGER, number INTEGER, epsilon REAL, times INTEGER NOT NULL,"
    " used REAL NOT NULL"
)
_CHARGES = f"CREATE TABLE charge ({_COLUMNS}, PRIMARY KEY (digest, name, round, mode, number, epsilon))"
_LOSSES = "CREATE TABLE IF NOT EXISTS lost (digest BLOB PRIMARY KEY, round INTEGER NOT NULL)"
"""Rounds that had an answer, as the key store says, and whose report the store does not have."""
_EXPIRY = "CREATE TABLE IF NOT EXISTS expiry (since REAL NOT NULL)"
"""One row at most: the device time after which a use counted at the last answer."""
_TABLES = (
    _CHARGES,
    "CREATE TABLE last (name TEXT PRIMARY KEY, at REAL NOT NULL)",
    "CREATE TABLE round (digest BLOB PRIMARY KEY, began INTEGER NOT NULL)",
    "CREATE TABLE given (digest BLOB PRIMARY KEY, answers INTEGER NOT NULL)",
    "CREATE TABLE once (digest BLOB, round INTEGER, report BLOB NOT NULL, PRIMARY KEY (digest, round))",
    _LOSSES,
    _EXPIRY,
    clones.TABLE,
    f"PRAGMA user_version = {VERSION}",
)


def create(database: sqlite3.Connection) -> None:
    """Make the tables of an empty store."""
    for table in _TABLES:
        database.execute(table)


def upgrade(database: sqlite3.Connection, version: int) -> None:
    """Upgrade a store of an older version in place."""
    if version == 1:
        _upgrade_version_1(database)
        return
    if version == 2:
        _upgrade_version_2(database)
    _upgrade_version_3(database)


def _upgrade_version_1(database: sqlite3.Connection) -> None:
    """Upgrade from version 1, which stored charges by name and each answer with its report."""
    database.execute("DROP TABLE memo")
    database.execute("ALTER TABLE last RENAME TO before")
    create(database)
    database.execute("INSERT INTO last SELECT name, at FROM before")
    database.execute(
        "INSERT INTO charge SELECT name, ?, 0, ?, 0, epsilon, times,"
        " COALESCE((SELECT at FROM last WHERE last.name = spent.name), ?) FROM spent",
        (NO_DIGEST, Mode.STABLE, time.time()),
    )
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


def _upgrade_version_3(database: sqlite3.Connection) -> None:
    """Upgrade from version 3, which had neither the time of a use nor the numbers of fresh draws.

    A round ended at the latest when the next one of its definition began. Other charges count from the last answer.
    """
    database.execute("ALTER TABLE charge RENAME TO before")
    database.execute(_CHARGES)
    database.execute(_LOSSES)
    database.execute(_EXPIRY)
    last_answer = "(SELECT at FROM last WHERE last.name = b.name)"
    next_round = (
        "(SELECT MIN(start) FROM (SELECT digest, round AS start FROM before UNION SELECT digest, began FROM round)"
        " WHERE digest = b.digest AND start > b.round)"
    )
    # In SQL the MIN of two values is null if one is.
    last_use = (
        f"CASE WHEN b.round > 0 AND b.digest <> ?1 AND {next_round} IS NOT NULL"
        f" THEN MIN(COALESCE({last_answer}, {next_round}), {next_round}) ELSE COALESCE({last_answer}, ?2) END"
    )
    earlier_draws = (
        "COALESCE((SELECT SUM(times) FROM before WHERE digest = b.digest AND mode = ?3 AND"
        " (round < b.round OR (round = b.round AND rowid < b.rowid))), 0)"
    )
    number = f"CASE WHEN b.mode = ?3 THEN {earlier_draws} ELSE 0 END"
    database.execute(
        f"INSERT INTO charge SELECT name, digest, round, mode, {number}, epsilon, times, {last_use} FROM before AS b",  # noqa: S608 - constants
        (NO_DIGEST, time.time(), Mode.FRESH),
    )
    database.execute("DROP TABLE before")
    database.execute(f"PRAGMA user_version = {VERSION}")
