"""The seams to the outside. A simulated world replaces them, so the code that it runs uses nothing else."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = [
    "aggregator/counting",
    "aggregator/merging",
    "aggregator/publishing",
    "aggregator/tallies",
    "aggregator/topics",
    "aggregator/worker",
    "hubbub/definitions",
    "hubbub/kafka",
]
CHANCE = {"time", "secrets", "random", "uuid"}
OWN_CLOCK = {
    # The process of the estimator has no seam. In a world its function is called in place.
    "aggregator/publishing/finals/estimator_process.py",
    # A secret key of a hash table, which no result depends on.
    "aggregator/tallies/id_set.py",
    # Sockets and logins do not exist in a world.
    "hubbub/kafka/oauth.py",
    "hubbub/kafka/patches/paced_fetches.py",
}
CLIENTS = {"AIOKafkaProducer", "AIOKafkaConsumer", "AIOKafkaAdminClient", "AIOKafkaClient"}
MAKER = "hubbub/kafka/clients.py"


def modules(*rooms):
    return [path for room in rooms for path in sorted(ROOT.glob(f"{room}/**/*.py"))]


def name(path):
    return str(path.relative_to(ROOT))


def imported(tree):
    """Return the first parts of the names of all imported modules."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_code_of_a_world_has_no_clock_and_no_chance_of_its_own(room):
    wrong = {name(path) for path in modules(room) if imported(ast.parse(path.read_text(encoding="utf-8"))) & CHANCE}
    assert wrong - OWN_CLOCK == set()


def test_clients_of_kafka_are_made_in_one_module():
    makers = set()
    for path in modules("aggregator", "hubbub", "producers"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            callee = node.func if isinstance(node, ast.Call) else None
            if isinstance(callee, ast.Name) and callee.id in CLIENTS:
                makers.add(name(path))
    assert makers == {MAKER}
