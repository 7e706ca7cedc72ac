"""Hostile records: a board skips invalid ones, stays within its memory, and answers."""

import copy
import csv
import io
import random
from itertools import chain
from types import SimpleNamespace

import orjson
import pytest

from aggregator.board.answers.parameters import Parameters
from aggregator.board.answers.reply import Reply
from aggregator.board.server.guard import is_own_host
from aggregator.board.server.route import ROUTES
from aggregator.board.store.store import CLOCK_MARGIN, EARLY_RECORDS, Store
from hubbub.http.problem import Problem
from oracles.errors import ReportError
from tests import boards
from tests.boards import HOMEPAGE, PANE, PROFILE, START, Crowd

NOW = START + 100
MEMORY = 1 << 20
STRANGE = (
    None,
    True,
    "x",
    "1",
    "",
    -1,
    0.5,
    1e300,
    1 << 53,
    (1 << 63) - 1,
    [],
    {},
    [1],
    [[1]],
    {"a": 1},
    [None],
    "y" * 300,
)
TAKE = {"estimates": Store.take_record, "alerts": Store.take_alert, "truth": Store.take_truth}


def new_store(memory=MEMORY):
    store = Store(86_400, memory, lambda: NOW)
    for _, key, value in boards.definition_messages():
        store.define(key, value)
    return store


@pytest.fixture(scope="module")
def corpus():
    """Return valid messages of each topic."""
    crowds = Crowd(HOMEPAGE, clients=500), Crowd(PROFILE, clients=500)
    messages = [message for crowd in crowds for _ in range(7) for message in crowd.next()]
    return [(topic, value) for topic, _, value in [*messages, *boards.definition_messages(), crowds[0].provisional()]]


def paths(node, at=()):
    """Yield the paths of all members and items of a message."""
    items = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node)

    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def corrupt(value, rng):
    """Return the message with one to three parts, or some bytes, removed or replaced."""
    if rng.random() < 0.1:
        data = bytearray(value)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(len(data)) + 1])
    message = orjson.loads(value)
    for _ in range(rng.randint(1, 3)):
        path = rng.choice([path for path in paths(message) if len(path) < 3 or rng.random() < 0.1])
        inner = message
        for key in path[:-1]:
            inner = inner[key]
        if rng.random() < 0.2:
            del inner[path[-1]]
        else:
            inner[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
    return orjson.dumps(message)


def answers(store):
    """Check that every route answers or refuses with a reason."""
    for route in ROUTES:
        names = store.names if route.of_query else [""]
        # A history needs a value and a set its name. All other routes have defaults.
        pairs = {"history": [("value", "a,b")], "set": [("name", "fun")]}.get(route.name, [])
        for name in names:
            for format_ in ("json", "csv"):
                try:
                    answer = route.answer.of(store, Parameters(pairs, route.all_parameters), name)
                except Problem:
                    continue
                assert (Reply.csv(answer.columns, answer.rows) if format_ == "csv" else Reply.json(answer)).body


def memory_use(store):
    """Return the memory of all windows and true counts."""
    every = [*chain.from_iterable(group.values() for group in store._series.values())]
    windows = [*chain.from_iterable(series.kinds.values() for series in every)]
    records = [record for kind in windows for record in (*kind.finals.values(), kind.provisional) if record]
    return sum(record.size for record in records) + sum(series.truth.size for series in every)


def fuzz(corpus, count, seed):
    rng = random.Random(seed)
    store = new_store()
    valid = 0
    for number in range(count):
        topic, value = rng.choice(corpus)
        bad = corrupt(value, rng)
        try:
            if topic == "queries":
                store.define(rng.choice([b"x", b"00|0", HOMEPAGE.digest.hex().encode() + b"|0"]), bad)
            else:
                TAKE[topic](store, bad)
            valid += 1
        except (ReportError, ValueError):
            continue
        except (KeyError, TypeError, AttributeError):
            if topic != "queries":
                raise
        if number % 500 == 0:
            assert 0 <= store.size == memory_use(store) <= MEMORY
            answers(store)
    assert 0 < valid < count, "some corrupt messages are still valid"
    for topic, value in corpus:
        if topic != "queries":
            TAKE[topic](store, value)
    answers(store)
    assert store.size == memory_use(store)


def test_invalid_messages_do_no_harm(corpus):
    fuzz(corpus, 10_000, 1)


@pytest.mark.long
def test_very_many_invalid_messages_do_no_harm(corpus):
    fuzz(corpus, 1_000_000, 2)


def changed_message(corpus, topic, **changes):
    message = orjson.loads(next(value for name, value in corpus if name == topic))
    return orjson.dumps(message | changes)


def test_a_window_in_the_future_displaces_nothing(corpus):
    store = new_store()
    store.take_record(changed_message(corpus, "estimates"))
    window = {"kind": "tumbling", "size": PANE, "step": PANE}
    for end in ((1 << 53) // PANE * PANE, NOW + CLOCK_MARGIN + PANE):
        with pytest.raises(ReportError):
            store.take_record(changed_message(corpus, "estimates", window=window | {"start": end - PANE, "end": end}))
    with pytest.raises(ReportError):
        store.take_truth(changed_message(corpus, "truth", pane=NOW + CLOCK_MARGIN + PANE))
    assert store.windows == 1


def test_true_counts_that_do_not_fit_change_no_memory(corpus):
    store = new_store()
    store.take_truth(changed_message(corpus, "truth"))
    earlier_size = store.size
    for counts in ([1, 2], [[1] * 22, [1]], [-1] * 22, ["1"] * 22, [True] * 22, [1e300] * 22, [1 << 62] * 22, []):
        with pytest.raises(ReportError):
            store.take_truth(changed_message(corpus, "truth", counts=counts))
    assert store.size == earlier_size > 0


def test_records_of_unknown_queries_need_no_memory_and_early_ones_wait(corpus):
    store = Store(86_400, MEMORY, lambda: NOW)
    for number in range(10 * EARLY_RECORDS):
        store.take_record(changed_message(corpus, "estimates", digest=f"{number:016x}", query=f"q{number}"))
    assert store.size == 0
    assert len(store._series) == 0
    store.take_record(changed_message(corpus, "estimates"))
    store.take_truth(changed_message(corpus, "truth"))
    for _, key, value in boards.definition_messages():
        store.define(key, value)
    assert store.windows == 1
    assert store.series("homepage").truth.newest == START


def test_provisional_records_stay_within_the_memory(corpus):
    store = new_store(memory=1)
    store.take_record(changed_message(corpus, "estimates", final=False))
    assert store.size == memory_use(store) > 0


def test_an_unreadable_definition_leaves_the_others(corpus):
    store = new_store()
    earlier_names = store.names
    for key, value in (
        (b"x|0", b"{}"),
        (b"00|y", b"{}"),
        (b"", b"null"),
        (HOMEPAGE.digest.hex().encode() + b"|5", b"[]"),
    ):
        with pytest.raises((ReportError, ValueError, KeyError, TypeError)):
            store.define(key, value)
    assert store.names == earlier_names == ["homepage", "profile"]
    store.take_record(changed_message(corpus, "estimates"))
    answers(store)


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@a",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        " \u3000 =1",
        "\xa0+1",
        "\ufeff=1",
        "\u200b@a",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        " \uff20a",
    ],
)
def test_no_cell_of_a_table_is_a_formula(text):
    body = Reply.csv(["value"], [SimpleNamespace(value=text)]).body.decode()
    assert list(csv.reader(io.StringIO(body, newline="")))[1] == [f"'{text}"]
    for honest in (-0.5, " a", "a=b", "\u3000", "e-mail"):
        assert Reply.csv(["value"], [SimpleNamespace(value=honest)]).body.decode() == f"value\r\n{honest}\r\n"


def test_without_a_token_only_own_host_names_are_served():
    for host in ("127.0.0.1:8803", "[::1]:8803", "localhost", "LOCALHOST:1", "board.example:8803", "10.1.2.3"):
        assert is_own_host(host, "Board.example")
    for host in (None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil@[", "[::1"):
        assert not is_own_host(host, "127.0.0.1")
