"""Whatever a topic, a file or a port brings: a reader reads it or says what is wrong, with bounded memory and work."""

import ast
import gc
import random
import re
import sys
import tracemalloc
from pathlib import Path

import pytest

from tests.unit.fuzz.mutator import spoilt
from tests.unit.fuzz.readers import NO_READERS, READERS

ROOT = Path(__file__).parents[2]
ROOMS = ("oracles/frame.py", "oracles/query", "hubbub", "aggregator", "producers")
CALLED = re.compile(r"(read|parse|decode|load|inflate|inflated)(_\w+)?")
SMALL, LARGE = 10_000, 1_000_000
"""Inputs of all readers together."""
WEIGHED = 25
"""Of so many inputs one is weighed: what it takes of memory, and of work."""


def inputs(reader, count):
    draw = random.Random(f"14 {reader.name}")
    corpus = [one.encode() if isinstance(one, str) else bytes(one) for one in reader.corpus()]
    assert corpus
    yield from corpus
    for _ in range(count):
        yield spoilt(draw.choice(corpus), draw)


def tried(reader, data, folder):
    """Whether it was read."""
    try:
        reader.read(data, folder)
    except reader.errors:
        return False
    return True


def memory(reader, data, folder):
    tracemalloc.start()
    try:
        tried(reader, data, folder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def steps(reader, data, folder):
    """Lines of Python that were run: an endless loop ends where there are too many."""
    count, most = 0, reader.steps + 100 * len(data)

    def line(frame, event, _):
        nonlocal count
        count += event == "line"
        assert count <= most, f"{reader.name} runs on: {data[:200]!r}"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        tried(reader, data, folder)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("total", [SMALL, pytest.param(LARGE, marks=pytest.mark.long)])
@pytest.mark.parametrize("reader", READERS, ids=[f"{at}-{reader.name}" for at, reader in enumerate(READERS)])
def test_a_reader_raises_what_it_says_and_nothing_else(reader, total, tmp_path):
    assert any(tried(reader, data, tmp_path) for data in inputs(reader, 0)), "its corpus is good"
    for number, data in enumerate(inputs(reader, total // len(READERS))):
        if number % WEIGHED == 1:
            gc.collect(0)
            steps(reader, data, tmp_path)
            assert memory(reader, data, tmp_path) <= reader.memory + 64 * len(data), data[:200]
        tried(reader, data, tmp_path)


def called():
    """The public functions and methods of these rooms that are called as readers are, as module:name."""
    for room in ROOMS:
        for path in [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.parse(path.read_text()).body:
                inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
                for of, one in [("", node), *((f"{node.name}.", method) for method in inner)]:
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and CALLED.fullmatch(one.name):
                        yield f"{module}:{of}{one.name}"


def test_every_reader_of_the_code_has_a_row():
    known = {name for reader in READERS for name in (reader.name, *reader.through)}
    found = set(called())
    assert len(found) > 30
    assert found <= known | NO_READERS.keys()
    assert not known & NO_READERS.keys()
    assert found >= NO_READERS.keys(), "a reason for what is no more"


FOUND = [
    ("aggregator.counting.clock:decode", b"\x02" + bytes(52) + b"\xff" * 4),  # four thousand million corrections
    ("hubbub.definitions:read", b'{"query":"q","retired":false,"definition":{"from":1e300}}'),
    ("hubbub.definitions:read", b'{"query":"q","retired":false,"definition":{"until":9223372036854775807}}'),
    ("hubbub.definitions.corrections:parse", b"3:5:9=" + b"9" * 5_000),
    ("producers.advertised:pinned", b'{"queries":[{"name":"homepage","until":9223372036854775807}]}'),
    ("producers.simulation.distribution:read_crowd", b"file:a\0b"),
    ("producers.simulation.distribution:read_law", b"value,count\nnews.example\n"),
]
"""What was no reader's to take, once."""


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_stays_mended(name, data, tmp_path):
    readers = [reader for reader in READERS if reader.name == name]
    assert readers
    for reader in readers:
        steps(reader, data, tmp_path)
        assert memory(reader, data, tmp_path) <= reader.memory
