"""Logins at a Kafka that requires them, with passwords and tokens from files, certificates, and access lists."""

import argparse
import asyncio
import os
import time
import uuid
from pathlib import Path

import pytest
from aiokafka import conn
from aiokafka.admin import AIOKafkaAdminClient

from hubbub.command.options import add_kafka
from hubbub.kafka.clients import client_arguments, started
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.log_reader import may_read
from hubbub.kafka.patches import answer_reader
from hubbub.kafka.rights import ALL, RIGHTS
from hubbub.kafka.settings import Kafka
from tests.brokers import USER
from tests.integration.gateways import Gateway
from tests.integration.loads import load
from tests.integration.queries import PATIENT
from tests.integration.test_brokers import create, receive, send
from tests.integration.workers import Place

WAYS = ("scram", "mutual", "token", "command")


def where(environment):
    parser = argparse.ArgumentParser()
    add_kafka(parser)
    options = parser.parse_args(["--kafka", environment["HUBBUB_KAFKA"]])
    return Kafka.read(options, environment)


async def brokers_of(kafka):
    async with started(AIOKafkaAdminClient(**client_arguments(kafka)), kafka) as admin:
        return await admin.describe_cluster()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("how", WAYS)
def test_each_login_works(secured_kafka, how, in_place, monkeypatch):
    kafka = where(secured_kafka.login(how))
    topic = f"login-{uuid.uuid4().hex}"
    frame = os.urandom(500_000)
    for name in ("AIOKafkaProtocol", "AIOKafkaConnection"):
        monkeypatch.setattr(conn, name, getattr(conn, name))
    if in_place:
        answer_reader.install()

    async def run():
        await secured_kafka.allow(USER, ("Create", "topic", topic), ("Write", "topic", topic), ("Read", "topic", topic))
        await create(kafka, topic)
        await send(kafka, topic, [frame])
        return [record.value for record in await receive(kafka, topic, 1)]

    assert asyncio.run(run()) == [frame]


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ("scram", {"PASSWORD_FILE": b"wrong\n"}),
        ("mutual", {"CERT_FILE": None}),
        ("mutual", {"CA_FILE": None}),
        ("token", {"OAUTH_TOKEN_FILE": b"e30.e30.\n"}),
        ("command", {"OAUTH_TOKEN_COMMAND": "printf 'e30.e30.\\n4102444800\\n'"}),
        ("command", {"OAUTH_TOKEN_COMMAND": "false"}),
    ],
)
def test_a_wrong_login_is_an_error_that_gives_the_reason(secured_kafka, how, wrong, tmp_path):
    login = secured_kafka.login(how)
    for name, content in wrong.items():
        if content is None:
            del login[f"HUBBUB_KAFKA_{name}"]
        elif isinstance(content, str):
            login[f"HUBBUB_KAFKA_{name}"] = content
        else:
            (tmp_path / name).write_bytes(content)
            login[f"HUBBUB_KAFKA_{name}"] = str(tmp_path / name)
    with pytest.raises(KafkaUnreachable, match=r"(?i)authentication|certificate|token|closed") as refused:
        asyncio.run(create(where(login), "never"))
    assert "wrong" not in str(refused.value)


@pytest.mark.parametrize(("operation", "expected"), [("Describe", False), ("Read", True)])
def test_a_topic_that_a_user_sees_may_still_be_unreadable(secured_kafka, operation, expected):
    name = f"user-{operation}"
    kafka = where(secured_kafka.login("mutual", name))
    topic = kafka.topic(f"seen-{operation}")
    asyncio.run(create(Kafka(secured_kafka.bootstrap), topic))
    asyncio.run(secured_kafka.allow(name, (operation, "topic", topic)))
    assert asyncio.run(may_read(kafka, f"seen-{operation}")) is expected


def test_each_connection_reads_the_token_again(secured_kafka):
    login = secured_kafka.login("token")
    kafka = where(login)
    token = Path(login["HUBBUB_KAFKA_OAUTH_TOKEN_FILE"])
    good_token = token.read_text()
    asyncio.run(brokers_of(kafka))
    token.write_text("e30.e30.\n")
    with pytest.raises(KafkaUnreachable):
        asyncio.run(brokers_of(kafka))
    token.write_text(good_token)
    asyncio.run(brokers_of(kafka))


@pytest.mark.long
def test_tokens_of_a_command_expire_under_load_and_nothing_is_lost(secured_kafka, tmp_path):
    """The tokens of a worker and a gateway live 8 s, and the broker ends each login after 6 s. Both go on."""
    with Place(secured_kafka, tmp_path, PATIENT) as place:
        prefix = place.kafka.prefix
        rights = {(r.operation, r.kind, prefix + ("*" if r.of == ALL else r.of)) for r in RIGHTS["worker"]}
        asyncio.run(secured_kafka.allow("short", *rights))
        login = secured_kafka.login("command", "short", prefix)
        command = login["HUBBUB_KAFKA_OAUTH_TOKEN_COMMAND"] = secured_kafka.token_command("short", 8)
        runs = Path(command.split()[-1]).with_suffix(".runs")
        with load(place, place.queries.values()), Gateway(place, "--port", "0", **login) as gateway:
            worker = place.start(**login).ready()
            gateway.ready()
            runs_before = len(runs.read_text())
            answers = set()
            while len(runs.read_text()) < runs_before + 3:
                answers.add(gateway.post(place.frame("page", [0, 1])).status)
                time.sleep(0.1)
        place.sent_at = time.time()
        verdict = place.verdict()
        assert verdict.exact, verdict
        assert answers == {202}
        assert worker.running
        log = worker.log_text + gateway.log.read_text()
        assert "eyJ" not in log, "the start of every token"
