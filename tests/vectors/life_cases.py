"""Lives of devices over many rounds: limits over time, listings that change, and clocks that jump.

`of` returns a life as JSON. Lives that a test generates have the same form, so that another client can run them.
"""

import warnings
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from oracles.errors import HubbubError
from oracles.frame import encode
from oracles.query import Query, parse
from oracles.query.public_definition import public_definition
from producers import Client, Ledger, NotYet, RenewalWarning
from producers.client.device_limits import Limits
from producers.client.status import status_of
from producers.publishers.frames import pane_of

DAY = 86_400
KEYS = ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", "02" * 32)


@dataclass(frozen=True)
class Step:
    """An answer to a definition at a time."""

    at: float
    value: object
    definition: int = 0
    """Number of the definition that is listed then."""
    lost: bool = False
    """Whether the store is lost before the answer. The key store stays."""
    process: int = 0
    """Number of the process that answers. All processes of a device share its store."""


@dataclass(frozen=True)
class Life:
    """The definitions, the limits and the steps of a device."""

    name: str
    queries: list[Query]
    steps: list[Step]
    max_epsilon: float = 8.0
    per: int | None = None
    key: str = KEYS[0]
    has_key_store: bool = False
    """Whether the application has a key store. `key` is then the key of its first item."""


class MemoryKeyStore:
    """A key store in memory."""

    def __init__(self):
        self.item = None

    def read(self):
        return self.item

    def write(self, item):
        self.item = item


@dataclass
class Device:
    """A device while it lives. Its stores are files of a folder, or in memory."""

    life: Life
    folder: Path | None = None
    key_store: MemoryKeyStore = field(default_factory=MemoryKeyStore)
    ledgers: dict[int, Ledger] = field(default_factory=dict)
    """The ledger of each process."""
    stores: int = 0
    """Number of stores that are lost."""

    def ledger(self, step):
        """Return the ledger of a process."""
        if step.lost:
            self.stores += 1
            self.ledgers.clear()
        # A store in memory belongs to one process.
        process = step.process if self.folder else 0
        if process not in self.ledgers:
            store = ":memory:" if self.folder is None else self.folder / f"store-{self.stores}"
            key_store = self.key_store if self.life.has_key_store else None
            key = None if self.key_store.item else bytes.fromhex(self.life.key)
            self.ledgers[process] = Ledger(store, key, key_store=key_store, first=True)
        return self.ledgers[process]

    def step(self, step):
        """Return the frame that leaves the device, or the error that keeps it silent, and the status afterwards."""
        query = self.life.queries[step.definition]
        limits = Limits(self.life.max_epsilon, self.life.per)
        ledger = self.ledger(step)
        try:
            client = Client(query, ledger, max_epsilon=limits.max_epsilon, per=limits.per, clock=lambda: float(step.at))
            report = client.answer(step.value)
        except HubbubError as error:
            result = {"error": type(error).__name__, **({"due": error.due} if isinstance(error, NotYet) else {})}
        else:
            result = {"frame": encode(query.digest, pane_of(query, step.at), report).hex()}

        with ledger.transaction() as transaction:
            status = asdict(status_of(transaction, query, limits, step.at, 0.0))
        for member in ("charges", "due", "max_epsilon", "per"):
            del status[member]
        spent = status.pop("spent")
        about = {name: value for name, value in asdict(step).items() if value or name in ("at", "definition", "value")}
        item = {"item": self.key_store.item.decode()} if self.key_store.item else {}
        return {**about, **result, "spent": spent, "status": status, **item}


def of(life):
    """Return a life with what the device does at each step."""
    device = Device(life)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RenewalWarning)
        steps = [device.step(step) for step in life.steps]
    return {
        "name": life.name,
        "key": life.key,
        "max_epsilon": life.max_epsilon,
        "per": life.per,
        "group": None,
        **({"key_store": True} if life.has_key_store else {}),
        "definitions": [public_definition(query) for query in life.queries],
        "steps": steps,
    }


def _query(name="screens", **settings):
    table = {"oracle": "olh", "noise": "table", "epsilon": 1.0, "pane": "10s", "period": "1d", **settings}
    if "attributes" not in table:
        table.setdefault("domain", 64)
    return parse({"edition": 2, "queries": {name: table}}, "vectors", None)[name]


def _daily(days, value=3, definition=0):
    return [Step(day * DAY + 10, value, definition) for day in days]


def _at(day, definition, **more):
    return Step(day * DAY + 10, 3, definition, **more)


def _rounds():
    """Yield lives whose rounds end."""
    record = _query(attributes={"x": 12, "y": ["a", "b"]}, solution="smp", renew="1d")
    two_days, month = _query(renew="2d"), _query(renew="30d")
    tens = _daily(range(0, 130, 10))
    yield Life("smp in rounds", [record], _daily(range(6), {"x": 5, "y": "b"}))
    yield Life("a round is lengthened for ever", [two_days], _daily((0, 1, 2, 3, 4, 5, 50)), 5.0)
    yield Life("a round is lengthened, then renewed", [two_days], _daily(range(14)), 5.0, 4 * DAY)
    yield Life("per is as long as renew, for two charges", [month], tens, 4.5, 30 * DAY)
    yield Life("per is as long as renew, for less than two charges", [month], tens, 4.0, 30 * DAY)

    # Three charges are 12.6 at most. Each of them rounded up to a float, they would be more.
    three = _query(
        attributes={"x": 5, "y": 6, "z": 7},
        solution="spl",
        oracle="grr",
        noise="each",
        renew="1d",
        epsilon=0.7,
        budget=9.0,
    )
    yield Life("spl has room for three charges", [three], _daily(range(5), {"x": 4, "y": 0, "z": 6}), 12.6)

    once = _query(answers="once", renew="1d")
    fresh = _query(answers="fresh", budget=99.0)
    fresh_in_rounds = _query(answers="fresh", budget=2.0, renew="3d")
    every_pane = _query(period="10s", renew="10s", answers="fresh")
    yield Life("once in rounds that do not fit", [once], _daily(range(5)), 2.5)
    yield Life("once with per", [once], _daily(range(9)), 2.5, 3 * DAY)
    yield Life("fresh with per", [fresh], _daily(range(9)), 2.5, 3 * DAY)
    yield Life("fresh in rounds without per", [fresh_in_rounds], _daily(range(9)), 4.0)
    yield Life("a listing renews with each answer", [every_pane], [Step(10 * i, 3) for i in range(6)], 3.0)


def _listings():
    """Yield lives whose listings change."""
    once, life, fresh = (_query(answers=answers) for answers in ("once", "life", "fresh"))
    kinds = [_at(day, i) for day, i in enumerate((0, 1, 2, 1, 0, 2, 2))]
    yield Life("once becomes life, then fresh", [once, life, fresh], kinds, 4.5)
    yield Life("once becomes life without room", [once, life], [_at(0, 0), _at(1, 1), _at(3, 1), _at(4, 0)], 2.0)

    daily = [life, _query(renew="1d"), _query(answers="once", renew="1d")]
    turns = [_at(day, i) for day, i in enumerate((0, 1, 0, 2, 1, 0, 2, 1, 1))]
    yield Life("a listing begins and ends to renew", daily, turns, 5.0, 3 * DAY)

    others = [_query("a", answers="fresh"), _query("b"), _query("b", domain=9, noise="each", budget=4.0, renew="5d")]
    turns_of_all = [_at(day, i) for day, i in enumerate((0, 1, 0, 2, 0, 2, 1, 0, 2, 0, 2, 2, 1))]
    yield Life("queries that share a limit", others, turns_of_all, 7.0, 6 * DAY)


def _clocks():
    """Yield lives whose clocks jump, or whose noise comes back after it expired."""
    jumps = _daily([100, 101, 400, 102, 300, 401, 402, 110, 409, 410, 411, 412])
    for answers, most in (("life", 5.0), ("fresh", 2.0), ("once", 2.0)):
        yield Life(f"a clock that jumps, {answers}", [_query(answers=answers, renew="1d")], jumps, most, 10 * DAY)

    queries = [_query(), _query("other"), _query(answers="once")]
    returns = [_at(0, 0), _at(9, 1), _at(10, 1), _at(12, 0), _at(20, 0), _at(21, 1)]
    yield Life("noise that expired comes back", queries, returns, 3.0, 10 * DAY)
    returns = [_at(0, 0), _at(10, 1), _at(12, 2), _at(20, 2), _at(21, 0)]
    yield Life("noise of a life comes back once", queries, returns, 3.0, 10 * DAY)
    fresh = [_query(answers="fresh"), _query("other", answers="fresh")]
    returns = [Step(10, 99), _at(10, 1), _at(11, 0), _at(20, 0), _at(21, 0)]
    yield Life("a draw without an answer comes back", fresh, returns, 1.0, 10 * DAY)


def _stores():
    """Yield lives whose stores are lost, while the key store stays."""
    queries = [_query(renew="5d"), _query("once", answers="once", renew="5d"), _query("fresh", answers="fresh")]
    steps = [_at(day, day % 3) for day in range(4)]
    steps += [_at(day, day % 3, lost=day in (4, 8)) for day in range(4, 14)]
    yield Life("a lost store", queries, steps, 20.0, has_key_store=True)
    yield Life("a lost store with per", queries, steps, 7.0, 10 * DAY, has_key_store=True)
    twice = [_at(0, 0), _at(1, 0, lost=True), _at(2, 1), _at(3, 1, lost=True), _at(4, 1)]
    once = [_query(answers="once"), _query("other", answers="once", renew="4d")]
    yield Life("once is once after a loss", once, twice, has_key_store=True)
    lengthened = [_at(0, 0), _at(2, 0), _at(3, 0, lost=True), _at(6, 0), _at(7, 0, lost=True)]
    yield Life("a loss in a round that is lengthened", [_query(renew="2d")], lengthened, 3.0, has_key_store=True)


def lives():
    """Return the lives as JSON, each for two keys."""
    for cases in (_rounds, _listings, _clocks, _stores):
        for case in cases():
            yield from (of(replace(case, key=key)) for key in KEYS)
