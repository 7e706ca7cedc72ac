"""The answers of one person to one query: charged first, then perturbed with the device key."""

import hmac
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import Any, NoReturn

import numpy as np

from oracles.errors import ParameterError, ReportError
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.protocol import Oracle
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.groups import number_of
from oracles.query.lifetime import DEVICE_EPSILON
from oracles.query.public_definition import public_definition
from oracles.query.settings import shown
from oracles.types import Reports
from producers.client.admission import AdmittedAnswer, RefusedAnswer, admit, book
from producers.client.device_limits import Limits
from producers.client.device_notes import DeviceNotes
from producers.client.key_item import KeyStore
from producers.client.ledger import Ledger
from producers.client.renewal import warn_about
from producers.client.respondents import Respondents
from producers.client.status import Status, status_of
from producers.client.transaction import NoiseId, Transaction
from producers.entropy import Keyed, Mode, Purpose
from producers.errors import BudgetSpent, NotAllowed, NotYet
from producers.pins import Pins, check_pins, read_pins
from producers.publishers.spool import Spool

Value = str | int
Answer = Value | Mapping[str, Value] | Sequence[Value]


class Client:
    """A client that answers one query for one person, as the query's `answers` says: for life, once, or fresh.

    The client charges an answer, or refuses it, before it reads the value, so silence depends only on the query and
    the time, never on the value. The noise comes from the device key, so a class has one report in a round, even if
    the store is lost. The client gives at most one answer in each aligned period of the device's own clock.
    tests/unit/test_client.py shows these promises.

    The noise that is used in any `per` costs at most `max_epsilon`, over all queries of the store. Without `per` this
    holds for the life of the store. `shares` keeps parts of it for single queries. `pinned` has the limits for the
    definition, as `hubbub pin` prints them.

    A Ledger describes `key`, `key_store`, `first`, `installation` and `moved`. `group` is the client's value of the
    query's groups, which is public. The constructor raises BudgetSpent if the next charge does not fit.
    """

    def __init__(
        self,
        query: Query,
        store: str | PathLike[str] | Ledger,
        *,
        key: bytes | None = None,
        key_store: KeyStore | None = None,
        first: bool = False,
        installation: bytes | None = None,
        moved: bool = False,
        allow: Collection[str] | None = None,
        max_epsilon: float = DEVICE_EPSILON,
        per: int | str | None = None,
        shares: Mapping[str, float] | None = None,
        pinned: Pins = None,
        group: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        _check_allowed(query, allow, pinned)
        self.query = query
        self.group = number_of(query.groups, group)
        """Number of this client's group. Pass it to Publisher.put."""
        self.limits = Limits.read(max_epsilon, per, shares)
        self.answered: float | None = None
        """The time of this object's last answer. Pass it to Publisher.put as `at`, since it determines the pane."""

        if not isinstance(store, Ledger):
            store = Ledger(store, key, key_store=key_store, first=first, installation=installation, moved=moved)
        elif key is not None or key_store is not None or first or installation is not None or moved:
            names = "key, key_store, first, installation and moved"
            raise ParameterError(f"a Ledger is open already: pass {names} to the Ledger")

        self._ledger = store
        self._clock = clock
        self._notes = DeviceNotes(query, store.notes)
        self._notes.open(clock())

        with self._ledger.transaction() as transaction:
            admission = self._admit(transaction, clock())
            is_refused = isinstance(admission, RefusedAnswer)
            # Fresh answers that have spent all may be over, which is no fault of the application.
            if is_refused and query.answers == "fresh":
                is_refused = self._status(transaction).remaining > 0.0
        if is_refused and isinstance(admission, RefusedAnswer):
            self._refuse(admission)

    def note(self, value: Value | float | None = None) -> None:
        """Add a note to the recorder of the query, for the answer of the next period. A note is never charged.

        `value` is what the recorder keeps: a whole number, a number, or a value of the domain; or None.
        """
        self._notes.note(value, self._clock())

    def answer(self, value: Answer | None = None) -> Reports:
        """Return the report to send now: uint8, of shape (1, width).

        `value` is a name of the domain, or any text if strings are unknown. If the domain is a size, it is an index.
        For several attributes it is a dict by their names, or a sequence in the order of their names. A query with a
        recorder takes no value. If NotYet or BudgetSpent is raised, send nothing.
        """
        query = self.query
        self._notes.check_value(value)
        with self._ledger.transaction() as transaction:
            answer_time = self._clock()
            next_time = self._notes.wait(answer_time)
            self._check_period(transaction, answer_time)
            if next_time is not None:
                due = self._due(transaction, next_time)
                raise NotYet(f"query {query.name!r} has nothing to tell before its next period", due)
            admission = self._admit(transaction, answer_time)
            if isinstance(admission, AdmittedAnswer):
                self._check_lost(transaction, admission, answer_time)
                book(transaction, query, admission, self.limits)
                self._ledger.check_item(transaction)
        if isinstance(admission, RefusedAnswer):
            self._refuse(admission)
        if admission.is_lengthened:
            warn_about(query.name, self.limits, "stays in its last round")

        # Outside of a transaction, since a report may take long and other processes wait for the store.
        positions = self._positions(value) if value is not None else (self._notes.answer(answer_time),)
        report = self._report(positions, admission.noise)

        with self._ledger.transaction() as transaction:
            # Another process of this device may have answered meanwhile.
            self._check_period(transaction, answer_time)
            if query.answers == "once":
                report = self._first_report(transaction, admission.noise.round, report)
            elif query.answers == "fresh":
                transaction.add_answer(query.digest)
            else:
                transaction.mark_answered(query.digest)
            transaction.set_answer_time(query.name, answer_time)
        # After the store and before the report leaves: the other order would book charges that no answer has.
        self._ledger.save_item()

        self.answered = answer_time
        return np.frombuffer(report, np.uint8).reshape(1, -1)

    def _first_report(self, transaction: Transaction, start: int, report: bytes) -> bytes:
        """Return the stored report of a round, or store this one. A second one would tell more than was charged."""
        first_report = transaction.once_report(self.query.digest, start)
        if first_report is None:
            transaction.store_once_report(self.query.digest, start, report)
        return first_report or report

    @property
    def max_epsilon(self) -> float:
        """The limit over all queries of the store, in epsilon."""
        return self.limits.max_epsilon

    def status(self) -> Status:
        """Return the charges of the device, in all and by query, and the next time of this query."""
        with self._ledger.transaction() as transaction:
            return self._status(transaction)

    def charges(self) -> list[dict[str, Any]]:
        """Return which query used what: the epsilon of each name, digest and round."""
        with self._ledger.transaction() as transaction:
            return transaction.charges()

    @property
    def due(self) -> float:
        """A time in the next open period, in Unix seconds. The times of clients spread over the period."""
        # Applications ask for it after each answer, so it does not add up the charges.
        with self._ledger.transaction() as transaction:
            return self._due(transaction, self._clock())

    @property
    def spent(self) -> float:
        """The charge of this query in the present round, in epsilon."""
        return self.status().spent

    @property
    def remaining(self) -> float:
        """The rest of the query's budget in the present round, or of max_epsilon if that is less, in epsilon."""
        return self.status().remaining

    def forget(self, spool: str | PathLike[str] | None = None) -> str:
        """Delete the notes, the device's key, its store of all queries and the frames of a spool.

        Return a text that names the effects that remain.
        """
        with self._ledger.transaction() as transaction:
            names = transaction.names()
            charge = float(transaction.total_charge())

        frames = 0 if spool is None else Spool(spool).clear()
        self._ledger.forget()
        queries = ", ".join(names) or "no query"
        return (
            f"Deleted the notes, the key, the store and {frames} frames in the spool. Reports that were sent stay "
            f"counted, and others may have copies. The store had charges of {charge:g} epsilon in all, for {queries}. "
            "A new store starts without these charges, with new noise and a new pseudonym."
        )

    def _check_period(self, transaction: Transaction, time_s: float) -> None:
        """Refuse a second answer in a period, and an answer in an earlier period."""
        last_time = transaction.answer_time(self.query.name)
        period = self.query.period
        if last_time is not None and time_s // period <= last_time // period:
            next_time = self._due(transaction, time_s)
            wait = f"in {next_time - time_s:.0f} seconds, in the next period of {period} seconds"
            raise NotYet(f"query {self.query.name!r} can be answered again {wait}", next_time)

    def _check_lost(self, transaction: Transaction, admission: AdmittedAnswer, time_s: float) -> None:
        """Refuse a second answer once in a round whose first report is lost."""
        query = self.query
        start = admission.noise.round
        if query.answers != "once" or not transaction.is_lost(query.digest, start):
            return
        fault = f"query {query.name!r} was answered in this round, and the store does not have the report any more"
        if query.renew is None:
            raise BudgetSpent(fault)
        next_start = (max(time_s, start) // query.renew + 1) * query.renew
        raise NotYet(f"{fault}; it can be answered again in the next round", self._due(transaction, next_start))

    def _due(self, transaction: Transaction, time_s: float) -> float:
        last_time = transaction.answer_time(self.query.name)
        period = self.query.period
        index = int(time_s // period)
        if last_time is not None:
            index = int(max(time_s // period, last_time // period + 1))

        # The key determines the time, so a repeated call gets the same one. Each period has another.
        noise = hmac.digest(
            self._ledger.key, b"due" + self.query.digest + index.to_bytes(8, "little", signed=True), "sha256"
        )
        return float(index * period + period * (int.from_bytes(noise[:6], "little") / 2**48))

    def _status(self, transaction: Transaction) -> Status:
        time_s = self._clock()
        return status_of(transaction, self.query, self.limits, time_s, self._due(transaction, time_s))

    def _admit(self, transaction: Transaction, time_s: float) -> AdmittedAnswer | RefusedAnswer:
        return admit(transaction, self.query, self.limits, time_s)

    def _refuse(self, refusal: RefusedAnswer) -> NoReturn:
        if refusal.by_device and self.query.renew is not None:
            warn_about(self.query.name, self.limits, "sends nothing")
        raise BudgetSpent(refusal.message)

    def _report(self, positions: tuple[int, ...], noise: NoiseId) -> bytes:
        """Return the report of a value with some noise."""
        query = self.query
        # A fresh number twice would give the same noise twice, and the difference of two reports would show a change.
        number = noise.number if noise.mode == Mode.FRESH else noise.round

        def stream(attribute: int, purpose: Purpose, classes: tuple[int, ...]) -> Source:
            return Keyed(self._ledger.key, query.digest, attribute, noise.mode, purpose, number, classes)

        is_single = isinstance(query.oracle, Oracle)
        values = np.array(positions if is_single else [positions], np.int64)
        return Respondents(query.oracle, 1, stream).reports(values).tobytes()

    def _positions(self, value: Answer) -> tuple[int, ...]:
        """Return the index of the value in its domain, or one index for each attribute. A string has many cells."""
        query = self.query
        if query.domain:
            return query.cells_of(_checked(query.domain, value, query.name))

        names = [attribute.name for attribute in query.singles]
        if isinstance(value, Mapping) and value.keys() == set(names):
            values = [value[name] for name in names]
        elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(names):
            values = list(value)
        else:
            raise ReportError(f"query {query.name!r} needs a value for each of {', '.join(names)}; got {shown(value)}")

        answers = zip(query.singles, values, strict=True)
        return tuple(single.domain.position(_checked(single.domain, part, single.name)) for single, part in answers)


def _check_allowed(query: Query, allow: Collection[str] | None, pinned: Pins) -> None:
    """Raise NotAllowed if the application does not list a query, or if the query is not within the pins."""
    if isinstance(allow, str):
        raise ParameterError(f"allow must be a list of query names, got {allow!r}")
    if allow is not None and query.name not in allow:
        names = ", ".join(sorted(allow)) or "no query"
        raise NotAllowed(f"this application allows {names}, not {query.name!r}")
    pins = read_pins(pinned)
    if pins:
        check_pins(public_definition(query), pins)


def _checked(domain: Domain, value: Any, name: str) -> Any:
    """Return an answer. Raise an error if its form is wrong."""
    if isinstance(value, np.integer | np.floating):
        value = value.item()
    form = domain.wrong_form(value)
    if form is not None:
        raise ReportError(f"an answer to {name!r} must be {form}, got {shown(value)}")
    return value
