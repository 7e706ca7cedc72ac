"""Whatever stands in a topic: a board passes over what it cannot use, stays within its memory, and answers."""

import copy
import csv
import io
import random
from types import SimpleNamespace

import orjson
import pytest

from aggregator.board.guard import is_here
from aggregator.board.parameters import Parameters
from aggregator.board.reply import Reply
from aggregator.board.route import ROUTES
from aggregator.board.store import AHEAD, EARLY, Store
from hubbub.problem import Problem
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


def fresh(memory=MEMORY):
    made = Store(86_400, memory, lambda: NOW)
    for _, key, value in boards.defined():
        made.define(key, value)
    return made


@pytest.fixture(scope="module")
def corpus():
    """Messages of each topic, as they are published."""
    crowds = Crowd(HOMEPAGE, clients=500), Crowd(PROFILE, clients=500)
    messages = [message for crowd in crowds for _ in range(7) for message in crowd.next()]
    return [(topic, value) for topic, _, value in [*messages, *boards.defined(), crowds[0].provisional()]]


def paths(node, at=()):
    """Of all members and items of a message."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from paths(inner, (*at, key))


def spoilt(value, rng):
    """The message with one to three of its parts gone or replaced, or some of its bytes."""
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


def answers(made):
    """Every route answers, or says why it does not."""
    for route in ROUTES:
        for name in made.names if route.of_query else [""]:
            given = [("value", "a,b")] if route.name == "history" else [("name", "fun")] if route.name == "set" else []
            for format_ in ("json", "csv"):
                try:
                    answer = route.answer.of(made, Parameters(given, route.known), name)
                except Problem:
                    continue
                assert (Reply.csv(answer.columns, answer.rows) if format_ == "csv" else Reply.json(answer)).body


def kept(made):
    """The memory of all that is kept."""
    of = [series for of in made._series.values() for series in of.values()]
    windows = [kind for series in of for kind in series.kinds.values()]
    records = [record for kind in windows for record in (*kind.finals.values(), kind.provisional) if record]
    return sum(record.size for record in records) + sum(series.truth.size for series in of)


def fuzz(corpus, count, seed):
    rng, made, taken = random.Random(seed), fresh(), 0
    for number in range(count):
        topic, value = rng.choice(corpus)
        bad = spoilt(value, rng)
        try:
            if topic == "queries":
                made.define(rng.choice([b"x", b"00|0", HOMEPAGE.digest.hex().encode() + b"|0"]), bad)
            else:
                TAKE[topic](made, bad)
            taken += 1
        except (ReportError, ValueError):
            continue
        except (KeyError, TypeError, AttributeError):
            if topic != "queries":
                raise
        if number % 500 == 0:
            assert 0 <= made.size == kept(made) <= MEMORY
            answers(made)
    assert 0 < taken < count, "some still fit"
    for topic, value in corpus:
        if topic != "queries":
            TAKE[topic](made, value)
    answers(made)
    assert made.size == kept(made)


def test_strange_messages_harm_nothing(corpus):
    fuzz(corpus, 10_000, 1)


@pytest.mark.long
def test_very_many_strange_messages_harm_nothing(corpus):
    fuzz(corpus, 1_000_000, 2)


def published(corpus, topic, **changes):
    message = orjson.loads(next(value for found, value in corpus if found == topic))
    return orjson.dumps(message | changes)


def test_a_window_of_the_future_pushes_nothing_out(corpus):
    made = fresh()
    made.take_record(published(corpus, "estimates"))
    window = {"kind": "tumbling", "size": PANE, "step": PANE}
    for end in ((1 << 53) // PANE * PANE, NOW + AHEAD + PANE):
        with pytest.raises(ReportError):
            made.take_record(published(corpus, "estimates", window=window | {"start": end - PANE, "end": end}))
    with pytest.raises(ReportError):
        made.take_truth(published(corpus, "truth", pane=NOW + AHEAD + PANE))
    assert made.windows == 1


def test_truth_that_does_not_fit_leaves_the_memory_as_it_is(corpus):
    made = fresh()
    made.take_truth(published(corpus, "truth"))
    before = made.size
    for counts in ([1, 2], [[1] * 22, [1]], [-1] * 22, ["1"] * 22, [True] * 22, [1e300] * 22, [1 << 62] * 22, []):
        with pytest.raises(ReportError):
            made.take_truth(published(corpus, "truth", counts=counts))
    assert made.size == before > 0


def test_what_nobody_defined_takes_no_memory_and_what_is_defined_later_waits(corpus):
    made = Store(86_400, MEMORY, lambda: NOW)
    for number in range(10 * EARLY):
        made.take_record(published(corpus, "estimates", digest=f"{number:016x}", query=f"q{number}"))
    assert (made.size, len(made._series)) == (0, 0)
    made.take_record(published(corpus, "estimates"))
    made.take_truth(published(corpus, "truth"))
    for _, key, value in boards.defined():
        made.define(key, value)
    assert made.windows == 1
    assert made.series("homepage").truth.newest == START


def test_provisional_records_are_within_the_memory(corpus):
    made = fresh(memory=1)
    made.take_record(published(corpus, "estimates", final=False))
    assert made.size == kept(made) > 0


def test_a_definition_that_cannot_be_read_leaves_the_others(corpus):
    made = fresh()
    before = made.names
    for key, value in (
        (b"x|0", b"{}"),
        (b"00|y", b"{}"),
        (b"", b"null"),
        (HOMEPAGE.digest.hex().encode() + b"|5", b"[]"),
    ):
        with pytest.raises((ReportError, ValueError, KeyError, TypeError)):
            made.define(key, value)
    assert made.names == before == ["homepage", "profile"]
    made.take_record(published(corpus, "estimates"))
    answers(made)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\t=1", "\r=1"])
def test_no_cell_of_a_table_is_a_formula(text):
    body = Reply.csv(["value"], [SimpleNamespace(value=text)]).body.decode()
    assert list(csv.reader(io.StringIO(body, newline="")))[1] == [f"'{text}"]
    assert Reply.csv(["value"], [SimpleNamespace(value=-0.5)]).body == b"value\r\n-0.5\r\n"


def test_without_a_token_only_its_own_names_are_answered():
    for host in ("127.0.0.1:8803", "[::1]:8803", "localhost", "LOCALHOST:1", "board.example:8803", "10.1.2.3"):
        assert is_here(host, "Board.example")
    for host in (None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil@[", "[::1"):
        assert not is_here(host, "127.0.0.1")
