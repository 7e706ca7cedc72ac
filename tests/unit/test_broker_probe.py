"""The likely cause of a failed connection, from what real ports answer."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack

import pytest
import trustme

from aggregator.demo.broker import free_port
from hubbub.kafka import broker_probe
from hubbub.kafka.broker_probe import Port, ask, likely_cause, with_remaining
from hubbub.kafka.errors import KafkaUnreachable
from hubbub.kafka.settings import Kafka


async def refuse(_, writer):
    writer.close()


@pytest.fixture(scope="module")
def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def test_a_port_is_absent_plain_or_tls(tls, monkeypatch):
    monkeypatch.setattr(broker_probe, "SECONDS", 0.5)

    async def run():
        ports = [free_port(), listener.getsockname()[1]]
        async with AsyncExitStack() as servers:
            for context in (None, tls):
                server = await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context)
                await servers.enter_async_context(server)
                ports.append(server.sockets[0].getsockname()[1])
            return list((await ask(",".join(f"127.0.0.1:{port}" for port in ports))).values())

    # The kernel accepts connections for a program that never looks at them, as for a frozen broker.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert asyncio.run(run()) == [Port.ABSENT, Port.ABSENT, Port.PLAIN, Port.TLS]


CLOSED = "Connection at a:1 closed"
LOGIN = {"username": "u", "password": "p", "mechanism": "PLAIN"}


@pytest.mark.parametrize(
    ("settings", "ports", "reason", "words"),
    [
        ({}, [Port.ABSENT, Port.ABSENT, Port.ABSENT], "", "start the broker, or name another one with --kafka"),
        ({}, [Port.PLAIN, Port.ABSENT, Port.PLAIN], "", "no answer from b:2, but from a:1, c:3"),
        (
            {},
            [Port.TLS] * 3,
            CLOSED,
            "speaks TLS, so HUBBUB_KAFKA_SECURITY_PROTOCOL is probably SSL or SASL_SSL, not PLAIN",
        ),
        ({"protocol": "SSL"}, [Port.PLAIN] * 3, "no answer", "is probably PLAINTEXT or SASL_PLAINTEXT, not SSL"),
        ({}, [Port.PLAIN] * 3, CLOSED, "is probably SASL_PLAINTEXT"),
        ({"protocol": "SSL"}, [Port.TLS] * 3, CLOSED, "is probably SASL_SSL, or the broker asks for a certificate"),
        (
            {"protocol": "SASL_SSL", **LOGIN},
            [Port.TLS] * 3,
            "[Error 34] IllegalSaslState",
            "is probably SSL, not SASL_SSL",
        ),
        ({"protocol": "SASL_SSL", **LOGIN}, [Port.TLS] * 3, "Authentication failed", ""),
        ({}, [Port.PLAIN] * 3, "no answer in time", ""),
    ],
)
def test_the_cause_names_the_broker_or_the_other_protocol(settings, ports, reason, words):
    kafka = Kafka("a:1,b:2,c:3", **settings)
    cause = likely_cause(kafka, dict(zip(("a:1", "b:2", "c:3"), ports, strict=True)), reason)
    assert words in cause
    assert bool(cause) == bool(words)


def attempts(monkeypatch, ports, failures, patience=60.0):
    """Ask a question that fails so often. Return the answer, the warnings, and the brokers of each attempt."""
    warnings = []
    addresses = []

    async def answer(_servers):
        return dict(zip(("a:1", "b:2", "c:3"), ports, strict=True))

    async def question(kafka):
        addresses.append(kafka.servers)
        if failures.pop() if failures else False:
            raise KafkaUnreachable("lost")
        return "answer"

    monkeypatch.setattr(broker_probe, "ask", answer)
    monkeypatch.setattr(broker_probe, "PAUSE", 0.0)
    monkeypatch.setattr(broker_probe, "PATIENCE", patience)
    return asyncio.run(with_remaining(Kafka("a:1,b:2,c:3"), question, warnings.append)), warnings, addresses


def test_a_start_goes_on_with_the_other_brokers(monkeypatch):
    ports = [Port.PLAIN, Port.ABSENT, Port.PLAIN]
    result = attempts(monkeypatch, ports, [True] * 3)
    assert result == ("answer", ["no answer from b:2, but from a:1, c:3"], ["a:1,b:2,c:3", *["a:1,c:3"] * 3])
    with pytest.raises(KafkaUnreachable):
        attempts(monkeypatch, ports, [True] * 3, patience=-1.0)
    for equal_ports in ([Port.ABSENT] * 3, [Port.PLAIN] * 3):
        with pytest.raises(KafkaUnreachable):
            attempts(monkeypatch, equal_ports, [True])
