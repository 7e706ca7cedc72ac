"""The rights that commands need at Kafka: documented, and named where one is missing."""

import asyncio
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaTimeoutError, TopicAuthorizationFailedError

from aggregator.worker.ticks import TickWriter
from hubbub.__main__ import COMMANDS
from hubbub.command.options import run
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.rights import RIGHTS, Right, access_refusal
from hubbub.kafka.settings import Kafka

PAGE = Path(__file__).parent.parent.parent / "docs" / "operating.md"


def documented():
    """The rights of the table, by command."""
    rows = re.search(r"^\| command \|(.*)\|\n\|-.*\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    operations = [operation.strip() for operation in rows[1].split("|")]
    found = {}
    for row in rows[2].splitlines():
        command, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        rights = set()
        for operation, cell in zip(operations, cells, strict=True):
            for kind, name in re.findall(r"(group )?`([^`]+)`", cell):
                rights.add(Right(operation, kind.strip() or "topic", name))
        found[command.strip("`")] = rights
    return found


def test_the_table_of_the_documentation_is_that_of_the_code():
    assert documented() == {command: set(rights) for command, rights in RIGHTS.items()}


def test_every_command_that_speaks_kafka_has_its_rights():
    assert set(COMMANDS) - {"demo", "plan", "check"} <= set(RIGHTS)


@pytest.mark.parametrize(
    ("command", "error", "says"),
    [
        ("worker", TopicAuthorizationFailedError("crowd.queries"), "Read on topic queries, Write on topic queries"),
        ("worker", TopicAuthorizationFailedError("settings of crowd.alerts: no."), "DescribeConfigs on all topics"),
        ("worker", GroupAuthorizationFailedError("crowd.worker"), "Read on group worker"),
        ("tail", TopicAuthorizationFailedError({"crowd.alerts"}), "Read on topic alerts"),
        ("topics", TopicAuthorizationFailedError("crowd.alerts"), "Create on all topics"),
    ],
)
def test_an_error_of_a_right_names_it(command, error, says, capsys):
    def work():
        raise error

    assert run(command, work) == 4
    said = capsys.readouterr().err
    assert said.startswith(f"hubbub {command}: Kafka's access lists refuse the operation: `hubbub {command}` needs")
    assert says in said


def test_other_errors_are_left_alone():
    assert access_refusal("worker", KafkaTimeoutError("slow")) is None
    assert access_refusal("worker", ValueError("queries")) is None
    assert access_refusal("plan", TopicAuthorizationFailedError("crowd.queries")) is None


@pytest.mark.parametrize("login", ["", "SASL_SSL"])
def test_a_topic_that_is_not_seen_may_be_there_for_others(login, monkeypatch, capsys):
    monkeypatch.setenv("HUBBUB_KAFKA_SECURITY_PROTOCOL", login)

    def work():
        raise TopicMissing("crowd.truth")

    assert run("board", work) == 4
    assert ("(names without the prefix): Read on topic truth" in capsys.readouterr().err) == bool(login)


@pytest.mark.parametrize(
    ("error", "ends"), [(TopicAuthorizationFailedError("crowd.reports"), True), (KafkaTimeoutError("slow"), False)]
)
def test_a_tick_that_may_not_be_written_is_the_last(error, ends, monkeypatch):
    """Idle partitions would stand for ever, and nobody would know why; one that is lost is followed by another."""

    async def send(self, *_, **__):
        sent = asyncio.get_running_loop().create_future()
        sent.set_exception(error)
        return sent

    monkeypatch.setattr(Outbox, "send", send)

    async def run():
        ticks = TickWriter(Outbox(Kafka("nowhere:1", "p.")))
        await ticks.write(0)
        await asyncio.sleep(0)
        await ticks.write(0)

    with pytest.raises(TopicAuthorizationFailedError) if ends else nullcontext():
        asyncio.run(run())
