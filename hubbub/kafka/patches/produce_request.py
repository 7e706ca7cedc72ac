"""Produce requests that go to the connection without copies of long batches.

aiokafka copies each batch about seven times: four times to encode the nested fields, three times to add the header.
"""

import struct
from collections.abc import Iterator
from typing import Any

import aiokafka
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.util import wait_for

from hubbub.fast_paths import note

TESTED_VERSIONS = frozenset({"0.14.0"})
"""The versions of aiokafka that this module was tested with."""
FORMATS = range(3, 8)
"""The versions of a produce request that have the same format."""
LONG = 64 << 10
"""Bytes from which a batch is written separately. A system call takes as long as copying that many bytes."""

_SIZE = struct.Struct(">i")
_COUNT = struct.Struct(">i")
_PARTITION = struct.Struct(">ii")
_SETTINGS = struct.Struct(">hii")
_TEXT = struct.Struct(">h")

Data = bytes | bytearray | memoryview


class SendingConnection(conn.AIOKafkaConnection):  # type: ignore[misc] # aiokafka is untyped
    """A connection of aiokafka that copies no long batch."""

    def send(self, request: Any, expect_response: bool = True) -> Any:
        if not isinstance(request, ProduceRequest) or not expect_response or self._writer is None:
            return super().send(request, expect_response)
        produce = request.prepare(self._versions)
        if produce.API_VERSION not in FORMATS:
            return super().send(request, expect_response)

        number = self._next_correlation_id()
        header = produce.build_request_header(correlation_id=number, client_id=self._client_id).encode()
        try:
            for piece in pieces(header, produce):
                self._writer.write(piece)
        except OSError as error:
            self.close(reason=conn.CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(f"Connection at {self._host}:{self._port} broken: {error}") from error

        # The broker answers in the order of the requests, and aiokafka takes the first waiter of this list.
        answer = self._loop.create_future()
        self._requests.append((number, produce, answer))
        return wait_for(answer, self._request_timeout)


def pieces(header: bytes, produce: Any) -> Iterator[Data]:
    """Yield the bytes of a request with its length in front: each long batch separately, the other fields joined."""
    fields = [header, *_fields(produce)]
    short: list[Data] = [_SIZE.pack(sum(map(len, fields)))]
    for field in fields:
        if len(field) >= LONG:
            yield b"".join(short)
            yield field
            short = []
        else:
            short.append(field)
    if short:
        yield b"".join(short)


def _fields(produce: Any) -> Iterator[Data]:
    yield _text(produce.transactional_id)
    yield _SETTINGS.pack(produce.required_acks, produce.timeout, len(produce.topics))
    for topic, partitions in produce.topics:
        yield _text(topic) + _COUNT.pack(len(partitions))
        for partition, batch in partitions:
            yield _PARTITION.pack(partition, len(batch))
            yield batch


def _text(text: str | None) -> bytes:
    if text is None:
        return _TEXT.pack(-1)
    data = text.encode()
    return _TEXT.pack(len(data)) + data


def install() -> None:
    """Make all connections of this process send this way, if this version of aiokafka was tested with it."""
    fits = aiokafka.__version__ in TESTED_VERSIONS
    note("requests", on=fits, reason=f"aiokafka {aiokafka.__version__} is not tested with the sender of requests")
    if fits:
        conn.AIOKafkaConnection = SendingConnection
