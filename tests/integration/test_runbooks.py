"""The commands of hubbub in the runbooks, on an installation with another number of partitions.

Those of Compose itself (ps, logs, restart) run in the stack (tests/deploy/stack).
"""

import re
import shlex
import subprocess
from contextlib import contextmanager

import pytest

from aggregator.plan import check
from aggregator.reading import metrics, rejects
from aggregator.topics import command as topics
from tests import forks
from tests.deploy.compose import DEPLOY, SERVICES
from tests.integration.gateways import Gateway
from tests.integration.queries import PAGE
from tests.integration.workers import HUBBUB, Place, environment

PARTITIONS = 5
LINE = re.compile(r"^docker compose -f deploy/compose\.yaml (run --rm|exec) (\w+)([^#|\n]*)", re.MULTILINE)
ANSWERING = {"topics": topics.main, "check": check.main, "rejects": rejects.main}
"""Commands that end by themselves and ask no process of hubbub."""
METRIC = re.compile(r"^docker compose -f deploy/compose\.yaml exec (\w+) hubbub metrics (\w+)", re.MULTILINE)
TAIL = re.compile(r"^timeout 20 docker compose -f deploy/compose\.yaml exec -T board (hubbub tail)", re.MULTILINE)


def commands():
    """Return the distinct commands of all pages as the service of Compose would run them."""
    lines = set()
    for page in DEPLOY.glob("runbooks/*.md"):
        for verb, service, text in LINE.findall(page.read_text()):
            words = tuple(shlex.split(text))
            if verb == "exec" and words[:1] == ("hubbub",):
                lines.add(words[1:])
            elif verb != "exec":
                # Words of its own would replace those of the service, and with them its number of partitions.
                assert not words, f"{page.name}: docker compose run --rm {service}{text}"
                lines.add(tuple(SERVICES[service]["command"]))
    return sorted(line for line in lines if line[0] in ANSWERING)


def metric_names():
    """Return the parts of names by the process that a page asks for them."""
    names = {}
    for page in DEPLOY.glob("runbooks/*.md"):
        for service, name in METRIC.findall(page.read_text()):
            names.setdefault(service, set()).add(name)
    return names


@pytest.fixture(scope="module")
def place(kafka, tmp_path_factory):
    with Place(kafka, tmp_path_factory.mktemp("runbooks"), PAGE, partitions=PARTITIONS) as place:
        place.start().ready()
        yield place


def test_the_pages_have_commands_for_topics():
    assert {words[0] for words in commands()} == ANSWERING.keys()


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_a_runbook_advises_no_deletion(place, words, monkeypatch, capsys):
    for name, value in environment(place.kafka, place.file).items():
        monkeypatch.setenv(name, value)
    # An operator with another number has written it into compose.yaml.
    program, *options = [str(PARTITIONS) if word == "12" and words[0] == "topics" else word for word in words]
    assert ANSWERING[program](options) == 0
    output = "".join(capsys.readouterr())
    assert "delete" not in output
    # Without an option `topics` keeps the present number.
    assert program != "topics" or f"reports: {PARTITIONS} partitions" in output


@contextmanager
def board(place):
    """Run a board, and yield its port."""
    with serving(place, "board", "--port", "0") as port:
        yield port


@contextmanager
def sink(place, folder):
    """Run a sink, and yield its port."""
    with serving(place, "sink", "--to", str(folder), "--port", "0") as port:
        yield port


@contextmanager
def serving(place, *words):
    """Run a command that prints the address of its port first, and yield the port."""
    env = environment(place.kafka, place.file)
    process = forks.start([HUBBUB, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process.stdout.readline().decode().strip().rstrip("/").rpartition(":")[2]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_each_metric_of_a_runbook_is_one_of_its_process(place, tmp_path, monkeypatch, capsys):
    """A name that no metric has is an error with code 4. Some metrics have no value yet, and say so."""
    worker = place.workers[0]
    with board(place) as board_port, Gateway(place, "--port", "0") as gateway, sink(place, tmp_path) as sink_port:
        ports = {"worker": worker.address.rpartition(":")[2], "board": board_port, "gateway": str(gateway.port)}
        ports["sink"] = sink_port
        assert metric_names().keys() == ports.keys()
        for service, names in metric_names().items():
            monkeypatch.setenv("HUBBUB_PORT", ports[service])
            for name in sorted(names):
                code = metrics.main([name])
                output = capsys.readouterr()
                assert code == 0, (service, name, output.err)


def test_the_tail_of_a_runbook_shows_the_finals_of_all_partitions(place):
    assert {line for page in DEPLOY.glob("runbooks/*.md") for line in TAIL.findall(page.read_text())} == {"hubbub tail"}
    place.send(*((partition, place.frame("page", [0, 1, 2])) for partition in range(PARTITIONS)))
    env = environment(place.kafka, place.file)
    tail = forks.start([HUBBUB, "tail"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert any("page" in line.decode() for line in tail.stdout)
    finally:
        tail.kill()
        tail.wait()
        tail.stdout.close()
