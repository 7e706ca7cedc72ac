"""Produce requests without copies. They have the bytes, answers and errors of aiokafka's own."""

import asyncio
import logging
import random
import ssl
import struct
from contextlib import suppress

import aiokafka
import pytest
import trustme
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.produce import ProduceRequest

from hubbub import fast_paths
from hubbub.kafka.patches import produce_request
from hubbub.kafka.patches.produce_request import FORMATS, LONG, SendingConnection, pieces

AIOKAFKAS = SendingConnection.__base__
RNG = random.Random(20260101)
BATCHES = [b"", b"short", RNG.randbytes(LONG - 1), RNG.randbytes(LONG), bytearray(RNG.randbytes((1 << 20) + 7))]
TOPICS = {
    "no topic": [],
    "no partition": [("reports", [])],
    **{f"{len(batch)} bytes": [("reports", [(5, batch)])] for batch in BATCHES},
    "all, in two topics": [
        ("reports", list(enumerate(BATCHES))),
        ("größer", [(1 << 20, batch) for batch in reversed(BATCHES)]),
    ],
}
topics = pytest.mark.parametrize("topics", TOPICS.values(), ids=TOPICS)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.setattr(conn, "AIOKafkaConnection", AIOKAFKAS)


@topics
@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("transaction", [None, "", "of one producer"])
def test_a_request_has_the_bytes_that_aiokafka_gives_it(topics, version, transaction):
    produce = ProduceRequest(transaction, -1, 5000, topics).prepare({0: (version, version)})
    assert version == produce.API_VERSION
    header = produce.build_request_header(correlation_id=7, client_id="client").encode()
    message = header + produce.encode()
    parts = list(pieces(header, produce))
    assert b"".join(parts) == struct.pack(">i", len(message)) + message
    long = [batch for _, partitions in topics for _, batch in partitions if len(batch) >= LONG]
    assert [piece for piece in parts if any(piece is batch for batch in BATCHES)] == long
    assert all(any(piece is batch for piece in parts) for batch in long)


async def read_message(reader):
    """Return the next message without its length."""
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def send(ours, requests, *, tls=False, version=7, answers=True):
    """Return the requests as a broker reads them, and their outcomes. Connections are `ours` or aiokafka's."""
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client_context = ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server_context)
    authority.configure_trust(client_context)
    conn.AIOKafkaConnection = AIOKAFKAS
    if ours:
        produce_request.install()

    async def run():
        messages, over = [], asyncio.Event()

        async def broker(reader, writer):
            await read_message(reader)
            versions = [(0, 0, version), *((key, 0, 0) for key in range(1, 19))]
            body = struct.pack(">ihi", 1, 0, len(versions)) + b"".join(struct.pack(">hhh", *each) for each in versions)
            writer.write(struct.pack(">i", len(body)) + body)
            for _ in requests:
                messages.append(await read_message(reader))
                if answers and messages[-1][:2] == b"\0\0":  # of no topic, not throttled
                    body = messages[-1][4:8] + bytes(8)
                    writer.write(struct.pack(">i", len(body)) + body)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
            over.set()

        async with asyncio.timeout(20):
            server = await asyncio.start_server(broker, "127.0.0.1", ssl=server_context if tls else None)
            port = server.sockets[0].getsockname()[1]
            connection = await conn.create_conn(
                "127.0.0.1",
                port,
                security_protocol="SSL" if tls else "PLAINTEXT",
                ssl_context=client_context if tls else None,
            )
            assert isinstance(connection, SendingConnection) == ours
            sendings = [connection.send(request, expect_response=acks) for request, acks in requests]
            outcomes = [repr(outcome) for outcome in await asyncio.gather(*sendings, return_exceptions=True)]
            await connection._closed_fut
            connection.close()
            await over.wait()
            server.close()
            return messages, [text.replace(str(port), "PORT") for text in outcomes]

    return asyncio.run(run())


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("version", [2, 3, 7])
def test_a_broker_reads_the_same_requests_as_from_aiokafka_and_its_answers_arrive(tls, version):
    requests = [(ProduceRequest(None, -1, 5000, topic), True) for topic in TOPICS.values()]
    messages, outcomes = send(True, requests, tls=tls, version=version)
    assert (messages, outcomes) == send(False, requests, tls=tls, version=version)
    assert all(text.startswith(f"ProduceResponse_v{version}(") for text in outcomes)


def test_other_requests_and_those_without_an_answer_are_left_to_aiokafka():
    requests = [(ProduceRequest(None, 0, 5000, TOPICS["all, in two topics"]), False), (MetadataRequest([]), False)]
    assert send(True, requests) == send(False, requests)


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_that_ends_without_an_answer_fails_its_requests_as_in_aiokafka(tls):
    requests = [(ProduceRequest(None, -1, 5000, topic), True) for topic in TOPICS.values()]
    messages, outcomes = send(True, requests, tls=tls, answers=False)
    assert (messages, outcomes) == send(False, requests, tls=tls, answers=False)
    assert all("Error" in text for text in outcomes)


class Broken:
    """A writer whose socket is closed."""

    transport = None

    def write(self, _):
        raise BrokenPipeError("gone")

    def close(self):
        pass


@pytest.mark.parametrize("writer", [None, Broken()], ids=["closed", "broken"])
def test_a_write_to_a_closed_socket_fails_as_in_aiokafka(writer):
    async def outcome(kind):
        reasons = []
        connection = kind("127.0.0.1", 9092, on_close=lambda _, reason: reasons.append(reason))
        connection._versions = {0: (0, 7)}
        connection._writer = writer
        connection._reader, connection._read_task = object(), asyncio.create_task(asyncio.sleep(0))
        with pytest.raises(KafkaConnectionError) as error:
            connection.send(ProduceRequest(None, -1, 5000, TOPICS["all, in two topics"]))
        connection._reader = None
        return str(error.value), repr(error.value.__cause__), reasons, len(connection._requests)

    message = asyncio.run(outcome(SendingConnection))
    assert message == asyncio.run(outcome(AIOKAFKAS))


def test_the_installed_aiokafka_is_supported():
    assert aiokafka.__version__ in produce_request.TESTED_VERSIONS, "look whether its connections still send alike"


def test_another_aiokafka_is_not_patched(monkeypatch, caplog):
    monkeypatch.setattr(aiokafka, "__version__", "0.99.0")
    monkeypatch.setattr(fast_paths, "_states", {})
    with caplog.at_level(logging.WARNING):
        produce_request.install()
    assert conn.AIOKafkaConnection is AIOKAFKAS
    assert [record.levelname for record in caplog.records] == ["WARNING"]
