"""The rights that commands need at Kafka. They are documented, and an error names a missing right."""

import asyncio
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaTimeoutError, TopicAuthorizationFailedError

from aggregator.worker.clocks import OwnClock
from aggregator.worker.ticks import TickWriter
from hubbub.__main__ import COMMANDS
from hubbub.command.options import run
from hubbub.kafka.errors import TopicMissing
from hubbub.kafka.outbox import Outbox
from hubbub.kafka.rights import RIGHTS, Right, access_refusal
from hubbub.kafka.settings import Kafka

PAGE = Path(__file__).parent.parent.parent / "docs" / "operating.md"


def documented_rights():
    """Return the rights of the table by command."""
    rows = re.search(r"^\| command \|(.*\bRead\b.*)\|\n\|-.*\n((?:\|.*\n)+)", PAGE.read_text(), re.MULTILINE)
    operations = [operation.strip() for operation in rows[1].split("|")]
    by_command = {}
    for row in rows[2].splitlines():
        command, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        rights = set()
        for operation, cell in zip(operations, cells, strict=True):
            for kind, name in re.findall(r"(group )?`([^`]+)`", cell):
                rights.add(Right(operation, kind.strip() or "topic", name))
        by_command[command.strip("`")] = rights
    return by_command


def test_the_table_of_the_documentation_is_that_of_the_code():
    assert documented_rights() == {command: set(rights) for command, rights in RIGHTS.items()}


def test_every_command_that_speaks_kafka_has_its_rights():
    assert set(COMMANDS) - {"asked", "demo", "plan", "check", "metrics", "init", "probe", "pin", "publish"} <= set(
        RIGHTS
    )


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
    output = capsys.readouterr().err
    assert output.startswith(f"hubbub {command}: Kafka's access lists refuse the operation: `hubbub {command}` needs")
    assert says in output


def test_other_errors_are_left_alone():
    assert access_refusal("worker", KafkaTimeoutError("slow")) is None
    assert access_refusal("worker", ValueError("queries")) is None
    assert access_refusal("plan", TopicAuthorizationFailedError("crowd.queries")) is None


@pytest.mark.parametrize("login", ["", "SASL_SSL"])
def test_a_topic_that_this_user_cannot_see_may_exist(login, monkeypatch, capsys):
    monkeypatch.setenv("HUBBUB_KAFKA_SECURITY_PROTOCOL", login)

    def work():
        raise TopicMissing("crowd.truth")

    assert run("board", work) == 4
    assert ("(names without the prefix): Read on topic truth" in capsys.readouterr().err) == bool(login)


@pytest.mark.parametrize(
    ("error", "ends"), [(TopicAuthorizationFailedError("crowd.reports"), True), (KafkaTimeoutError("slow"), False)]
)
def test_a_tick_without_the_right_to_write_ends_the_ticks(error, ends, monkeypatch):
    """Otherwise idle partitions would stop for ever without a reason. After a lost tick comes another one."""

    async def send(self, *_, **__):
        sending = asyncio.get_running_loop().create_future()
        sending.set_exception(error)
        return sending

    monkeypatch.setattr(Outbox, "send", send)

    async def run():
        ticks = TickWriter(Outbox(Kafka("nowhere:1", "p.")), OwnClock())
        await ticks.write(0)
        await asyncio.sleep(0)
        await ticks.write(0)

    with pytest.raises(TopicAuthorizationFailedError) if ends else nullcontext():
        asyncio.run(run())
