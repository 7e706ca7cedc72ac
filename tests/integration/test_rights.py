"""The table of least rights at a Kafka with access lists. They are sufficient, and each of them is necessary."""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaProducer

from aggregator.topics.command import ensure
from hubbub.definitions import formats
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.rights import ALL, RIGHTS, Right
from hubbub.kafka.settings import Kafka
from tests.queries import make_text
from tests.slowness import patience

pytestmark = pytest.mark.long
QUERIES = make_text("a", crowd=1, domain=16, epsilon=2.0, pane="1s", lateness="1s")
OPTIONS = {
    "topics": ("--partitions", "2"),
    "worker": ("--port", "0"),
    "board": ("--port", "0"),
    "tail": ("--json",),
    "gateway": ("--port", "0"),
    "audit": (),
    "export": ("--query", "a"),
    "replay": ("values.csv", "--query", "a"),
    "simulate": ("--clients", "400", "--seconds", "120", "--values", "zipf:2", "--port", "0"),
}
DEADLINE = 60.0


@pytest.fixture
def crowd(secured_kafka, tmp_path):
    """A prefix with its topics, and commands with rights of their own."""
    return Crowd(secured_kafka, tmp_path)


class Crowd:
    def __init__(self, secured_kafka, folder):
        self.kafka = secured_kafka
        self.folder = folder
        self.prefix = f"r{uuid.uuid4().hex[:8]}."
        (folder / "hubbub.toml").write_text(QUERIES)
        (folder / "values.csv").write_text("value\n" + "3\n" * 50)

    def topics(self):
        asyncio.run(ensure(self.kafka.kafka(self.prefix), 2, 1))

    def resource(self, right):
        if right.of == ALL:
            return (right.operation, right.kind, f"{self.prefix}*")
        return (right.operation, right.kind, self.prefix + right.of)

    @contextmanager
    def running(self, command, rights=None, *more):
        """Run a command as a new user with only these rights."""
        name = f"{command}-{uuid.uuid4().hex[:8]}"
        asyncio.run(self.kafka.allow(name, *map(self.resource, RIGHTS[command] if rights is None else rights)))
        login = self.kafka.login("mutual", name, self.prefix)
        environment = os.environ | login | {"HUBBUB_QUERIES": str(self.folder / "hubbub.toml")}
        log = self.folder / f"{name}.log"
        with log.open("w") as output:
            command = [sys.executable, "-m", "hubbub", command, *OPTIONS.get(command, ()), *more]
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=self.folder)
            process.log_text = log.read_text
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def rubbish(self):
        """Send a frame that a worker refuses, so that it writes a reject."""

        async def send():
            target = Kafka(self.kafka.bootstrap)
            async with started(AIOKafkaProducer(**client_arguments(target)), target) as producer:
                await producer.send_and_wait(f"{self.prefix}reports", b"rubbish")

        asyncio.run(send())


def until(condition, seconds=DEADLINE):
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > patience(seconds):
            return False
        time.sleep(0.2)
    return True


def ready(process):
    addresses = process.log_text().partition("http://")[2].split("/")[0].split()
    try:
        with urllib.request.urlopen(f"http://{addresses[0]}/readyz", timeout=patience(5)) as answer:
            return answer.status == 200
    except (IndexError, OSError):
        return False


def has_ended(process):
    return process.poll() is not None


def test_the_rights_are_sufficient(crowd):
    with crowd.running("topics") as topics:
        assert topics.wait(patience(DEADLINE)) == 0, topics.log_text()
    with (
        crowd.running("worker") as worker,
        crowd.running("simulate") as simulate,
        crowd.running("board") as board,
        crowd.running("gateway") as gateway,
    ):
        assert until(lambda: ready(worker)), worker.log_text()
        assert until(lambda: ready(gateway)), gateway.log_text()
        assert until(lambda: ready(board)), board.log_text()
        crowd.rubbish()
        with crowd.running("tail") as tail:
            assert until(lambda: '"final":true' in tail.log_text().replace(" ", "")), tail.log_text()
            assert until(lambda: any(json.loads(line).get("kind") == "enter" for line in tail.log_text().splitlines()))
        assert not has_ended(worker), worker.log_text()
        assert not has_ended(simulate), simulate.log_text()
        with crowd.running("replay") as replay:
            assert replay.wait(patience(DEADLINE)) == 0, replay.log_text()
        simulate.kill()
        worker.terminate()
        assert worker.wait(patience(DEADLINE)) == 0, worker.log_text()
        for name in ("export", "audit"):
            with crowd.running(name) as process:
                assert process.wait(patience(DEADLINE)) == 0, process.log_text()
                assert process.log_text()
    assert "uthorization" not in worker.log_text()


FOR_STRINGS = {
    ("worker", Right("Read", "topic", "estimates")),
    ("board", Right("Read", "topic", "maps")),
    ("export", Right("Read", "topic", "maps")),
}
"""Rights that only unknown strings need."""
CASES = [
    (command, right)
    for command in OPTIONS
    for right in RIGHTS[command]
    if command != "topics" and (command, right) not in FOR_STRINGS
]


@pytest.mark.parametrize(
    ("command", "right"), CASES, ids=lambda case: "-".join(case) if isinstance(case, Right) else case
)
def test_each_right_is_necessary_and_the_error_names_it(crowd, command, right):
    crowd.topics()
    rights = [other_value for other_value in RIGHTS[command] if other_value != right]
    with crowd.running(command, rights) as process:
        if command == "worker" and right != Right("Write", "topic", "reports"):
            with crowd.running("simulate"):
                crowd.rubbish()
                assert until(lambda: has_ended(process)), process.log_text()
        else:  # a worker writes reports where nobody else does
            assert until(lambda: has_ended(process)), process.log_text()
    assert process.returncode in (3, 4), process.log_text()
    assert f"{right.operation} on " in process.log_text()
    assert right.of in process.log_text() or right.of == ALL


@pytest.mark.parametrize("operation", ["Describe", None])
def test_a_board_without_the_right_to_read_maps_goes_on_and_says_why(crowd, operation):
    """A user who may describe the topic sees that it exists."""
    crowd.topics()
    rights = [right for right in RIGHTS["board"] if right.of != "maps"]
    if operation is not None:
        rights.append(Right(operation, "topic", "maps"))
    with crowd.running("board", rights) as board:
        assert until(lambda: ready(board)), board.log_text()
    assert f"this board does not see the topic {crowd.prefix}maps: it has no right to read it" in board.log_text()


FORMATS = [right for right in RIGHTS["topics"] if right.of in ("worker", "queries") and right.operation != "Alter"]
"""The rights that a rise of the formats version needs."""


@pytest.mark.parametrize("right", FORMATS, ids="-".join)
def test_each_right_on_the_formats_version_is_necessary_and_the_error_names_it(crowd, right):
    crowd.topics()
    asyncio.run(remove_formats(crowd))
    rights = [other_value for other_value in RIGHTS["topics"] if other_value != right]
    with crowd.running("topics", rights, "--raise-formats") as process:
        assert process.wait(patience(DEADLINE)) in (3, 4), process.log_text()
    assert f"{right.operation} on {right.kind} {right.of}" in process.log_text()
    with crowd.running("doctor") as process:
        assert process.wait(patience(DEADLINE)) == 0, process.log_text()
    with crowd.running("topics", None, "--raise-formats") as process:
        assert process.wait(patience(DEADLINE)) == 0, process.log_text()


async def remove_formats(crowd):
    """Leave the topics as an older release creates them."""
    target = crowd.kafka.kafka(crowd.prefix)
    async with started(AIOKafkaProducer(**client_arguments(target)), target) as producer:
        await producer.send_and_wait(target.topic("queries"), None, formats.KEY, partition=0)


@pytest.mark.parametrize("right", [right for right in RIGHTS["topics"] if right.of == ALL], ids="-".join)
def test_each_right_on_topics_is_necessary_and_the_error_names_it(crowd, right):
    crowd.topics()
    if right.operation == "AlterConfigs":  # something has to be mended
        asyncio.run(spoil(crowd))
    else:  # something has to be made
        crowd.prefix = f"n{crowd.prefix}"
    with crowd.running("topics", [other_value for other_value in RIGHTS["topics"] if other_value != right]) as process:
        assert process.wait(patience(DEADLINE)) in (3, 4), process.log_text()
    assert f"{right.operation} on all topics" in process.log_text()


async def spoil(crowd):
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    target = crowd.kafka.kafka(crowd.prefix)
    async with started(AIOKafkaAdminClient(**client_arguments(target)), target) as admin:
        topic = ConfigResource(ConfigResourceType.TOPIC, f"{crowd.prefix}reports", {"cleanup.policy": "compact"})
        await admin.alter_configs([topic])
