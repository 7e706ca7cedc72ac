"""Readers of topics, files and ports. Each reads its data or names the fault, with bounded memory and work."""

import ast
import gc
import random
import re
import sys
import tracemalloc
from itertools import chain
from pathlib import Path

import pytest

from tests.unit.fuzz.mutator import corrupt
from tests.unit.fuzz.readers import NO_READERS, READERS

ROOT = Path(__file__).parents[2]
ROOMS = ("oracles/frame", "oracles/query", "hubbub", "aggregator", "producers")
READER_NAME = re.compile(r"(read|parse|decode|load|inflate|inflated)(_\w+)?")
SMALL, LARGE = 10_000, 1_000_000
"""Number of inputs of all readers."""
EVERY = 25
"""The memory and the work of one in this many inputs are measured."""


def inputs(reader, count):
    draw = random.Random(f"14 {reader.name}")
    corpus = [method.encode() if isinstance(method, str) else bytes(method) for method in reader.corpus()]
    assert corpus
    yield from corpus
    for _ in range(count):
        yield corrupt(draw.choice(corpus), draw)


def accepts(reader, data, folder):
    """Whether the reader accepted the data."""
    try:
        reader.read(data, folder)
    except reader.errors:
        return False
    return True


def memory(reader, data, folder):
    accepts(reader, data, folder)  # a first call also fills caches of the process, which are no part of a read
    tracemalloc.start()
    try:
        accepts(reader, data, folder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def steps(reader, data, folder):
    """Count the executed lines of Python, and stop an endless loop."""
    count = 0
    maximum = reader.steps + 100 * len(data)

    def line(frame, event, _):
        nonlocal count
        count += event == "line"
        assert count <= maximum, f"{reader.name} runs on: {data[:200]!r}"
        return line

    tracer = sys.gettrace()
    sys.settrace(line)
    try:
        accepts(reader, data, folder)
    finally:
        sys.settrace(tracer)
    return count


@pytest.mark.parametrize("total", [SMALL, pytest.param(LARGE, marks=pytest.mark.long)])
@pytest.mark.parametrize("reader", READERS, ids=[f"{number}-{reader.name}" for number, reader in enumerate(READERS)])
def test_a_reader_raises_only_its_listed_errors(reader, total, tmp_path):
    assert any(accepts(reader, data, tmp_path) for data in inputs(reader, 0)), "its corpus is good"
    for number, data in enumerate(inputs(reader, total // len(READERS))):
        if number % EVERY == 1:
            gc.collect(0)
            steps(reader, data, tmp_path)
            assert memory(reader, data, tmp_path) <= reader.memory + 64 * len(data), data[:200]
        accepts(reader, data, tmp_path)


def reader_functions():
    """Return the public functions and methods of these packages with the names of readers, as module:name."""
    for room in ROOMS:
        for path in [ROOT / room] if room.endswith(".py") else sorted((ROOT / room).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.parse(path.read_text()).body:
                inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
                for of, one in [("", node), *((f"{node.name}.", method) for method in inner)]:
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and READER_NAME.fullmatch(one.name):
                        yield f"{module}:{of}{one.name}"


def test_every_reader_of_the_code_has_a_row():
    rows = set(chain.from_iterable((reader.name, *reader.through) for reader in READERS))
    functions = set(reader_functions())
    assert len(functions) > 30
    assert functions <= rows | NO_READERS.keys()
    assert not rows & NO_READERS.keys()
    assert functions >= NO_READERS.keys(), "a reason for what is no more"


FINDINGS = [
    ("aggregator.tallies.progress:decode", b"\x02" + bytes(52) + b"\xff" * 4),  # four thousand million corrections
    ("hubbub.definitions.definition_log:read", b'{"query":"q","retired":false,"definition":{"from":1e300}}'),
    (
        "hubbub.definitions.definition_log:read",
        b'{"query":"q","retired":false,"definition":{"until":9223372036854775807}}',
    ),
    ("producers.publishers.pinned_query:pin_query", b'{"queries":[{"name":"homepage","until":9223372036854775807}]}'),
    ("producers.simulation.crowd.distribution:read_crowd", b"file:a\0b"),
    ("producers.simulation.crowd.distribution:read_law", b"value,count\nnews.example\n"),
]
"""Inputs that readers handled wrongly once."""


@pytest.mark.parametrize(("name", "data"), FINDINGS)
def test_earlier_findings_stay_fixed(name, data, tmp_path):
    readers = [reader for reader in READERS if reader.name == name]
    assert readers
    for reader in readers:
        steps(reader, data, tmp_path)
        assert memory(reader, data, tmp_path) <= reader.memory
