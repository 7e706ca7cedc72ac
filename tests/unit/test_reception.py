"""Answers that are received in place. They equal those of asyncio's StreamReader for any pieces and any end."""

import asyncio
import logging
import random
import ssl
import struct
from collections import deque
from contextlib import suppress

import aiokafka
import pytest
import trustme
from aiokafka import TopicPartition, conn
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import READ_UNCOMMITTED
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest_v4
from aiokafka.protocol.group import SyncGroupRequest_v0
from aiokafka.record.memory_records import MemoryRecords

from hubbub import fast_paths
from hubbub.kafka.patches import answer_reader
from hubbub.kafka.patches.answer_reader import AnswerReader, ReceivingConnection
from hubbub.kafka.patches.bounded_batches import Bounded, FetchedBatches

SHORT, PART = 32, 100
# One seed, so that a failure with these bytes comes again.
RNG = random.Random(20260101)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    # The patch replaces these names for the whole process.
    for name in ("AIOKafkaProtocol", "AIOKafkaConnection", "io"):
        monkeypatch.setattr(conn, name, getattr(conn, name))


@pytest.fixture
def small(monkeypatch):
    """Make the buffers small, so that few bytes meet every edge."""
    monkeypatch.setattr(answer_reader, "SHORT", SHORT)
    monkeypatch.setattr(answer_reader, "PART", PART)


class Transport:
    is_paused = False

    def pause_reading(self):
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self):
        assert self.is_paused
        self.is_paused = False


class Ours:
    """An AnswerReader that gets its data as from an event loop."""

    def __init__(self):
        self.reader, self.transport = AnswerReader(asyncio.get_running_loop()), Transport()
        self.reader.set_transport(self.transport)

    def feed(self, data):
        while data and not self.transport.is_paused:
            room = self.reader.get_buffer()
            assert len(room) > 0
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.reader.buffer_updated(count)
            data = data[count:]
        return data

    def end(self, error):
        self.reader.end(error)


class Stock:
    """The reader of asyncio."""

    def __init__(self):
        # The limit pauses its transport, which this reader does not have.
        self.reader = asyncio.StreamReader(limit=1 << 30)

    def feed(self, data):
        self.reader.feed_data(data)
        return b""

    def end(self, error):
        self.reader.feed_eof() if error is None else self.reader.set_exception(error)


async def read(reader, messages):
    """Read answers as aiokafka does, until the end."""
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            messages.append(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        messages.append((error.partial, error.expected))
    except (OSError, ValueError) as error:
        messages.append(repr(error))


def answers(*sizes):
    return [RNG.randbytes(size) for size in sizes]


def stream(bodies):
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(way, pieces, error=None, *, early=True):
    """Return the answers in these pieces, the error at the end, and whether the reader is at its end."""

    async def run():
        side, messages = way(), []
        reading = asyncio.create_task(read(side.reader, messages)) if early else None
        for piece in pieces:
            # A full buffer takes a part of a piece. The rest comes after the reader has read.
            remaining_piece = side.feed(piece)
            while remaining_piece:
                reading = reading or asyncio.create_task(read(side.reader, messages))
                await asyncio.sleep(0)
                remaining_piece = side.feed(remaining_piece)
            if early:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        side.end(error)
        async with asyncio.timeout(10):
            await (reading or asyncio.create_task(read(side.reader, messages)))
        return [*messages, side.reader.at_eof()]

    return asyncio.run(run())


def split(data, length):
    return [data[start : start + length] for start in range(0, len(data), length)]


# Sizes around the edges of both buffers, with empty answers between them.
SIZES = (0, 1, 3, SHORT - 5, SHORT - 4, SHORT, SHORT + 1, 0, 2 * SHORT, PART, PART + 4, 5 * PART, 0, 7)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("length", [1, 2, 3, 5, SHORT, 2 * SHORT, PART + SHORT, 100_000])
def test_answers_are_complete_for_any_pieces(small, length, early):
    bodies = answers(*SIZES)
    assert receive(Ours, split(stream(bodies), length), early=early) == [*bodies, (b"", 4), True]


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("error", [None, ConnectionResetError("reset")])
def test_a_connection_that_ends_anywhere_has_the_result_of_asyncio(small, error, early):
    data = stream(answers(3, SHORT + 9, 2 * PART + 1, 0))
    for end in range(len(data) + 1):
        pieces = split(data[:end], RNG.choice((1, 7, SHORT, 1000)) if early else 1000)
        if error is None or early:
            assert receive(Ours, pieces, error, early=early) == receive(Stock, pieces, error, early=early), end


def test_a_negative_length_is_the_error_of_asyncio(small):
    data = stream(answers(2)) + struct.pack(">i", -1) + b"more"
    assert receive(Ours, [data]) == receive(Stock, [data])


def test_at_most_one_part_is_reserved_beyond_the_received_bytes(small):
    async def run():
        ours = Ours()
        task = asyncio.create_task(read(ours.reader, []))
        ours.feed(struct.pack(">i", (1 << 31) - 1))
        for turn in range(20):
            for _ in range(3):
                await asyncio.sleep(0)
            ours.feed(bytes(PART // 2))
            assert sum(map(len, ours.reader._parts)) <= (turn + 1) * PART // 2 + PART
        task.cancel()

    asyncio.run(run())


def test_unread_bytes_pause_the_socket_until_they_are_read(small):
    async def run():
        ours, data = Ours(), bytes(range(200))
        rest = ours.feed(data)
        assert ours.transport.is_paused
        # A full buffer, and at most another one before the pause is seen.
        assert SHORT < len(data) - len(rest) <= 2 * SHORT
        content = b""
        while len(content) < len(data):
            reading = asyncio.create_task(ours.reader.readexactly(5))
            await asyncio.sleep(0)
            rest = ours.feed(rest)
            content += await reading
        assert content == data

    asyncio.run(run())


async def broker(reader, writer, send, ending):
    """Answer as a broker with its versions, then with `send` for a request, and close."""
    await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    # aiokafka asks for the versions first, and with version 0 of all it uses the oldest forms.
    versions = [(key, 0, 0) for key in range(19)]
    body = struct.pack(">ihi", 1, 0, len(versions)) + b"".join(struct.pack(">hhh", *version) for version in versions)
    writer.write(struct.pack(">i", len(body)) + body)
    await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
    writer.write(send)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    ending.set()


def request(ours, send, tls):
    """Return the result of a request of aiokafka that gets these bytes. `ours` uses the patch."""
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    client_context = ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server_context)
    authority.configure_trust(client_context)
    if ours:
        answer_reader.install()

    async def run():
        async with asyncio.timeout(20):
            ending, reasons = asyncio.Event(), []
            server = await asyncio.start_server(
                lambda *ends: broker(*ends, send, ending), "127.0.0.1", ssl=server_context if tls else None
            )
            port = server.sockets[0].getsockname()[1]
            connection = await conn.create_conn(
                "127.0.0.1",
                port,
                security_protocol="SSL" if tls else "PLAINTEXT",
                ssl_context=client_context if tls else None,
                on_close=lambda _, reason: reasons.append(reason),
            )
            assert isinstance(connection, ReceivingConnection) == ours
            assert isinstance(connection._reader, AnswerReader) == ours
            try:
                result = await connection._send_sasl_token(b"request")
            except KafkaConnectionError as error:
                result = str(error).replace(str(port), "PORT"), repr(error.__cause__)
            await connection._closed_fut
            await ending.wait()
            assert not connection.connected()
            server.close()
            return result, reasons

    return asyncio.run(run())


LARGE = RNG.randbytes((3 << 20) + 11)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("body", [b"", b"short", LARGE[: answer_reader.SHORT + 1], LARGE], ids=len)
def test_aiokafka_gets_the_answer_of_a_broker(body, tls):
    (result, reasons) = request(True, stream([body]), tls)
    assert type(result) is bytes
    assert result == body
    assert reasons == [conn.CloseReason.CONNECTION_BROKEN]


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("end", [0, 3, 4, 100, len(LARGE)])
def test_a_connection_that_breaks_in_an_answer_fails_its_request_as_in_asyncio(end, tls):
    data = stream([LARGE])[:end]
    before = request(False, data, tls)
    assert request(True, data, tls) == before


def fetch_answer(records):
    """Return an answer to a fetch of one partition in version 4."""
    beginning = struct.pack(">iiih", 1, 0, 1, 5) + b"topic" + struct.pack(">i", 1)
    return beginning + struct.pack(">ihqqii", 0, 0, 9, 9, 0, len(records)) + records


class Waiting(ReceivingConnection):
    """A connection that waits for the answer to one request."""

    def __init__(self, request):
        self._host, self._port = "127.0.0.1", 9092
        self.answer = asyncio.get_running_loop().create_future()
        self._requests = deque([(1, request, self.answer)])

    def __del__(self):
        """Close nothing."""


def answered(monkeypatch, request, answer):
    """Return the answer as aiokafka decodes it."""
    monkeypatch.setattr(conn, "io", answer_reader.Streams)

    async def run():
        connection = Waiting(request)
        connection._handle_frame(answer)
        return connection.answer.result()

    return asyncio.run(run())


@pytest.mark.parametrize("length", [0, 100, answer_reader.SHORT + 1, len(LARGE)])
def test_the_records_of_a_fetch_stay_in_the_memory_of_the_answer(length, monkeypatch):
    monkeypatch.setattr(fetcher, "MemoryRecords", FetchedBatches)
    memory = bytearray(fetch_answer(LARGE[:length]))
    [(_, [partition])] = answered(monkeypatch, FetchRequest_v4(-1, 1, 1, 1, 0, []), memoryview(memory)).topics
    records = partition[-1]
    assert bytes(records) == LARGE[:length]
    assert records.obj is memory if length > answer_reader.SHORT else isinstance(records, bytes)
    assert Bounded(TopicPartition("topic", 0), FetchedBatches(records), [], 0, None, None, True, READ_UNCOMMITTED)


def test_the_records_of_a_fetch_are_bytes_for_the_reader_of_aiokafka(monkeypatch):
    monkeypatch.setattr(fetcher, "MemoryRecords", MemoryRecords)
    answer = memoryview(fetch_answer(LARGE))
    [(_, [partition])] = answered(monkeypatch, FetchRequest_v4(-1, 1, 1, 1, 0, []), answer).topics
    assert type(partition[-1]) is bytes
    assert partition[-1] == LARGE


def test_long_fields_of_other_answers_are_bytes(monkeypatch):
    assignment = LARGE[: 2 * answer_reader.SHORT]
    answer = struct.pack(">ihi", 1, 0, len(assignment)) + assignment
    result = answered(monkeypatch, SyncGroupRequest_v0("group", 1, "member", []), memoryview(answer))
    assert type(result.member_assignment) is bytes
    assert result.member_assignment == assignment


def test_the_installed_aiokafka_is_supported():
    assert aiokafka.__version__ in answer_reader.TESTED_VERSIONS, (
        "look whether its connections still read with `_reader`"
    )


def test_another_aiokafka_is_not_patched(monkeypatch, caplog):
    monkeypatch.setattr(aiokafka, "__version__", "0.99.0")
    monkeypatch.setattr(fast_paths, "_states", {})
    before = conn.AIOKafkaProtocol, conn.AIOKafkaConnection
    with caplog.at_level(logging.WARNING):
        answer_reader.install()
        answer_reader.install()
    assert (conn.AIOKafkaProtocol, conn.AIOKafkaConnection) == before
    assert fast_paths.states()["answers"] is False
    assert [record.levelname for record in caplog.records] == ["WARNING"]
