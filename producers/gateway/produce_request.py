"""Produce requests, written to Kafka's connection as they stand: aiokafka copies every batch some seven times before.

Four times while the request is encoded, field within field, and three times where it is put behind its header.
"""

import logging
import struct
from collections.abc import Iterator
from typing import Any

import aiokafka
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.util import wait_for

log = logging.getLogger(__name__)

KNOWN = frozenset({"0.14.0"})
"""The versions of aiokafka whose connections send as is relied on here."""
FORMATS = range(3, 8)
"""The versions of a produce request that are written alike."""
LONG = 64 << 10
"""Bytes from which a batch is written by itself: a system call takes as long as copying so many."""

_SIZE = _COUNT = struct.Struct(">i")
_PARTITION = struct.Struct(">ii")
_SETTINGS = struct.Struct(">hii")
_TEXT = struct.Struct(">h")

Data = bytes | bytearray | memoryview


class Connection(conn.AIOKafkaConnection):  # type: ignore[misc] # aiokafka is untyped
    """aiokafka's, which copies no long batch."""

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
        answer = self._loop.create_future()
        self._requests.append((number, produce, answer))
        return wait_for(answer, self._request_timeout)


def pieces(header: bytes, produce: Any) -> Iterator[Data]:
    """The bytes of a request with its length before them: long batches by themselves, what is between them joined."""
    fields = [header, *_fields(produce)]
    joined: list[Data] = [_SIZE.pack(sum(map(len, fields)))]
    for field in fields:
        if len(field) >= LONG:
            yield b"".join(joined)
            yield field
            joined = []
        else:
            joined.append(field)
    if joined:
        yield b"".join(joined)


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
    """Make all connections of this process write so; where aiokafka is another they stay as they are."""
    if aiokafka.__version__ in KNOWN:
        conn.AIOKafkaConnection = Connection
    else:
        log.warning("aiokafka %s copies what it sends its own way, which takes more CPU", aiokafka.__version__)
