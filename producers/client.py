"""A person's answers to one query, as they leave the device: charged first, then perturbed by the device's key."""

import hmac
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from os import PathLike

import numpy as np

from oracles.errors import ParameterError, ReportError
from oracles.mechanisms.entropy import Source
from oracles.mechanisms.protocol import Charge
from oracles.query import Query
from oracles.query.domain import Domain
from oracles.query.lifetime import DEVICE_EPSILON, affords
from oracles.query.settings import shown
from oracles.types import Reports
from producers.entropy import Keyed, Mode, Purpose
from producers.errors import BudgetSpent, NotAllowed, NotYet
from producers.ledger import Ledger, Page
from producers.respondents import Respondents
from producers.spool import Spool

Value = str | int
Answer = Value | Mapping[str, Value] | Sequence[Value]


class Client:
    """Answers one query for one person, as the query's `answers` says: for life, once, or fresh.

    A charge is made, or refused, before a value is looked at; so who is silent depends on what the
    device was asked, and when, never on its values. The noise is drawn from the device key: one round
    and class has one report, whatever becomes of the store. At most one answer is given in each
    aligned period of the device's own clock. Shown in tests/unit/test_client.py.

    `key` is for applications that keep it elsewhere, in the system's key store; else it lies beside the
    store. A client whose next charge does not fit is refused when it is made.
    """

    def __init__(
        self,
        query: Query,
        store: str | PathLike[str] | Ledger,
        *,
        key: bytes | None = None,
        allow: Collection[str] | None = None,
        max_epsilon: float = DEVICE_EPSILON,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(allow, str):
            raise ParameterError(f"allow is a list of names of queries, got {allow!r}")
        if allow is not None and query.name not in allow:
            listed = ", ".join(sorted(allow)) or "no query"
            raise NotAllowed(f"this application allows {listed}, not {query.name!r}")
        if not 0 < max_epsilon < float("inf"):
            raise ParameterError(f"max_epsilon must be a number above 0, got {max_epsilon!r}")
        if key is not None and isinstance(store, Ledger):
            raise ParameterError("a Ledger has its key already: give the key to the Ledger")
        self.query = query
        self.max_epsilon = max_epsilon
        self.answered: float | None = None
        """When this object last answered: what Publisher.put takes as `at`, since the pane is that of the answer."""
        self._ledger = store if isinstance(store, Ledger) else Ledger(store, key)
        self._clock = clock
        with self._ledger.page() as page:
            if query.answers != "fresh" or self._left(page, self._round(page)) > 0:
                self._charge(page, self._round(page), pay=False)

    def answer(self, value: Answer) -> Reports:
        """The report to send now: uint8, (1, width).

        `value` is a name of the domain, or an index where the domain is a size; for several
        attributes a dict by their names, or a sequence in the order of their names. NotYet and
        BudgetSpent mean: send nothing.
        """
        query, once = self.query, self.query.answers == "once"
        with self._ledger.page() as page:
            now = self._clock()
            self._wait(page, now)
            begun = self._round(page)
            page.enter(query.digest, begun)
            self._charge(page, begun, pay=True)
            given = page.given(query.digest)
            kept = page.report(query.digest, begun) if once else None
        positions = self._positions(value)
        report = self._report(positions, begun, given) if kept is None else kept
        with self._ledger.page() as page:
            self._wait(page, now)
            if once:
                kept = page.report(query.digest, begun)
                if kept is None:
                    page.keep(query.digest, begun, report)
                report = report if kept is None else kept
            elif query.answers == "fresh":
                page.give(query.digest)
            page.answered(query.name, now)
        self.answered = now
        return np.frombuffer(report, np.uint8).reshape(1, -1)

    @property
    def due(self) -> float:
        """A moment, in Unix seconds, of the next period that may be answered in; clients are spread over it."""
        with self._ledger.page() as page:
            return self._due(page, self._clock())

    @property
    def spent(self) -> float:
        """The charge of this query in the present round, in epsilon."""
        with self._ledger.page() as page:
            return float(self._spent(page, self._round(page)))

    @property
    def remaining(self) -> float:
        """The rest that may be charged in the present round, by the query's budget and by max_epsilon."""
        with self._ledger.page() as page:
            return self._left(page, self._round(page))

    def forget(self, spool: str | PathLike[str] | None = None) -> str:
        """Delete the device's key, its store (of all queries) and the frames of a spool; says what is not undone."""
        with self._ledger.page() as page:
            names, charged = page.names(), float(page.everything())
        frames = 0 if spool is None else Spool(spool).clear()
        self._ledger.forget()
        asked = ", ".join(names) or "no query"
        return (
            f"Deleted: the key, the store and {frames} frames that waited. Not taken back: what was sent is counted, "
            f"and whoever kept it knows it still. It was charged {charged:g} epsilon in all, for {asked}; a new store "
            "knows nothing of that, and begins with new noise under a new pseudonym."
        )

    def _round(self, page: Page) -> int:
        """The present round; never an earlier one again, whatever the clock says."""
        return max(self.query.round(self._clock()), page.round(self.query.digest))

    def _wait(self, page: Page, now: float) -> None:
        """Refuse a second answer in a period, and any in an earlier one."""
        last, period = page.last(self.query.name), self.query.period
        if last is not None and now // period <= last // period:
            due = self._due(page, now)
            wait = f"in {due - now:.0f} seconds, in the next period of {period} seconds"
            raise NotYet(f"query {self.query.name!r} can be answered again {wait}", due)

    def _due(self, page: Page, now: float) -> float:
        last, period = page.last(self.query.name), self.query.period
        index = int(now // period) if last is None else int(max(now // period, last // period + 1))
        # Of the key, so that it stays when it is asked again; each period has another.
        drawn = hmac.digest(
            self._ledger.key, b"due" + self.query.digest + index.to_bytes(8, "little", signed=True), "sha256"
        )
        return float(index * period + period * (int.from_bytes(drawn[:6], "little") / 2**48))

    def _charge(self, page: Page, begun: int, *, pay: bool) -> None:
        """Make the charge that the next answer takes, if it takes one; refuse what a limit does not bear."""
        query, whole = self.query, self.query.charge
        if query.answers == "fresh":
            mode, due = Mode.FRESH, page.charges(query.digest, Mode.FRESH) <= page.given(query.digest)
            charge = Charge(whole.epsilon, int(due))
        else:
            mode, paid = Mode.KEPT, page.charged(query.digest, begun, Mode.KEPT, whole.epsilon)
            charge = Charge(whole.epsilon, max(0, whole.times - paid))
        if not charge.times:
            return
        spent, total = self._spent(page, begun), page.total(query.digest, begun)
        for before, limit, what in (
            (spent, query.budget, f"the budget of query {query.name!r}"),
            (total, self.max_epsilon, "max_epsilon, over all queries of this device,"),
        ):
            if not affords(limit, before + charge.amount):
                cost = f"{float(before):g} is spent, and answering is charged {float(charge.amount):g}"
                raise BudgetSpent(f"{what} is {limit:g}: {cost}")
        if pay:
            page.charge(query.name, query.digest, begun, mode, charge)

    def _spent(self, page: Page, begun: int) -> Fraction:
        return page.spent(self.query.name, self.query.digest, self.query.record_epsilon, begun)

    def _left(self, page: Page, begun: int) -> float:
        query = self.query
        device = float(self.max_epsilon - page.total(query.digest, begun))
        return max(0.0, min(float(query.budget - self._spent(page, begun)), device))

    def _report(self, positions: tuple[int, ...], begun: int, given: int) -> bytes:
        """The report of a value in a round, or at a fresh answer."""
        query, fresh = self.query, self.query.answers == "fresh"
        mode, number = (Mode.FRESH, given) if fresh else (Mode.KEPT, begun)

        def stream(attribute: int, purpose: Purpose, classes: tuple[int, ...]) -> Source:
            return Keyed(self._ledger.key, query.digest, attribute, mode, purpose, number, classes)

        values = np.array(positions if query.domain else [positions], np.int64)
        return Respondents(query.oracle, 1, stream).reports(values).tobytes()

    def _positions(self, value: Answer) -> tuple[int, ...]:
        """Where the answer stands in the domain of each attribute, or of the one."""
        query = self.query
        if query.domain is not None:
            return (_position(query.domain, value, query.name),)
        names = [attribute.name for attribute in query.attributes]
        if isinstance(value, Mapping) and value.keys() == set(names):
            values = [value[name] for name in names]
        elif isinstance(value, Sequence) and not isinstance(value, str) and len(value) == len(names):
            values = list(value)
        else:
            raise ReportError(f"query {query.name!r} takes a value for each of {', '.join(names)}; got {shown(value)}")
        each = zip(query.attributes, values, strict=True)
        return tuple(_position(attribute.domain, given, attribute.name) for attribute, given in each)


def _position(domain: Domain, value: object, name: str) -> int:
    if isinstance(value, np.integer):
        value = int(value)
    # Nothing but a wrong value is "(other)": a wrong type would be counted there unseen.
    if not isinstance(value, str) and (domain.values is not None or type(value) is not int):
        kind = "the name of a value" if domain.values is not None else "a whole number or its name"
        raise ReportError(f"{name!r} is answered with {kind}, got {shown(value)}")
    return domain.position(value)
