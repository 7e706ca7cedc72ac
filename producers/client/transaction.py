"""A transaction on the ledger of a device.

Noise is one table, one report of `once`, or one fresh draw. A charge belongs to its noise, and has the device time of
the last answer that used this noise.
"""

import sqlite3
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

from oracles.mechanisms.protocol import Charge
from producers.entropy import Mode

NO_DIGEST = b""
"""The digest of charges from version 1, which stored no digests."""
LOST_NAME = "(lost)"
"""The name of charges that a lost or old store lacked."""
NEVER = float("-inf")
_NO_REPORT = b""
"""The report of a round that is charged and not answered yet."""
_INSERT = "INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


class NoiseId(NamedTuple):
    """The noise of an answer. A round is named by its start, in Unix seconds."""

    digest: bytes
    round: int
    mode: Mode = Mode.STABLE
    number: int = 0
    """Number of earlier fresh draws of this definition. 0 for the noise of a round."""


class Transaction:
    """A transaction on a ledger. Its writes are on disk when the ledger's block ends."""

    def __init__(self, database: sqlite3.Connection, floor: float = NEVER) -> None:
        self._database = database
        self._floor = floor

    def round_charge(self, name: str, digest: bytes, epsilon: float, start: int) -> Fraction:
        """Return the charge of a definition in a round, over all modes. Charges from version 1 count in every round."""
        rows = self._database.execute(
            "SELECT epsilon, times FROM charge WHERE (digest = ? AND round = ?) OR (digest = ? AND name = ?"
            " AND epsilon = ?)",
            (digest, start, NO_DIGEST, name, epsilon),
        )
        return _sum(rows)

    def active_charge(self, since: float) -> Fraction:
        """Return the sum of the charges of all noise that was used later than a device time."""
        return _sum(self._database.execute("SELECT epsilon, times FROM charge WHERE used > ?", (since,)))

    def total_charge(self) -> Fraction:
        """Return the sum of all charges ever."""
        return self.active_charge(NEVER)

    def charges_by_name(self, since: float) -> dict[str, Fraction]:
        """Return the sum of the charges that were used later than a device time, for each name that has some."""
        sums: dict[str, Fraction] = {}
        rows = self._database.execute("SELECT name, epsilon, times FROM charge WHERE used > ? ORDER BY name", (since,))
        for name, epsilon, times in rows:
            sums[name] = sums.get(name, Fraction()) + _sum([(epsilon, times)])
        return sums

    def charges(self) -> list[dict[str, Any]]:
        """Return all charges ever, in epsilon, for each name, digest and round."""
        sums: dict[tuple[str, bytes, int], Fraction] = {}
        rows = self._database.execute(
            "SELECT name, digest, round, epsilon, times FROM charge ORDER BY name, digest, round"
        )
        for name, digest, start, epsilon, times in rows:
            key = name, digest, start
            sums[key] = sums.get(key, Fraction()) + _sum([(epsilon, times)])
        return [
            {"name": name, "digest": digest.hex(), "round": start, "epsilon": float(charge)}
            for (name, digest, start), charge in sums.items()
        ]

    def noise_charge(self, noise: NoiseId) -> Fraction:
        """Return the charge that some noise has booked."""
        sql = f"SELECT epsilon, times FROM charge WHERE {_condition(noise)}"  # noqa: S608 - constants
        return _sum(self._database.execute(sql, noise._asdict()))

    def last_use(self, noise: NoiseId) -> float:
        """Return the device time of the last answer that used some noise, or -inf if none did."""
        sql = f"SELECT MAX(used) FROM charge WHERE {_condition(noise)}"  # noqa: S608 - constants
        row: tuple[float | None] = self._database.execute(sql, noise._asdict()).fetchone()
        return NEVER if row[0] is None else row[0]

    def use(self, noise: NoiseId, device_time: float) -> None:
        """Store that an answer used some noise."""
        sql = f"UPDATE charge SET used = :used WHERE {_condition(noise)}"  # noqa: S608 - constants
        self._database.execute(sql, {**noise._asdict(), "used": device_time})

    def add_charge(self, name: str, noise: NoiseId, charge: Charge, device_time: float) -> None:
        """Book a charge of some noise."""
        sql = f"{_INSERT} ON CONFLICT DO UPDATE SET times = times + excluded.times"
        self._database.execute(sql, (name, *noise, charge.epsilon, charge.times, device_time))
        # A noise has one last use, also if several charges have booked it. Charges without a digest have no noise.
        if noise.digest != NO_DIGEST:
            self.use(noise, device_time)

    def join_expired(self, digest: bytes, since: float) -> None:
        """Join the charges of a definition that count for no later answer. Their sum and their newest use stay."""
        # A round never returns, and a draw below the next number is answered.
        condition = "digest = ? AND used <= ? AND round < ? AND (mode = ? OR number + times <= ?)"
        parameters = digest, since, self.last_round(digest), Mode.STABLE, self.count_answers(digest)
        columns = "name, digest, MAX(round), mode, MIN(number), epsilon, SUM(times), MAX(used)"
        groups = f"SELECT {columns} FROM charge WHERE {condition} GROUP BY name, mode, epsilon HAVING COUNT(*) > 1"  # noqa: S608 - constants
        for row in self._database.execute(groups, parameters).fetchall():
            name, _, _, mode, _, epsilon, _, _ = row
            expired_rows = f"DELETE FROM charge WHERE {condition} AND name = ? AND mode = ? AND epsilon = ?"  # noqa: S608 - constants
            self._database.execute(expired_rows, (*parameters, name, mode, epsilon))
            self._database.execute(_INSERT, row)

    def last_round(self, digest: bytes) -> int:
        """Return the start of the last round of a definition, or 0 if it has no round."""
        row: tuple[int] | None = self._row("SELECT began FROM round WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def enter_round(self, digest: bytes, start: int) -> None:
        """Store the present round. An earlier round than the last one changes nothing."""
        sql = "INSERT INTO round VALUES (?, ?) ON CONFLICT DO UPDATE SET began = MAX(began, excluded.began)"
        self._database.execute(sql, (digest, start))

    def count_answers(self, digest: bytes) -> int:
        """Return the number of fresh answers, which is that of the next draw."""
        row: tuple[int] | None = self._row("SELECT answers FROM given WHERE digest = ?", digest)
        return 0 if row is None else row[0]

    def set_answers(self, digest: bytes, number: int) -> None:
        """Store that the next fresh draw has a number."""
        self._database.execute("INSERT OR REPLACE INTO given VALUES (?, ?)", (digest, number))

    def add_answer(self, digest: bytes) -> None:
        sql = "INSERT INTO given VALUES (?, 1) ON CONFLICT DO UPDATE SET answers = answers + 1"
        self._database.execute(sql, (digest,))

    def once_report(self, digest: bytes, start: int) -> bytes | None:
        """Return the stored report of a query with answers = "once", or None if the round has none yet."""
        row: tuple[bytes] | None = self._row("SELECT report FROM once WHERE digest = ? AND round = ?", digest, start)
        return None if row is None or row[0] == _NO_REPORT else row[0]

    def store_once_report(self, digest: bytes, start: int, report: bytes) -> None:
        """Store the report of a round, and delete those of earlier rounds."""
        self._database.execute("DELETE FROM once WHERE digest = ?", (digest,))
        self._database.execute("INSERT INTO once VALUES (?, ?, ?)", (digest, start, report))

    def is_unanswered(self, digest: bytes, start: int) -> bool:
        """Whether the noise of a round is charged, and no report of it is made yet."""
        row: tuple[bytes] | None = self._row("SELECT report FROM once WHERE digest = ? AND round = ?", digest, start)
        return row is not None and row[0] == _NO_REPORT

    def mark_unanswered(self, digest: bytes, start: int) -> None:
        """Store that the noise of a round is charged before its first report."""
        self.store_once_report(digest, start, _NO_REPORT)

    def mark_answered(self, digest: bytes) -> None:
        """Store that a report of the last round is made, for which nothing else is stored."""
        self._database.execute("DELETE FROM once WHERE digest = ? AND report = ?", (digest, _NO_REPORT))

    def lose(self, digest: bytes, start: int) -> None:
        """Store that a round had an answer that the store does not have."""
        self._database.execute("INSERT OR REPLACE INTO lost VALUES (?, ?)", (digest, start))

    def is_lost(self, digest: bytes, start: int) -> bool:
        """Whether a round had an answer whose report the store does not have."""
        sql = "SELECT COUNT(*) FROM lost WHERE digest = ? AND round = ?"
        return bool(self._row(sql, digest, start)[0]) and self.once_report(digest, start) is None

    def set_expiry(self, since: float) -> None:
        """Store the device time after which a use counted at the last answer."""
        self._database.execute("DELETE FROM expiry")
        self._database.execute("INSERT INTO expiry VALUES (?)", (since,))

    def last_rounds(self) -> dict[bytes, tuple[int, Fraction]]:
        """Return the last round of each digest whose noise a report used, and the charge of this noise.

        The charge of noise that did not count at the last answer is 0. After a loss it needs room again.
        """
        row: tuple[float] | None = self._row("SELECT since FROM expiry")
        since = NEVER if row is None else row[0]
        rounds = dict(self._database.execute("SELECT digest, round FROM lost").fetchall())
        # A charge without an answer must not hide the answered round before it.
        sql = (
            "SELECT digest, MAX(round) FROM charge WHERE mode = ? AND digest <> ? AND NOT EXISTS (SELECT 1 FROM once"
            " WHERE once.digest = charge.digest AND once.round = charge.round AND once.report = ?) GROUP BY digest"
        )
        for digest, start in self._database.execute(sql, (Mode.STABLE, NO_DIGEST, _NO_REPORT)).fetchall():
            rounds[digest] = max(start, rounds.get(digest, start))

        charges = {}
        for digest, start in rounds.items():
            noise = NoiseId(digest, start)
            charges[digest] = start, self.noise_charge(noise) if self.last_use(noise) > since else Fraction()
        return charges

    def fresh_draws(self) -> dict[bytes, int]:
        """Return the number of fresh draws of each digest, charged or answered."""
        sql = (
            "SELECT digest, MAX(draws) FROM (SELECT digest, number + times AS draws FROM charge WHERE mode = ?"
            " UNION ALL SELECT digest, answers FROM given) GROUP BY digest"
        )
        return dict(self._database.execute(sql, (Mode.FRESH,)))

    def answer_time(self, name: str) -> float | None:
        """Return the time of the last answer to a query of this name, in Unix seconds."""
        row: tuple[float] | None = self._row("SELECT at FROM last WHERE name = ?", name)
        return None if row is None else row[0]

    def set_answer_time(self, name: str, time_s: float) -> None:
        self._database.execute("INSERT OR REPLACE INTO last VALUES (?, ?)", (name, time_s))

    def newest(self) -> float:
        """Return the newest time of a use or an answer, or -inf if the device has none. Device time is never lower."""
        row: tuple[float | None, float | None] = self._row(
            "SELECT (SELECT MAX(used) FROM charge), (SELECT MAX(at) FROM last)"
        )
        return max((time_s for time_s in row if time_s is not None), default=NEVER)

    def names(self) -> list[str]:
        """Return the names of all queries that have charges."""
        return [name for (name,) in self._database.execute("SELECT DISTINCT name FROM charge ORDER BY name")]

    def _row(self, query: str, *parameters: object) -> Any:
        return self._database.execute(query, parameters).fetchone()


def _condition(noise: NoiseId) -> str:
    """Return the SQL condition of the charges of some noise, with the names of its fields as parameters."""
    if noise.mode == Mode.FRESH:
        # A row may hold several draws, one after the other.
        return "digest = :digest AND mode = :mode AND number <= :number AND :number < number + times"
    return "digest = :digest AND mode = :mode AND round = :round"


def _sum(rows: Iterable[tuple[float, int]]) -> Fraction:
    try:
        return sum((Fraction(epsilon) * times for epsilon, times in rows), Fraction())
    except (ArithmeticError, TypeError, ValueError) as error:
        raise sqlite3.DataError(f"a charge is not a number: {error}") from error
